"""Who was refused, how often and when: failed logins and denials, for whoever looks after a broker.

Rules of this file: strangers cause refusals and choose the names in them, so everything kept is bounded, and what is
left out is counted. By kind all are counted; a kind has no name of a client in it. One by one the newest are kept:
a source has a row for each of the newest names that it was refused with, and one sum for its older ones, so that a
source that tries a million names takes no more room than one that tries a few. When there are too many sources, the one
that was refused longest ago goes, and is counted.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from typing import TypeAlias

import attrs

__all__ = ["Kind", "Refusal", "Refusals"]

SOURCES_MAX = 50
"""Addresses that failed to log in, or principals with their address that were denied something."""
ROWS_OF_SOURCE_MAX = 5
"""Names of one source that have a row of their own."""
TEXT_CHARS_MAX = 200
"""Of a name or a reason; what is longer is cut."""

Kind: TypeAlias = tuple[str, str]
"""Of a failed login listener and mechanism, of a denial operation and type of resource."""


@attrs.frozen(kw_only=True)
class Refusal:
    """Refusals that have all but time and reason in common.

    Attributes:
        kind: None for the sum of a source's older names.
        source: who was refused, and from where.
        name: that was given, or of what was asked for; empty where there is none.
        count: how many.
        last_ms: when the last one was, milliseconds since the epoch.
        reason: of the last one.
    """

    kind: Kind | None
    source: tuple[str, ...]
    name: str = ""
    count: int
    last_ms: int
    reason: str = ""


class _Source:
    """The rows of one source, the newest last, and the sum of its older ones."""

    def __init__(self) -> None:
        self.rows: OrderedDict[tuple[Kind, str], Refusal] = OrderedDict()
        self.older: Refusal | None = None

    def fold(self) -> None:
        """Add the oldest row to the sum; it is the newest in that, because rows leave in the order of their last."""
        _, row = self.rows.popitem(last=False)
        before = 0 if self.older is None else self.older.count
        self.older = Refusal(kind=None, source=row.source, count=before + row.count, last_ms=row.last_ms)

    def __iter__(self) -> Iterator[Refusal]:
        yield from self.rows.values()
        if self.older is not None:
            yield self.older


class Refusals:
    """See the rules of the file.

    Args:
        clock_ms: wall clock.

    Attributes:
        by_kind: how many there were of each kind, since the start.
        left_out: how many of them no row tells of any more.
    """

    def __init__(self, clock_ms: Callable[[], int]) -> None:
        self.by_kind: Counter[Kind] = Counter()
        self.left_out = 0
        self._clock_ms = clock_ms
        self._sources: OrderedDict[tuple[str, ...], _Source] = OrderedDict()  # the newest last

    def add(self, kind: Kind, source: tuple[str, ...], name: str, reason: str = "") -> None:
        """Take note of one."""
        self.by_kind[kind] += 1
        name = name[:TEXT_CHARS_MAX]
        rows = self._sources.setdefault(source, _Source()).rows
        self._sources.move_to_end(source)
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
        """The rows, the newest first."""
        rows = [row for source in self._sources.values() for row in source]
        return sorted(rows, key=lambda row: row.last_ms, reverse=True)
