"""Transaction state of a compaction round while it reads a log in offset order."""

from collections import deque
from collections.abc import Iterable

from pipeline_broker.base.buffer import Buffer
from pipeline_broker.log.producers.aborted_transactions import AbortedTransaction
from pipeline_broker.records.batch import BatchHeader
from pipeline_broker.records.control_batch import ABORT, COMMIT, control_type

__all__ = ["AbortedTransaction", "TransactionsRead"]


class TransactionsRead:
    """The transactions of the batches read so far.

    A batch is aborted if its producer and offset match an entry of the aborted-transaction index. A marker is spent if
    none of its transaction's batches was seen; kept empty ones count. Without an index entry, an abort marker is that
    of a transaction without data, unless data was seen.

    Attributes:
        retained: entries of the new index: aborted transactions that still had batches when their marker was read.
    """

    __slots__ = ("_aborted", "_with_data", "retained")

    def __init__(self, aborted: Iterable[AbortedTransaction] = ()) -> None:
        self._aborted: dict[int, deque[AbortedTransaction]] = {}
        for transaction in sorted(aborted, key=lambda it: it.first_offset):
            self._aborted.setdefault(transaction.producer_id, deque()).append(transaction)
        self._with_data: set[int] = set()  # producers with data since their last marker
        self.retained: list[AbortedTransaction] = []

    def is_aborted(self, header: BatchHeader) -> bool:
        """Record a transactional data batch; return whether its transaction was aborted. False for other batches."""
        if not header.is_transactional:
            return False
        self._with_data.add(header.producer_id)
        return self._aborted_at(header.producer_id, header.last_offset) is not None

    def is_spent(self, header: BatchHeader, batch: Buffer) -> bool:
        """Record a control batch; return whether it is a marker whose transaction has no batches left.

        An aborted transaction that has some is added to `retained`.

        Raises:
            RecordError: the record of the batch is damaged.
        """
        if control_type(header, batch) not in {ABORT, COMMIT}:
            return False
        producer_id = header.producer_id
        transaction = self._aborted_at(producer_id, header.last_offset)
        had_data = producer_id in self._with_data
        self._with_data.discard(producer_id)
        if had_data and transaction is not None:
            self.retained.append(transaction)
        return not had_data

    def _aborted_at(self, producer_id: int, offset: int) -> AbortedTransaction | None:
        waiting = self._aborted.get(producer_id)
        if waiting is None:
            return None
        while waiting and waiting[0].last_offset < offset:
            waiting.popleft()
        return waiting[0] if waiting and waiting[0].first_offset <= offset else None
