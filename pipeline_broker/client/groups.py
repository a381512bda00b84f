"""Groups: list and delete them, read and commit their offsets, compute their lag."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import attrs

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.base.lag import lag_of
from pipeline_broker.client.answers import answer_to, answers_to
from pipeline_broker.client.cluster_client import ClusterClient
from pipeline_broker.client.errors import ClientError, check
from pipeline_broker.client.offsets import list_offsets
from pipeline_broker.client.topology import TopicPartition, partition_words
from pipeline_broker.wire.messages.groups.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from pipeline_broker.wire.messages.groups.list_groups import ListGroupsRequest, ListGroupsResponse
from pipeline_broker.wire.messages.groups.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from pipeline_broker.wire.messages.groups.offset_fetch import OffsetFetchRequest, OffsetFetchResponse

__all__ = ["Committed", "ListedGroup", "commit", "committed_offsets", "delete_groups", "lags_of", "list_groups"]

_COMMIT_VERSIONS = range(2, 10)  # those with topic names instead of ids
_FETCH_VERSIONS = range(2, 10)  # the same; since version 2 null topics mean all
_OF_MANY_GROUPS = range(8, 10)
NO_GENERATION = -1


@attrs.frozen(slots=True)
class ListedGroup:
    """A group in a list. Older brokers leave `type` or `state` empty."""

    group: str
    type: str
    protocol: str
    state: str
    coordinator: int


@attrs.frozen(slots=True)
class Committed:
    offset: int
    metadata: str | None = None


async def list_groups(cluster: ClusterClient) -> list[ListedGroup]:
    """Return all groups of a cluster, sorted by id. Every broker lists the groups that it coordinates.

    Raises:
        ClientError: a broker cannot be reached, or reports an error.
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


async def committed_offsets(
    cluster: ClusterClient, group: str, *, is_stable: bool = True
) -> dict[TopicPartition, Committed]:
    """Return all committed offsets of a group.

    Args:
        group: the group id; an unknown group has no committed offsets.
        is_stable: wait for transactions that are about to commit offsets of the group (KIP-447).

    Raises:
        ClientError: the coordinator reports an error or cannot be reached.
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
    cluster: ClusterClient,
    group: str,
    offsets: Mapping[TopicPartition, int],
    *,
    generation: int = NO_GENERATION,
    member: str = "",
) -> None:
    """Commit offsets of a group.

    Args:
        offsets: the next offset to read in each partition.
        generation: the generation of the member; -1 for a group without members.
        member: the id of the member; "" for a group without members.

    Raises:
        BrokerRefused: the coordinator rejects the commit, for example because the generation or member is unknown, a
            topic is unknown or not permitted, or the group has members and the commit names none.
        ClientError: the coordinator cannot be reached.
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


async def delete_groups(cluster: ClusterClient, groups: Sequence[str]) -> None:
    """Delete groups without members, one after the other.

    Raises:
        ClientError: a group is unknown or has members, or its coordinator cannot be reached. The groups before it are
            deleted.
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
    cluster: ClusterClient, committed: Mapping[TopicPartition, Committed], also: Iterable[TopicPartition] = ()
) -> list[dict[str, Any]]:
    """Return a row for each partition: `topic`, `partition`, `committed`, `end`, `lag` and `metadata`.

    `committed` and `metadata` are None without a committed offset, and `end` is None for an unknown partition. `lag` is
    None if one of the two offsets is None.

    Args:
        committed: the committed offsets of a group.
        also: assigned partitions, which may have no committed offset.

    Raises:
        ClientError: a leader cannot be reached.
    """
    partitions = sorted({*committed, *also})
    topology = await cluster.refresh(sorted({topic for topic, _ in partitions}))
    # A committed offset outlives its topic. `list_offsets` would fail for the missing partition.
    existing = [
        (topic, partition)
        for topic, partition in partitions
        if topic in topology.topics and partition < len(topology.topics[topic].partitions)
    ]
    ends = await list_offsets(cluster, dict.fromkeys(existing, -1))
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
