"""Parked fetches: requests that wait for records, their answers, and their cancellation with the connection.

Counterpart in Kafka: `DelayedFetch`, its purgatory.
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
# Frames of all parked fetches. They occupy memory for requests: 10 fetches of 10 MB stopped all other requests. A fetch
# above the limit is answered at once.
REQUEST_BYTES_MAX: Final = 32 * 1024 * 1024


@attrs.frozen(eq=False)
class Waiting:
    """The token of a parked fetch: its request, and the function that makes the answer."""

    request: Request
    answer: Callable[[], Result]


class WaitingFetches:
    """All parked fetches of a broker.

    Args:
        wake_timer: called when `next_deadline_ms` has become earlier.
        parked: called when a fetch starts to wait.
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
        """Sum of the partitions of all parked fetches; shared ones count once per fetch."""
        return self._parked.watched

    def is_watched(self, partition: Hashable) -> bool:
        return self._parked.is_watched(partition)

    def watched_by(self, session: object) -> Iterator[Hashable]:
        """Iterate over the partitions of the parked fetches of a connection."""
        for waiting in self._by_session.get(session, ()):
            yield from self._parked.partitions_of(waiting)

    @property
    def expired(self) -> int:
        return self._parked.expired

    def park(self, waiting: Waiting, partitions: Mapping[Any, Readable], bytes_min: int, deadline_ms: int) -> bool:
        """Park a fetch. Return False if the caller must answer it now.

        The caller must answer if enough bytes are readable, if parked fetches hold too much memory, and during
        shutdown.

        Args:
            waiting: token of the fetch.
            partitions: logs, or other keys for `wake`, with their readable bytes.
            bytes_min: bytes to wait for.
            deadline_ms: latest time of the answer.
        """
        size_bytes = waiting.request.size_bytes
        if self._is_ending or self._request_bytes + size_bytes > REQUEST_BYTES_MAX:
            return False
        earliest = self._parked.next_deadline_ms()
        if not self._parked.park(waiting, partitions, bytes_min, deadline_ms):
            return False
        self._request_bytes += size_bytes
        self._by_session.setdefault(waiting.request.connection.session, set()).add(waiting)
        # The timer reads all deadlines when it wakes, so that only an earlier one must wake it.
        if earliest is None or deadline_ms < earliest:
            self._wake_timer()
        self._notify_parked()
        return True

    def next_deadline_ms(self) -> int | None:
        return self._parked.next_deadline_ms()

    def notify(self, entries: Sequence[JournalEntry]) -> None:
        """Answer the fetches that have enough bytes now that these entries are readable."""
        if len(self._parked):
            for entry in entries:
                self._answer(self._parked.notify(entry.log, entry.size_bytes))

    def wake(self, partition: Hashable) -> None:
        """Answer the fetches that wait for a partition, which was deleted or changed in another way."""
        self._answer(self._parked.wake(partition))

    def advance(self, now_ms: int) -> None:
        self._answer(self._parked.advance(now_ms))

    def end(self) -> None:
        """Answer all parked fetches; none can be parked afterwards."""
        self._is_ending = True
        self._answer(self._parked.advance(NEVER_MS))

    def connection_closed(self, session: object) -> None:
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
            except Exception as error:  # it must not fail the commit that made the records readable
                logger.exception("cannot answer a parked fetch")
                result = Close(f"a parked fetch cannot be answered: {error!r}")
            # Last, after all bookkeeping: it may close the connection and so enter this class again.
            waiting.request.complete(result)
