"""The part of a broker in a cluster: members, leaders, and the partitions that it has opened."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import islice
from typing import NamedTuple

from pipeline_broker.state.errors import MisplacedRecordError
from pipeline_broker.state.leadership.cluster_image import ClusterImage
from pipeline_broker.state.leadership.nodes import NodeState
from pipeline_broker.state.leadership.records import (
    ListenerAddress,
    NodeRecord,
    OpenRecord,
    PartitionKey,
    node_record,
    open_record,
    read_open,
    read_partition,
)
from pipeline_broker.state.leadership.replication import Replication
from pipeline_broker.state.leadership.topic_placement import TopicPlacement
from pipeline_broker.state.metadata_records import RecordType, Topic, record_type
from pipeline_broker.state.outcome import Write

__all__ = ["OPENED_MAX", "ClusterMembers", "LeaderChange"]

LOCAL_TYPES = frozenset({RecordType.PRODUCER_IDS, RecordType.LOG_START, RecordType.OPEN})
"""Records that each broker keeps in its own journal. All others come from the controller."""
OPENED_MAX = 256
"""Partitions that are opened in one turn of the event loop."""
PRODUCER_IDS_BITS = 40
"""A broker allocates producer ids above its id times two to this power, so that no two brokers allocate the same."""


class LeaderChange(NamedTuple):
    """A change of the leader of a partition. `is_served` is whether this broker serves the partition from now on."""

    key: PartitionKey
    is_served: bool


class ClusterMembers:
    """Members and leaders as this broker has applied them, and the partitions whose OPEN records it has written.

    Attributes:
        follows: whether another broker is the controller.
        is_controller_down: whether the controller has been out of reach for some time.
    """

    def __init__(self, broker_id: int, controller_id: int, replication: Replication | None = None) -> None:
        self.broker_id = broker_id
        self.controller_id = controller_id
        self.image = ClusterImage()
        self.placement = TopicPlacement(self.image, replication)
        self.follows = broker_id != controller_id
        self.is_controller_down = False
        self._opened: dict[PartitionKey, int] = {}  # epochs of the OPEN records in the journal
        self._to_open: dict[PartitionKey, int] = {}  # epochs of partitions whose OPEN records are not appended yet

    @property
    def first_producer_id(self) -> int:
        return self.broker_id << PRODUCER_IDS_BITS if self.follows else 0

    @property
    def generation(self) -> int:
        node = self.image.nodes.get(self.broker_id)
        return 0 if node is None else node.generation

    @property
    def generations(self) -> int:
        """The sum of the numbers of all processes, which rises with each process of any broker."""
        return sum(node.generation for node in self.image.nodes.values())

    def next_process(self, listeners: Mapping[str, ListenerAddress]) -> Write:
        record = NodeRecord(self.broker_id, self.generation + 1, NodeState.JOINED, listeners)
        return Write("", (node_record(record),))

    def is_replaced(self, generation: int) -> bool:
        """Return whether the process with this number was fenced, or a later one of the broker has joined."""
        node = self.image.nodes.get(self.broker_id)
        if node is None or node.generation < generation:
            return False
        return node.generation > generation or node.state is not NodeState.JOINED

    @staticmethod
    def is_local(key: bytes) -> bool:
        return record_type(key) in LOCAL_TYPES

    def check_local(self, key: bytes) -> None:
        """Check a record of the broker's own journal.

        Raises:
            MisplacedRecordError: only the controller writes such a record.
        """
        if self.follows and not self.is_local(key):
            raise MisplacedRecordError("only the controller of the cluster writes such a record")

    def replay_leader(self, key: bytes, value: bytes | None) -> LeaderChange | None:
        """Apply a NODE or PARTITION record; return the change if another broker leads, or this one serves at once.

        Raises:
            CorruptStateRecordError: the record cannot be decoded.
        """
        if record_type(key) == RecordType.NODE:
            self.image.replay_node(key, value)
            return None
        partition, record = read_partition(key, value)
        self.image.apply(partition, record)
        if record is None or record.leader != self.broker_id:
            self._to_open.pop(partition, None)
            return None if record is None else LeaderChange(partition, is_served=False)
        # The controller opens its partitions by this record, which is in its own journal.
        if not self.follows or self._opened.get(partition) == record.epoch:
            return LeaderChange(partition, is_served=True)
        self._to_open[partition] = record.epoch
        return None

    def replay_open(self, key: bytes, value: bytes | None) -> PartitionKey | None:
        """Apply an OPEN record; return the partition if this broker leads it at the record's epoch (C2, C6).

        Raises:
            CorruptStateRecordError: the record cannot be decoded.
        """
        partition, opened = read_open(key, value)
        if opened is None:
            self._opened.pop(partition, None)
            return None
        return partition if self._note_opened(partition, opened.epoch) else None

    def _note_opened(self, key: PartitionKey, epoch: int) -> bool:
        self._opened[key] = epoch
        record = self.image.partition(key)
        if record is None or record.leader != self.broker_id or record.epoch != epoch:
            return False
        self._to_open.pop(key, None)
        return True

    def led(self, topic: Topic) -> Collection[int]:
        """Return the partitions of a topic that this broker serves: the controller at once, others once opened."""
        known = self.image.partitions(topic.topic_id)
        if not self.follows:
            # The controller leads the partitions from the time before the cluster, which have no record.
            elsewhere = {number for number, record in known.items() if record.leader != self.broker_id}
            return [number for number in range(topic.partitions) if number not in elsewhere]
        return [
            number
            for number, record in known.items()
            if record.leader == self.broker_id
            and self._opened.get(PartitionKey(topic.topic_id, number)) == record.epoch
        ]

    def open(self) -> Write | None:
        """Return OPEN records of some partitions that this broker leads and has not opened; None if all are open.

        `opened` follows once they are durable.
        """
        if not self._to_open:
            return None
        change = dict(islice(self._to_open.items(), OPENED_MAX))
        for key in change:
            del self._to_open[key]
        return Write("", tuple(open_record(key, OpenRecord(epoch)) for key, epoch in change.items()), change)

    def opened(self, write: Write) -> list[PartitionKey]:
        """Note that OPEN records are durable; return the partitions that this broker still leads at these epochs."""
        assert isinstance(write.change, dict)
        return [key for key, epoch in write.change.items() if self._note_opened(key, epoch)]
