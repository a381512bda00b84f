"""Reading what consumers of the classic protocol tell their leader, and what it gives them (Kafka's ConsumerProtocol).

The layout is int16 version, then ConsumerProtocolSubscription or ConsumerProtocolAssignment. A later version is read as
the last one known, because later ones only add at the end. The bytes are a stranger's: a broker stores them unread.
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
"""The protocol type of groups whose members write these messages."""
VERSION = struct.Struct(">h")
Message = TypeVar("Message", ConsumerProtocolAssignment, ConsumerProtocolSubscription)


class MalformedError(Exception):
    """Bytes that are not of this protocol."""


def subscription_version(data: bytes) -> int:
    """The version of a subscription, which is that of the assignment that answers it; raises MalformedError."""
    return _version(ConsumerProtocolSubscription, data)


def read_subscription(data: bytes) -> ConsumerProtocolSubscription:
    """What a member says of itself; raises MalformedError."""
    return _read(ConsumerProtocolSubscription, data)


def read_assignment(data: bytes) -> ConsumerProtocolAssignment:
    """What a member was given, nothing for no bytes; raises MalformedError."""
    return _read(ConsumerProtocolAssignment, data) if data else ConsumerProtocolAssignment()


def assigned_partitions(protocol_type: str, data: bytes) -> dict[str, tuple[int, ...]] | None:
    """The partitions that a member of a classic group was given, by topic, in order.

    Returns:
        None if the group is not one of consumers (as that of Kafka Connect's workers), or the bytes are malformed.
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
