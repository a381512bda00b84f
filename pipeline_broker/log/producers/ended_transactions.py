"""The transactions of a log that have ended, as far as the archive does not know of them.

Rules of this file: no I/O; markers come in offset order, each once. An entry about an aborted transaction is kept until
its marker is archived, since from then on the archive's index has it: so there are never more of them than markers in
the journal. A transaction whose marker is not durable holds back the last stable offset as if it were open: after a
crash it may be.
"""

from bisect import bisect_left
from collections import deque
from operator import attrgetter

from pipeline_broker.log.producers.aborted_transactions import AbortedTransaction

__all__ = ["EndedTransactions"]

_last_offset = attrgetter("last_offset")


class EndedTransactions:
    """See the rules of the file."""

    __slots__ = ("_aborted", "_undurable")

    def __init__(self) -> None:
        self._aborted: list[AbortedTransaction] = []
        self._undurable: deque[tuple[int, int]] = deque()  # offset of the marker, first offset

    def add(self, first_offset: int, marker_offset: int) -> None:
        """A marker was appended."""
        self._undurable.append((marker_offset, first_offset))

    def add_aborted(self, transaction: AbortedTransaction) -> None:
        """It was one that aborts."""
        self._aborted.append(transaction)

    def durable(self, high_watermark: int) -> None:
        """What is in front of the offset is durable."""
        undurable = self._undurable
        while undurable and undurable[0][0] < high_watermark:
            undurable.popleft()

    @property
    def first_undurable_offset(self) -> int | None:
        """The first offset of all transactions whose marker is not durable; None when there are none."""
        return min((first for _, first in self._undurable), default=None)

    def archived(self, end_offset: int) -> None:
        """The archive has what is in front of the offset."""
        del self._aborted[: bisect_left(self._aborted, end_offset, key=_last_offset)]

    def aborted(self, offset: int, end_offset: int) -> list[AbortedTransaction]:
        """Those with records in front of `end_offset` and a marker not in front of `offset`, in marker order."""
        first = bisect_left(self._aborted, offset, key=_last_offset)
        return [it for it in self._aborted[first:] if it.first_offset < end_offset]
