"""Transactions as seen by their coordinator."""

from __future__ import annotations

import attrs

from pipeline_broker.client.topology import TopicPartition

__all__ = ["TRANSACTION", "ProducerIdentity", "TransactionDescription"]

TRANSACTION = 1
"""The key type of FindCoordinator for a transactional id."""


@attrs.frozen
class ProducerIdentity:
    """The producer of a transaction.

    Attributes:
        transactional_id: chosen by the user.
        producer_id, epoch: assigned by the transaction coordinator.
    """

    transactional_id: str
    producer_id: int
    epoch: int


@attrs.frozen
class TransactionDescription:
    """The state of a transaction at its coordinator.

    Attributes:
        started_ms: milliseconds since 1970; None if no transaction is open.
        partitions: the partitions that were added to the transaction.
    """

    transactional_id: str
    coordinator: int
    producer_id: int
    producer_epoch: int
    state: str
    timeout_ms: int
    started_ms: int | None
    partitions: tuple[TopicPartition, ...]
