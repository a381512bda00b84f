"""The records in flight, compactly: one entry for neighbours that share everything.

Rules of this file: it knows offsets, not why they change. Runs are in offset order without holes, so the window that
they cover is all of `first`..`last`; neighbours that share everything become one when `join` is asked to look. A window
of n records is at most n runs, and one run while its records are treated alike.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from operator import attrgetter
from typing import NamedTuple

import attrs

from pipeline_broker.state.share_partitions.record_state import TERMINAL, RecordState

__all__ = ["NO_MEMBER", "Run", "Runs", "Span"]

NO_MEMBER = ""
_FIRST = attrgetter("first")


class Span(NamedTuple):
    """Neighbouring records that were acquired together at first, or loaded together: Kafka's InFlightBatch."""

    first: int
    last: int

    @property
    def size(self) -> int:
        """How many offsets."""
        return self.last - self.first + 1


@attrs.define
class Run:
    """Neighbouring records that share everything.

    Attributes:
        first, last: their offsets, both included.
        state: where they are.
        delivery_count: how often they were acquired.
        member_id: who has acquired them.
        lock_until_ms: when they are taken from that member, milliseconds since 1970.
        span: those with which they were acquired at first; None while nobody has had them. Limits of fetches that
            get them again are counted by it, so neighbours of two spans stay two while they are not done with.
    """

    first: int
    last: int
    state: RecordState
    delivery_count: int
    member_id: str = NO_MEMBER
    lock_until_ms: int = 0
    span: Span | None = None

    @property
    def size(self) -> int:
        """How many offsets."""
        return self.last - self.first + 1

    def continues_as(self, other: Run) -> bool:
        """Whether the other differs only in its offsets."""
        return (
            self.state is other.state
            and self.delivery_count == other.delivery_count
            and self.member_id == other.member_id
            and self.lock_until_ms == other.lock_until_ms
            and (self.span == other.span or self.state in TERMINAL)
        )


class Runs:
    """See the rules of the file.

    Attributes:
        done: how many records are done with; counted as they come and go, since a window may be thousands of runs.
    """

    __slots__ = ("_runs", "done")

    def __init__(self) -> None:
        self._runs: list[Run] = []
        self.done = 0

    def __len__(self) -> int:
        return len(self._runs)

    def __iter__(self) -> Iterator[Run]:
        return iter(self._runs)

    @property
    def first(self) -> int:
        """The lowest offset; there must be one."""
        return self._runs[0].first

    @property
    def last(self) -> int:
        """The highest offset; there must be one."""
        return self._runs[-1].last

    @property
    def head(self) -> Run:
        """The run with the lowest offsets; there must be one."""
        return self._runs[0]

    def append(self, run: Run) -> None:
        """Add what comes behind the last offset."""
        assert not self._runs or run.first == self._runs[-1].last + 1, "runs have no holes"
        assert run.first <= run.last
        self._runs.append(run)
        if run.state in TERMINAL:
            self.done += run.size

    def move(self, run: Run, state: RecordState) -> None:
        """Give one of the runs another state, and nobody has it unless that is ACQUIRED; what is done with stays so."""
        assert run.state not in TERMINAL
        run.state = state
        if state is not RecordState.ACQUIRED:
            run.member_id, run.lock_until_ms = NO_MEMBER, 0
        if state in TERMINAL:
            self.done += run.size

    def overlapping(self, first: int, last: int) -> list[Run]:
        """The runs that hold some of these offsets, whole."""
        start = max(0, self._place(first))
        end = bisect_right(self._runs, last, key=_FIRST)
        return [run for run in self._runs[start:end] if run.last >= first]

    def cut(self, first: int, last: int) -> list[Run]:
        """Exactly these offsets, as far as they are here, as runs of their own that the caller may change."""
        self._split(first)
        self._split(last + 1)
        return self.overlapping(first, last)

    def join(self, first: int, last: int) -> None:
        """Make one run of neighbours that share everything, among these offsets and next to them."""
        start = max(0, self._place(first) - 1)
        end = min(len(self._runs), bisect_right(self._runs, last, key=_FIRST) + 1)
        joined: list[Run] = []
        for run in self._runs[start:end]:
            if joined and joined[-1].continues_as(run):
                joined[-1].last = run.last
            else:
                joined.append(run)
        self._runs[start:end] = joined

    def drop_before(self, offset: int) -> None:
        """Forget what is in front of an offset."""
        self._split(offset)
        count = bisect_right(self._runs, offset - 1, key=_FIRST)
        self.done -= sum(run.size for run in self._runs[:count] if run.state in TERMINAL)
        del self._runs[:count]

    def drop_unspanned(self, end_offset: int) -> None:
        """Forget records behind an offset that are of no span: nobody has got anything of them, or near them, yet."""
        if self._runs and self._runs[-1].span is None and self._runs[-1].state is RecordState.AVAILABLE:
            self._split(end_offset + 1)
            if self._runs[-1].first > end_offset:
                del self._runs[-1]

    def _place(self, offset: int) -> int:
        """The index of the run that holds an offset, or of the one in front of it; -1 in front of all."""
        return bisect_right(self._runs, offset, key=_FIRST) - 1

    def _split(self, offset: int) -> None:
        """Let a run begin at an offset that is here."""
        place = self._place(offset)
        if place < 0:
            return
        run = self._runs[place]
        if run.first < offset <= run.last:
            self._runs.insert(place + 1, attrs.evolve(run, first=offset))
            run.last = offset - 1
