"""Requests and responses of share groups, independent of API versions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

import attrs

from pipeline_broker.base.error_code import KafkaError
from pipeline_broker.state.groups.share.assignor import Assignment
from pipeline_broker.state.outcome import Write

__all__ = [
    "DescribedMember",
    "DescribedShareGroup",
    "FindTopic",
    "FoundTopic",
    "Heartbeat",
    "HeartbeatAnswer",
    "ShareGroupError",
    "Subscribed",
]


class ShareGroupError(KafkaError):
    pass


class FoundTopic(NamedTuple):
    """An existing topic.

    Attributes:
        partitions: their number.
        lost: partitions without a state in the share coordinator, although the group has initialized them. The topic of
            its records was deleted.
    """

    topic_id: bytes
    partitions: int
    lost: frozenset[int] = frozenset()


FindTopic: TypeAlias = Callable[[str], FoundTopic | None]
"""Returns the topic of a name, or None if it does not exist or the member may not describe it."""


@attrs.frozen(kw_only=True)
class Heartbeat:
    """A ShareGroupHeartbeat request; `rack_id` and `topics` are None if unchanged."""

    group_id: str
    member_id: str
    member_epoch: int
    rack_id: str | None = None
    topics: Sequence[str] | None = None
    client_id: str = ""
    client_host: str = ""


class Subscribed(NamedTuple):
    """A partition that a group begins to read. The share coordinator must initialize its state first."""

    topic_id: bytes
    partition: int
    state_epoch: int


@attrs.frozen
class HeartbeatAnswer:
    """The response to a heartbeat, to be sent once the records are durable.

    Attributes:
        member_epoch: the new epoch; -1 if the member has left.
        heartbeat_interval_ms: the time to the next heartbeat; 0 if the member has left.
        assignment: None if unchanged.
        begins: partitions to initialize in the share coordinator; durable before `write` is appended.
        write: None if nothing has changed.
    """

    member_epoch: int
    heartbeat_interval_ms: int
    assignment: Assignment | None
    begins: Sequence[Subscribed] = ()
    write: Write | None = None


@attrs.frozen
class DescribedMember:
    member_id: str
    rack_id: str | None
    member_epoch: int
    client_id: str
    client_host: str
    topics: Sequence[str]
    assignment: Assignment


@attrs.frozen
class DescribedShareGroup:
    """A group in its durable state.

    Attributes:
        topic_names: names by topic id, of all assigned and initialized partitions.
        initialized: partitions with a state in the share coordinator.
    """

    group_id: str
    state: str
    group_epoch: int
    assignment_epoch: int
    members: Sequence[DescribedMember]
    topic_names: Mapping[bytes, str]
    initialized: Mapping[bytes, frozenset[int]]
