"""The state of one transactional id, as an immutable value."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import attrs

from pipeline_broker.state.transactions.states import ENDED, NEXT_STATES, PREPARED, TransactionState

__all__ = [
    "EPOCH_MAX",
    "NO_EPOCH",
    "NO_PRODUCER_ID",
    "NO_TIME",
    "VERSION_1",
    "VERSION_2",
    "Partition",
    "Transaction",
    "by_topic",
    "is_exhausted",
]

NO_PRODUCER_ID = -1
NO_EPOCH = -1
NO_TIME = -1
# Clients never get EPOCH_MAX. It stays reserved for fencing, so that every producer can be fenced (as in Kafka).
EPOCH_MAX = 2**15 - 1
VERSION_1, VERSION_2 = 0, 2
"""Protocol versions of transactions (`transaction.version`). With version 2 each has its own epoch (KIP-890). All older
clients count as version 0, as in Kafka."""


class Partition(NamedTuple):
    topic: str
    number: int


def by_topic(partitions: Iterable[Partition]) -> list[tuple[str, list[int]]]:
    # Takes a third of the time of sorting the pairs.
    topics: dict[str, list[int]] = {}
    for topic, number in partitions:
        topics.setdefault(topic, []).append(number)
    for numbers in topics.values():
        numbers.sort()
    return sorted(topics.items())


def is_exhausted(epoch: int) -> bool:
    """Return whether an epoch is the last one that a client may have."""
    return epoch >= EPOCH_MAX - 1


@attrs.frozen(kw_only=True)
class Transaction:
    """The state of a transactional id with its current or last transaction.

    Values never change: each method returns the next value and asserts that the transition is allowed.

    Attributes:
        producer_id, producer_epoch: the current producer; epoch -1 until the first producer got one.
        previous_producer_id: the id before the last change; a client that repeats a request may still name it.
        next_producer_id: the id after this transaction, when the epochs of the current one are used up; else -1.
        last_producer_epoch: the previous epoch, if the same client had it; not stored in records.
        timeout_ms: maximum duration of a transaction.
        state: see TransactionState.
        partitions: the partitions that were added to the transaction.
        start_ms: start of the transaction, milliseconds since 1970; -1 without one.
        updated_ms: time of the last change.
        version: protocol version of the client.
    """

    transactional_id: str
    producer_id: int
    previous_producer_id: int = NO_PRODUCER_ID
    next_producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_EPOCH
    last_producer_epoch: int = NO_EPOCH
    timeout_ms: int
    state: TransactionState = TransactionState.EMPTY
    partitions: frozenset[Partition] = frozenset()
    start_ms: int = NO_TIME
    updated_ms: int = NO_TIME
    version: int = VERSION_1

    @property
    def is_exhausted(self) -> bool:
        return is_exhausted(self.producer_epoch)

    def _become(self, state: TransactionState, **changes: Any) -> Transaction:
        assert state in NEXT_STATES[self.state], f"{self.transactional_id}: {self.state.title} to {state.title}"
        return attrs.evolve(self, state=state, previous_producer_id=self.producer_id, **changes)

    def bumped(self, timeout_ms: int, expected_epoch: int | None, now_ms: int) -> Transaction | None:
        """Return the state with the next epoch, for a client that starts or continues after an error (KIP-360).

        Args:
            timeout_ms: transaction timeout that the client requests.
            expected_epoch: epoch that the client has; None for a new client.
            now_ms: wall clock.

        Returns:
            None if the client's epoch is outdated or no epoch is left; the client is then fenced.
        """
        if expected_epoch is None:
            epoch, last = self.producer_epoch + 1, NO_EPOCH
        elif self.producer_epoch in {expected_epoch, NO_EPOCH}:
            epoch, last = self.producer_epoch + 1, self.producer_epoch
        elif expected_epoch == self.last_producer_epoch:  # the response to an earlier request was lost: repeat it
            epoch, last = self.producer_epoch, self.last_producer_epoch
        else:
            return None
        if epoch >= EPOCH_MAX:
            return None
        return self._empty(timeout_ms, now_ms, producer_epoch=epoch, last_producer_epoch=last)

    def rotated(self, producer_id: int, timeout_ms: int, now_ms: int, *, is_known: bool) -> Transaction:
        """Return the state with a new producer id, because the epochs of the current one are used up.

        Args:
            producer_id: the new producer id.
            timeout_ms: transaction timeout that the client requests.
            now_ms: wall clock.
            is_known: whether the client named the current producer id and epoch.
        """
        # Only the client that had the previous epoch may repeat its request with it.
        last = self.producer_epoch if is_known else NO_EPOCH
        return self._empty(timeout_ms, now_ms, producer_id=producer_id, producer_epoch=0, last_producer_epoch=last)

    def _empty(self, timeout_ms: int, now_ms: int, **changes: Any) -> Transaction:
        return self._become(
            TransactionState.EMPTY,
            timeout_ms=timeout_ms,
            partitions=frozenset(),
            start_ms=NO_TIME,
            updated_ms=now_ms,
            **changes,
        )

    def with_partitions(self, added: Iterable[Partition], version: int, now_ms: int) -> Transaction:
        return self._become(
            TransactionState.ONGOING,
            partitions=self.partitions.union(added),
            start_ms=now_ms if self.state in ENDED else self.start_ms,
            updated_ms=now_ms,
            version=version,
        )

    def prepared(self, state: TransactionState, version: int, next_producer_id: int, now_ms: int) -> Transaction:
        """Return the transaction with its final outcome decided.

        Args:
            state: PREPARE_COMMIT or PREPARE_ABORT.
            version: protocol version of the client.
            next_producer_id: the id after this transaction; -1 to keep the current one.
            now_ms: wall clock.
        """
        epoch, last = self.producer_epoch, self.last_producer_epoch
        # The markers carry the raised epoch, which fences late requests for this transaction (KIP-890).
        if version >= VERSION_2:
            last = epoch
            epoch = min(epoch + 1, EPOCH_MAX)
        return self._become(
            state,
            producer_epoch=epoch,
            last_producer_epoch=last,
            next_producer_id=next_producer_id,
            start_ms=now_ms if self.state in ENDED else self.start_ms,
            updated_ms=now_ms,
            version=version,
        )

    def fenced(self) -> Transaction:
        """Return an open transaction with its producer fenced; the following abort increments the epoch."""
        return self._become(TransactionState.PREPARE_EPOCH_FENCE)

    def completed(self, now_ms: int) -> Transaction:
        producer_id, epoch = self.producer_id, self.producer_epoch
        if self.version >= VERSION_2 and self.next_producer_id != NO_PRODUCER_ID:
            # The epochs of the previous id are used up; the new id begins at epoch 0.
            producer_id, epoch = self.next_producer_id, 0
        return self._become(
            PREPARED[self.state],
            producer_id=producer_id,
            producer_epoch=epoch,
            next_producer_id=NO_PRODUCER_ID,
            partitions=frozenset(),
            updated_ms=now_ms,
        )
