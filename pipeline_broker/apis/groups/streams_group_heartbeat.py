"""StreamsGroupHeartbeat (KIP-1071): joins, maintains or ends a membership, and creates missing internal topics."""

from __future__ import annotations

import functools
from collections.abc import Iterable

from pipeline_broker.apis.authorization import authorize_cluster, authorize_group, topics_allowed
from pipeline_broker.apis.call import Call
from pipeline_broker.apis.coordinator_topic import refuse_member
from pipeline_broker.apis.steps import SUBSCRIBED_AT_ONCE_MAX, Stepwise, in_own_turn
from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.broker.group_shard import WaitingMember
from pipeline_broker.security.acl import AclOperation
from pipeline_broker.state.groups.streams.internal_topics import StreamsStatus, TopologyProblem, topic_names
from pipeline_broker.state.groups.streams.messages import HeartbeatRequest, HeartbeatResult, OwnEndpoint
from pipeline_broker.state.groups.streams.records import topology_value
from pipeline_broker.state.groups.streams.tasks import PartitionsBySubtopology
from pipeline_broker.state.groups.streams.topology import Topology
from pipeline_broker.state.topic_rules import TopicError, check_name
from pipeline_broker.wire.messages.groups.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    StreamsGroupHeartbeatTopology,
)
from stages.request import Result, Send

MISSING_TAGS_FROM = 1
FAILURES_SHOWN_MAX = 3
Response = StreamsGroupHeartbeatResponse


def handle(call: Call, request: StreamsGroupHeartbeatRequest) -> Result | Stepwise[Result]:
    sent = 0 if request.topology is None else _topics_sent(request.topology)
    if sent > SUBSCRIBED_AT_ONCE_MAX or (
        request.member_epoch == 0 and call.broker.groups.is_joining_long(request.group_id)
    ):
        return in_own_turn(functools.partial(_heartbeat, call, request))
    return _heartbeat(call, request)


def _topics_sent(topology: StreamsGroupHeartbeatTopology) -> int:
    return sum(
        len(part.source_topics)
        + len(part.repartition_sink_topics)
        + len(part.repartition_source_topics)
        + len(part.state_changelog_topics)
        for part in topology.subtopologies
    )


def _heartbeat(call: Call, request: StreamsGroupHeartbeatRequest) -> Result:
    if not authorize_group(call, AclOperation.READ, request.group_id):
        return call.send(error_response(request, call, ErrorCode.GROUP_AUTHORIZATION_FAILED))
    topology = None if request.topology is None else topology_value(request.topology)
    if topology is not None:
        refusal = _refused_topics(call, topology)
        if refusal is not None:
            return call.send(refusal)
    groups = call.broker.groups.coordinator_of(request.group_id)
    if isinstance(groups, ErrorCode):
        return refuse_member(call, call.send(error_response(request, call, groups)), groups)
    if not call.broker.can_write:
        # As in Kafka while its log directory is offline, a member looks for the coordinator until it can be served.
        groups.coordinator.streams.refresh_session(request.group_id, request.member_id, groups.time(call.now_ms))
        return call.send(error_response(request, call, ErrorCode.NOT_COORDINATOR))
    waiting = WaitingMember(call.request, lambda result: _answer(call, result))
    now_ms = groups.time(call.now_ms)
    heartbeat = _decoded(call, request, topology)
    return groups.carry_out(groups.coordinator.streams.heartbeat(heartbeat, waiting, now_ms), now_ms, waiting)


def _refused_topics(call: Call, topology: Topology) -> StreamsGroupHeartbeatResponse | None:
    names = topic_names(topology.subtopologies)
    internal = [name for name in names if name in call.broker.internal_topics]
    if internal:
        return Response(
            error_code=ErrorCode.STREAMS_INVALID_TOPOLOGY,
            error_message=f"Use of Kafka internal topics {','.join(internal)} in a Kafka Streams topology is"
            " prohibited.",
        )
    invalid = [name for name in names if not _is_valid(name)]
    if invalid:
        return Response(
            error_code=ErrorCode.STREAMS_INVALID_TOPOLOGY,
            error_message=f"Topic names {','.join(invalid)} are not valid topic names.",
        )
    if not all(map(topics_allowed(call, AclOperation.DESCRIBE), names)):
        return Response(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    return None


def _is_valid(name: str) -> bool:
    try:
        check_name(name)
    except TopicError:
        return False
    return True


def _decoded(call: Call, request: StreamsGroupHeartbeatRequest, topology: Topology | None) -> HeartbeatRequest:
    endpoint, tags = request.user_endpoint, request.client_tags
    return HeartbeatRequest(
        group_id=request.group_id,
        member_id=request.member_id,
        member_epoch=request.member_epoch,
        endpoint_epoch=request.endpoint_information_epoch,
        instance_id=request.instance_id,
        rack_id=request.rack_id,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        topology=topology,
        active=_tasks(request.active_tasks),
        standby=_tasks(request.standby_tasks),
        warmup=_tasks(request.warmup_tasks),
        process_id=request.process_id,
        endpoint=None if endpoint is None else (endpoint.host, endpoint.port),
        client_tags=None if tags is None else {pair.key: pair.value for pair in tags},
        task_offsets=_offsets(request.task_offsets),
        end_offsets=_offsets(request.task_end_offsets),
        shutdown_application=request.shutdown_application,
        client_id=call.client_id or "",
        client_host=f"/{call.session.host}",
        knows_missing_tags=call.version >= MISSING_TAGS_FROM,
    )


def _tasks(tasks: Iterable[StreamsGroupHeartbeatRequest.TaskIds] | None) -> PartitionsBySubtopology | None:
    if tasks is None:
        return None
    found: dict[str, frozenset[int]] = {}
    for each in tasks:
        found[each.subtopology_id] = found.get(each.subtopology_id, frozenset()).union(each.partitions)
    return found


def _offsets(offsets: Iterable[StreamsGroupHeartbeatRequest.TaskOffset] | None) -> list[tuple[str, int, int]] | None:
    return None if offsets is None else [(each.subtopology_id, each.partition, each.offset) for each in offsets]


def _answer(call: Call, result: HeartbeatResult) -> Send:
    response = Response(
        error_code=result.error,
        error_message=result.message,
        member_id=result.member_id,
        member_epoch=result.member_epoch,
        heartbeat_interval_ms=result.heartbeat_interval_ms,
        acceptable_recovery_lag=result.acceptable_recovery_lag,
        task_offset_interval_ms=result.task_offset_interval_ms,
        status=[Response.Status(each.status, each.detail) for each in _statuses(call, result)],
        endpoint_information_epoch=result.endpoint_epoch,
    )
    if result.tasks is not None:
        response.active_tasks, response.standby_tasks, response.warmup_tasks = map(_task_ids, result.tasks)
    if result.endpoints is not None:
        response.partitions_by_user_endpoint = [_endpoint(each) for each in result.endpoints]
    return call.send(response)


def _task_ids(tasks: PartitionsBySubtopology) -> list[StreamsGroupHeartbeatResponse.TaskIds]:
    return [Response.TaskIds(subtopology_id, sorted(numbers)) for subtopology_id, numbers in sorted(tasks.items())]


def _endpoint(own: OwnEndpoint) -> StreamsGroupHeartbeatResponse.EndpointToPartitions:
    active, standby = (
        [Response.TopicPartition(topic, list(numbers)) for topic, numbers in partitions]
        for partitions in own.partitions
    )
    return Response.EndpointToPartitions(Response.Endpoint(*own.endpoint), active, standby)


def _statuses(call: Call, result: HeartbeatResult) -> list[TopologyProblem]:
    """Return the statuses of a member, after the creation of missing internal topics has begun, as in KafkaApis."""
    statuses = list(result.statuses)
    names = [topic.name for topic in result.topics_to_create]
    if not names:
        return statuses
    refused = []
    if not authorize_cluster(call, AclOperation.CREATE, is_logged=False):
        may_create = topics_allowed(call, AclOperation.CREATE)
        refused = [name for name in names if not may_create(name)]
    if refused:
        more = f"Unauthorized to CREATE on topics {', '.join(refused)}."
    else:
        failed = call.broker.streams_topics.create(result.topics_to_create)
        if not failed:
            return statuses
        shown = ", ".join(f"{name} ({error})" for name, error in list(failed.items())[:FAILURES_SHOWN_MAX])
        others = len(failed) - FAILURES_SHOWN_MAX
        more = f"Creation failed: {shown}{f' and {others} more' if others > 0 else ''}."
    missing = StreamsStatus.MISSING_INTERNAL_TOPICS
    return [each._replace(detail=f"{each.detail}; {more}") if each.status is missing else each for each in statuses]


def error_response(request: StreamsGroupHeartbeatRequest, call: Call, code: ErrorCode) -> StreamsGroupHeartbeatResponse:
    return Response(error_code=code)
