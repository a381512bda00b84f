"""Records about members and leaders: in the cluster's metadata, and in the journal of a leader.

    key   = int16 type, then                        value = int16 version 0, then
    11 node         int32 node id                   JSON {"generation": n, "state": text, "listeners":
                                                    {name: [host, port]}}
    12 partition    16 bytes topic id, int32 number  int32 leader, int32 epoch, int32 wanted, int16 count,
                                                    int32 candidates, name of the handed object
    15 open         16 bytes topic id, int32 number  int32 epoch, name of the handed object

Names are in UTF-8 and empty for no object. Partitions are binary: as JSON, the 3,333 partitions of a failover would
occupy the event loop for 0.1 s.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from typing import NamedTuple

import attrs

from pipeline_broker.state.leadership.nodes import NodeState
from pipeline_broker.state.metadata_records import (
    INT64_MAX,
    RecordType,
    body_of,
    integer_of,
    object_of,
    reading,
    record_key,
    record_value,
    subject_of,
)
from pipeline_broker.state.outcome import StateRecord

__all__ = [
    "NO_NODE",
    "ListenerAddress",
    "NodeRecord",
    "OpenRecord",
    "PartitionKey",
    "PartitionRecord",
    "node_record",
    "open_record",
    "partition_record",
    "read_node",
    "read_open",
    "read_partition",
]


NO_NODE = -1
"""The id in place of a missing leader or wanted leader."""
PORT_MAX = 65_535
INT32_MAX = 2**31 - 1
CANDIDATES_MAX = 32_767
_NODE = struct.Struct(">i")
_PARTITION = struct.Struct(">16si")
_LEADER = struct.Struct(">iiih")
_EPOCH = struct.Struct(">i")


class ListenerAddress(NamedTuple):
    host: str
    port: int


@attrs.frozen
class NodeRecord:
    """A member of the cluster.

    Attributes:
        generation: number of the process, which rises with each start; see `log.object_journal` and the data directory.
        state: JOINED, FENCED or GONE; a record never says WATCHED.
        listeners: advertised addresses by the names of listeners.
    """

    node_id: int
    generation: int
    state: NodeState = NodeState.JOINED
    listeners: Mapping[str, ListenerAddress] = attrs.field(factory=dict, hash=False)


class PartitionKey(NamedTuple):
    topic_id: bytes
    partition: int


class PartitionRecord(NamedTuple):
    """The leader of a partition.

    Attributes:
        leader: NO_NODE while the partition has none.
        epoch: rises with each change of the leader.
        candidates: nodes that may lead, the preferred one first.
        wanted: the node that should lead next; NO_NODE if no change is wanted.
        handed: name of the object that the former leader handed over; empty without one.
    """

    leader: int
    epoch: int
    candidates: tuple[int, ...] = ()
    wanted: int = NO_NODE
    handed: str = ""


class OpenRecord(NamedTuple):
    """The beginning of a leadership in the journal of the leader: later entries belong to its epoch."""

    epoch: int
    handed: str = ""


def node_record(node: NodeRecord) -> StateRecord:
    body = {
        "generation": node.generation,
        "state": node.state.value,
        "listeners": {name: list(endpoint) for name, endpoint in sorted(node.listeners.items())},
    }
    return StateRecord(record_key(RecordType.NODE) + _NODE.pack(node.node_id), record_value(json.dumps(body)))


def read_node(key: bytes, value: bytes | None) -> NodeRecord:
    """Decode a record of a node.

    Raises:
        CorruptStateRecordError: the record cannot be decoded.
    """
    with reading("node"):
        (node_id,) = _NODE.unpack(subject_of(key))
        body = object_of(value)
        listeners = {name: _address_of(*address) for name, address in body["listeners"].items()}
        generation = integer_of(body["generation"], 1, INT64_MAX)
        return NodeRecord(integer_of(node_id, 0, INT32_MAX), generation, NodeState(body["state"]), listeners)


def partition_record(key: PartitionKey, partition: PartitionRecord | None) -> StateRecord:
    """Return the record of a partition, or its tombstone after the topic was deleted if `partition` is None."""
    if partition is None:
        return StateRecord(record_key(RecordType.PARTITION) + _PARTITION.pack(*key), None)
    candidates = partition.candidates
    body = b"".join(
        (
            _LEADER.pack(partition.leader, partition.epoch, partition.wanted, len(candidates)),
            struct.pack(f">{len(candidates)}i", *candidates),
            partition.handed.encode(),
        )
    )
    return StateRecord(record_key(RecordType.PARTITION) + _PARTITION.pack(*key), record_value() + body)


def read_partition(key: bytes, value: bytes | None) -> tuple[PartitionKey, PartitionRecord | None]:
    """Decode a record of a partition; it is None for a tombstone, after the topic was deleted.

    Raises:
        CorruptStateRecordError: the record cannot be decoded.
    """
    with reading("partition"):
        subject, body = _partition_and_body(key, value)
        if body is None:
            return subject, None
        leader, epoch, wanted, count = _LEADER.unpack_from(body)
        candidates = struct.unpack_from(f">{integer_of(count, 0, CANDIDATES_MAX)}i", body, _LEADER.size)
        handed = str(body[_LEADER.size + 4 * count :], "utf-8")
        for node in (leader, wanted):
            integer_of(node, NO_NODE, INT32_MAX)
        for node in candidates:
            integer_of(node, 0, INT32_MAX)
        return subject, PartitionRecord(leader, integer_of(epoch, 0, INT32_MAX), candidates, wanted, handed)


def open_record(key: PartitionKey, opened: OpenRecord | None) -> StateRecord:
    value = None if opened is None else record_value() + _EPOCH.pack(opened.epoch) + opened.handed.encode()
    return StateRecord(record_key(RecordType.OPEN) + _PARTITION.pack(*key), value)


def read_open(key: bytes, value: bytes | None) -> tuple[PartitionKey, OpenRecord | None]:
    """Decode an OPEN record; it is None if the partition was closed.

    Raises:
        CorruptStateRecordError: the record cannot be decoded.
    """
    with reading("open partition"):
        subject, body = _partition_and_body(key, value)
        if body is None:
            return subject, None
        (epoch,) = _EPOCH.unpack_from(body)
        return subject, OpenRecord(integer_of(epoch, 0, INT32_MAX), str(body[_EPOCH.size :], "utf-8"))


def _partition_and_body(key: bytes, value: bytes | None) -> tuple[PartitionKey, bytes | None]:
    topic_id, partition = _PARTITION.unpack(subject_of(key))
    return PartitionKey(topic_id, integer_of(partition, 0, INT32_MAX)), None if value is None else body_of(value)


def _address_of(host: object, port: object) -> ListenerAddress:
    if not isinstance(host, str):
        raise TypeError("the host is not a text")
    return ListenerAddress(host, integer_of(port, 0, PORT_MAX))
