"""Start offsets of share groups, which commit no offsets."""

from __future__ import annotations

from collections.abc import Mapping

from pipeline_broker.client.answers import answer_to, answers_to
from pipeline_broker.client.cluster_client import ClusterClient
from pipeline_broker.client.errors import check
from pipeline_broker.client.groups import Committed
from pipeline_broker.client.topology import TopicPartition, partition_words
from pipeline_broker.wire.messages.share.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse,
)
from pipeline_broker.wire.messages.share.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsResponse,
)

__all__ = ["alter_share_starts", "share_starts"]


async def share_starts(cluster: ClusterClient, group: str) -> dict[TopicPartition, Committed]:
    request = DescribeShareGroupOffsetsRequest([DescribeShareGroupOffsetsRequest.Group(group, None)])

    async def attempt(node: int) -> dict[TopicPartition, Committed]:
        answer = await cluster.ask(request, DescribeShareGroupOffsetsResponse, node=node)
        found = answer_to(group, ((it.group_id, it) for it in answer.groups), f"group {group}")
        check(found.error_code, f"the offsets of group {group}", found.error_message)
        return {
            (topic.topic_name, it.partition_index): Committed(it.start_offset)
            for topic in found.topics
            for it in topic.partitions
            if it.start_offset >= 0
        }

    return await cluster.at_coordinator(group, attempt)


async def alter_share_starts(cluster: ClusterClient, group: str, starts: Mapping[TopicPartition, int]) -> None:
    """Set start offsets of a share group without members.

    Raises:
        BrokerRefused: the group has members, or the coordinator refuses a partition.
        ClientError: the coordinator cannot be reached.
    """
    topics: dict[str, AlterShareGroupOffsetsRequest.Topic] = {}
    for (topic, partition), start in starts.items():
        asked = topics.setdefault(topic, AlterShareGroupOffsetsRequest.Topic(topic))
        asked.partitions.append(AlterShareGroupOffsetsRequest.Partition(partition, start))
    request = AlterShareGroupOffsetsRequest(group, list(topics.values()))

    async def attempt(node: int) -> None:
        answer = await cluster.ask(request, AlterShareGroupOffsetsResponse, node=node)
        check(answer.error_code, f"the start offsets of group {group}", answer.error_message)
        named = (((topic.topic_name, it.partition_index), it) for topic in answer.responses for it in topic.partitions)
        for partition, it in answers_to(starts, named, partition_words).items():
            check(it.error_code, f"the start of {partition_words(partition)} of group {group}", it.error_message)

    await cluster.at_coordinator(group, attempt)
