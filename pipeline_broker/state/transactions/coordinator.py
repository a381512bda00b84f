"""The coordinator of transactions: who may write under a transactional id, and how its transactions end.

Rules of this room: as of `state/outcome.py`, but for one thing. What is decided here counts at once for what is decided
next, since all of it goes through one journal of which only a contiguous prefix survives: who is told something waits
until all that was decided before it is durable, which is the caller's part. So the caller

    * appends the steps of every `Decision`, each as one commit and all in order, before it asks for more;
    * gives its answer when they, and the steps of all earlier decisions, are durable;
    * after a restart calls `replay` for every durable record in order, then `unfinished`, whose steps come first.

An end is decided, marked and completed in one decision, unless the transaction is wide: more than `markers_at_once`
markers would keep the loop for long, so they follow when the decision is durable, in as many commits as the caller
likes, and then comes `complete`. Until then the transaction is prepared, and its clients come again, as in Apache
Kafka. A crash can leave one behind, too.

    InitProducerId      at rest: the epoch rises    open: aborted and fenced, the client is told to come again (51)
    AddPartitionsToTxn  at rest or open: open       prepared: the client is told to come again (51), whatever it asks
    EndTxn              open: ended; at rest: see `ending`
    time                open for too long: aborted and fenced          at rest for too long: forgotten
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import islice

import attrs

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
from pipeline_broker.wire.error import ErrorCode

__all__ = ["Decision", "Marker", "Producer", "Step", "TransactionCoordinator", "TransactionSettings"]

IDS_AT_ONCE = 100
"""Ids that are aborted or forgotten for their age together."""


@attrs.frozen
class TransactionSettings:
    """What the coordinator acts on.

    Attributes:
        timeout_ms_max: the longest timeout that a client may ask for.
        expiration_ms: after how long at rest a transactional id is forgotten.
        markers_at_once: how many markers one decision may have; more of them follow.
        ids_max: transactional ids that may be known; Kafka has no such bound.
        partitions_max: partitions that all open transactions together may write to; nor this.
    """

    timeout_ms_max: int
    expiration_ms: int
    markers_at_once: int
    ids_max: int = 100_000
    partitions_max: int = 500_000


@attrs.frozen
class Producer:
    """Who writes: a producer id and its epoch."""

    producer_id: int
    epoch: int


NO_PRODUCER = Producer(NO_PRODUCER_ID, NO_EPOCH)


@attrs.frozen
class Marker:
    """The end of a transaction in one partition.

    Attributes:
        partition: where it is appended; one that is gone is left out.
        producer: whose transaction ends. The epoch is the one from here on.
        committed: or else aborted.
        version: how the transaction was written, see `Transaction.version`.
    """

    partition: Partition
    producer: Producer
    committed: bool
    version: int


Step = StateRecord | Marker
"""What is appended: a record of the coordinator, or a marker in another partition."""


@attrs.frozen
class Decision:
    """What a request came to.

    Attributes:
        error: for the client.
        transactional_id: decides the partition of the records.
        steps: to be appended in this order, as one commit.
        producer: for the client, where it is told.
        later: markers to be appended when the steps are durable; `complete` comes when all of them are.
    """

    error: ErrorCode
    transactional_id: str
    steps: tuple[Step, ...] = ()
    producer: Producer = NO_PRODUCER
    later: Iterator[Marker] | None = attrs.field(default=None, eq=False)


class TransactionCoordinator:
    """All transactional ids of a broker.

    Args:
        settings: what it acts on.
        new_producer_id: gives out an id that nobody had; it may be told when what gave it out is durable.

    Attributes:
        open_partitions: of all transactions that are not completed.
    """

    def __init__(self, settings: TransactionSettings, new_producer_id: Callable[[], int]) -> None:
        self.settings = settings
        self._new_producer_id = new_producer_id
        self._transactions: dict[str, Transaction] = {}
        self._partitions: dict[str, int] = {}  # of each transaction that is not completed
        self.open_partitions = 0

    def __len__(self) -> int:
        return len(self._transactions)

    def __iter__(self) -> Iterator[Transaction]:
        return iter(self._transactions.values())

    @property
    def has_open(self) -> bool:
        """Whether any transaction is not completed; one that is open could last too long."""
        return bool(self._partitions)

    def get(self, transactional_id: str) -> Transaction | None:
        """What is known of an id."""
        return self._transactions.get(transactional_id)

    # Requests

    def init_producer_id(
        self, transactional_id: str, timeout_ms: int, expected: Producer | None, now_ms: int
    ) -> Decision:
        """Put an id into the hands of a client; whoever had it before is fenced.

        Args:
            timeout_ms: how long its transactions may last.
            expected: what the client has, if it goes on after an error (KIP-360).
            now_ms: wall clock.
        """
        if not transactional_id:
            return Decision(ErrorCode.INVALID_REQUEST, transactional_id)
        if not 0 < timeout_ms <= self.settings.timeout_ms_max:
            return Decision(ErrorCode.INVALID_TRANSACTION_TIMEOUT, transactional_id)
        known = self._transactions.get(transactional_id)
        if known is not None and known.state in PREPARED:
            return Decision(ErrorCode.CONCURRENT_TRANSACTIONS, transactional_id)
        if known is None and len(self._transactions) >= self.settings.ids_max:
            return Decision(ErrorCode.POLICY_VIOLATION, transactional_id)
        if known is None:
            known = Transaction(
                transactional_id=transactional_id, producer_id=self._new_producer_id(), timeout_ms=timeout_ms
            )
        elif expected is not None and not _may_continue(known, expected):
            return Decision(ErrorCode.PRODUCER_FENCED, transactional_id)
        if known.state is TransactionState.ONGOING:
            return self._abort(known, ErrorCode.CONCURRENT_TRANSACTIONS, now_ms)
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
        """Let a transaction write to partitions; the first ones begin it."""
        known = self._of(transactional_id, producer)
        if isinstance(known, ErrorCode):
            return Decision(known, transactional_id)
        if known.state is TransactionState.ONGOING and known.partitions.issuperset(partitions):
            return Decision(ErrorCode.NONE, transactional_id)
        if self.open_partitions + len(partitions) > self.settings.partitions_max:
            return Decision(ErrorCode.POLICY_VIOLATION, transactional_id)
        return self._decide(known.with_partitions(partitions, version, now_ms))

    def repeat(self, transactional_id: str) -> Decision:
        """The latest record of an id again."""
        return self._decide(self._transactions[transactional_id])

    def verify_partitions(
        self, transactional_id: str, producer: Producer, partitions: Iterable[Partition]
    ) -> dict[Partition, ErrorCode]:
        """Whether the producer's transaction is open and may write to the partitions."""
        known = self._of(transactional_id, producer)
        if isinstance(known, ErrorCode):
            return dict.fromkeys(partitions, known)
        return {
            partition: ErrorCode.NONE if partition in known.partitions else ErrorCode.TRANSACTION_ABORTABLE
            for partition in partitions
        }

    def end(self, transactional_id: str, producer: Producer, version: int, now_ms: int, *, committed: bool) -> Decision:
        """Commit or abort; the answer names the producer from here on."""
        if not transactional_id:
            return Decision(ErrorCode.INVALID_REQUEST, transactional_id)
        known = self._transactions.get(transactional_id)
        if known is None:
            return Decision(ErrorCode.INVALID_PRODUCER_ID_MAPPING, transactional_id)
        checked = ending.check_of_version(version)(known, producer.producer_id, producer.epoch, committed=committed)
        if checked is ending.Verdict.ALREADY_ENDED:
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
        """All markers of a wide transaction are durable."""
        return self._decide(self._transactions[transactional_id].completed(now_ms))

    # Time

    def timed_out(self, now_ms: int) -> list[Decision]:
        """Abort some of the transactions that last too long, and fence their producers; none when there are no more.

        All of them at once could take seconds, in which nobody else is served.
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
        """Forget some of the ids that were at rest for long; none when there are no more."""
        updated_ms_max = now_ms - self.settings.expiration_ms
        at_rest = (it for it in self._transactions.values() if it.state in ENDED and it.updated_ms <= updated_ms_max)
        old = list(islice(at_rest, IDS_AT_ONCE))
        for known in old:
            del self._transactions[known.transactional_id]
        return [Decision(ErrorCode.NONE, it.transactional_id, (tombstone(it.transactional_id),)) for it in old]

    def forget_topic(self, topic: str) -> None:
        """A topic is gone: transactions have nothing to end there, nor in another one of its name."""
        for known in [self._transactions[transactional_id] for transactional_id in self._partitions]:
            kept = frozenset(partition for partition in known.partitions if partition.topic != topic)
            if len(kept) != len(known.partitions):
                self._keep(attrs.evolve(known, partitions=kept))

    # Start

    def replay(self, change: tuple[str, Transaction | None]) -> None:
        """Take over one durable record as `read_transaction` has read it."""
        transactional_id, transaction = change
        if transaction is not None:
            self._keep(transaction)
        else:
            self._transactions.pop(transactional_id, None)
            self.open_partitions -= self._partitions.pop(transactional_id, 0)

    def unfinished(self, now_ms: int) -> list[Decision]:
        """All records are replayed: what completes the transactions whose end was decided and not completed."""
        prepared = [known for known in self._transactions.values() if known.state in PREPARED]
        return [
            Decision(ErrorCode.NONE, known.transactional_id, (*_markers(known), self._step(known.completed(now_ms))))
            for known in prepared
        ]

    def abandon(self, now_ms: int) -> list[Decision]:
        """The records are gone: what ends the transactions that are open, without any. Not to be used again."""
        decisions = []
        for known in self._open_transactions():
            aborted = known.fenced().prepared(TransactionState.PREPARE_ABORT, VERSION_2, NO_PRODUCER_ID, now_ms)
            decisions.append(Decision(ErrorCode.NONE, known.transactional_id, later=_markers(aborted)))
        return decisions

    # What is decided

    def _open_transactions(self) -> list[Transaction]:
        known = (self._transactions[transactional_id] for transactional_id in self._partitions)
        return [it for it in known if it.state is TransactionState.ONGOING]

    def _of(self, transactional_id: str, producer: Producer) -> Transaction | ErrorCode:
        """The id in the hands of a producer; an error for any other."""
        if not transactional_id:
            return ErrorCode.INVALID_REQUEST
        known = self._transactions.get(transactional_id)
        if known is not None and known.state in PREPARED:
            return ErrorCode.CONCURRENT_TRANSACTIONS
        if known is None or known.producer_id != producer.producer_id:
            return ErrorCode.INVALID_PRODUCER_ID_MAPPING
        return ErrorCode.PRODUCER_FENCED if known.producer_epoch != producer.epoch else known

    def _abort(self, known: Transaction, error: ErrorCode, now_ms: int) -> Decision:
        """End an open transaction that its producer did not end; as in Apache Kafka with the broker's own version."""
        prepared = known.fenced().prepared(TransactionState.PREPARE_ABORT, VERSION_2, NO_PRODUCER_ID, now_ms)
        return self._end(prepared, error, now_ms)

    def _end(self, prepared: Transaction, error: ErrorCode, now_ms: int) -> Decision:
        completed = prepared.completed(now_ms)
        producer = Producer(completed.producer_id, completed.producer_epoch)
        steps: list[Step] = [self._step(prepared)]
        if len(prepared.partitions) > self.settings.markers_at_once:
            return Decision(error, prepared.transactional_id, tuple(steps), producer, later=_markers(prepared))
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
        self._transactions[transactional_id] = transaction
        before = self._partitions.pop(transactional_id, 0)
        is_at_rest = transaction.state in ENDED
        self.open_partitions += (0 if is_at_rest else len(transaction.partitions)) - before
        if not is_at_rest:
            self._partitions[transactional_id] = len(transaction.partitions)


def _may_continue(known: Transaction, expected: Producer) -> bool:
    """Whether a client that names a producer may still be the one of this id; its epoch is looked at later."""
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
