"""Counters and recent examples of refusals, which are failed logins and denied operations, for operators."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

import attrs

__all__ = ["Kind", "Refusal", "Refusals"]

SOURCES_MAX = 50
"""Listed sources: addresses of failed logins, or principals with their addresses. Others are counted."""
ROWS_OF_SOURCE_MAX = 5
"""Names of one source with a row of their own."""
TEXT_CHARS_MAX = 200
"""Characters of a name or a reason. Longer texts are cut."""

Kind: TypeAlias = tuple[str, str]
"""(listener, mechanism) of a failed login, or (operation, resource type) of a denial."""


@attrs.frozen(kw_only=True)
class Refusal:
    """Refusals that differ only in their time and reason.

    Attributes:
        kind: None for the sum over older names of a source.
        source: the refused address, or principal and address.
        name: the user name, or the name of the resource; may be empty.
        count: number of refusals.
        last_ms: time of the latest one, milliseconds since the epoch.
        reason: reason of the latest one.
    """

    kind: Kind | None
    source: tuple[str, ...]
    name: str = ""
    count: int
    last_ms: int
    reason: str = ""


class _Source:
    def __init__(self) -> None:
        self.rows: OrderedDict[tuple[Kind, str], Refusal] = OrderedDict()  # newest last
        self.older: Refusal | None = None  # the sum over older rows

    def fold(self) -> None:
        # Rows are folded in the order of their latest refusal, so this row has the latest time of the sum.
        _, row = self.rows.popitem(last=False)
        before = 0 if self.older is None else self.older.count
        self.older = Refusal(kind=None, source=row.source, count=before + row.count, last_ms=row.last_ms)

    def __iter__(self) -> Iterator[Refusal]:
        yield from self.rows.values()
        if self.older is not None:
            yield self.older


class Refusals:
    """Counts of refusals by kind, and the recent ones by source and name.

    Untrusted clients cause refusals and choose the names in them, so everything kept is bounded. A kind contains no
    name of a client. A source keeps one row for each of its latest names and one sum for older ones. So a source that
    tries a million names takes as much memory as one that tries a few. If there are too many sources, the one refused
    longest ago is dropped and counted.

    Args:
        clock_ms: wall clock, milliseconds since the epoch.

    Attributes:
        by_kind: number of refusals of each kind since startup.
        left_out: number of refusals that no row includes any longer.
    """

    def __init__(self, clock_ms: Callable[[], int]) -> None:
        self.by_kind: Counter[Kind] = Counter()
        self.left_out = 0
        self._clock_ms = clock_ms
        self._sources: OrderedDict[tuple[str, ...], _Source] = OrderedDict()  # newest last

    def expect(self, kinds: Iterable[Kind]) -> None:
        # A counter that appears with its first refusal has no increase in Prometheus.
        for kind in kinds:
            self.by_kind[kind] += 0

    def add(self, kind: Kind, source: tuple[str, ...], name: str, reason: str = "") -> None:
        self.by_kind[kind] += 1
        name = name[:TEXT_CHARS_MAX]
        rows = self._sources.setdefault(source, _Source()).rows
        self._sources.move_to_end(source)
        # Removed and set again, so that the row becomes the newest.
        before = rows.pop((kind, name), None)
        rows[kind, name] = Refusal(
            kind=kind,
            source=source,
            name=name,
            count=1 if before is None else before.count + 1,
            last_ms=self._clock_ms(),
            reason=reason[:TEXT_CHARS_MAX],
        )
        if len(rows) > ROWS_OF_SOURCE_MAX:
            self._sources[source].fold()
        if len(self._sources) > SOURCES_MAX:
            _, oldest = self._sources.popitem(last=False)
            self.left_out += sum(row.count for row in oldest)

    def newest(self) -> list[Refusal]:
        rows = [row for source in self._sources.values() for row in source]
        return sorted(rows, key=lambda row: row.last_ms, reverse=True)
