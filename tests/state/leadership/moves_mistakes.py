"""Mistakes in leadership: the values of the product, each with one rule left out."""

from collections.abc import Collection, Iterable, Iterator
from typing import Any, Self

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.state.leadership.controller import Controller, Drained, HandOver
from pipeline_broker.state.leadership.nodes import Membership
from pipeline_broker.state.leadership.partitions import LocalPartition, Role
from pipeline_broker.state.leadership.records import NO_NODE, NodeRecord, OpenRecord, PartitionRecord


class ServesBeforeItJoins(Membership):
    """Serves as soon as it has asked to join (C1)."""

    def __new__(cls, node_id: int, generation: int, has_joined: bool = True) -> Self:
        del has_joined
        return super().__new__(cls, node_id, generation, True)


class AppendsBeforeItOpens(LocalPartition):
    """Accepts batches before its OPEN record is durable (C2)."""

    @property
    def may_append(self) -> bool:
        return self.role in {Role.OPENING, Role.LED}


class AppendsWhileItStops(LocalPartition):
    """Accepts batches after it has begun to give the partition up (C2)."""

    @property
    def may_append(self) -> bool:
        return self.role in {Role.LED, Role.STOPPING, Role.HANDING}


class ResumesAfterHandOver(LocalPartition):
    """Continues if no other leader is wanted any more, although it has handed the partition over (C3)."""

    def applied(self, record: PartitionRecord, node_id: int) -> LocalPartition:
        after = super().applied(record, node_id)
        is_kept = after.role is Role.HANDING and record.leader == node_id and record.wanted == NO_NODE
        return after._replace(role=Role.LED) if is_kept else after


class ReadsAfterHandOver(LocalPartition):
    """Serves readers after it has handed the partition over (C3)."""

    @property
    def may_read(self) -> bool:
        return self.role in {Role.LED, Role.STOPPING, Role.HANDING}


class TakesHandOverOfAnyGeneration(Controller):
    """Takes a hand-over of a former process of the leader (C4)."""

    def hand_over(
        self, partition: PartitionRecord, leader: NodeRecord | None, message: HandOver, living: Collection[int]
    ) -> PartitionRecord | ErrorCode:
        now = None if leader is None else message._replace(generation=leader.generation)
        return super().hand_over(partition, leader, message if now is None else now, living)


class TakesHandOverOfAnyEpoch(Controller):
    """Takes a hand-over of a former leadership of the leader (C4)."""

    def hand_over(
        self, partition: PartitionRecord, leader: NodeRecord | None, message: HandOver, living: Collection[int]
    ) -> PartitionRecord | ErrorCode:
        return super().hand_over(partition, leader, message._replace(epoch=partition.epoch), living)


class TakesDrainOfAnyGeneration(Controller):
    """Takes records that were read before the broker joined again (C5)."""

    def drained(
        self, partition: PartitionRecord, dead: NodeRecord | None, message: Drained, living: Collection[int]
    ) -> PartitionRecord | ErrorCode:
        latest = message if dead is None else message._replace(generation=dead.generation + 1)
        return super().drained(partition, dead, latest, living)


class TakesDrainOfAnyEpoch(Controller):
    """Takes records that were read at a former epoch (C5)."""

    def drained(
        self, partition: PartitionRecord, dead: NodeRecord | None, message: Drained, living: Collection[int]
    ) -> PartitionRecord | ErrorCode:
        return super().drained(partition, dead, message._replace(epoch=partition.epoch), living)


def all_entries(entries: Iterable[Any], epoch: int) -> Iterator[Any]:
    """Count entries of every epoch (C6)."""
    del epoch
    return (entry for entry in entries if not isinstance(entry, OpenRecord))
