"""What is known of one transactional id, and how it changes.

Rules of this file: a `Transaction` never changes; each function gives the one that follows, and asserts that it may.
Epochs are 16 bits: the highest is kept for fencing, so that a producer can always be shut out (as in Apache Kafka).
"""

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
EPOCH_MAX = 2**15 - 1
VERSION_1, VERSION_2 = 0, 2
"""How a client writes transactions (`transaction.version`): from 2 on each one has an epoch of its own (KIP-890).
Clients that do not are all of version 0, as in Apache Kafka."""


class Partition(NamedTuple):
    """A partition that a transaction writes to."""

    topic: str
    number: int


def by_topic(partitions: Iterable[Partition]) -> list[tuple[str, list[int]]]:
    """Partitions in their order: the numbers of each topic; a third of the time of `sorted`."""
    topics: dict[str, list[int]] = {}
    for topic, number in partitions:
        topics.setdefault(topic, []).append(number)
    for numbers in topics.values():
        numbers.sort()
    return sorted(topics.items())


def is_exhausted(epoch: int) -> bool:
    """Whether an epoch is the last one that a client may have."""
    return epoch >= EPOCH_MAX - 1


@attrs.frozen(kw_only=True)
class Transaction:
    """A transactional id, with the transaction it is at.

    Attributes:
        producer_id, producer_epoch: who may write; epoch -1 until the first producer has been told.
        previous_producer_id: the id before the last change, which a client may still name when it asks again.
        next_producer_id: the id from when the transaction has ended on, as the epochs of this one are used up.
        last_producer_epoch: the epoch before the one now, if the same client got both; in no record.
        timeout_ms: how long a transaction may last.
        state: see TransactionState.
        partitions: what the transaction has written to, or may.
        start_ms: when the transaction began, milliseconds since the epoch; -1 without one.
        updated_ms: when all this last changed.
        version: how the client writes transactions.
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
        """Whether a client can be given no further epoch of this producer id."""
        return is_exhausted(self.producer_epoch)

    def _become(self, state: TransactionState, **changes: Any) -> Transaction:
        assert state in NEXT_STATES[self.state], f"{self.transactional_id}: {self.state.title} to {state.title}"
        return attrs.evolve(self, state=state, previous_producer_id=self.producer_id, **changes)

    def bumped(self, timeout_ms: int, expected_epoch: int | None, now_ms: int) -> Transaction | None:
        """The id in the hands of a client that begins, or goes on after an error (KIP-360).

        Args:
            timeout_ms: that the client wants.
            expected_epoch: that the client has; None for a new one.
            now_ms: wall clock.

        Returns:
            None when the client's epoch is of the past: it is fenced.
        """
        if expected_epoch is None:
            epoch, last = self.producer_epoch + 1, NO_EPOCH
        elif self.producer_epoch in {expected_epoch, NO_EPOCH}:
            epoch, last = self.producer_epoch + 1, self.producer_epoch
        elif expected_epoch == self.last_producer_epoch:  # the answer to an earlier request was lost
            epoch, last = self.producer_epoch, self.last_producer_epoch
        else:
            return None
        if epoch >= EPOCH_MAX:
            return None
        return self._empty(timeout_ms, now_ms, producer_epoch=epoch, last_producer_epoch=last)

    def rotated(self, producer_id: int, timeout_ms: int, now_ms: int, *, is_known: bool) -> Transaction:
        """The id with a new producer id, as the epochs are used up; `is_known` tells whether the client named them."""
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
        """A transaction that writes to more partitions; the first ones begin it."""
        return self._become(
            TransactionState.ONGOING,
            partitions=self.partitions.union(added),
            start_ms=now_ms if self.state in ENDED else self.start_ms,
            updated_ms=now_ms,
            version=version,
        )

    def prepared(self, state: TransactionState, version: int, next_producer_id: int, now_ms: int) -> Transaction:
        """The transaction with its end decided: from here on there is only one."""
        epoch, last = self.producer_epoch, self.last_producer_epoch
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
        """The open transaction of a producer that is shut out: the abort that comes next raises the epoch."""
        return self._become(TransactionState.PREPARE_EPOCH_FENCE)

    def completed(self, now_ms: int) -> Transaction:
        """All markers are written."""
        producer_id, epoch = self.producer_id, self.producer_epoch
        if self.version >= VERSION_2 and self.next_producer_id != NO_PRODUCER_ID:
            producer_id, epoch = self.next_producer_id, 0
        return self._become(
            PREPARED[self.state],
            producer_id=producer_id,
            producer_epoch=epoch,
            next_producer_id=NO_PRODUCER_ID,
            partitions=frozenset(),
            updated_ms=now_ms,
        )
