"""Groups with their members and lag as JSON, and the reset of a group's offsets.

A group can be deleted between two steps of a view.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs

from pipeline_broker.base.lag import add_lag
from pipeline_broker.base.steps import THINGS_PER_STEP, Steps, anything, first_few
from pipeline_broker.broker.group_views import (
    GroupView,
    MemberView,
    OffsetView,
    committed_offsets,
    coordinator_of,
    count_members,
    find_group,
    first_groups,
    group_offsets,
    lag_of_group,
    offset_order,
)
from pipeline_broker.dashboard.origins import cut_name
from pipeline_broker.dashboard.wishes import RequestError, optional_number, text
from pipeline_broker.log.errors import LogError
from pipeline_broker.log.read_result import ColdRead
from pipeline_broker.state.groups.group import GroupType
from pipeline_broker.wire.messages.groups.offset_commit import OffsetCommitRequest

if TYPE_CHECKING:
    from pipeline_broker.broker.broker import Broker
    from pipeline_broker.log.partition.partition_log import PartitionLog

__all__ = [
    "OffsetReset",
    "OffsetSearch",
    "group",
    "groups",
    "groups_of_topic",
    "plan_reset",
    "reset_request",
]

GROUPS_SHOWN_MAX = 1000
MEMBERS_SHOWN_MAX = 500
PARTITIONS_SHOWN_MAX = 2000
ASSIGNED_SHOWN_MAX = 1000  # of one member
METADATA_SHOWN_MAX = 256


def groups(broker: Broker, is_shown: Callable[[str], bool] = anything) -> Steps[dict[str, Any]]:
    """Return the number of shown groups, and the first GROUPS_SHOWN_MAX by name with state and lag, in steps."""
    rows = []
    count, first = yield from first_groups(broker, GROUPS_SHOWN_MAX, is_shown)
    for each in first:
        lag = yield from lag_of_group(broker, each.group_id)
        rows.append({**_group_row(each), "members": _members_count(broker, each), "lag": lag})
        yield
    return {"count": count, "groups": rows}


def groups_of_topic(
    broker: Broker, topic: str, is_shown: Callable[[str], bool] = anything
) -> Steps[dict[str, Any] | None]:
    """Return the groups with committed offsets of a topic and their lag in it, in steps; None for an unknown topic."""
    if broker.topics.get(topic) is None:
        return None
    rows = []
    _, first = yield from first_groups(broker, GROUPS_SHOWN_MAX, is_shown)
    for each in first:
        partitions, lag = 0, None
        for view in committed_offsets(broker, each.group_id, topic):
            partitions += 1
            lag = add_lag(lag, view.lag)
            if partitions % THINGS_PER_STEP == 0:
                yield
        if partitions:
            rows.append({"group": cut_name(each.group_id), "partitions": partitions, "lag": lag})
        yield
    return {"groups": rows}


def _group_row(found: GroupView) -> dict[str, Any]:
    return {
        "group": cut_name(found.group_id),
        "type": found.group_type.value,
        "state": found.state,
        "protocol": cut_name(found.protocol_type),
        "is_empty": found.is_empty,
        "may_reset": found.is_empty and found.group_type is not GroupType.SHARE,
    }


def group(broker: Broker, group_id: str, is_shown: Callable[[str], bool] = anything) -> Steps[dict[str, Any] | None]:
    """Return a group with its members, and its lag in the partitions of shown topics, in steps; None if unknown."""
    found = find_group(broker, group_id)
    if found is None:
        return None
    view, members = found
    seen = _Seen(is_shown)
    shown = yield from first_few(
        seen.offsets(group_offsets(broker, group_id, seen.members(members))), PARTITIONS_SHOWN_MAX, offset_order
    )
    return {
        **_group_row(view),
        "members_count": seen.members_count,
        "members": seen.member_rows,
        "lag": seen.lag,
        "offsets_count": seen.offsets_count,
        "offsets": [_offset_row(each) for each in shown],
    }


class _Seen:
    """The rows and sums of one iteration over the offsets of a group, which can have 100,000 of them."""

    def __init__(self, is_shown: Callable[[str], bool]) -> None:
        self._is_shown = is_shown
        self.lag: int | None = None
        self.members_count = self.offsets_count = 0
        self.member_rows: list[dict[str, Any]] = []

    def members(self, members: Iterable[MemberView]) -> Iterator[MemberView]:
        for each in members:
            if self.members_count < MEMBERS_SHOWN_MAX:
                self.member_rows.append(_member_row(each, self._is_shown))
            self.members_count += 1
            yield each

    def offsets(self, views: Iterable[OffsetView]) -> Iterator[OffsetView]:
        for each in views:
            self.lag = add_lag(self.lag, each.lag)
            if self._is_shown(each.topic):
                self.offsets_count += 1
                yield each


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


def _member_row(member: MemberView, is_shown: Callable[[str], bool]) -> dict[str, Any]:
    return {
        "member": cut_name(member.member_id),
        "instance": None if member.instance_id is None else cut_name(member.instance_id),
        "client": cut_name(member.client_id),
        "host": member.client_host,
        "assignment": None if member.assignment is None else _first_partitions(member.assignment, is_shown),
        "backup_tasks": member.backup_tasks,
    }


def _first_partitions(
    assignment: Mapping[str, Sequence[int]], is_shown: Callable[[str], bool]
) -> dict[str, Sequence[int]]:
    left, shown = ASSIGNED_SHOWN_MAX, {}
    for topic, partitions in assignment.items():
        if left <= 0:
            break
        if not is_shown(topic):
            continue
        shown[topic] = partitions[:left]
        left -= len(partitions)
    return shown


@attrs.frozen(kw_only=True)
class OffsetReset:
    """A request to move the committed offsets of an empty group.

    Attributes:
        partition: None for all partitions of the topic.
        to: `earliest`, `latest`, `offset` or `time`.
        value: the offset, or milliseconds since 1970.
    """

    group_id: str
    topic: str
    partition: int | None
    to: str
    value: int = 0

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> OffsetReset:
        """Parse the body of a request.

        Raises:
            RequestError: a field is missing or invalid.
        """
        to = text(body, "to")
        if to not in {"earliest", "latest", "offset", "time"}:
            raise RequestError(f"cannot reset to {to!r}; use earliest, latest, offset or time")
        return cls(
            group_id=text(body, "group"),
            topic=text(body, "topic"),
            partition=optional_number(body, "partition"),
            to=to,
            value=optional_number(body, "value") or 0,
        )


OffsetSearch = Callable[[], int]
"""Finds an offset in a thread. Raises OSError or LogError if the log cannot be read."""


def plan_reset(broker: Broker, reset: OffsetReset) -> dict[int, int | OffsetSearch]:
    """Return the new offset of each partition, or a function that finds it in a thread.

    Raises:
        RequestError: the group, topic or partition does not exist, the group has members or is a share group, or a
            log cannot be read.
    """
    _check_group(broker, reset.group_id)
    if broker.topics.get(reset.topic) is None:
        raise RequestError(f"the topic {reset.topic!r} does not exist")
    logs = {log.partition: log for log in broker.logs.partitions(reset.topic)}
    if reset.partition is not None:
        if reset.partition not in logs:
            raise RequestError(f"the topic {reset.topic!r} has no partition {reset.partition}")
        logs = {reset.partition: logs[reset.partition]}
    return {partition: _target(log, reset) for partition, log in logs.items()}


def _check_group(broker: Broker, group_id: str) -> None:
    coordinator = coordinator_of(broker, group_id)
    found = None if coordinator is None else coordinator.registry.get(group_id)
    if found is None or found.is_deleted:
        raise RequestError(f"the group {group_id!r} does not exist")
    if found.group_type is GroupType.SHARE:
        raise RequestError(f"{group_id!r} is a share group; reset it with AlterShareGroupOffsets")
    if not found.is_empty:
        raise RequestError(f"{group_id!r} has members, which would overwrite the reset; stop them first")


def _target(log: PartitionLog, reset: OffsetReset) -> int | OffsetSearch:
    if reset.to == "earliest":
        return log.log_start_offset
    if reset.to == "latest":
        return log.high_watermark
    if reset.to == "offset":
        return min(max(reset.value, log.log_start_offset), log.high_watermark)
    end_offset = log.high_watermark
    try:
        found = log.offset_for_timestamp(reset.value)
    except (OSError, LogError) as error:
        raise RequestError(f"the log of {log.folder} cannot be read: {error}") from None
    if isinstance(found, ColdRead):
        cold = found

        def search() -> int:
            later = cold()
            return end_offset if later is None else later.offset

        return search
    return end_offset if found is None else found.offset


def reset_request(broker: Broker, reset: OffsetReset, offsets: Mapping[int, int]) -> OffsetCommitRequest:
    """Return the OffsetCommit for the new offsets, like Kafka's tool. Handle it at once, while the group is empty.

    Raises:
        RequestError: the group now has members, or the group or topic was deleted.
    """
    # Members can have joined while a thread searched the offsets.
    _check_group(broker, reset.group_id)
    found = broker.topics.get(reset.topic)
    if found is None:
        raise RequestError(f"the topic {reset.topic!r} does not exist")
    partitions = [
        OffsetCommitRequest.OffsetCommitRequestPartition(partition_index=partition, committed_offset=offset)
        for partition, offset in sorted(offsets.items())
    ]
    topic = OffsetCommitRequest.OffsetCommitRequestTopic(
        name=found.name, topic_id=found.topic_id, partitions=partitions
    )
    return OffsetCommitRequest(group_id=reset.group_id, topics=[topic])
