"""Questions and answers of consumer groups, free of versions: an API handler translates to and from these."""

from __future__ import annotations

from collections.abc import Callable

import attrs

from pipeline_broker.state.groups.consumer.member import Partitions
from pipeline_broker.wire.error import ErrorCode

__all__ = [
    "DescribedConsumerGroup",
    "DescribedConsumerMember",
    "GroupError",
    "HeartbeatRequest",
    "HeartbeatResult",
    "NamedPartitions",
]


class GroupError(Exception):
    """A request that is refused; nothing has changed.

    Attributes:
        code: what the client is told.
        message: the same in Kafka's words.
    """

    def __init__(self, code: ErrorCode, message: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.message = message


def _everything(name: str) -> bool:
    del name
    return True


@attrs.frozen(kw_only=True)
class HeartbeatRequest:
    """A member joins (epoch 0), stays in (its epoch), leaves (-1), or leaves for a while (-2).

    Attributes:
        owned: what it owns; None: as before.
        topic_names, topic_regex, server_assignor, rack_id: None: as before.
        rebalance_timeout_ms: -1: as before.
        fresh_id: unique text that becomes its id where it brings none.
        id_required: it must bring one (version 1 and later).
        may_describe: whether the client may know of a topic; asked for what a regular expression matches.
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

    @property
    def is_full(self) -> bool:
        """Whether it says all that can be said, so that it is told all."""
        subscribes = self.topic_names is not None or self.topic_regex is not None
        return self.rebalance_timeout_ms != -1 and subscribes and self.owned is not None


@attrs.frozen(kw_only=True)
class HeartbeatResult:
    """The answer to a `HeartbeatRequest`; `assignment` is None where nothing has changed."""

    error: ErrorCode = ErrorCode.NONE
    message: str | None = None
    member_id: str | None = None
    member_epoch: int = 0
    heartbeat_interval_ms: int = 0
    assignment: Partitions | None = None


NamedPartitions = tuple[bytes, str, tuple[int, ...]]
"""Topic id, topic name, partitions."""


@attrs.frozen(kw_only=True)
class DescribedConsumerMember:
    """A member as an administrator sees it."""

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
    """A group as an administrator sees it; one that does not exist has the reason in `not_found`."""

    group_id: str
    not_found: str | None = None
    state: str = ""
    epoch: int = 0
    assignment_epoch: int = 0
    assignor: str = ""
    members: tuple[DescribedConsumerMember, ...] = ()
