"""Descriptions of groups for people: state, members, assignments and lag.

Groups of every kind have the same form. The client asks the coordinator for a consumer group first, then for a classic
one, a share group and a streams group. It decodes assignments of classic members only for the protocol type `consumer`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import attrs
import trio

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.base.first_cause import first_cause
from pipeline_broker.base.lag import total_lag
from pipeline_broker.client.answers import answer_to
from pipeline_broker.client.cluster_client import ClusterClient
from pipeline_broker.client.errors import BrokerRefused, NoSuchGroup, check
from pipeline_broker.client.groups import ListedGroup, committed_offsets, lags_of
from pipeline_broker.client.share_offsets import share_starts
from pipeline_broker.wire.consumer_protocol import assigned_partitions
from pipeline_broker.wire.messages.groups.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from pipeline_broker.wire.messages.groups.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from pipeline_broker.wire.messages.groups.streams_group_describe import (
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
)
from pipeline_broker.wire.messages.share.share_group_describe import (
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
)

__all__ = ["SHARE", "describe_group", "describe_groups", "group_state"]

AT_ONCE = 8
"""Number of groups that `describe_groups` describes concurrently."""

DEAD = "Dead"
_NOT_THIS_KIND = frozenset(
    {
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.UNSUPPORTED_VERSION,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_GROUP_ID,
    }
)
_CONSUMER, SHARE, _STREAMS = "consumer", "share", "streams"
_KINDS = (
    (ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse, _CONSUMER),
    (DescribeGroupsRequest, DescribeGroupsResponse, "classic"),
    (ShareGroupDescribeRequest, ShareGroupDescribeResponse, SHARE),
    (StreamsGroupDescribeRequest, StreamsGroupDescribeResponse, _STREAMS),
)


async def group_state(cluster: ClusterClient, group: str) -> dict[str, Any]:
    """Describe a group without its offsets: `group`, `type`, `state`, `coordinator`, `protocol`, `assignor`, `members`.

    A streams group also has `internal_topics`: its `repartition` and `changelog` topics. Each of its members has
    `standby` and `warmup`: tasks by Kafka's names, such as `0_1`.

    Raises:
        NoSuchGroup: the coordinator does not know the group.
        ClientError: the coordinator cannot be reached, or reports another error.
    """

    async def attempt(node: int) -> dict[str, Any]:
        link = await cluster.link(node)
        for request_type, response_type, kind in _KINDS:
            if not link.has_api(request_type.SCHEMA.key):
                continue
            answer: Any = await cluster.ask(request_type([group]), response_type, node=node)
            found = answer_to(group, ((it.group_id, it) for it in answer.groups), f"group {group}")
            try:
                check(found.error_code, f"group {group}", found.error_message)
            except BrokerRefused as error:
                # A coordinator rejects a description of the wrong kind with one of these errors, so try the next kind.
                if error.code in _NOT_THIS_KIND:
                    continue
                raise
            if found.group_state != DEAD:
                return _shown(found, kind, node)
        raise NoSuchGroup(f"unknown group {group!r}: see `groups list`")

    return await cluster.at_coordinator(group, attempt)


async def describe_group(cluster: ClusterClient, group: str) -> dict[str, Any]:
    """Describe a group like `group_state`, with its total `lag` and its `offsets`.

    `offsets` has a row for each committed or assigned partition. `lag` is None if no lag is known.

    Raises:
        NoSuchGroup: the coordinator does not know the group.
        ClientError: a broker cannot be reached, or reports another error.
    """
    shown = await group_state(cluster, group)
    if shown["type"] == SHARE:
        committed = await share_starts(cluster, group)
    else:
        committed = await committed_offsets(cluster, group, is_stable=False)
    readers = {
        (assigned["topic"], partition): member
        for member in shown["members"]
        for assigned in member["assignment"]
        for partition in assigned["partitions"]
    }
    rows = await lags_of(cluster, committed, () if shown["type"] == SHARE else readers)
    for row in rows:
        member = readers.get((row["topic"], row["partition"]), {})
        row.update({name: member.get(name) for name in ("member", "client_id", "host")})
    return {**shown, "lag": total_lag(row["lag"] for row in rows), "offsets": rows}


async def describe_groups(cluster: ClusterClient, groups: Sequence[ListedGroup]) -> list[dict[str, Any]]:
    """Return a row for each listed group, with `members` (a number) and `lag`.

    Both are None if the broker refuses to describe the group. `lag` is also None if no lag is known. Groups that no
    longer exist are omitted.

    Raises:
        ClientError: a broker cannot be reached.
    """
    rows = [{**attrs.asdict(it), "members": None, "lag": None} for it in groups]
    deleted: list[dict[str, Any]] = []

    async def describe(row: dict[str, Any], limiter: trio.CapacityLimiter) -> None:
        async with limiter:
            try:
                described = await describe_group(cluster, row["group"])
            except NoSuchGroup:
                deleted.append(row)
            except BrokerRefused:
                pass
            else:
                row.update(members=len(described["members"]), lag=described["lag"])

    try:
        async with trio.open_nursery() as nursery:
            limiter = trio.CapacityLimiter(AT_ONCE)
            for row in rows:
                nursery.start_soon(describe, row, limiter)
    except BaseExceptionGroup as errors:
        raise first_cause(errors) from None
    return [row for row in rows if row not in deleted]


def _shown(found: Any, kind: str, node: int) -> dict[str, Any]:
    is_classic = isinstance(found, DescribeGroupsResponse.DescribedGroup)
    more = {"internal_topics": _internal_topics(found)} if kind == _STREAMS else {}
    return {
        "group": found.group_id,
        "type": kind,
        "state": found.group_state,
        "coordinator": node,
        "protocol": found.protocol_type if is_classic else kind,
        "assignor": found.protocol_data if is_classic else found.assignor_name,
        "members": [_member(it, found) for it in found.members],
        **more,
    }


def _member(member: Any, group: Any) -> dict[str, Any]:
    instance, more = getattr(member, "instance_id", None), {}
    if isinstance(group, DescribeGroupsResponse.DescribedGroup):
        instance = member.group_instance_id
        assigned = assigned_partitions(group.protocol_type, member.member_assignment) or {}
    elif isinstance(group, StreamsGroupDescribeResponse.DescribedGroup):
        assigned = _inputs(member, group)
        tasks = member.assignment
        more = {"standby": _task_names(tasks.standby_tasks), "warmup": _task_names(tasks.warmup_tasks)}
    else:
        assigned = {it.topic_name: tuple(sorted(it.partitions)) for it in member.assignment.topic_partitions}
    return {
        "member": member.member_id,
        "instance": instance,
        "client_id": member.client_id,
        "host": member.client_host.removeprefix("/"),
        "assignment": [
            {"topic": topic, "partitions": list(partitions)} for topic, partitions in sorted(assigned.items())
        ],
        **more,
    }


def _inputs(
    member: StreamsGroupDescribeResponse.Member, group: StreamsGroupDescribeResponse.DescribedGroup
) -> dict[str, tuple[int, ...]]:
    """Return the source topics of a member's active tasks, each with the numbers of the tasks."""
    tasks = {it.subtopology_id: tuple(it.partitions) for it in member.assignment.active_tasks}
    return {
        topic: tasks[part.subtopology_id]
        for part in _subtopologies(group)
        if part.subtopology_id in tasks
        for topic in (*part.source_topics, *(it.name for it in part.repartition_source_topics))
    }


def _subtopologies(
    group: StreamsGroupDescribeResponse.DescribedGroup,
) -> Sequence[StreamsGroupDescribeResponse.Subtopology]:
    return () if group.topology is None else group.topology.subtopologies or ()


def _task_names(tasks: Iterable[StreamsGroupDescribeResponse.TaskIds]) -> list[str]:
    return [f"{it.subtopology_id}_{partition}" for it in tasks for partition in sorted(it.partitions)]


def _internal_topics(group: StreamsGroupDescribeResponse.DescribedGroup) -> dict[str, list[str]]:
    parts = _subtopologies(group)
    return {
        "repartition": sorted({it.name for part in parts for it in part.repartition_source_topics}),
        "changelog": sorted({it.name for part in parts for it in part.state_changelog_topics}),
    }
