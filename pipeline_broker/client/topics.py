"""Topics: list, describe, create and delete them, and add partitions. Their settings are in `configs`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pipeline_broker.client.answers import answer_to
from pipeline_broker.client.cluster_client import ClusterClient
from pipeline_broker.client.errors import check, check_topic
from pipeline_broker.client.offsets import bounds_of
from pipeline_broker.client.topology import Topic, TopicPartition
from pipeline_broker.wire.messages.topics.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse
from pipeline_broker.wire.messages.topics.create_topics import CreateTopicsRequest, CreateTopicsResponse
from pipeline_broker.wire.messages.topics.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse

__all__ = ["add_partitions", "create_topic", "delete_topic", "describe_topic", "list_topics"]

DEFAULT = -1
"""The broker's default number of partitions or replicas (KIP-464)."""
_DELETE_VERSIONS = range(1, 6)  # those with topic names instead of ids


async def list_topics(cluster: ClusterClient) -> list[Topic]:
    topology = await cluster.refresh(None)
    return [topology.topics[name] for name in sorted(topology.topics)]


async def describe_topic(cluster: ClusterClient, name: str) -> dict[str, Any]:
    """Describe a topic: `topic`, `id`, `internal`, `replication_factor` and `partitions`.

    Each of the `partitions` has its replicas, its leader, and its `start` and `end` offset. The last three are None
    while the partition has no leader.

    Raises:
        NoSuchTopic: the topic is unknown.
        ClientError: the client may not describe the topic, or a leader cannot be reached.
    """
    topology = await cluster.refresh([name])
    topic = topology.topic(name)
    led: list[TopicPartition] = [(name, it.index) for it in topic.partitions if it.leader in topology.brokers]
    bounds = await bounds_of(cluster, led)
    partitions = []
    for it in topic.partitions:
        within = bounds.get((name, it.index))
        partitions.append(
            {
                "partition": it.index,
                "leader": it.leader if it.leader in topology.brokers else None,
                "replicas": list(it.replicas),
                "isr": list(it.isr),
                "offline": list(it.offline),
                "start": None if within is None else within.start,
                "end": None if within is None else within.end,
            }
        )
    return {
        "topic": name,
        "id": topic.topic_id,
        "internal": topic.is_internal,
        "replication_factor": topic.replication_factor,
        "partitions": partitions,
    }


async def create_topic(
    cluster: ClusterClient,
    name: str,
    partitions: int = DEFAULT,
    replicas: int = DEFAULT,
    configs: Mapping[str, str] | None = None,
) -> None:
    """Create a topic.

    Args:
        partitions: the number of partitions; DEFAULT: the broker's default.
        replicas: the replication factor; DEFAULT: the broker's default.
        configs: settings by Kafka's names.

    Raises:
        BrokerRefused: the topic exists, or the broker rejects it.
        ClientError: the controller cannot be reached.
    """
    topic = CreateTopicsRequest.CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replicas,
        configs=[CreateTopicsRequest.CreatableTopicConfig(*pair) for pair in (configs or {}).items()],
    )
    request = CreateTopicsRequest([topic], timeout_ms=round(cluster.timeout_s * 1000))

    async def attempt() -> None:
        answer = await cluster.ask_controller(request, CreateTopicsResponse)
        it = answer_to(name, ((it.name, it) for it in answer.topics), f"topic {name}")
        check(it.error_code, f"topic {name}", it.error_message)

    await cluster.retrying(attempt)


async def delete_topic(cluster: ClusterClient, name: str) -> None:
    """Delete a topic with its records.

    Raises:
        NoSuchTopic: the topic is unknown.
        BrokerRefused: the client may not delete the topic.
        ClientError: the controller cannot be reached.
    """
    request = DeleteTopicsRequest(topic_names=[name], timeout_ms=round(cluster.timeout_s * 1000))

    async def attempt() -> None:
        answer = await cluster.ask_controller(request, DeleteTopicsResponse, _DELETE_VERSIONS)
        it = answer_to(name, ((it.name, it) for it in answer.responses), f"topic {name}")
        check_topic(it.error_code, name, f"topic {name}", it.error_message)

    await cluster.retrying(attempt)


async def add_partitions(cluster: ClusterClient, name: str, count: int) -> None:
    """Add partitions to a topic.

    Args:
        count: the new total.

    Raises:
        NoSuchTopic: the topic is unknown.
        BrokerRefused: the topic has `count` partitions or more, or the broker rejects the change.
        ClientError: the controller cannot be reached.
    """
    topic = CreatePartitionsRequest.CreatePartitionsTopic(name, count, None)
    request = CreatePartitionsRequest([topic], timeout_ms=round(cluster.timeout_s * 1000))

    async def attempt() -> None:
        answer = await cluster.ask_controller(request, CreatePartitionsResponse)
        it = answer_to(name, ((it.name, it) for it in answer.results), f"topic {name}")
        check_topic(it.error_code, name, f"topic {name}", it.error_message)

    await cluster.retrying(attempt)
