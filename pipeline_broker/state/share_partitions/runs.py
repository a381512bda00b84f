"""A compact sequence of the records in flight."""

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
    """Neighbouring records that were first acquired together, or loaded together; Kafka's InFlightBatch."""

    first: int
    last: int

    @property
    def size(self) -> int:
        return self.last - self.first + 1


@attrs.define
class Run:
    """Neighbouring records with equal attributes.

    Attributes:
        first, last: their offsets, both inclusive.
        state: delivery state.
        delivery_count: number of deliveries.
        member_id: the member that acquired them; NO_MEMBER in other states.
        lock_until_ms: end of that member's lock, milliseconds since 1970.
        span: the records with which they were first acquired; None before that. Later fetches round their limits to it,
            so runs of different spans stay separate until they are complete.
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
        return self.last - self.first + 1

    def continues_as(self, other: Run) -> bool:
        return (
            self.state is other.state
            and self.delivery_count == other.delivery_count
            and self.member_id == other.member_id
            and self.lock_until_ms == other.lock_until_ms
            # Complete records are never delivered again, so their spans no longer matter.
            and (self.span == other.span or self.state in TERMINAL)
        )


class Runs:
    """Runs in offset order without gaps, so they cover exactly the window `first`..`last`.

    Equal neighbours are merged by `join` only. A window of n records has at most n runs, and one run while its records
    are treated alike.

    Attributes:
        done: number of complete records. It is maintained incrementally, since a window may have thousands of runs.
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
        return self._runs[0].first

    @property
    def last(self) -> int:
        return self._runs[-1].last

    @property
    def head(self) -> Run:
        return self._runs[0]

    def append(self, run: Run) -> None:
        assert not self._runs or run.first == self._runs[-1].last + 1, "runs have no holes"
        assert run.first <= run.last
        self._runs.append(run)
        if run.state in TERMINAL:
            self.done += run.size

    def move(self, run: Run, state: RecordState) -> None:
        """Change the state of a run that is not complete; only ACQUIRED runs keep member and lock."""
        # Final states; `done` would count the records twice.
        assert run.state not in TERMINAL
        run.state = state
        if state is not RecordState.ACQUIRED:
            run.member_id, run.lock_until_ms = NO_MEMBER, 0
        if state in TERMINAL:
            self.done += run.size

    def overlapping(self, first: int, last: int) -> list[Run]:
        """Return the runs with any of these offsets, including their parts outside."""
        start = max(0, self._place(first))
        end = bisect_right(self._runs, last, key=_FIRST)
        return [run for run in self._runs[start:end] if run.last >= first]

    def cut(self, first: int, last: int) -> list[Run]:
        """Split runs at these offsets and return the runs in between; callers may change them, and then `join`."""
        self._split(first)
        self._split(last + 1)
        return self.overlapping(first, last)

    def join(self, first: int, last: int) -> None:
        """Merge equal neighbours among these offsets and next to them."""
        # One more run on each side: a changed run may equal its neighbour outside.
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
        self._split(offset)
        count = bisect_right(self._runs, offset - 1, key=_FIRST)
        self.done -= sum(run.size for run in self._runs[:count] if run.state in TERMINAL)
        del self._runs[:count]

    def drop_unspanned(self, end_offset: int) -> None:
        """Drop the available records after `end_offset` that no acquisition has touched."""
        # An acquisition appends every record that was read. The records that it did not reach leave the window again.
        if self._runs and self._runs[-1].span is None and self._runs[-1].state is RecordState.AVAILABLE:
            self._split(end_offset + 1)
            if self._runs[-1].first > end_offset:
                del self._runs[-1]

    def _place(self, offset: int) -> int:
        """Return the index of the run that holds an offset, else of the run before it, else -1."""
        return bisect_right(self._runs, offset, key=_FIRST) - 1

    def _split(self, offset: int) -> None:
        place = self._place(offset)
        if place < 0:
            return
        run = self._runs[place]
        if run.first < offset <= run.last:
            self._runs.insert(place + 1, attrs.evolve(run, first=offset))
            run.last = offset - 1
