"""What a cluster looks like: its brokers, its topics, and who leads what.

Rules of this file: no I/O; a snapshot of one answer, in plain types. A topic that has an error is in it with the error.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import attrs

from pipeline_broker.client.errors import NoSuchPartition, NoSuchTopic, check
from pipeline_broker.wire.error import ErrorCode
from pipeline_broker.wire.messages.topics.metadata import MetadataResponse
from pipeline_broker.wire.primitives import UUID_ZERO
from pipeline_broker.wire.uuid_text import uuid_text

__all__ = ["BrokerAddress", "Partition", "Topic", "TopicPartition", "Topology", "partition_words", "topology_of"]

NO_LEADER = -1
TopicPartition = tuple[str, int]
"""A topic's name and the number of a partition."""


def partition_words(partition: TopicPartition) -> str:
    """A partition as a person calls it."""
    return f"{partition[0]}-{partition[1]}"


@attrs.frozen(slots=True)
class BrokerAddress:
    """Where a broker says that it is."""

    node_id: int
    host: str
    port: int
    rack: str | None = None


@attrs.frozen(slots=True)
class Partition:
    """One partition; `leader` is -1 while there is none."""

    index: int
    leader: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline: tuple[int, ...]


@attrs.frozen(slots=True)
class Topic:
    """One topic, its partitions in the order of their numbers."""

    name: str
    topic_id: str | None
    is_internal: bool
    partitions: tuple[Partition, ...]
    error_code: int = 0

    def partition(self, number: int) -> Partition:
        """One of its partitions.

        Raises:
            NoSuchPartition: it has no such one.
        """
        for found in self.partitions:
            if found.index == number:
                return found
        raise NoSuchPartition(self.name, number, len(self.partitions))

    @property
    def replication_factor(self) -> int:
        """Of its first partition; 0 where it has none."""
        return len(self.partitions[0].replicas) if self.partitions else 0


@attrs.frozen(slots=True)
class Topology:
    """A cluster at one moment."""

    brokers: Mapping[int, BrokerAddress]
    controller_id: int
    cluster_id: str | None
    topics: Mapping[str, Topic]

    def topic(self, name: str) -> Topic:
        """A topic that is there.

        Raises:
            NoSuchTopic: it is not.
            BrokerRefused: it may not be seen, or not yet.
        """
        found = self.topics.get(name)
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if found is None else found.error_code
        if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise NoSuchTopic(f"there is no topic {name!r}: see `topics list`, or make it with `topics create {name}`")
        check(code, f"topic {name}")
        assert found is not None
        return found

    def leader(self, topic: str, partition: int) -> int | None:
        """The node that leads a partition; None while nobody does.

        Raises:
            NoSuchTopic: there is no such topic.
            NoSuchPartition: it has no such partition.
        """
        leader = self.topic(topic).partition(partition).leader
        return leader if leader in self.brokers else None

    def partitions(self, topics: Iterable[str]) -> list[TopicPartition]:
        """All partitions of those of the topics that are there and may be seen."""
        there = [self.topics[name] for name in topics if name in self.topics]
        return [(topic.name, it.index) for topic in there if not topic.error_code for it in topic.partitions]

    def by_leader(self, partitions: Iterable[TopicPartition]) -> dict[int, list[TopicPartition]]:
        """Partitions grouped by their leaders; those without one are left out."""
        grouped: dict[int, list[TopicPartition]] = {}
        for topic, partition in partitions:
            leader = self.leader(topic, partition)
            if leader is not None:
                grouped.setdefault(leader, []).append((topic, partition))
        return grouped


def topology_of(answer: MetadataResponse) -> Topology:
    """What an answer to Metadata says."""
    brokers = {it.node_id: BrokerAddress(it.node_id, it.host, it.port, it.rack) for it in answer.brokers}
    topics = {}
    for topic in answer.topics:
        partitions = tuple(
            Partition(
                it.partition_index,
                it.leader_id,
                tuple(it.replica_nodes),
                tuple(it.isr_nodes),
                tuple(it.offline_replicas),
            )
            for it in sorted(topic.partitions, key=lambda it: it.partition_index)
        )
        name = topic.name or ""
        topics[name] = Topic(name, _id_text(topic.topic_id), topic.is_internal, partitions, topic.error_code)
    return Topology(brokers, answer.controller_id, answer.cluster_id, topics)


def _id_text(topic_id: bytes) -> str | None:
    """As Kafka's tools print it; None where the broker knows no ids."""
    return None if topic_id == UUID_ZERO else uuid_text(topic_id)
