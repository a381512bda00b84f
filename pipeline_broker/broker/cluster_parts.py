"""The parts of a broker that differ between one alone and a member of a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pipeline_broker.broker.leadership import Leadership
from pipeline_broker.state.placed_partitions import OneBroker
from pipeline_broker.state.producer_ids import ProducerIds
from pipeline_broker.state.topics import TopicCatalogue

if TYPE_CHECKING:
    from pipeline_broker.broker.cluster_members import ClusterMembers
    from pipeline_broker.broker.ports import Ports
    from pipeline_broker.broker.remote_markers import RemoteMarkers
    from pipeline_broker.config.broker_config import BrokerConfig
    from pipeline_broker.log.log_manager import LogManager

__all__ = ["ClusterParts"]


class ClusterParts(NamedTuple):
    """The parts of one broker. `members` and `remote_markers` are None without a cluster."""

    topics: TopicCatalogue
    leadership: Leadership
    producer_ids: ProducerIds
    members: ClusterMembers | None = None
    remote_markers: RemoteMarkers | None = None

    @classmethod
    def of(cls, config: BrokerConfig, logs: LogManager, ports: Ports) -> ClusterParts:
        if ports.cluster is None:
            topics = TopicCatalogue(config.num_partitions, OneBroker(config.node_id))
            return cls(topics, Leadership(config.node_id, ports.advertised, logs.leader_epoch), ProducerIds())
        from pipeline_broker.broker.cluster_leadership import ClusterLeadership  # noqa: PLC0415 - only in a cluster
        from pipeline_broker.broker.cluster_members import ClusterMembers  # noqa: PLC0415 - as above
        from pipeline_broker.broker.remote_markers import RemoteMarkers  # noqa: PLC0415 - as above

        members = ClusterMembers(config.node_id, ports.cluster.controller_id, ports.cluster.replication)
        topics = TopicCatalogue(config.num_partitions, members.placement)
        leadership = ClusterLeadership(members, ports.advertised, logs.leader_epoch, topics)
        markers = RemoteMarkers(members, leadership, topics, ports.cluster, ports.wake_timer)
        return cls(topics, leadership, ProducerIds(members.first_producer_id), members, markers)
