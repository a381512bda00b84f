"""The offsets and times that a query's filters can match.

Bounds only skip files and offsets; Spark itself applies all filters to the rows. Filter classes exist since PySpark
4.1, so filters are recognized by their class names.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import attrs

__all__ = ["Bounds"]

MS = 1000


@attrs.frozen
class Bounds:
    """The limits of a read by topic, partition, offset and time.

    Attributes:
        topics, partitions: the only ones to read; None for all.
        first_offset, end_offset: the first offset, and the one after the last; None for no bound.
        since_ms: the earliest time of a record, in milliseconds since the epoch; None for no bound.
    """

    topics: frozenset[str] | None = None
    partitions: frozenset[int] | None = None
    first_offset: int | None = None
    end_offset: int | None = None
    since_ms: int | None = None

    def narrowed(self, filters: Iterable[Any]) -> Bounds:
        """Return these bounds, narrowed by filters that must all hold. Unsupported filters change nothing."""
        bounds = self
        for one in filters:
            column = getattr(one, "attribute", None)
            if column is not None and len(column) == 1:
                bounds = bounds._narrowed(type(one).__name__, column[0], one)
        return bounds

    def _narrowed(self, kind: str, column: str, found: Any) -> Bounds:
        value = getattr(found, "value", None)
        if value is None:
            return self
        if kind in {"EqualTo", "EqualNullSafe"}:
            # Times give only a lower bound: a record with a later offset may have an earlier time.
            return self._one_of(column, frozenset({value})) if column != "timestamp" else self._above(column, value)
        if kind == "In":
            return self._one_of(column, frozenset(value) - {None}) if column != "timestamp" else self
        if kind in {"GreaterThan", "GreaterThanOrEqual"}:
            return self._above(column, value + (kind == "GreaterThan") if column == "offset" else value)
        if kind in {"LessThan", "LessThanOrEqual"} and column == "offset":
            return self._before(value + (kind == "LessThanOrEqual"))
        return self

    def _one_of(self, column: str, values: frozenset[Any]) -> Bounds:
        if column == "topic":
            return attrs.evolve(self, topics=values if self.topics is None else self.topics & values)
        if column == "partition":
            return attrs.evolve(self, partitions=values if self.partitions is None else self.partitions & values)
        if column == "offset" and values:
            return self._above(column, min(values))._before(max(values) + 1)  # noqa: SLF001 - the same class
        return self

    def _above(self, column: str, value: Any) -> Bounds:
        if column == "offset":
            return attrs.evolve(
                self, first_offset=value if self.first_offset is None else max(self.first_offset, value)
            )
        if column == "timestamp" and isinstance(value, datetime):
            since = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
            since_ms = int(since.timestamp() * MS)
            return attrs.evolve(self, since_ms=since_ms if self.since_ms is None else max(self.since_ms, since_ms))
        return self

    def _before(self, offset: int) -> Bounds:
        return attrs.evolve(self, end_offset=offset if self.end_offset is None else min(self.end_offset, offset))

    def take(self, topic: str, partition: int) -> bool:
        return (self.topics is None or topic in self.topics) and (
            self.partitions is None or partition in self.partitions
        )
