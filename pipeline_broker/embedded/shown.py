"""Immutable results of an embedded broker: records, groups and snapshots."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import attrs

from pipeline_broker.files.memory_files import MemoryFiles
from pipeline_broker.records.record import iterate_records

__all__ = ["Group", "Member", "Record", "Snapshot", "Usage", "decoded"]


class RecordHeaders(list[tuple[str, bytes | None]]):  # noqa: PLW1641 - unhashable, like every list
    """A list of headers that also equals a tuple of them, the type of earlier releases."""

    def __eq__(self, other: object) -> bool:
        return super().__eq__(list(other) if isinstance(other, tuple) else other)

    def __ne__(self, other: object) -> bool:
        return not self == other


@attrs.frozen
class Record:
    """A record of a topic, as a consumer receives it.

    Attributes:
        topic, partition, offset: the position.
        timestamp: milliseconds since 1970. It is the producer's, or with `message.timestamp.type=LogAppendTime` the
            broker's.
        key, value: bytes, or None.
        headers: a list of (name, value) pairs in the order of the record, as clients have them.
    """

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]] = attrs.field(factory=list, converter=RecordHeaders, hash=False)


@attrs.frozen
class Member:
    """A member of a group.

    Attributes:
        member_id: assigned by the broker, or chosen by the client.
        client_id: the name that the client gives itself.
        instance_id: the `group.instance.id` of a static member; None for a dynamic one.
        host: the client's IP address.
        assigned: its partitions, as (topic, partition) pairs, like `Group.assigned`.
    """

    member_id: str
    client_id: str
    instance_id: str | None
    host: str
    assigned: frozenset[tuple[str, int]]

    @property
    def assignment(self) -> Mapping[str, tuple[int, ...]]:
        """The partition numbers by topic. Deprecated: use `assigned`."""
        topics = sorted({topic for topic, _ in self.assigned})
        return {topic: tuple(sorted(number for name, number in self.assigned if name == topic)) for topic in topics}


@attrs.frozen
class Group:
    """A group of any type.

    Attributes:
        group_type: "classic", "consumer" (KIP-848), "share" or "streams".
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
        return frozenset(place for member in self.members for place in member.assigned)


@attrs.frozen(eq=False)
class Snapshot:
    """A copy of a broker or cluster in memory, which can be restored any number of times."""

    files: tuple[MemoryFiles, ...] = attrs.field(repr=False)  # of each broker
    ahead_ms: int = attrs.field(repr=False)

    @property
    def size_bytes(self) -> int:
        return sum(files.used_bytes for files in self.files)


class Usage(NamedTuple):
    connections: int
    size_bytes: int


def decoded(topic: str, batches: Iterable[tuple[int, int, bytes]]) -> Iterator[Record]:
    for partition, first_offset, batch in batches:
        for record in iterate_records(batch):
            if record.offset >= first_offset:
                yield Record(
                    topic, partition, record.offset, record.timestamp, record.key, record.value, record.headers
                )
