"""Immutable results of an embedded broker: records, groups and snapshots."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import attrs

from pipeline_broker.files.memory_files import MemoryFiles
from pipeline_broker.records.record import iterate_records

__all__ = ["Group", "Member", "Record", "Snapshot", "decoded"]


@attrs.frozen
class Record:
    """A record of a topic, as a consumer receives it.

    Attributes:
        topic, partition, offset: the position.
        timestamp: milliseconds since 1970. It is the producer's, or with `message.timestamp.type=LogAppendTime` the
            broker's.
        key, value: bytes, or None.
        headers: (name, value) pairs in the order of the record.
    """

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


@attrs.frozen
class Member:
    """A member of a group.

    Attributes:
        member_id: assigned by the broker, or chosen by the client.
        client_id: the name that the client gives itself.
        instance_id: the `group.instance.id` of a static member; None for a dynamic one.
        host: the client's IP address.
        assignment: partition numbers by topic.
    """

    member_id: str
    client_id: str
    instance_id: str | None
    host: str
    assignment: Mapping[str, tuple[int, ...]]


@attrs.frozen
class Group:
    """A consumer group or share group.

    Attributes:
        group_type: "classic", "consumer" (KIP-848) or "share".
        state: as in Kafka's tools: Empty, PreparingRebalance, CompletingRebalance, Stable, ...
        members: the current members.
    """

    group_id: str
    group_type: str
    state: str
    members: tuple[Member, ...]

    @property
    def assigned(self) -> frozenset[tuple[str, int]]:
        """The assigned partitions of all members, as (topic, partition) pairs."""
        return frozenset(
            (topic, partition)
            for member in self.members
            for topic, partitions in member.assignment.items()
            for partition in partitions
        )


@attrs.frozen(eq=False)
class Snapshot:
    """A copy of a broker in memory, which can be restored any number of times."""

    files: MemoryFiles = attrs.field(repr=False)
    ahead_ms: int = attrs.field(repr=False)

    @property
    def size_bytes(self) -> int:
        return self.files.used_bytes


def decoded(topic: str, batches: Iterable[tuple[int, int, bytes]]) -> Iterator[Record]:
    for partition, first_offset, batch in batches:
        for record in iterate_records(batch):
            if record.offset >= first_offset:
                yield Record(
                    topic, partition, record.offset, record.timestamp, record.key, record.value, record.headers
                )
