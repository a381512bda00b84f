"""The transaction coordinator: producers of transactional ids, and the end of their transactions.

The effect of a request depends on the state of the id:

    InitProducerId      at rest: increments the epoch   open: aborts and fences; the client retries (error 51)
    AddPartitionsToTxn  at rest or open: is open        prepared: the client retries (error 51)
    EndTxn              open: ends                      at rest: see `ending`
    time                open too long: aborts, fences   at rest too long: the id is deleted
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import islice

import attrs

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.state.outcome import StateRecord
from pipeline_broker.state.transactions import ending
from pipeline_broker.state.transactions.records import tombstone, transaction_record
from pipeline_broker.state.transactions.states import ENDED, PREPARED, TransactionState
from pipeline_broker.state.transactions.transaction import (
    NO_EPOCH,
    NO_PRODUCER_ID,
    VERSION_2,
    Partition,
    Transaction,
    by_topic,
    is_exhausted,
)

__all__ = [
    "Decision",
    "Marker",
    "Producer",
    "Step",
    "TransactionCoordinator",
    "TransactionSettings",
    "TransactionUsage",
]

# Ids that one call aborts or expires: all of them could take seconds, in which the broker serves no other request.
IDS_AT_ONCE = 100


@attrs.frozen
class TransactionSettings:
    """Settings of the coordinator.

    Attributes:
        timeout_ms_max: maximum transaction timeout that a client may request.
        expiration_ms: time at rest after which a transactional id is deleted.
        markers_at_once: maximum number of markers in one decision; a wide transaction writes them later.
        ids_max: maximum number of transactional ids; Kafka has no such limit.
        partitions_max: maximum number of partitions in all open transactions; Kafka has no such limit.
    """

    timeout_ms_max: int
    expiration_ms: int
    markers_at_once: int
    ids_max: int = 100_000
    partitions_max: int = 500_000


@attrs.define
class TransactionUsage:
    """Counts of all coordinators of a broker, against the limits of `TransactionSettings`.

    Attributes:
        ids: transactional ids.
        open_ids: transactions that are not completed.
        open_partitions: partitions of these transactions.
    """

    ids: int = 0
    open_ids: int = 0
    open_partitions: int = 0


@attrs.frozen
class Producer:
    producer_id: int
    epoch: int


NO_PRODUCER = Producer(NO_PRODUCER_ID, NO_EPOCH)


@attrs.frozen
class Marker:
    """A transaction marker: the end of a transaction in one partition.

    Attributes:
        partition: the partition to append it to; the caller skips deleted ones.
        producer: the producer of the transaction, with the epoch after its end.
        committed: whether the transaction commits rather than aborts.
        version: see `Transaction.version`.
    """

    partition: Partition
    producer: Producer
    committed: bool
    version: int


Step = StateRecord | Marker
"""An append: a record of the coordinator, or a marker in another partition."""


@attrs.frozen
class Decision:
    """The result of a request.

    Attributes:
        error: error for the client.
        transactional_id: selects the partition of the records.
        steps: appends in this order, as one commit.
        producer: producer for the client; NO_PRODUCER if the response has none.
        later: markers of a wide transaction, to append once the steps are durable. `complete` follows when all are.
    """

    error: ErrorCode
    transactional_id: str
    steps: tuple[Step, ...] = ()
    producer: Producer = NO_PRODUCER
    later: Iterator[Marker] | None = attrs.field(default=None, eq=False)


class TransactionCoordinator:
    """The transactional ids of one partition of `__transaction_state`.

    Unlike other machines, a decision counts at once for later decisions. All appends go through one journal, of which
    only a contiguous prefix survives a crash. The caller

    * appends the steps of each `Decision` as one commit, in the order of the decisions, before it makes the next call;
    * answers the client once these and the steps of all earlier decisions are durable;
    * calls `replay` for each durable record after a restart, in order, and then appends the steps of `unfinished`
      before all others.

    A transaction usually ends in one decision, with all its markers. More than `markers_at_once` markers would block
    the event loop. They follow in later commits, and then `complete`. Until then the transaction is prepared, and its
    clients retry as in Kafka. A crash can leave a prepared transaction, too.

    Args:
        settings: limits and timeouts.
        usage: counts of all coordinators; this one adds its own ids and partitions.
        new_producer_id: allocates a producer id. Clients may get it once its allocation is durable.
        is_here: returns whether this broker leads a partition. Other brokers get their markers after the decision.
    """

    def __init__(
        self,
        settings: TransactionSettings,
        usage: TransactionUsage,
        new_producer_id: Callable[[], int],
        is_here: Callable[[Partition], bool] = lambda _: True,
    ) -> None:
        self._is_here = is_here
        self.settings = settings
        self.usage = usage
        self._new_producer_id = new_producer_id
        self._transactions: dict[str, Transaction] = {}
        self._partitions: dict[str, int] = {}  # number of partitions of each transaction that is not completed

    def __iter__(self) -> Iterator[Transaction]:
        return iter(self._transactions.values())

    def get(self, transactional_id: str) -> Transaction | None:
        return self._transactions.get(transactional_id)

    # Requests

    def init_producer_id(
        self, transactional_id: str, timeout_ms: int, expected: Producer | None, now_ms: int
    ) -> Decision:
        """Assign a producer to the client of a transactional id, which fences the previous producer.

        An open transaction is aborted first, and the client must retry.

        Args:
            timeout_ms: maximum duration of a transaction.
            expected: the producer that the client has, if it continues after an error (KIP-360); None otherwise.
            now_ms: wall clock.
        """
        if not transactional_id:
            return Decision(ErrorCode.INVALID_REQUEST, transactional_id)
        if not 0 < timeout_ms <= self.settings.timeout_ms_max:
            return Decision(ErrorCode.INVALID_TRANSACTION_TIMEOUT, transactional_id)
        known = self._transactions.get(transactional_id)
        if known is not None and known.state in PREPARED:
            return Decision(ErrorCode.CONCURRENT_TRANSACTIONS, transactional_id)
        if known is None and self.usage.ids >= self.settings.ids_max:
            return Decision(ErrorCode.POLICY_VIOLATION, transactional_id)
        if known is None:
            known = Transaction(
                transactional_id=transactional_id, producer_id=self._new_producer_id(), timeout_ms=timeout_ms
            )
        elif expected is not None and not _may_continue(known, expected):
            return Decision(ErrorCode.PRODUCER_FENCED, transactional_id)
        if known.state is TransactionState.ONGOING:
            # The client retries, and gets the id once the abort is complete.
            return self._abort(known, ErrorCode.CONCURRENT_TRANSACTIONS, now_ms)
        # A client with an older epoch repeats a request, which `bumped` answers or fences.
        if known.is_exhausted and (expected is None or expected.epoch == known.producer_epoch):
            is_known = expected is not None
            taken: Transaction | None = known.rotated(self._new_producer_id(), timeout_ms, now_ms, is_known=is_known)
        else:
            taken = known.bumped(timeout_ms, None if expected is None else expected.epoch, now_ms)
        if taken is None:
            return Decision(ErrorCode.PRODUCER_FENCED, transactional_id)
        return self._decide(taken)

    def add_partitions(
        self, transactional_id: str, producer: Producer, partitions: Collection[Partition], version: int, now_ms: int
    ) -> Decision:
        known = self._of(transactional_id, producer)
        if isinstance(known, ErrorCode):
            return Decision(known, transactional_id)
        # All partitions are in the transaction already, so no record is necessary.
        if known.state is TransactionState.ONGOING and known.partitions.issuperset(partitions):
            return Decision(ErrorCode.NONE, transactional_id)
        if self.usage.open_partitions + len(partitions) > self.settings.partitions_max:
            return Decision(ErrorCode.POLICY_VIOLATION, transactional_id)
        return self._decide(known.with_partitions(partitions, version, now_ms))

    def repeat(self, transactional_id: str) -> Decision:
        """Return a decision that appends the latest record of an id again."""
        return self._decide(self._transactions[transactional_id])

    def verify_partitions(
        self, transactional_id: str, producer: Producer, partitions: Iterable[Partition]
    ) -> dict[Partition, ErrorCode]:
        """Return an error code for each partition; NONE if the producer's transaction is open and includes it."""
        known = self._of(transactional_id, producer)
        if isinstance(known, ErrorCode):
            return dict.fromkeys(partitions, known)
        return {
            partition: ErrorCode.NONE if partition in known.partitions else ErrorCode.TRANSACTION_ABORTABLE
            for partition in partitions
        }

    def end(self, transactional_id: str, producer: Producer, version: int, now_ms: int, *, committed: bool) -> Decision:
        """Commit or abort a transaction; the decision has an error, or the producer for the next transaction."""
        if not transactional_id:
            return Decision(ErrorCode.INVALID_REQUEST, transactional_id)
        known = self._transactions.get(transactional_id)
        if known is None:
            return Decision(ErrorCode.INVALID_PRODUCER_ID_MAPPING, transactional_id)
        checked = ending.check_of_version(version)(known, producer.producer_id, producer.epoch, committed=committed)
        if checked is ending.Verdict.ALREADY_ENDED:
            # A repeated request gets the same response as the first one.
            answered = NO_PRODUCER if version < VERSION_2 else Producer(known.producer_id, known.producer_epoch)
            return Decision(ErrorCode.NONE, transactional_id, producer=answered)
        if isinstance(checked, ErrorCode):
            return Decision(checked, transactional_id)
        next_producer_id = NO_PRODUCER_ID
        if version >= VERSION_2 and known.is_exhausted:
            next_producer_id = self._new_producer_id()
        state = TransactionState.PREPARE_COMMIT if committed else TransactionState.PREPARE_ABORT
        return self._end(known.prepared(state, version, next_producer_id, now_ms), ErrorCode.NONE, now_ms)

    def complete(self, transactional_id: str, now_ms: int) -> Decision:
        return self._decide(self._transactions[transactional_id].completed(now_ms))

    # Time

    def timed_out(self, now_ms: int) -> list[Decision]:
        """Abort transactions that exceeded their timeout and fence their producers.

        Returns few decisions, bounded by IDS_AT_ONCE and `markers_at_once`; the caller repeats the call until it
        returns none.
        """
        late, partitions = [], 0
        for known in self._open_transactions():
            if known.start_ms + known.timeout_ms < now_ms:
                late.append(known)
                partitions += len(known.partitions)
                if partitions >= self.settings.markers_at_once or len(late) >= IDS_AT_ONCE:
                    break
        return [self._abort(known, ErrorCode.NONE, now_ms) for known in late]

    def expired(self, now_ms: int) -> list[Decision]:
        """Delete ids that were at rest for at least `expiration_ms`.

        Returns at most IDS_AT_ONCE decisions; the caller repeats the call until it returns none.
        """
        updated_ms_max = now_ms - self.settings.expiration_ms
        at_rest = (it for it in self._transactions.values() if it.state in ENDED and it.updated_ms <= updated_ms_max)
        old = list(islice(at_rest, IDS_AT_ONCE))
        for known in old:
            self._forget(known.transactional_id)
        return [Decision(ErrorCode.NONE, it.transactional_id, (tombstone(it.transactional_id),)) for it in old]

    def forget_topic(self, topic: str) -> None:
        for known in [self._transactions[transactional_id] for transactional_id in self._partitions]:
            kept = frozenset(partition for partition in known.partitions if partition.topic != topic)
            if len(kept) != len(known.partitions):
                # A later topic of the same name must not get the markers of these transactions.
                self._keep(attrs.evolve(known, partitions=kept))

    # Startup

    def replay(self, change: tuple[str, Transaction | None]) -> None:
        transactional_id, transaction = change
        if transaction is not None:
            self._keep(transaction)
        else:
            self._forget(transactional_id)

    def unfinished(self, now_ms: int) -> list[Decision]:
        """Return the decisions that complete prepared transactions, once all records are replayed."""
        prepared = [known for known in self._transactions.values() if known.state in PREPARED]
        return [
            Decision(ErrorCode.NONE, known.transactional_id, (*_markers(known), self._step(known.completed(now_ms))))
            if all(map(self._is_here, known.partitions))
            else Decision(ErrorCode.NONE, known.transactional_id, later=_markers(known))
            for known in prepared
        ]

    def abandon(self, now_ms: int) -> list[Decision]:
        """Abort open transactions with markers only, because the records of the coordinator were deleted.

        The coordinator must not be used afterwards.
        """
        decisions = []
        for known in self._open_transactions():
            aborted = known.fenced().prepared(TransactionState.PREPARE_ABORT, VERSION_2, NO_PRODUCER_ID, now_ms)
            decisions.append(Decision(ErrorCode.NONE, known.transactional_id, later=_markers(aborted)))
        return decisions

    def uncount(self) -> None:
        """Remove this coordinator from `usage`, because another broker has its ids. It must not be used afterwards."""
        self.usage.ids -= len(self._transactions)
        self.usage.open_ids -= len(self._partitions)
        self.usage.open_partitions -= sum(self._partitions.values())

    # Decisions

    def _open_transactions(self) -> list[Transaction]:
        known = (self._transactions[transactional_id] for transactional_id in self._partitions)
        return [it for it in known if it.state is TransactionState.ONGOING]

    def _of(self, transactional_id: str, producer: Producer) -> Transaction | ErrorCode:
        if not transactional_id:
            return ErrorCode.INVALID_REQUEST
        known = self._transactions.get(transactional_id)
        if known is not None and known.state in PREPARED:
            return ErrorCode.CONCURRENT_TRANSACTIONS
        if known is None or known.producer_id != producer.producer_id:
            return ErrorCode.INVALID_PRODUCER_ID_MAPPING
        return ErrorCode.PRODUCER_FENCED if known.producer_epoch != producer.epoch else known

    def _abort(self, known: Transaction, error: ErrorCode, now_ms: int) -> Decision:
        # With the broker's own version, as in Kafka, whatever the version of the client.
        prepared = known.fenced().prepared(TransactionState.PREPARE_ABORT, VERSION_2, NO_PRODUCER_ID, now_ms)
        return self._end(prepared, error, now_ms)

    def _end(self, prepared: Transaction, error: ErrorCode, now_ms: int) -> Decision:
        completed = prepared.completed(now_ms)
        producer = Producer(completed.producer_id, completed.producer_epoch)
        steps: list[Step] = [self._step(prepared)]
        is_wide = len(prepared.partitions) > self.settings.markers_at_once
        if is_wide or not all(map(self._is_here, prepared.partitions)):
            return Decision(error, prepared.transactional_id, tuple(steps), producer, later=_markers(prepared))
        # One commit holds both records and the markers between them.
        steps += [*_markers(prepared), self._step(completed)]
        return Decision(error, prepared.transactional_id, tuple(steps), producer)

    def _decide(self, latest: Transaction) -> Decision:
        producer = Producer(latest.producer_id, latest.producer_epoch)
        return Decision(ErrorCode.NONE, latest.transactional_id, (self._step(latest),), producer)

    def _step(self, transaction: Transaction) -> StateRecord:
        self._keep(transaction)
        return transaction_record(transaction)

    def _keep(self, transaction: Transaction) -> None:
        transactional_id = transaction.transactional_id
        self.usage.ids += transactional_id not in self._transactions
        self._transactions[transactional_id] = transaction
        self._close(transactional_id)
        if transaction.state not in ENDED:
            self._partitions[transactional_id] = len(transaction.partitions)
            # Maintained incrementally: counting all ids for each request would block the event loop.
            self.usage.open_ids += 1
            self.usage.open_partitions += len(transaction.partitions)

    def _close(self, transactional_id: str) -> None:
        partitions = self._partitions.pop(transactional_id, None)
        if partitions is not None:
            self.usage.open_ids -= 1
            self.usage.open_partitions -= partitions

    def _forget(self, transactional_id: str) -> None:
        self.usage.ids -= self._transactions.pop(transactional_id, None) is not None
        self._close(transactional_id)


def _may_continue(known: Transaction, expected: Producer) -> bool:
    """Return whether the client with this producer may still own the id; its epoch is checked later."""
    return (
        known.producer_epoch == NO_EPOCH
        or expected.producer_id == known.producer_id
        or (expected.producer_id == known.previous_producer_id and is_exhausted(expected.epoch))
    )


def _markers(prepared: Transaction) -> Iterator[Marker]:
    producer = Producer(prepared.producer_id, prepared.producer_epoch)
    committed = prepared.state is TransactionState.PREPARE_COMMIT
    for topic, numbers in by_topic(prepared.partitions):
        for number in numbers:
            yield Marker(Partition(topic, number), producer, committed, prepared.version)
