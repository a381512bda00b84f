"""Requests and responses of streams groups, independent of API versions. The API handlers translate them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import attrs

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.state.groups.streams.endpoints import EndpointPartitions
from pipeline_broker.state.groups.streams.group import TaskOffsets
from pipeline_broker.state.groups.streams.internal_topics import ConfiguredSubtopology, TopologyProblem
from pipeline_broker.state.groups.streams.member import Endpoint, MemberMetadata
from pipeline_broker.state.groups.streams.roles import AssignedTasks, assigned_tasks
from pipeline_broker.state.groups.streams.tasks import PartitionsBySubtopology, Tasks
from pipeline_broker.state.groups.streams.topology import Subtopology, TopicInfo, Topology

__all__ = ["DescribedStreamsGroup", "DescribedStreamsMember", "HeartbeatRequest", "HeartbeatResult", "OwnEndpoint"]


@attrs.frozen(kw_only=True)
class HeartbeatRequest:
    """A StreamsGroupHeartbeat request: join (epoch 0), stay (> 0), leave (-1) or leave temporarily (-2).

    Attributes:
        endpoint_epoch: the last endpoint epoch that the member received.
        rebalance_timeout_ms: -1 if unchanged.
        active, standby, warmup: tasks that the member has, by subtopology; None if unchanged.
        task_offsets, end_offsets: subtopology id, partition and sum of offsets. As for other fields, None if unchanged.
        knows_missing_tags: the client understands the status MISSING_CLIENT_TAGS (version 1 and later).
    """

    group_id: str
    member_id: str
    member_epoch: int
    endpoint_epoch: int = -1
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    topology: Topology | None = None
    active: PartitionsBySubtopology | None = None
    standby: PartitionsBySubtopology | None = None
    warmup: PartitionsBySubtopology | None = None
    process_id: str | None = None
    endpoint: Endpoint | None = None
    client_tags: Mapping[str, str] | None = None
    task_offsets: Sequence[tuple[str, int, int]] | None = None
    end_offsets: Sequence[tuple[str, int, int]] | None = None
    shutdown_application: bool = False
    client_id: str = ""
    client_host: str = ""
    knows_missing_tags: bool = True

    @property
    def owned(self) -> AssignedTasks | None:
        if self.active is None or self.standby is None or self.warmup is None:
            return None
        return assigned_tasks(Tasks(self.active, self.standby, self.warmup))


class OwnEndpoint(NamedTuple):
    endpoint: Endpoint
    partitions: EndpointPartitions


@attrs.frozen(kw_only=True)
class HeartbeatResult:
    """The response to a heartbeat.

    Attributes:
        statuses: reasons why tasks are missing, and requests to the member.
        tasks, endpoints: None if unchanged.
        topics_to_create: missing internal topics.
    """

    error: ErrorCode = ErrorCode.NONE
    message: str | None = None
    member_id: str = ""
    member_epoch: int = 0
    heartbeat_interval_ms: int = 0
    task_offset_interval_ms: int = 0
    acceptable_recovery_lag: int = -1
    statuses: tuple[TopologyProblem, ...] = ()
    tasks: Tasks | None = None
    endpoint_epoch: int = 0
    endpoints: tuple[OwnEndpoint, ...] | None = None
    topics_to_create: tuple[TopicInfo, ...] = ()


@attrs.frozen(kw_only=True)
class DescribedStreamsMember:
    member_id: str
    member_epoch: int
    metadata: MemberMetadata
    tasks: Tasks
    target: Tasks
    offsets: TaskOffsets


@attrs.frozen(kw_only=True)
class DescribedStreamsGroup:
    """A described group; a missing one has the reason in `not_found`.

    Attributes:
        subtopologies: configured ones with numbers of partitions, or those that a member has sent.
    """

    group_id: str
    not_found: str | None = None
    state: str = ""
    epoch: int = 0
    assignment_epoch: int = 0
    topology_epoch: int = 0
    subtopologies: tuple[ConfiguredSubtopology, ...] | tuple[Subtopology, ...] = ()
    assignor: str = ""
    members: tuple[DescribedStreamsMember, ...] = ()
