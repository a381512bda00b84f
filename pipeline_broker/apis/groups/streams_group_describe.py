"""StreamsGroupDescribe (KIP-1071): durable epochs, topologies, members and tasks of streams groups.

A group is refused as a whole if it has topics that the client may not describe.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pipeline_broker.apis.authorization import authorize_group, authorized_operations, topics_allowed
from pipeline_broker.apis.call import Call
from pipeline_broker.apis.groups.describe_groups import GROUP_COST
from pipeline_broker.apis.steps import Stepwise, in_steps
from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.security.acl import AclOperation, ResourceType
from pipeline_broker.state.groups.streams.internal_topics import ConfiguredSubtopology, topic_names
from pipeline_broker.state.groups.streams.messages import DescribedStreamsMember
from pipeline_broker.state.groups.streams.tasks import Tasks
from pipeline_broker.state.groups.streams.topology import Subtopology, TopicInfo
from pipeline_broker.state.groups.streams.topology_description import description_status
from pipeline_broker.wire.messages.groups.streams_group_describe import (
    StreamsGroupDescribeAssignment,
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
    StreamsGroupDescribeTopology,
)
from stages.request import Result

Response = StreamsGroupDescribeResponse
DescribedGroup = StreamsGroupDescribeResponse.DescribedGroup
HIDDEN_TOPICS = "The described group uses topics that the client is not authorized to describe."


def handle(call: Call, request: StreamsGroupDescribeRequest) -> Stepwise[Result]:
    named = dict.fromkeys(request.group_ids)
    groups = yield from in_steps(call, named, lambda group_id: _describe(call, group_id, request), GROUP_COST)
    return (yield from call.send_in_steps(Response(groups=groups)))


def _describe(call: Call, group_id: str, request: StreamsGroupDescribeRequest) -> DescribedGroup:
    if not authorize_group(call, AclOperation.DESCRIBE, group_id):
        return _refused(group_id, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    groups = call.broker.groups.coordinator_of_named(group_id)
    if isinstance(groups, ErrorCode):
        return _refused(group_id, groups)
    described = groups.coordinator.streams.describe(group_id)
    if described.not_found is not None:
        return _refused(group_id, ErrorCode.GROUP_ID_NOT_FOUND, described.not_found)
    if not all(map(topics_allowed(call, AclOperation.DESCRIBE), topic_names(described.subtopologies))):
        return _refused(group_id, ErrorCode.TOPIC_AUTHORIZATION_FAILED, HIDDEN_TOPICS)
    group = DescribedGroup(
        group_id=group_id,
        group_state=described.state,
        group_epoch=described.epoch,
        assignment_epoch=described.assignment_epoch,
        topology=StreamsGroupDescribeTopology(
            described.topology_epoch, [_subtopology(part) for part in described.subtopologies]
        ),
        members=[_member(member) for member in described.members],
        topology_description_status=description_status(
            is_requested=request.include_topology_description, is_described=True
        ),
        assignor_name=described.assignor,
    )
    if request.include_authorized_operations:
        group.authorized_operations = authorized_operations(call, ResourceType.GROUP, group_id)
    return group


def _subtopology(part: ConfiguredSubtopology | Subtopology) -> StreamsGroupDescribeResponse.Subtopology:
    return Response.Subtopology(
        subtopology_id=part.id,
        source_topics=sorted(part.source_topics),
        repartition_sink_topics=sorted(part.repartition_sink_topics),
        state_changelog_topics=_topic_infos(part.state_changelog_topics),
        repartition_source_topics=_topic_infos(part.repartition_source_topics),
    )


def _topic_infos(topics: Iterable[TopicInfo]) -> list[StreamsGroupDescribeResponse.TopicInfo]:
    return [
        Response.TopicInfo(
            topic.name, topic.partitions, topic.replication_factor, [Response.KeyValue(*pair) for pair in topic.configs]
        )
        for topic in sorted(topics)
    ]


def _member(member: DescribedStreamsMember) -> StreamsGroupDescribeResponse.Member:
    metadata = member.metadata
    return Response.Member(
        member_id=member.member_id,
        member_epoch=member.member_epoch,
        instance_id=metadata.instance_id,
        rack_id=metadata.rack_id,
        client_id=metadata.client_id,
        client_host=metadata.client_host,
        topology_epoch=metadata.topology_epoch,
        process_id=metadata.process_id,
        user_endpoint=None if metadata.endpoint is None else Response.Endpoint(*metadata.endpoint),
        client_tags=[Response.KeyValue(*pair) for pair in sorted(metadata.client_tags.items())],
        task_offsets=_task_offsets(member.offsets.offsets),
        task_end_offsets=_task_offsets(member.offsets.end_offsets),
        assignment=_assignment(member.tasks),
        target_assignment=_assignment(member.target),
    )


def _task_offsets(offsets: Mapping[str, Mapping[int, int]]) -> list[StreamsGroupDescribeResponse.TaskOffset]:
    return [
        Response.TaskOffset(subtopology_id, number, offset)
        for subtopology_id, by_task in sorted(offsets.items())
        for number, offset in sorted(by_task.items())
    ]


def _assignment(tasks: Tasks) -> StreamsGroupDescribeAssignment:
    return StreamsGroupDescribeAssignment(
        *([Response.TaskIds(each, sorted(numbers)) for each, numbers in sorted(by_id.items())] for by_id in tasks)
    )


def _refused(group_id: str, code: ErrorCode, message: str | None = None) -> DescribedGroup:
    return DescribedGroup(error_code=code, error_message=message, group_id=group_id)


def error_response(request: StreamsGroupDescribeRequest, call: Call, code: ErrorCode) -> StreamsGroupDescribeResponse:
    return Response(groups=[_refused(group_id, code) for group_id in request.group_ids])
