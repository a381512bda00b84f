"""Requests and responses of consumer groups, independent of API versions. The API handlers translate them."""

from __future__ import annotations

from collections.abc import Callable

import attrs

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.state.groups.consumer.member import Partitions

__all__ = [
    "DescribedConsumerGroup",
    "DescribedConsumerMember",
    "HeartbeatRequest",
    "HeartbeatResult",
    "NamedPartitions",
]


def _everything(name: str) -> bool:
    del name
    return True


class MatchesNeeded(Exception):
    """All checks have passed and nothing has changed: the caller must find the matches of a new expression first."""


@attrs.frozen
class Matches:
    """The names that a regular expression matches.

    Attributes:
        topics_version: version of the topics that were matched.
    """

    names: tuple[str, ...]
    topics_version: int


@attrs.frozen(kw_only=True)
class HeartbeatRequest:
    """A ConsumerGroupHeartbeat request: join (epoch 0), stay (> 0), leave (-1) or leave temporarily (-2).

    Attributes:
        owned: partitions that the member owns; None if unchanged.
        topic_names, topic_regex, server_assignor, rack_id: None if unchanged.
        rebalance_timeout_ms: -1 if unchanged.
        fresh_id: a random UUID, used as member id if the request has none.
        id_required: the request must contain a member id (version 1 and later).
        may_describe: returns whether the client may describe a topic; filters the matches of a regular expression.
        matches: of `topic_regex`, found before; None: the heartbeat finds them.
        may_match: whether the heartbeat may find them; if not, it raises `MatchesNeeded`.
    """

    group_id: str
    member_id: str
    member_epoch: int
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    topic_names: frozenset[str] | None = None
    topic_regex: str | None = None
    server_assignor: str | None = None
    owned: Partitions | None = None
    client_id: str = ""
    client_host: str = ""
    fresh_id: str
    id_required: bool = True
    may_describe: Callable[[str], bool] = _everything
    matches: Matches | None = None
    may_match: bool = True

    @property
    def is_full(self) -> bool:
        """True if the request contains all fields, so that the response must contain the assignment."""
        subscribes = self.topic_names is not None or self.topic_regex is not None
        return self.rebalance_timeout_ms != -1 and subscribes and self.owned is not None


@attrs.frozen(kw_only=True)
class HeartbeatResult:
    """The response to a heartbeat; `assignment` is None if it is unchanged."""

    error: ErrorCode = ErrorCode.NONE
    message: str | None = None
    member_id: str | None = None
    member_epoch: int = 0
    heartbeat_interval_ms: int = 0
    assignment: Partitions | None = None


NamedPartitions = tuple[bytes, str, tuple[int, ...]]
"""Topic id, topic name and sorted partitions."""


@attrs.frozen(kw_only=True)
class DescribedConsumerMember:
    member_id: str
    instance_id: str | None
    rack_id: str | None
    member_epoch: int
    client_id: str
    client_host: str
    topic_names: tuple[str, ...]
    topic_regex: str
    assignment: tuple[NamedPartitions, ...]
    target: tuple[NamedPartitions, ...]
    is_classic: bool


@attrs.frozen(kw_only=True)
class DescribedConsumerGroup:
    group_id: str
    not_found: str | None = None
    state: str = ""
    epoch: int = 0
    assignment_epoch: int = 0
    assignor: str = ""
    members: tuple[DescribedConsumerMember, ...] = ()
