"""Registered schemas by id, and by the digests that find equal schemas.

The worker process computes sketches and identities (`formats.Recognized`) once an operation needs them. A startup with
10,000 schemas computes none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pipeline_broker.schema_registry.values import Schema, SchemaType

__all__ = ["EXPECTED_MAX", "SchemaIndex"]

EXPECTED_MAX = 64
"""Schemas being registered that have a sketch: one for each connection."""


class SchemaIndex:
    """The schemas of a registry by id, with their sketches and identities as far as they are known."""

    def __init__(self) -> None:
        self._schemas: dict[int, Schema] = {}
        self._sketches: dict[int, str] = {}
        self._waiting: dict[SchemaType, dict[int, None]] = {kind: {} for kind in SchemaType}  # ids without a sketch
        self._alike: dict[str, set[int]] = {}  # ids by their sketch
        self._identities: dict[int, str] = {}
        self._expected: dict[Schema, str] = {}  # sketches, oldest first

    def __iter__(self) -> Iterator[int]:
        return iter(self._schemas)

    def __getitem__(self, schema_id: int) -> Schema:
        return self._schemas[schema_id]

    def get(self, schema_id: int) -> Schema | None:
        return self._schemas.get(schema_id)

    def set(self, schema_id: int, schema: Schema) -> None:
        if schema_id in self._schemas:
            self._identities.clear()  # schemas that refer to this one have a new identity too
            self.remove(schema_id)
        self._schemas[schema_id] = schema
        self._waiting[schema.type][schema_id] = None
        if sketch := self._expected.pop(schema, None):
            self.set_sketch(schema_id, sketch)

    def remove(self, schema_id: int) -> None:
        self._waiting[self._schemas.pop(schema_id).type].pop(schema_id, None)
        self._identities.pop(schema_id, None)
        sketch = self._sketches.pop(schema_id, None)
        if sketch is not None:
            self._alike[sketch].discard(schema_id)
            if not self._alike[sketch]:
                del self._alike[sketch]

    def expect(self, schema: Schema, sketch: str) -> None:
        """Keep the sketch of a schema until its record is applied, so that it is not computed again."""
        self._expected[schema] = sketch
        if len(self._expected) > EXPECTED_MAX:
            del self._expected[next(iter(self._expected))]

    def without_sketch(self, schema_type: SchemaType, ids: Iterable[int] | None) -> list[int]:
        waiting = self._waiting[schema_type]
        return list(waiting) if ids is None else [each for each in ids if each in waiting]

    def set_sketch(self, schema_id: int, sketch: str) -> None:
        """Set the sketch of a schema, unless it has one or the id is unknown."""
        schema = self._schemas.get(schema_id)
        if schema is not None and schema_id not in self._sketches:
            del self._waiting[schema.type][schema_id]
            self._sketches[schema_id] = sketch
            self._alike.setdefault(sketch, set()).add(schema_id)

    def alike(self, sketch: str) -> list[int]:
        return sorted(self._alike.get(sketch, ()))

    def identity(self, schema_id: int) -> str | None:
        """Return the identity of a schema; None if it is not known yet."""
        return self._identities.get(schema_id)

    def set_identity(self, schema_id: int, identity: str) -> None:
        if schema_id in self._schemas:
            self._identities[schema_id] = identity
