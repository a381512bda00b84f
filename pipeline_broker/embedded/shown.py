"""What an embedded broker shows of itself: records, groups, snapshots.

Rules of this file: plain values, decided nowhere; they stay as they are when the broker goes on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import attrs

from pipeline_broker.files.memory_files import MemoryFiles
from pipeline_broker.records.record import iterate_records

__all__ = ["Group", "Member", "Record", "Snapshot", "decoded"]


@attrs.frozen
class Record:
    """A record of a topic, as a consumer gets it.

    Attributes:
        topic, partition, offset: where it is.
        timestamp: milliseconds since 1970; the producer's, or the broker's with `message.timestamp.type=LogAppendTime`.
        key, value: bytes, or None.
        headers: name and value of each, in their order.
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
        member_id: given by the broker, or chosen by the client.
        client_id: as the client names itself.
        instance_id: of a static member; None for others.
        assignment: partition numbers by topic.
    """

    member_id: str
    client_id: str
    instance_id: str | None
    host: str
    assignment: Mapping[str, tuple[int, ...]]


@attrs.frozen
class Group:
    """A group of consumers.

    Attributes:
        group_type: "classic", "consumer" (KIP-848) or "share".
        state: as Kafka's tools show it: Empty, PreparingRebalance, CompletingRebalance, Stable, ...
        members: those that it has now.
    """

    group_id: str
    group_type: str
    state: str
    members: tuple[Member, ...]

    @property
    def assigned(self) -> frozenset[tuple[str, int]]:
        """The partitions that some member has."""
        return frozenset(
            (topic, partition)
            for member in self.members
            for topic, partitions in member.assignment.items()
            for partition in partitions
        )


@attrs.frozen(eq=False)
class Snapshot:
    """Everything that a broker kept in memory at one moment; it can be restored any number of times."""

    files: MemoryFiles = attrs.field(repr=False)
    ahead_ms: int = attrs.field(repr=False)

    @property
    def size_bytes(self) -> int:
        """The memory that it takes."""
        return self.files.used_bytes


def decoded(topic: str, batches: Iterable[tuple[int, int, bytes]]) -> Iterator[Record]:
    """The records of batches, as `RecordReader.batches` gives them."""
    for partition, first_offset, batch in batches:
        for record in iterate_records(batch):
            if record.offset >= first_offset:
                yield Record(
                    topic, partition, record.offset, record.timestamp, record.key, record.value, record.headers
                )
