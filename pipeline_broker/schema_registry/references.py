"""The schemas that one refers to, with those that they need themselves."""

from __future__ import annotations

from collections.abc import Sequence

from pipeline_broker.schema_registry.errors import RegistryError, invalid_schema
from pipeline_broker.schema_registry.formats import Given
from pipeline_broker.schema_registry.state import RegistryState
from pipeline_broker.schema_registry.values import Reference, Schema

__all__ = ["given"]

DEPENDENCIES_MAX = 200
"""Of one schema, with what they need themselves."""
FOLLOWED_MAX = 2_000
"""References of a schema and of those that it needs: 2 ms."""


def given(state: RegistryState, schema: Schema) -> Given:
    """Return a schema with all that it refers to; raises RegistryError where a reference leads to nothing."""
    collected = _References(state)
    collected.collect(schema.references)
    return Given(schema, tuple(collected.found.items()))


class _References:
    """The schemas that one refers to, by the names that it has for them, each after those that it needs itself."""

    def __init__(self, state: RegistryState) -> None:
        self._state = state
        self._path: set[Reference] = set()
        self._followed = 0
        self.found: dict[str, str] = {}

    def collect(self, references: Sequence[Reference]) -> None:
        for reference in references:
            if reference in self._path:
                raise invalid_schema(f"The reference {reference.name!r} leads to itself")
            self._followed += 1
            if len(self._path) + len(self.found) >= DEPENDENCIES_MAX or self._followed > FOLLOWED_MAX:
                raise invalid_schema(
                    f"A schema needs at most {DEPENDENCIES_MAX} others, by {FOLLOWED_MAX} references of all of them"
                )
            if reference.name in self.found:
                continue
            try:
                schema = self._state.resolved(reference).schema
            except RegistryError as error:
                raise invalid_schema(f"The reference {reference.name!r} leads to nothing: {error.message}") from None
            self._path.add(reference)
            self.collect(schema.references)
            self._path.remove(reference)
            self.found[reference.name] = schema.text
