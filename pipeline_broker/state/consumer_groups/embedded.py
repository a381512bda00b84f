"""The embedded protocol: what consumers of the classic protocol tell their leader, and are told by it.

int16 version, then ConsumerProtocolSubscription or ConsumerProtocolAssignment; a later version is read as the last
one known, since later ones only add to the end
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import TypeVar

from pipeline_broker.state.consumer_groups.member import Partitions
from pipeline_broker.state.consumer_groups.topic_view import TopicView
from pipeline_broker.wire.codec import DecodeError, decode, encode, versions_of
from pipeline_broker.wire.messages.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription

__all__ = [
    "MalformedError",
    "partitions_by_id",
    "read_assignment",
    "read_subscription",
    "subscription_version",
    "write_assignment",
]

VERSION = struct.Struct(">h")
Message = TypeVar("Message", ConsumerProtocolAssignment, ConsumerProtocolSubscription)


class MalformedError(Exception):
    """Bytes that are not of the embedded protocol."""


def subscription_version(data: bytes) -> int:
    """The version of a subscription, which is that of the assignment that answers it; raises MalformedError."""
    return _version(ConsumerProtocolSubscription, data)


def read_subscription(data: bytes) -> ConsumerProtocolSubscription:
    """What a member says of itself; raises MalformedError."""
    return _read(ConsumerProtocolSubscription, data)


def read_assignment(data: bytes) -> ConsumerProtocolAssignment:
    """What a member was given, nothing for no bytes; raises MalformedError."""
    return _read(ConsumerProtocolAssignment, data) if data else ConsumerProtocolAssignment()


def write_assignment(topics: TopicView, partitions: Partitions, version: int) -> bytes:
    """What a member is given; topics that are gone are left out."""
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
    """The same by topic id; topics that are gone are left out."""
    found: dict[bytes, frozenset[int]] = {}
    for each in named:
        topic = topics.get(each.topic)
        if topic is not None:
            found[topic.topic_id] = found.get(topic.topic_id, frozenset()) | frozenset(each.partitions)
    return found


def _version(message: type[Message], data: bytes) -> int:
    if len(data) < VERSION.size:
        raise MalformedError("too short for a version")
    (version,) = VERSION.unpack_from(data)
    if version < 0:
        raise MalformedError(f"version {version}")
    return min(int(version), max(versions_of(message)))


def _read(message: type[Message], data: bytes) -> Message:
    try:
        return decode(message, _version(message, data), data, VERSION.size)[0]
    except DecodeError as error:
        raise MalformedError(str(error)) from error
