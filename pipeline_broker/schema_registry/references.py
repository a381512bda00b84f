"""The transitive references of a schema."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from pipeline_broker.schema_registry.errors import RegistryError, invalid_schema
from pipeline_broker.schema_registry.formats import ResolvedSchema
from pipeline_broker.schema_registry.values import Reference, Schema, Version

__all__ = ["resolve"]

DEPENDENCIES_MAX = 200
"""Schemas that one schema may need, directly or not."""
FOLLOWED_MAX = 2_000
"""References that are followed for one schema, in 2 ms."""


class Versions(Protocol):
    def resolved(self, reference: Reference) -> Version:
        """Return the version that a reference names, even if it is deleted.

        Raises:
            RegistryError: the version does not exist.
        """


def resolve(versions: Versions, schema: Schema) -> ResolvedSchema:
    """Return a schema with everything that it refers to.

    Raises:
        RegistryError: a reference is unresolved, leads back to itself, or the schema needs too many others.
    """
    collected = _References(versions)
    collected.collect(schema.references)
    return ResolvedSchema(schema, tuple(collected.found.items()))


class _References:
    def __init__(self, versions: Versions) -> None:
        self._versions = versions
        self._path: set[Reference] = set()  # the references that are being followed
        self._followed = 0
        self.found: dict[str, str] = {}  # texts by reference name, each after those that it needs itself

    def collect(self, references: Sequence[Reference]) -> None:
        for reference in references:
            if reference in self._path:
                raise invalid_schema(f"The reference {reference.name!r} refers back to itself")
            self._followed += 1
            if len(self._path) + len(self.found) >= DEPENDENCIES_MAX or self._followed > FOLLOWED_MAX:
                raise invalid_schema(
                    f"The schema depends on more than {DEPENDENCIES_MAX} other schemas, or has more than {FOLLOWED_MAX}"
                    " references. Merge some of the schemas."
                )
            if reference.name in self.found:
                continue
            try:
                schema = self._versions.resolved(reference).schema
            except RegistryError as error:
                raise invalid_schema(f"The reference {reference.name!r} cannot be resolved: {error.message}") from None
            self._path.add(reference)
            self.collect(schema.references)
            self._path.remove(reference)
            self.found[reference.name] = schema.text
