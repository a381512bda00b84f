"""What the cleaner knows of transactions while it reads a log from its start.

Rules of this file: batches are shown in offset order, each once. Which transactions were aborted is told at the start
(the aborted-transaction index); that a batch belongs to one of them follows from its producer and its offset. A marker
is of no more use when none of its transaction's batches was seen, kept empty ones included; an aborted transaction
that still had some keeps its place in the index until a later round. Without an entry in the index an abort
marker counts as one of a transaction without data, unless data was seen.
"""

from collections import deque
from collections.abc import Iterable

from pipeline_broker.log.producers.aborted_transactions import AbortedTransaction
from pipeline_broker.records.batch import BatchHeader, Buffer
from pipeline_broker.records.control_batch import ABORT, COMMIT, control_type

__all__ = ["AbortedTransaction", "TransactionsRead"]


class TransactionsRead:
    """The transactions of what was read so far."""

    __slots__ = ("_aborted", "_with_data", "retained")

    def __init__(self, aborted: Iterable[AbortedTransaction] = ()) -> None:
        self._aborted: dict[int, deque[AbortedTransaction]] = {}
        for transaction in sorted(aborted, key=lambda it: it.first_offset):
            self._aborted.setdefault(transaction.producer_id, deque()).append(transaction)
        self._with_data: set[int] = set()  # producers with data since their last marker
        self.retained: list[AbortedTransaction] = []
        """Aborted transactions whose marker was read and whose data had not been removed before: the new index."""

    def is_aborted(self, header: BatchHeader) -> bool:
        """A batch that is no marker was read: whether its records were never committed and never will be."""
        if not header.is_transactional:
            return False
        self._with_data.add(header.producer_id)
        return self._aborted_at(header.producer_id, header.last_offset) is not None

    def is_spent(self, header: BatchHeader, batch: Buffer) -> bool:
        """A control batch that has its record was read: whether nothing in the log needs it any longer."""
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
