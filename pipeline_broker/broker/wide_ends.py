"""Ends of wide transactions, which have too many partitions to append all markers in one turn."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Final, Protocol

import attrs

from pipeline_broker.broker.ports import Submit

if TYPE_CHECKING:
    from pipeline_broker.broker.remote_markers import RemoteMarkers
    from pipeline_broker.log.journal.entry import JournalEntry
    from pipeline_broker.state.transactions.coordinator import Marker

__all__ = ["MARKERS_AT_ONCE", "WideEnd", "WideEnds"]

MARKERS_AT_ONCE: Final = 300
"""Markers that one turn appends: about 5 ms."""


@attrs.define(eq=False)
class WideEnd:
    """The end of one wide transaction.

    Attributes:
        transactional_id: id of the transaction.
        markers: markers that are not appended yet.
        marked: called once all markers are durable.
        is_moved: returns whether another broker appends the further markers.
        deleted_topics: topics deleted since the decision. A new topic of the same name gets no marker.
        commits: commits and markers for other brokers that are not durable yet.
        is_marked: True once all markers are appended.
    """

    transactional_id: str
    markers: Iterator[Marker]
    marked: Callable[[str], None]
    is_moved: Callable[[], bool] = lambda: False
    deleted_topics: set[str] = attrs.field(factory=set)
    commits: int = 0
    is_marked: bool = False


class AppendMarker(Protocol):
    def __call__(
        self, marker: Marker, now_ms: int, entries: list[JournalEntry], applies: list[Callable[[], None]]
    ) -> None:
        """Append the marker, unless the topic was deleted; add its entry and the function to call when durable."""


class WideEnds:
    """All wide transactions that are ending, in the order of their turns.

    A decision is durable before the first marker is appended, so that a crash cannot leave both commit and abort
    markers. Further markers are appended while earlier ones are written to disk. The ends take turns, so that one does
    not wait for all markers of the earlier ones.

    Args:
        submit: commits entries that no request waits for.
        remote: sends markers of partitions that other brokers lead; None without a cluster.
    """

    def __init__(self, append_marker: AppendMarker, submit: Submit, remote: RemoteMarkers | None) -> None:
        self._append_marker = append_marker
        self._submit = submit
        self._remote = remote
        self._ends: deque[WideEnd] = deque()
        self._decided: set[WideEnd] = set()

    def __bool__(self) -> bool:
        return bool(self._ends)

    def decide(self, end: WideEnd) -> None:
        """Register an end before its decision is durable.

        So `forget_topic` also covers topics that are deleted in that time.
        """
        self._decided.add(end)

    def begin(self, end: WideEnd) -> None:
        self._decided.discard(end)
        self._ends.append(end)

    def forget_topic(self, topic: str) -> None:
        for end in (*self._decided, *self._ends):
            end.deleted_topics.add(topic)

    def advance(self, now_ms: int) -> None:
        """Append the next markers of the first end, and move the end to the back of the queue.

        An end without further markers leaves the queue. At least one end must be in the queue.
        """
        end = self._ends.popleft()
        if end.is_moved():  # its markers would carry the epoch of the next coordinator
            return
        entries: list[JournalEntry] = []
        applies: list[Callable[[], None]] = []
        markers = list(islice(end.markers, MARKERS_AT_ONCE))
        # A topic created again under the same name has no open transaction of this producer to end.
        wanted = [marker for marker in markers if marker.partition.topic not in end.deleted_topics]
        here, elsewhere = self._by_leader(wanted)
        for marker in here:
            self._append_marker(marker, now_ms, entries, applies)
        # If exactly MARKERS_AT_ONCE were left, the next turn finds none and ends it.
        end.is_marked = len(markers) < MARKERS_AT_ONCE
        if not end.is_marked:
            self._ends.append(end)
        end.commits += 1 + len(elsewhere)

        def durable() -> None:
            end.commits -= 1
            if end.is_marked and not end.commits:
                end.marked(end.transactional_id)

        def apply() -> None:
            for each in applies:
                each()
            durable()

        if self._remote is not None and elsewhere:
            self._remote.send([(marker, durable) for marker in elsewhere], now_ms)
        if entries:
            # Further turns append while this commit is written; `commits` counts those in progress.
            self._submit(entries, apply)
        else:
            apply()

    def _by_leader(self, markers: list[Marker]) -> tuple[list[Marker], list[Marker]]:
        """Return the markers of partitions that this broker leads, and those for other brokers."""
        if self._remote is None:
            return markers, []
        here: list[Marker] = []
        elsewhere: list[Marker] = []
        for marker in markers:
            (here if self._remote.is_here(marker.partition) else elsewhere).append(marker)
        return here, elsewhere
