"""Deletion of records before an offset (DeleteRecords, KIP-107): a plan that a person can check, and its execution."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from pipeline_broker.client.answers import answers_to
from pipeline_broker.client.cluster_client import ClusterClient
from pipeline_broker.client.errors import check
from pipeline_broker.client.offsets import Place, bounds_of, offsets_at
from pipeline_broker.client.topology import TopicPartition, partition_words
from pipeline_broker.wire.messages.data.delete_records import DeleteRecordsRequest, DeleteRecordsResponse

__all__ = ["delete_planned", "plan_deletion"]


async def plan_deletion(
    cluster: ClusterClient, topics: Mapping[str, Collection[int]], before: Place
) -> list[dict[str, Any]]:
    """Plan a deletion: a row for each partition with `topic`, `partition`, `start`, the new start `to`, and `end`.

    Args:
        topics: partitions by topic; empty: all of the topic.
        before: the position of the new log start, limited to the offsets of the partition.

    Raises:
        NoSuchTopic: a topic is unknown.
        NoSuchPartition: a topic has fewer partitions.
        ClientError: a leader cannot be reached.
    """
    topology = await cluster.refresh(sorted(topics))
    partitions: list[TopicPartition] = []
    for name, numbers in sorted(topics.items()):
        topic = topology.topic(name)
        chosen = sorted(numbers) or [it.index for it in topic.partitions]
        partitions += [(name, topic.partition(number).index) for number in chosen]
    bounds = await bounds_of(cluster, partitions)
    places = await offsets_at(cluster, before, bounds, is_exact=False)
    return [
        {
            "topic": topic,
            "partition": partition,
            "start": bounds[topic, partition].start,
            "to": places[topic, partition],
            "end": bounds[topic, partition].end,
        }
        for topic, partition in partitions
    ]


async def delete_planned(cluster: ClusterClient, plan: Sequence[Mapping[str, Any]]) -> None:
    """Delete the records of a plan. Rows with nothing to delete cause no request.

    Raises:
        BrokerRefused: the leader of a partition rejects the deletion. Records of other partitions may be deleted
            already.
        ClientError: a leader cannot be reached.
    """
    wanted = {(row["topic"], row["partition"]): row["to"] for row in plan if row["to"] > row["start"]}

    async def attempt(node: int, led: list[TopicPartition]) -> dict[TopicPartition, Any]:
        topics: dict[str, DeleteRecordsRequest.DeleteRecordsTopic] = {}
        for topic, number in led:
            asked = topics.setdefault(topic, DeleteRecordsRequest.DeleteRecordsTopic(topic, []))
            asked.partitions.append(DeleteRecordsRequest.DeleteRecordsPartition(number, wanted[topic, number]))
        request = DeleteRecordsRequest(list(topics.values()), round(cluster.timeout_s * 1000))
        answer = await cluster.ask(request, DeleteRecordsResponse, node=node)
        named = (((topic.name, it.partition_index), it) for topic in answer.topics for it in topic.partitions)
        found = answers_to(led, named, partition_words)
        for partition, it in found.items():
            check(it.error_code, f"records of {partition_words(partition)}")
        return found

    await cluster.at_leaders(wanted, attempt)
