"""Reset of committed offsets: a plan that a person can check, and its commit.

Like kafka-consumer-groups, a plan stays within the offsets that a partition has, and needs a group without members.
Like kafka-streams-groups, it omits the repartition topics of a streams group, unless they are named.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.client.cluster_client import ClusterClient
from pipeline_broker.client.errors import BrokerRefused, ClientError, NoSuchGroup
from pipeline_broker.client.group_description import SHARE, group_state
from pipeline_broker.client.groups import Committed, commit, committed_offsets
from pipeline_broker.client.offsets import Place, bounds_of, offsets_at
from pipeline_broker.client.share_offsets import alter_share_starts, share_starts
from pipeline_broker.client.topology import TopicPartition

__all__ = ["ResetPlan", "commit_plan", "plan_reset"]

_EMPTY_STATES = frozenset({"Empty", "Dead"})
_UNKNOWN: Mapping[str, Any] = {"type": "classic", "state": "Dead", "members": []}
_HAS_MEMBERS = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.NON_EMPTY_GROUP})


class ResetPlan(NamedTuple):
    """The offsets to commit, and what a reset leaves as it is.

    Attributes:
        rows: for each partition `topic`, `partition`, `from` (None without a committed offset) and `to`.
        changelogs: topics with the state of a streams group.
        obstacle: why the commit would be refused now, or "".
        is_new: True if the commit would create the group.
    """

    rows: Sequence[Mapping[str, Any]]
    changelogs: Sequence[str]
    obstacle: str
    is_new: bool


async def plan_reset(
    cluster: ClusterClient, group: str, topics: Mapping[str, Sequence[int]] | None, to: Place | None, shift: int
) -> ResetPlan:
    """Plan a reset, within the offsets that each partition has.

    Args:
        group: the group id; the commit creates an unknown group.
        topics: partitions by topic, where an empty list means all; None: all that the group has committed.
        to: the new position; None: the committed offset plus `shift`.
        shift: a number of offsets, negative to go back.

    Raises:
        NoSuchTopic: a topic is unknown.
        NoSuchPartition: a topic has fewer partitions.
        ClientError: the group has no committed offset to reset or to shift, or a broker cannot be reached.
    """
    shown = await _state(cluster, group)
    if shown["type"] == SHARE:
        committed = await share_starts(cluster, group)
    else:
        committed = await committed_offsets(cluster, group, is_stable=False)
    internal = shown.get("internal_topics", {})
    if topics is None:
        repartition = internal.get("repartition", ())
        partitions = sorted(it for it in committed if it[0] not in repartition)
    else:
        partitions = await _partitions(cluster, topics)
    if not partitions:
        problem = "does not exist" if shown is _UNKNOWN else "has no committed offsets"
        raise ClientError(f"group {group} {problem}: name its topics with --topic")
    bounds = await bounds_of(cluster, partitions)
    if to is None:
        wanted = _shifted(group, committed, partitions, shift)
    else:
        wanted = await offsets_at(cluster, to, bounds, is_exact=False)
    rows = []
    for topic, partition in partitions:
        within, at = bounds[topic, partition], committed.get((topic, partition))
        offset = min(max(wanted[topic, partition], within.start), within.end)
        rows.append({"topic": topic, "partition": partition, "from": None if at is None else at.offset, "to": offset})
    return ResetPlan(rows, internal.get("changelog", ()), _obstacle(group, shown), shown is _UNKNOWN)


def _obstacle(group: str, shown: Mapping[str, Any]) -> str:
    # Members would overwrite the new offsets with their next commit.
    if shown["state"] in _EMPTY_STATES:
        return ""
    count = len(shown["members"])
    return f"group {group} is {shown['state']} with {count} member{'s' * (count != 1)}: stop its consumers first"


async def _state(cluster: ClusterClient, group: str) -> Mapping[str, Any]:
    try:
        return await group_state(cluster, group)
    except NoSuchGroup:
        return _UNKNOWN


async def _partitions(cluster: ClusterClient, topics: Mapping[str, Sequence[int]]) -> list[TopicPartition]:
    topology = await cluster.refresh(sorted(topics))
    found: list[TopicPartition] = []
    for topic, chosen in sorted(topics.items()):
        for partition in chosen:
            topology.leader(topic, partition)
        found += [(topic, partition) for partition in chosen or range(len(topology.topic(topic).partitions))]
    return found


def _shifted(
    group: str, committed: Mapping[TopicPartition, Committed], partitions: Sequence[TopicPartition], shift: int
) -> dict[TopicPartition, int]:
    for topic, partition in partitions:
        if (topic, partition) not in committed:
            raise ClientError(
                f"group {group} has no committed offset in {topic}-{partition}: give --to instead of --shift"
            )
    return {partition: committed[partition].offset + shift for partition in partitions}


async def commit_plan(cluster: ClusterClient, group: str, plan: ResetPlan) -> None:
    """Commit the offsets of a plan.

    Raises:
        ClientError: the group has members, or its coordinator cannot be reached.
    """
    shown = await _state(cluster, group)
    if obstacle := _obstacle(group, shown):
        raise ClientError(obstacle)
    offsets = {(row["topic"], row["partition"]): row["to"] for row in plan.rows}
    try:
        await (alter_share_starts if shown["type"] == SHARE else commit)(cluster, group, offsets)
    except BrokerRefused as error:
        if error.code in _HAS_MEMBERS:
            raise ClientError(f"new members have joined group {group}: stop its consumers first") from None
        raise
