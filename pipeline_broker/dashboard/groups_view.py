"""Groups with their members and lag, and the reset of the offsets of an empty one.

Rules of this file: no Trio; shown is what is durable. The reset decides on the offsets, and makes the OffsetCommit that
asks for them, as Kafka's tool does; it never asks for a group with members, because they would overwrite it, and never
for one that shares partitions, whose state is kept elsewhere. What looks at the offsets of many groups is in steps
(`turns`), because clients decide how many those are; a group may be gone at the next step.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from typing import TYPE_CHECKING, Any

import attrs

from pipeline_broker.broker.group_views import (
    GroupView,
    MemberView,
    OffsetView,
    committed_offsets,
    coordinator_of,
    count_members,
    find_group,
    group_offsets,
    list_groups,
)
from pipeline_broker.dashboard.wishes import WishError, optional_number, text
from pipeline_broker.lag import total_lag
from pipeline_broker.log.errors import LogError
from pipeline_broker.log.partition.reading import ColdRead
from pipeline_broker.state.groups.group import GroupType
from pipeline_broker.wire.messages.groups.offset_commit import OffsetCommitRequest

if TYPE_CHECKING:
    from pipeline_broker.broker.broker import Broker
    from pipeline_broker.log.partition.partition_log import PartitionLog

__all__ = [
    "OffsetSearch",
    "ResetWish",
    "group",
    "groups",
    "groups_of_topic",
    "plan_reset",
    "reset_request",
]

GROUPS_SHOWN_MAX = 1000
MEMBERS_SHOWN_MAX = 500
PARTITIONS_SHOWN_MAX = 2000
METADATA_SHOWN_MAX = 256


def groups(broker: Broker) -> Generator[int, None, dict[str, Any]]:
    """Every group with its state, members and lag, in steps."""
    shown = list_groups(broker)
    rows = []
    for each in shown[:GROUPS_SHOWN_MAX]:
        offsets = committed_offsets(broker, each.group_id)
        lag = total_lag(view.lag for view in offsets)
        rows.append({**_group_row(each), "members": _members_count(broker, each), "lag": lag})
        yield 1 + len(offsets)
    return {"count": len(shown), "groups": rows}


def groups_of_topic(broker: Broker, topic: str) -> Generator[int, None, dict[str, Any] | None]:
    """Groups that have committed offsets of a topic, with their lag in it, in steps; None without such a topic."""
    if broker.topics.get(topic) is None:
        return None
    rows = []
    for each in list_groups(broker)[:GROUPS_SHOWN_MAX]:
        committed = committed_offsets(broker, each.group_id)
        offsets = [view for view in committed if view.topic == topic]
        if offsets:
            lag = total_lag(view.lag for view in offsets)
            rows.append({"group": each.group_id, "partitions": len(offsets), "lag": lag})
        yield 1 + len(committed)
    return {"groups": rows}


def _group_row(found: GroupView) -> dict[str, Any]:
    return {
        "group": found.group_id,
        "type": found.group_type.value,
        "state": found.state,
        "protocol": found.protocol_type,
        "is_empty": found.is_empty,
        "may_reset": found.is_empty and found.group_type is not GroupType.SHARE,
    }


def group(broker: Broker, group_id: str) -> dict[str, Any] | None:
    """One group with its members and its lag in each partition; None where there is none of this name."""
    found = find_group(broker, group_id)
    if found is None:
        return None
    view, members = found
    offsets = group_offsets(broker, group_id)
    return {
        **_group_row(view),
        "members_count": len(members),
        "members": [_member_row(each) for each in members[:MEMBERS_SHOWN_MAX]],
        "lag": total_lag(each.lag for each in offsets),
        "offsets": [_offset_row(each) for each in offsets[:PARTITIONS_SHOWN_MAX]],
    }


def _offset_row(view: OffsetView) -> dict[str, Any]:
    return {
        "topic": view.topic,
        "partition": view.partition,
        "committed": view.committed,
        "end": view.end,
        "lag": view.lag,
        "metadata": view.metadata[:METADATA_SHOWN_MAX],
    }


def _members_count(broker: Broker, view: GroupView) -> int:
    return 0 if view.is_empty else count_members(broker, view.group_id)


def _member_row(member: MemberView) -> dict[str, Any]:
    return {
        "member": member.member_id,
        "instance": member.instance_id,
        "client": member.client_id,
        "host": member.client_host,
        "assignment": member.assignment,
    }


@attrs.frozen(kw_only=True)
class ResetWish:
    """Where a group is to go on.

    Attributes:
        group_id: an empty group.
        topic: one that exists.
        partition: one of it; None for all.
        to: `earliest`, `latest`, `offset` or `time`.
        value: the offset, or milliseconds since 1970.
    """

    group_id: str
    topic: str
    partition: int | None
    to: str
    value: int = 0

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> ResetWish:
        """The wish of a request's body; raises WishError where it is none."""
        to = text(body, "to")
        if to not in {"earliest", "latest", "offset", "time"}:
            raise WishError("the reset goes to earliest, latest, an offset or a time")
        return cls(
            group_id=text(body, "group"),
            topic=text(body, "topic"),
            partition=optional_number(body, "partition"),
            to=to,
            value=optional_number(body, "value") or 0,
        )


OffsetSearch = Callable[[], int]
"""Work for a thread that finds an offset; raises OSError or LogError."""


def plan_reset(broker: Broker, wish: ResetWish) -> dict[int, int | OffsetSearch]:
    """For each partition the offset, or the work that finds it.

    Raises:
        WishError: the wish cannot be fulfilled.
    """
    _check_group(broker, wish.group_id)
    if broker.topics.get(wish.topic) is None:
        raise WishError(f"there is no topic {wish.topic!r}")
    logs = {log.partition: log for log in broker.logs.partitions(wish.topic)}
    if wish.partition is not None:
        if wish.partition not in logs:
            raise WishError(f"{wish.topic!r} has no partition {wish.partition}")
        logs = {wish.partition: logs[wish.partition]}
    return {partition: _target(log, wish) for partition, log in logs.items()}


def _check_group(broker: Broker, group_id: str) -> None:
    coordinator = coordinator_of(broker)
    found = None if coordinator is None else coordinator.registry.get(group_id)
    if found is None or found.is_deleted:
        raise WishError(f"there is no group {group_id!r}")
    if found.group_type is GroupType.SHARE:
        raise WishError(f"{group_id!r} shares partitions: its state is reset by AlterShareGroupOffsets")
    if not found.is_empty:
        raise WishError(f"{group_id!r} has members: stop them first, or they would overwrite the reset")


def _target(log: PartitionLog, wish: ResetWish) -> int | OffsetSearch:
    if wish.to == "earliest":
        return log.log_start_offset
    if wish.to == "latest":
        return log.high_watermark
    if wish.to == "offset":
        return min(max(wish.value, log.log_start_offset), log.high_watermark)
    end_offset = log.high_watermark
    try:
        found = log.offset_for_timestamp(wish.value)
    except (OSError, LogError) as error:
        raise WishError(f"the log of {log.folder} cannot be read: {error}") from None
    if isinstance(found, ColdRead):
        cold = found

        def search() -> int:
            later = cold()
            return end_offset if later is None else later.offset

        return search
    return end_offset if found is None else found.offset


def reset_request(broker: Broker, wish: ResetWish, offsets: Mapping[int, int]) -> OffsetCommitRequest:
    """The request for these offsets of the topic's partitions; to be handled at once, while the group is empty.

    Raises:
        WishError: the group has members by now, or it or the topic is gone.
    """
    _check_group(broker, wish.group_id)
    found = broker.topics.get(wish.topic)
    if found is None:
        raise WishError(f"there is no topic {wish.topic!r}")
    partitions = [
        OffsetCommitRequest.OffsetCommitRequestPartition(partition_index=partition, committed_offset=offset)
        for partition, offset in sorted(offsets.items())
    ]
    topic = OffsetCommitRequest.OffsetCommitRequestTopic(
        name=found.name, topic_id=found.topic_id, partitions=partitions
    )
    return OffsetCommitRequest(group_id=wish.group_id, topics=[topic])
