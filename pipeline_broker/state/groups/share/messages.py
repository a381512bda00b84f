"""What goes into the share groups and what comes out of them.

Rules of this file: it is data.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

import attrs

from pipeline_broker.state.groups.share.assignor import Assignment
from pipeline_broker.state.outcome import Write
from pipeline_broker.wire.error import KafkaError

__all__ = [
    "DescribedMember",
    "DescribedShareGroup",
    "FindTopic",
    "FoundTopic",
    "Heartbeat",
    "HeartbeatAnswer",
    "ShareGroupError",
    "ShareGroupSettings",
    "Subscribed",
]


class ShareGroupError(KafkaError):
    """Why a request about a share group is refused."""


@attrs.frozen(kw_only=True)
class ShareGroupSettings:
    """The settings that count for one group, with Kafka's defaults.

    Attributes:
        session_timeout_ms: after so long without a heartbeat a member is gone.
        heartbeat_interval_ms: what members are told.
        size_max: members.
        assignment_interval_ms: between two new assignments, but for a member that joins: it would wait for its next
            heartbeat otherwise, doing nothing.
        assignor: the name of the one of all share groups.
    """

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    size_max: int = 200
    assignment_interval_ms: int = 1_000
    assignor: str = "simple"


class FoundTopic(NamedTuple):
    """A topic that exists.

    Attributes:
        partitions: how many it has.
        lost: partitions of which the share coordinator keeps no state, whatever the group thinks: the topic of
            its records was deleted.
    """

    topic_id: bytes
    partitions: int
    lost: frozenset[int] = frozenset()


FindTopic: TypeAlias = Callable[[str], FoundTopic | None]
"""The topic of a name that there is, and that the member may see."""


@attrs.frozen(kw_only=True)
class Heartbeat:
    """What a member says; see ShareGroupHeartbeat."""

    group_id: str
    member_id: str
    member_epoch: int
    rack_id: str | None = None
    topics: Sequence[str] | None = None
    client_id: str = ""
    client_host: str = ""


class Subscribed(NamedTuple):
    """Partitions that a group begins to read: the share coordinator must know of them before the group does."""

    topic_id: bytes
    partition: int
    state_epoch: int


@attrs.frozen
class HeartbeatAnswer:
    """What the member is told when the records are durable.

    Attributes:
        member_epoch: the epoch it has now; -1 when it has left.
        assignment: None where it has not changed.
        begins: what must be durable before `write` is.
        write: None where nothing has changed.
    """

    member_epoch: int
    assignment: Assignment | None
    begins: Sequence[Subscribed] = ()
    write: Write | None = None


@attrs.frozen
class DescribedMember:
    """A member as it is shown."""

    member_id: str
    rack_id: str | None
    member_epoch: int
    client_id: str
    client_host: str
    topics: Sequence[str]
    assignment: Assignment


@attrs.frozen
class DescribedShareGroup:
    """A group as it is durable.

    Attributes:
        topic_names: of the ids in the assignments and of all partitions whose state is kept.
        initialized: partitions whose state is kept.
    """

    group_id: str
    state: str
    group_epoch: int
    assignment_epoch: int
    members: Sequence[DescribedMember]
    topic_names: Mapping[bytes, str]
    initialized: Mapping[bytes, frozenset[int]]
