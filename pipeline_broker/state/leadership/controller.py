"""Decisions of the controller about members and leaders. Each returns the record to write, or the error to answer.

Messages may arrive late, twice, or never, so a decision depends on nothing but the latest records.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.state.leadership.records import NO_NODE, NodeRecord, PartitionRecord

__all__ = ["Controller", "Drained", "HandOver"]


class HandOver(NamedTuple):
    """A hand-over of a partition by its leader.

    Attributes:
        generation: of the leader's process.
        epoch: of its leadership.
        handed: name of the object with the partition.
    """

    node_id: int
    generation: int
    epoch: int
    handed: str


class Drained(NamedTuple):
    """A partition that was read from the journal of a dead broker.

    Attributes:
        generation: under which the journal was fenced before it was read.
        epoch: at which the partition was read.
        handed: name of the object with the partition.
    """

    node_id: int
    generation: int
    epoch: int
    handed: str


class Controller:
    """The rules of the controller. It has no state: the log of metadata is its only memory."""

    def join(self, known: NodeRecord | None, wish: NodeRecord) -> NodeRecord | ErrorCode:
        """Decide about a process that asks to join.

        Args:
            known: the latest record of its node; None if it has none.
            wish: its node, generation and listeners.
        """
        if known is not None and wish.generation <= known.generation:
            return ErrorCode.STALE_BROKER_EPOCH
        return wish

    def want(self, partition: PartitionRecord, node_id: int) -> PartitionRecord:
        """Want another leader, or with NO_NODE no other one. The leader reacts when it reads the record."""
        return partition._replace(wanted=NO_NODE if node_id == partition.leader else node_id)

    def hand_over(
        self, partition: PartitionRecord, leader: NodeRecord | None, message: HandOver, living: Collection[int]
    ) -> PartitionRecord | ErrorCode:
        """Decide about a hand-over (C4).

        Args:
            partition: its latest record.
            leader: the latest record of the node that handed it over.
            living: nodes that serve.
        """
        if leader is None or message.generation != leader.generation:
            return ErrorCode.STALE_BROKER_EPOCH
        if partition.leader != message.node_id or message.epoch != partition.epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        # The former leader does not resume without a record (C3), even if no other leader is wanted any more.
        wanted = message.node_id if partition.wanted == NO_NODE else partition.wanted
        to = wanted if wanted in living else self.successor(partition, living)
        return _led_by(partition, to, message.handed)

    def drained(
        self, partition: PartitionRecord, dead: NodeRecord | None, message: Drained, living: Collection[int]
    ) -> PartitionRecord | ErrorCode:
        """Decide about a partition of a dead broker (C5).

        Args:
            partition: its latest record.
            dead: the latest record of the broker.
            living: nodes that serve, without that broker.
        """
        # A later generation of the broker may have acknowledged records since the journal was read.
        if dead is None or message.generation <= dead.generation:
            return ErrorCode.STALE_BROKER_EPOCH
        if partition.leader != message.node_id or message.epoch != partition.epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        wanted = partition.wanted
        to = wanted if wanted in living else self.successor(partition, living)
        return _led_by(partition, to, message.handed)

    @staticmethod
    def successor(partition: PartitionRecord, living: Collection[int]) -> int:
        """Return the first living candidate, or else any living node; NO_NODE if none lives."""
        return next((node for node in partition.candidates if node in living), min(living, default=NO_NODE))


def _led_by(partition: PartitionRecord, node_id: int, handed: str) -> PartitionRecord:
    return PartitionRecord(node_id, partition.epoch + 1, partition.candidates, NO_NODE, handed)
