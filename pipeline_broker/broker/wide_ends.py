"""Ends of transactions with so many partitions that their markers are appended in turns.

Rules of this file: the end of each was decided, and that is durable, before its first marker is appended, so a crash
anywhere leaves one verdict. The next ones are appended while earlier ones are on their way to the disk; an end is over
when all of them are there. Ends take turns, so that one does not wait for all the markers of those that came before.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Final, Protocol

import attrs

from pipeline_broker.broker.ports import Submit

if TYPE_CHECKING:
    from pipeline_broker.log.journal.entry import JournalEntry
    from pipeline_broker.state.transactions.coordinator import Marker, TransactionCoordinator

__all__ = ["MARKERS_AT_ONCE", "WideEnd", "WideEnds"]

MARKERS_AT_ONCE: Final = 300
"""They take about 5 ms."""


@attrs.define(eq=False)
class WideEnd:
    """One of them.

    Attributes:
        transactional_id: what ends.
        markers: that are not appended yet.
        coordinator: knows the transaction; None where its records are gone.
        gone: topics that were deleted meanwhile; another one of such a name has nothing to end.
        commits: how many with markers are not durable yet.
        is_marked: all markers are appended.
    """

    transactional_id: str
    markers: Iterator[Marker]
    coordinator: TransactionCoordinator | None
    gone: set[str] = attrs.field(factory=set)
    commits: int = 0
    is_marked: bool = False


class AppendMarker(Protocol):
    """Append a marker where there is something to end."""

    def __call__(
        self, marker: Marker, now_ms: int, entries: list[JournalEntry], applies: list[Callable[[], None]]
    ) -> None:
        """Add what must be committed, and what must be called then."""


class WideEnds:
    """All of them, in the order of their turns.

    Args:
        append_marker: appends one.
        submit: commits entries that no request waits for.
        marked: told of each whose markers are all durable.
    """

    def __init__(self, append_marker: AppendMarker, submit: Submit, marked: Callable[[WideEnd], None]) -> None:
        self._append_marker = append_marker
        self._submit = submit
        self._marked = marked
        self._ends: deque[WideEnd] = deque()
        self._decided: set[WideEnd] = set()

    def __bool__(self) -> bool:
        return bool(self._ends)

    def decide(self, end: WideEnd) -> None:
        """Its decision is on its way: topics may go before that is durable."""
        self._decided.add(end)

    def begin(self, end: WideEnd) -> None:
        """Its decision is durable."""
        self._decided.discard(end)
        self._ends.append(end)

    def forget_topic(self, topic: str) -> None:
        """A topic is gone."""
        for end in (*self._decided, *self._ends):
            end.gone.add(topic)

    def advance(self, now_ms: int) -> None:
        """Append the next markers of the one whose turn it is."""
        end = self._ends.popleft()
        entries: list[JournalEntry] = []
        applies: list[Callable[[], None]] = []
        markers = list(islice(end.markers, MARKERS_AT_ONCE))
        for marker in markers:
            if marker.partition.topic not in end.gone:
                self._append_marker(marker, now_ms, entries, applies)
        end.is_marked = len(markers) < MARKERS_AT_ONCE
        if not end.is_marked:
            self._ends.append(end)
        end.commits += 1

        def apply() -> None:
            for each in applies:
                each()
            end.commits -= 1
            if end.is_marked and not end.commits:
                self._marked(end)

        if entries:
            self._submit(entries, apply)
        else:
            apply()
