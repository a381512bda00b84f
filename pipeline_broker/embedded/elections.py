"""Elections in an embedded cluster: a leader hands its partitions over to another replica.

The brokers share a process, so records need no replication: the former leader archives its records, the next one copies
them, and only then the controller writes the record of the new leader. A failure before that record changes nothing:
the former leader still has everything. A former leader has no record of the partition in its journal, and deletes its
archived ones, so it cannot show an old copy later (C6).

Counterpart in Kafka: `ReplicationControlManager`, controlled shutdown, and elections of preferred leaders.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

import attrs
import trio

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.broker.cluster_members import OPENED_MAX
from pipeline_broker.log.archive.adoption import HandedLog
from pipeline_broker.state.leadership.controller import Controller, HandOver
from pipeline_broker.state.leadership.nodes import NodeState
from pipeline_broker.state.leadership.records import (
    NO_NODE,
    PartitionKey,
    PartitionRecord,
    node_record,
    partition_record,
)
from pipeline_broker.state.outcome import StateRecord, Write

if TYPE_CHECKING:
    from pipeline_broker.broker.broker import Broker
    from pipeline_broker.embedded.restartable_broker import RestartableBroker
    from pipeline_broker.log.partition.partition_log import PartitionLog
    from pipeline_broker.state.leadership.cluster_image import ClusterImage

__all__ = ["Elections"]

POLL_SECONDS = 0.001


class _Election(NamedTuple):
    key: PartitionKey
    before: PartitionRecord
    after: PartitionRecord


class Elections:
    """The elections of one cluster, one after the other.

    Args:
        controller: the broker that writes the records; it must run.
        brokers: all brokers by their ids.
    """

    def __init__(self, controller: RestartableBroker, brokers: Mapping[int, RestartableBroker]) -> None:
        self._controller = controller
        self._brokers = brokers

    @property
    def _image(self) -> ClusterImage:
        return _image_of(self._controller.running.broker)

    def led_by(self, node_id: int) -> list[PartitionKey]:
        found = []
        for topic in self._controller.running.broker.topics.all():
            for number, record in self._image.partitions(topic.topic_id).items():
                if record.leader == node_id and self._living(record, without=node_id):
                    found.append(PartitionKey(topic.topic_id, number))
        return found

    def wanted(self, key: PartitionKey, node_id: int) -> PartitionRecord | None:
        """Return the record of a partition if a living replica should lead it that does not; otherwise None."""
        record = self._image.partition(key)
        if record is None or record.leader == node_id or node_id not in self._living(record):
            return None
        return record

    def _living(self, record: PartitionRecord, without: int = NO_NODE) -> Collection[int]:
        return {node for node in record.candidates if node != without and not self._brokers[node].is_stopped}

    async def leave(self, node_id: int) -> None:
        self._image.leaving = node_id
        # Topics may have been decided before, and are durable after `settle`.
        await self._controller.current_run.settle()
        while led := self.led_by(node_id):
            await self._hand_over(node_id, ((key, NO_NODE) for key in led))
            await self._controller.current_run.settle()

    def left(self) -> None:
        self._image.leaving = NO_NODE

    async def move(self, key: PartitionKey, node_id: int) -> None:
        record = self.wanted(key, node_id)
        if record is not None and not self._brokers[record.leader].is_stopped:
            await self._hand_over(record.leader, [(key, node_id)])

    async def _hand_over(self, node_id: int, wishes: Iterable[tuple[PartitionKey, int]]) -> None:
        decided = (self._decide(node_id, key, to) for key, to in wishes)
        elections = [each for each in decided if each is not None]
        while some := elections[:OPENED_MAX]:
            elections = elections[OPENED_MAX:]
            await self._carry_out(self._brokers[node_id], some)

    def _decide(self, node_id: int, key: PartitionKey, to: int) -> _Election | None:
        before, leader = self._image.partition(key), self._image.nodes.get(node_id)
        if before is None or leader is None:
            return None
        living = self._living(before, without=NO_NODE if to == node_id else node_id)
        message = HandOver(node_id, leader.generation, before.epoch, "")
        # Without another wish, `hand_over` would let the same broker lead again.
        wanted = before._replace(wanted=Controller.successor(before, living) if to == NO_NODE else to)
        after = Controller().hand_over(wanted, leader, message, living)
        return None if isinstance(after, ErrorCode) else _Election(key, before, after)

    async def _carry_out(self, former: RestartableBroker, elections: list[_Election]) -> None:
        source = former.running
        logs = {
            PartitionKey(log.topic_id, log.partition): log
            for log in source.broker.give_up_partitions(each.key for each in elections)
        }
        await former.current_run.settle()
        await source.maintenance.archive_all()
        for node_id, some in _by_next_leader(elections).items():
            handed = _handed(logs, some)
            await self._brokers[node_id].running.maintenance.adopt(source.maintenance, handed)
        # Clients may have deleted topics in the meantime.
        current = [each for each in elections if self._image.partition(each.key) == each.before]
        await self._commit(partition_record(each.key, each.after) for each in current)
        await self._wait_led(current)
        await source.maintenance.remove_given_up({log.entry_key: log.folder for log in logs.values()})

    async def fence_stopped(self) -> None:
        """Have a controller that has just started show the brokers that were stopped before as such.

        By itself it waits for them to join again.
        """
        nodes = [node for node in self._image.nodes.values() if self._brokers[node.node_id].is_stopped]
        await self._commit(
            node_record(attrs.evolve(node, state=NodeState.FENCED)) for node in nodes if node.state is NodeState.JOINED
        )

    async def _commit(self, records: Iterable[StateRecord]) -> None:
        broker, done = self._controller.running.broker, trio.Event()
        write = Write("", tuple(records))

        def apply() -> None:
            broker.node_durable(write)
            done.set()

        if write.records:
            broker.ports.submit([broker.append_metadata(write, broker.ports.clock_ms())], apply)
            await done.wait()

    async def _wait_led(self, elections: list[_Election]) -> None:
        # Each broker shows the new leaders then, so that a client learns of them from any.
        while not all(map(self._is_known, elections)):  # noqa: ASYNC110 - a broker announces no change of its view
            await trio.sleep(POLL_SECONDS)

    def _is_known(self, election: _Election) -> bool:
        topic = self._controller.running.broker.topics.by_id(election.key.topic_id)
        leader = self._brokers[election.after.leader]
        if topic is None or leader.is_stopped or self._controller.is_stopped:  # deleted, or a disk failed
            return True
        views = [each.running.broker for each in self._brokers.values() if not each.is_stopped]
        is_shown = all(_image_of(view).partition(election.key) == election.after for view in views)
        return is_shown and leader.running.broker.logs.find(topic.name, election.key.partition) is not None


def _image_of(broker: Broker) -> ClusterImage:
    assert broker.members is not None, "only clusters have elections"
    return broker.members.image


def _by_next_leader(elections: Iterable[_Election]) -> dict[int, list[_Election]]:
    found: dict[int, list[_Election]] = {}
    for each in elections:
        found.setdefault(each.after.leader, []).append(each)
    return found


def _handed(logs: Mapping[PartitionKey, PartitionLog], elections: Iterable[_Election]) -> dict[bytes, HandedLog]:
    found = (logs.get(each.key) for each in elections)
    return {log.entry_key: HandedLog(log.folder, log.log_start_offset) for log in found if log is not None}
