"""Descriptions of a cluster for people: its brokers and their log directories.

Values that older brokers omit are None.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from pipeline_broker.client.cluster_client import ClusterClient
from pipeline_broker.client.errors import check
from pipeline_broker.client.topology import Topology
from pipeline_broker.wire.messages.cluster.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse

__all__ = ["describe_cluster", "log_dirs_of"]

UNKNOWN = -1


async def describe_cluster(cluster: ClusterClient) -> dict[str, Any]:
    """Describe a cluster: `cluster_id`, `controller`, and `brokers` with `broker`, `host`, `port`, `rack` and `leads`.

    `leads` is the number of partitions that the broker leads. `controller` is None while it is unknown.

    Raises:
        ClientError: no broker can be reached.
    """
    topology = await cluster.refresh(None)
    leads = _led_partitions(topology)
    return {
        "cluster_id": topology.cluster_id,
        "controller": topology.controller_id if topology.controller_id in topology.brokers else None,
        "brokers": [
            {"broker": node, "host": it.host, "port": it.port, "rack": it.rack, "leads": leads.get(node, 0)}
            for node, it in sorted(topology.brokers.items())
        ],
    }


def _led_partitions(topology: Topology) -> dict[int, int]:
    found: dict[int, int] = {}
    for topic in topology.topics.values():
        for partition in topic.partitions:
            found[partition.leader] = found.get(partition.leader, 0) + 1
    return found


async def log_dirs_of(
    cluster: ClusterClient, brokers: Collection[int], topics: Collection[str]
) -> list[dict[str, Any]]:
    """Describe log directories: `broker`, `directory`, `total_bytes`, `usable_bytes` and `partitions`.

    Each of the `partitions` has `topic`, `partition` and `bytes`. If a broker does not report `total_bytes` and
    `usable_bytes`, they are None.

    Args:
        brokers: ids of brokers; empty: all.
        topics: list only partitions of these topics; empty: all.

    Raises:
        NoSuchTopic: a topic is unknown.
        ClientError: a broker is unknown, cannot be reached, or reports an error.
    """
    topology = await cluster.refresh(())
    wanted = None
    if topics:
        known = await cluster.refresh(sorted(topics))
        wanted = [
            DescribeLogDirsRequest.DescribableLogDirTopic(name, [it.index for it in known.topic(name).partitions])
            for name in sorted(topics)
        ]
    found = []
    for node in sorted(brokers or topology.brokers):

        async def attempt(node: int = node) -> DescribeLogDirsResponse:
            answer = await cluster.ask(DescribeLogDirsRequest(wanted), DescribeLogDirsResponse, node=node)
            check(answer.error_code, f"the log directories of broker {node}")
            for it in answer.results:
                check(it.error_code, f"{it.log_dir} of broker {node}")
            return answer

        answer = await cluster.retrying(attempt)
        found += [
            {
                "broker": node,
                "directory": it.log_dir,
                "total_bytes": None if it.total_bytes == UNKNOWN else it.total_bytes,
                "usable_bytes": None if it.usable_bytes == UNKNOWN else it.usable_bytes,
                "partitions": sorted(
                    (
                        {"topic": topic.name, "partition": each.partition_index, "bytes": each.partition_size}
                        for topic in it.topics
                        for each in topic.partitions
                    ),
                    key=lambda row: (row["topic"], row["partition"]),
                ),
            }
            for it in answer.results
        ]
    return found
