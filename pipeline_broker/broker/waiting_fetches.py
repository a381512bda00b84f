"""Fetches that wait for records: who waits, how each is answered, and what ends with its connection.

Rules of this room: synchronous, time passed in. An answer that fails is one request's misfortune: it never fails the
commit that woke it. Completing a request is the last thing that is done with it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any, Final

import attrs

from pipeline_broker.log.journal.entry import JournalEntry
from pipeline_broker.state.parked_fetches import ParkedFetches, Readable
from stages.request import Close, Request, Result

__all__ = ["Waiting", "WaitingFetches"]

logger = logging.getLogger(__name__)

NEVER_MS = 2**63
REQUEST_BYTES_MAX: Final = 32 * 1024 * 1024
"""Of all fetches that wait, whose frames hold room that others need; one beyond it is answered at once."""


@attrs.frozen(eq=False)
class Waiting:
    """The token of a parked fetch: its request, and how it is answered when its time has come."""

    request: Request
    answer: Callable[[], Result]


class WaitingFetches:
    """See the rules of the room.

    Args:
        wake_timer: called when `next_deadline_ms` has become earlier.
        parked: called when a fetch has begun to wait.
    """

    def __init__(self, wake_timer: Callable[[], None], parked: Callable[[], None]) -> None:
        self._wake_timer = wake_timer
        self._notify_parked = parked
        self._parked: ParkedFetches[Waiting, Hashable] = ParkedFetches()
        self._by_session: dict[object, set[Waiting]] = {}
        self._request_bytes = 0
        self._is_ending = False

    def __len__(self) -> int:
        return len(self._parked)

    @property
    def watched(self) -> int:
        """In how many partitions they wait, each with all of its partitions."""
        return self._parked.watched

    def is_watched(self, partition: Hashable) -> bool:
        """Whether a fetch waits for what comes to a partition."""
        return self._parked.is_watched(partition)

    def watched_by(self, session: object) -> Iterator[Hashable]:
        """The partitions in which fetches of a connection wait."""
        for waiting in self._by_session.get(session, ()):
            yield from self._parked.partitions_of(waiting)

    @property
    def expired(self) -> int:
        """Fetches that waited until their deadline, so far."""
        return self._parked.expired

    def park(self, waiting: Waiting, partitions: Mapping[Any, Readable], bytes_min: int, deadline_ms: int) -> bool:
        """Let a fetch wait; False when it has enough already, or nothing waits any more, or too much does.

        Args:
            partitions: logs, and whatever else somebody calls `wake` for.
            bytes_min: how much it waits for.
            deadline_ms: when it is answered at the latest.
        """
        size_bytes = waiting.request.size_bytes
        if self._is_ending or self._request_bytes + size_bytes > REQUEST_BYTES_MAX:
            return False
        earliest = self._parked.next_deadline_ms()
        if not self._parked.park(waiting, partitions, bytes_min, deadline_ms):
            return False
        self._request_bytes += size_bytes
        self._by_session.setdefault(waiting.request.connection.session, set()).add(waiting)
        if earliest is None or deadline_ms < earliest:
            self._wake_timer()
        self._notify_parked()
        return True

    def next_deadline_ms(self) -> int | None:
        """When `advance` has something to do."""
        return self._parked.next_deadline_ms()

    def notify(self, entries: Sequence[JournalEntry]) -> None:
        """Entries can be read now: answer the fetches that have enough by them."""
        if len(self._parked):
            for entry in entries:
                self._answer(self._parked.notify(entry.log, entry.size_bytes))

    def wake(self, partition: Hashable) -> None:
        """A partition is gone, or something else happened to it: answer the fetches that wait for it."""
        self._answer(self._parked.wake(partition))

    def advance(self, now_ms: int) -> None:
        """Answer those whose time has come."""
        self._answer(self._parked.advance(now_ms))

    def end(self) -> None:
        """Answer all that wait, now and from here on."""
        self._is_ending = True
        self._answer(self._parked.advance(NEVER_MS))

    def connection_closed(self, session: object) -> None:
        """Forget what a connection parked."""
        for waiting in self._by_session.pop(session, ()):
            self._parked.cancel(waiting)
            self._request_bytes -= waiting.request.size_bytes

    def _answer(self, fetches: list[Waiting]) -> None:
        for waiting in fetches:
            self._request_bytes -= waiting.request.size_bytes
            session = waiting.request.connection.session
            parked = self._by_session.get(session)
            if parked is not None:
                parked.discard(waiting)
                if not parked:
                    del self._by_session[session]
            try:
                result = waiting.answer()
            except Exception as error:
                logger.exception("a parked fetch could not be answered")
                result = Close(f"parked fetch failed: {error!r}")
            waiting.request.complete(result)
