"""Ended transactions of a log whose markers are not archived yet."""

from bisect import bisect_left
from collections import deque
from operator import attrgetter

from pipeline_broker.log.producers.aborted_transactions import AbortedTransaction

__all__ = ["EndedTransactions"]

_last_offset = attrgetter("last_offset")


class EndedTransactions:
    """The ended transactions of one log, as far as readers or the last stable offset need them.

    An aborted transaction is kept until its marker is archived, because the archive's index contains it from then on.
    So there are never more of them than markers in the journal. A transaction whose marker is not durable holds the
    last stable offset back as if it were open: after a crash it may be.
    """

    __slots__ = ("_aborted", "_undurable")

    def __init__(self) -> None:
        self._aborted: list[AbortedTransaction] = []
        self._undurable: deque[tuple[int, int]] = deque()  # (offset of the marker, first offset)

    def add(self, first_offset: int, marker_offset: int) -> None:
        self._undurable.append((marker_offset, first_offset))

    def add_aborted(self, transaction: AbortedTransaction) -> None:
        self._aborted.append(transaction)

    def durable(self, high_watermark: int) -> None:
        undurable = self._undurable
        while undurable and undurable[0][0] < high_watermark:
            undurable.popleft()

    @property
    def first_undurable_offset(self) -> int | None:
        """The lowest first offset of transactions whose marker is not durable; None without one."""
        return min((first for _, first in self._undurable), default=None)

    def archived(self, end_offset: int) -> None:
        """Drop aborted transactions with a marker below the archive's end offset."""
        del self._aborted[: bisect_left(self._aborted, end_offset, key=_last_offset)]

    def aborted(self, offset: int, end_offset: int) -> list[AbortedTransaction]:
        """Return the aborted transactions with a record below `end_offset` and their marker at or above `offset`.

        They are in marker order.
        """
        first = bisect_left(self._aborted, offset, key=_last_offset)
        return [it for it in self._aborted[first:] if it.first_offset < end_offset]
