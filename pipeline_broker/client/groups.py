"""Lists groups, reads their offsets and lag, deletes them.

Rules of this file: every broker is asked for the groups that it coordinates, one group at its coordinator.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import attrs

from pipeline_broker.client.answers import answer_to, answers_to
from pipeline_broker.client.cluster import Cluster
from pipeline_broker.client.errors import ClientError, check
from pipeline_broker.client.offsets import list_offsets
from pipeline_broker.client.topology import TopicPartition, partition_words
from pipeline_broker.lag import lag_of
from pipeline_broker.wire.error import ErrorCode
from pipeline_broker.wire.messages.groups.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from pipeline_broker.wire.messages.groups.list_groups import ListGroupsRequest, ListGroupsResponse
from pipeline_broker.wire.messages.groups.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from pipeline_broker.wire.messages.groups.offset_fetch import OffsetFetchRequest, OffsetFetchResponse

__all__ = ["Committed", "ListedGroup", "commit", "committed_offsets", "delete_groups", "lags_of", "list_groups"]

_COMMIT_VERSIONS = range(2, 10)  # those that name topics
_FETCH_VERSIONS = range(2, 10)  # the same, and can be asked for all
_OF_MANY_GROUPS = range(8, 10)
NO_GENERATION = -1


@attrs.frozen(slots=True)
class ListedGroup:
    """What a list says of a group; a broker that is old says less."""

    group: str
    type: str
    protocol: str
    state: str
    coordinator: int


@attrs.frozen(slots=True)
class Committed:
    """An offset that a group has committed."""

    offset: int
    metadata: str | None = None


async def list_groups(cluster: Cluster) -> list[ListedGroup]:
    """All groups of a cluster, by their names.

    Raises:
        ClientError: a broker cannot be asked.
    """
    topology = await cluster.refresh(())
    found: dict[str, ListedGroup] = {}
    for node in sorted(topology.brokers):

        async def attempt(node: int = node) -> None:
            answer = await cluster.ask(ListGroupsRequest(), ListGroupsResponse, node=node)
            check(answer.error_code, f"the groups of broker {node}")
            for it in answer.groups:
                found[it.group_id] = ListedGroup(
                    it.group_id, it.group_type.lower(), it.protocol_type, it.group_state, node
                )

        await cluster.retrying(attempt)
    return [found[name] for name in sorted(found)]


async def committed_offsets(cluster: Cluster, group: str, *, is_stable: bool = True) -> dict[TopicPartition, Committed]:
    """All that a group has committed.

    Args:
        cluster: whose group it is.
        group: its id; one that nobody knows has committed nothing.
        is_stable: wait for transactions that are about to commit offsets of the group (KIP-447).

    Raises:
        ClientError: the coordinator refuses.
    """

    async def attempt(node: int) -> dict[TopicPartition, Committed]:
        link = await cluster.link(node)
        of_many = link.version(OffsetFetchRequest, _FETCH_VERSIONS) in _OF_MANY_GROUPS
        asked = OffsetFetchRequest.OffsetFetchRequestGroup(group_id=group, topics=None)
        if of_many:
            request = OffsetFetchRequest(groups=[asked], require_stable=is_stable)
        else:
            request = OffsetFetchRequest(group_id=group, topics=None)
        answer = await cluster.ask(request, OffsetFetchResponse, node=node, versions=_FETCH_VERSIONS)
        found: OffsetFetchResponse | OffsetFetchResponse.OffsetFetchResponseGroup = answer
        if of_many:
            found = answer_to(group, ((it.group_id, it) for it in answer.groups), f"group {group}")
        check(found.error_code, f"the offsets of group {group}")
        offsets = {}
        for topic in found.topics:
            for it in topic.partitions:
                check(it.error_code, f"the offset of group {group} in {topic.name}-{it.partition_index}")
                if it.committed_offset >= 0:
                    offsets[topic.name, it.partition_index] = Committed(it.committed_offset, it.metadata)
        return offsets

    return await cluster.at_coordinator(group, attempt)


async def commit(
    cluster: Cluster,
    group: str,
    offsets: Mapping[TopicPartition, int],
    *,
    generation: int = NO_GENERATION,
    member: str = "",
) -> None:
    """Commit offsets of a group.

    Args:
        cluster: whose group it is.
        offsets: what is read next in each partition.
        generation: of the member; -1: of nobody, for a group without members.
        member: who commits.

    Raises:
        BrokerRefused: not by this member, or not while the group has members.
        ClientError: the coordinator cannot be asked.
    """
    topics: dict[str, OffsetCommitRequest.OffsetCommitRequestTopic] = {}
    for (topic, partition), offset in offsets.items():
        asked = topics.setdefault(topic, OffsetCommitRequest.OffsetCommitRequestTopic(name=topic))
        asked.partitions.append(
            OffsetCommitRequest.OffsetCommitRequestPartition(partition, offset, committed_metadata="")
        )
    request = OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=generation,
        member_id=member,
        topics=list(topics.values()),
    )

    async def attempt(node: int) -> None:
        answer = await cluster.ask(request, OffsetCommitResponse, node=node, versions=_COMMIT_VERSIONS)
        named = (((topic.name, it.partition_index), it) for topic in answer.topics for it in topic.partitions)
        for partition, it in answers_to(offsets, named, partition_words).items():
            check(it.error_code, f"committing {partition_words(partition)} of group {group}")

    if topics:
        await cluster.at_coordinator(group, attempt)


async def delete_groups(cluster: Cluster, groups: Sequence[str]) -> None:
    """Delete groups without members.

    Raises:
        BrokerRefused: there is no such group, or it has members.
    """
    for group in groups:

        async def attempt(node: int, group: str = group) -> None:
            answer = await cluster.ask(DeleteGroupsRequest([group]), DeleteGroupsResponse, node=node)
            it = answer_to(group, ((it.group_id, it) for it in answer.results), f"group {group}")
            if it.error_code == ErrorCode.NON_EMPTY_GROUP:
                raise ClientError(f"group {group} has members: stop its consumers first")
            check(it.error_code, f"group {group}")

        await cluster.at_coordinator(group, attempt)


async def lags_of(
    cluster: Cluster, committed: Mapping[TopicPartition, Committed], also: Iterable[TopicPartition] = ()
) -> list[dict[str, Any]]:
    """A row for each partition: what is committed, where it ends, and how much lies between.

    Args:
        cluster: whose partitions they are.
        committed: by a group.
        also: partitions that are assigned, of which nothing may be committed yet.

    Raises:
        ClientError: a leader cannot be asked.
    """
    partitions = sorted({*committed, *also})
    topology = await cluster.refresh(sorted({topic for topic, _ in partitions}))
    there = [
        (topic, partition)
        for topic, partition in partitions
        if topic in topology.topics and partition < len(topology.topics[topic].partitions)
    ]
    ends = await list_offsets(cluster, dict.fromkeys(there, -1))
    rows = []
    for topic, partition in partitions:
        at = committed.get((topic, partition))
        end = ends.get((topic, partition))
        offset = None if at is None else at.offset
        rows.append(
            {
                "topic": topic,
                "partition": partition,
                "committed": offset,
                "end": end,
                "lag": lag_of(offset, end),
                "metadata": None if at is None else at.metadata or None,
            }
        )
    return rows
