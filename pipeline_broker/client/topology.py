"""A snapshot of a cluster's metadata: brokers, topics, partitions and their leaders."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

import attrs

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.client.errors import NoSuchPartition, NoSuchTopic, check
from pipeline_broker.wire.messages.topics.metadata import MetadataResponse
from pipeline_broker.wire.primitives import UUID_ZERO
from pipeline_broker.wire.uuid_text import uuid_text

__all__ = [
    "BrokerAddress",
    "Partition",
    "Topic",
    "TopicPartition",
    "Topology",
    "partition_words",
    "topology_of",
    "without_leader",
]

TopicPartition = tuple[str, int]
"""The name of a topic and a partition number."""

NAMED_MAX = 10  # partitions in one text


def partition_words(partition: TopicPartition) -> str:
    return f"{partition[0]}-{partition[1]}"


def without_leader(partitions: Collection[TopicPartition]) -> str:
    names = [partition_words(it) for it in sorted(partitions)]
    more = f" and {len(names) - NAMED_MAX} more" if len(names) > NAMED_MAX else ""
    have = "have" if len(names) > 1 else "has"
    return f"{', '.join(names[:NAMED_MAX])}{more} {have} no leader (LEADER_NOT_AVAILABLE)"


@attrs.frozen(slots=True)
class BrokerAddress:
    node_id: int
    host: str
    port: int
    rack: str | None = None


@attrs.frozen(slots=True)
class Partition:
    index: int
    leader: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline: tuple[int, ...]


@attrs.frozen(slots=True)
class Topic:
    """A topic with its partitions in ascending order. `error_code` is not 0 if the broker could not describe it."""

    name: str
    topic_id: str | None
    is_internal: bool
    partitions: tuple[Partition, ...]
    error_code: int = 0

    def partition(self, number: int) -> Partition:
        """Return a partition by its number.

        Raises:
            NoSuchPartition: the topic has no partition of this number.
        """
        for found in self.partitions:
            if found.index == number:
                return found
        raise NoSuchPartition(self.name, number, len(self.partitions))

    @property
    def replication_factor(self) -> int:
        """The number of replicas of the first partition; 0 without partitions."""
        return len(self.partitions[0].replicas) if self.partitions else 0


@attrs.frozen(slots=True)
class Topology:
    brokers: Mapping[int, BrokerAddress]
    controller_id: int
    cluster_id: str | None
    topics: Mapping[str, Topic]

    def topic(self, name: str) -> Topic:
        """Return a topic by its name.

        Raises:
            NoSuchTopic: the topic is unknown.
            BrokerRefused: the broker could not describe the topic.
        """
        found = self.topics.get(name)
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if found is None else found.error_code
        if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise NoSuchTopic(f"unknown topic {name!r}: see `topics list`, or create it with `topics create {name}`")
        check(code, f"topic {name}")
        assert found is not None
        return found

    def leader(self, topic: str, partition: int) -> int | None:
        """Return the id of a partition's leader, or None if it has no leader among the known brokers.

        Raises:
            NoSuchTopic: the topic is unknown.
            NoSuchPartition: the topic has fewer partitions.
            BrokerRefused: the broker could not describe the topic.
        """
        leader = self.topic(topic).partition(partition).leader
        return leader if leader in self.brokers else None

    def partitions(self, topics: Iterable[str]) -> list[TopicPartition]:
        """Return all partitions of the given topics, without unknown topics and those with an error."""
        there = [self.topics[name] for name in topics if name in self.topics]
        return [(topic.name, it.index) for topic in there if not topic.error_code for it in topic.partitions]

    def divided(self, partitions: Sequence[TopicPartition]) -> tuple[list[TopicPartition], list[TopicPartition]]:
        # Those to read now, and those to read once they have a leader. If none has one, a reader waits for all of them.
        led = {each for found in self.by_leader(partitions).values() for each in found} or {*partitions}
        return [each for each in partitions if each in led], [each for each in partitions if each not in led]

    def by_leader(self, partitions: Iterable[TopicPartition]) -> dict[int, list[TopicPartition]]:
        """Group partitions by leader. Omits partitions without a leader.

        Raises:
            NoSuchTopic: a topic is unknown.
            NoSuchPartition: a topic has fewer partitions.
            BrokerRefused: the broker could not describe a topic.
        """
        grouped: dict[int, list[TopicPartition]] = {}
        for topic, partition in partitions:
            leader = self.leader(topic, partition)
            if leader is not None:
                grouped.setdefault(leader, []).append((topic, partition))
        return grouped


def topology_of(answer: MetadataResponse) -> Topology:
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
    return None if topic_id == UUID_ZERO else uuid_text(topic_id)
