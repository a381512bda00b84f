"""Translation between topic ids and the topic names of the embedded consumer protocol (`wire.consumer_protocol`)."""

from __future__ import annotations

from collections.abc import Iterable

from pipeline_broker.state.groups.consumer.member import Partitions
from pipeline_broker.state.groups.topic_view import TopicView
from pipeline_broker.wire.codec import encode
from pipeline_broker.wire.consumer_protocol import VERSION
from pipeline_broker.wire.messages.groups.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)

__all__ = ["partitions_by_id", "write_assignment"]


def write_assignment(topics: TopicView, partitions: Partitions, version: int) -> bytes:
    named = []
    for topic_id, numbers in partitions.items():
        topic = topics.by_id(topic_id)
        if topic is not None:
            named.append(ConsumerProtocolAssignment.TopicPartition(topic.name, sorted(numbers)))
    named.sort(key=lambda each: each.topic)
    return b"".join([VERSION.pack(version), *encode(ConsumerProtocolAssignment(named), version)])


def partitions_by_id(
    topics: TopicView,
    named: Iterable[ConsumerProtocolAssignment.TopicPartition | ConsumerProtocolSubscription.TopicPartition],
) -> Partitions:
    found: dict[bytes, frozenset[int]] = {}
    for each in named:
        topic = topics.get(each.topic)
        if topic is not None:
            found[topic.topic_id] = found.get(topic.topic_id, frozenset()) | frozenset(each.partitions)
    return found
