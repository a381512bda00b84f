"""Kafka's ConsumerProtocol: subscriptions and assignments that consumers of classic groups exchange.

Layout: int16 version, then ConsumerProtocolSubscription or ConsumerProtocolAssignment. Clients write these bytes and
brokers store them unread, so they may be malformed.
"""

from __future__ import annotations

import struct
from typing import TypeVar

from pipeline_broker.wire.codec import DecodeError, decode, versions_of
from pipeline_broker.wire.messages.groups.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)

__all__ = [
    "CONSUMER_PROTOCOL_TYPE",
    "VERSION",
    "MalformedError",
    "assigned_partitions",
    "read_assignment",
    "read_subscription",
    "subscription_version",
]

CONSUMER_PROTOCOL_TYPE = "consumer"
"""Protocol type of groups of consumers."""
VERSION = struct.Struct(">h")
Message = TypeVar("Message", ConsumerProtocolAssignment, ConsumerProtocolSubscription)


class MalformedError(Exception):
    pass


def subscription_version(data: bytes) -> int:
    """Return the version with which to decode a subscription, and to encode its assignment.

    A version newer than the declared ones counts as the newest declared one.

    Raises:
        MalformedError: the version is missing or negative.
    """
    return _version(ConsumerProtocolSubscription, data)


def read_subscription(data: bytes) -> ConsumerProtocolSubscription:
    """Decode a subscription.

    Raises:
        MalformedError: the version or a field cannot be decoded.
    """
    return _read(ConsumerProtocolSubscription, data)


def read_assignment(data: bytes) -> ConsumerProtocolAssignment:
    """Decode an assignment; return an empty one if `data` is empty.

    Raises:
        MalformedError: the version or a field cannot be decoded.
    """
    return _read(ConsumerProtocolAssignment, data) if data else ConsumerProtocolAssignment()


def assigned_partitions(protocol_type: str, data: bytes) -> dict[str, tuple[int, ...]] | None:
    """Return the sorted partitions that a member of a classic group is assigned, by topic.

    Returns None for malformed bytes, and for groups of another protocol type (such as Kafka Connect workers).
    """
    if protocol_type != CONSUMER_PROTOCOL_TYPE:
        return None
    try:
        assigned = read_assignment(data).assigned_partitions
    except MalformedError:
        return None
    found: dict[str, set[int]] = {}
    for each in assigned:
        found.setdefault(each.topic, set()).update(each.partitions)
    return {topic: tuple(sorted(partitions)) for topic, partitions in sorted(found.items())}


def _version(message: type[Message], data: bytes) -> int:
    if len(data) < VERSION.size:
        raise MalformedError(f"{len(data)} bytes are too short for a version")
    (version,) = VERSION.unpack_from(data)
    if version < 0:
        raise MalformedError(f"version {version} is negative")
    # Newer versions only append fields, so they can be read as the newest known one.
    return min(int(version), max(versions_of(message)))


def _read(message: type[Message], data: bytes) -> Message:
    try:
        return decode(message, _version(message, data), data, VERSION.size)[0]
    except DecodeError as error:
        raise MalformedError(str(error)) from error
