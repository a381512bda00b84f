"""Requests about groups and their offsets, drawn by Hypothesis."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from pipeline_broker.wire.messages.groups.consumer_group_describe import ConsumerGroupDescribeRequest
from pipeline_broker.wire.messages.groups.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from pipeline_broker.wire.messages.groups.delete_groups import DeleteGroupsRequest
from pipeline_broker.wire.messages.groups.describe_groups import DescribeGroupsRequest
from pipeline_broker.wire.messages.groups.heartbeat import HeartbeatRequest
from pipeline_broker.wire.messages.groups.join_group import JoinGroupRequest
from pipeline_broker.wire.messages.groups.leave_group import LeaveGroupRequest
from pipeline_broker.wire.messages.groups.list_groups import ListGroupsRequest
from pipeline_broker.wire.messages.groups.offset_commit import OffsetCommitRequest
from pipeline_broker.wire.messages.groups.offset_delete import OffsetDeleteRequest
from pipeline_broker.wire.messages.groups.offset_fetch import OffsetFetchRequest
from pipeline_broker.wire.messages.groups.streams_group_describe import StreamsGroupDescribeRequest
from pipeline_broker.wire.messages.groups.streams_group_heartbeat import StreamsGroupHeartbeatRequest
from pipeline_broker.wire.messages.groups.streams_group_topology_description_update import (
    StreamsGroupTopologyDescriptionUpdateRequest,
)
from pipeline_broker.wire.messages.groups.sync_group import SyncGroupRequest
from pipeline_broker.wire.registry import ApiKey
from tests.differential.admin_requests import groups
from tests.differential.data_requests import Ask, ask, partitions, topic_id, topics
from tests.differential.oracle import Side

LONG_METADATA = "m" * 5000


@st.composite
def join_group(draw: st.DrawFn, version: int) -> Ask:
    """What is answered at once: mistakes, and the member id that a member must have."""
    protocols = draw(st.sampled_from([[], [("range", b"x")]]))
    request = JoinGroupRequest(
        group_id=draw(groups),
        session_timeout_ms=draw(st.sampled_from([10_000, 10_000, 1, 2**31 - 1])),
        rebalance_timeout_ms=10_000,
        member_id=draw(st.sampled_from(["nobody", "nobody", ""])) if version >= 4 else "nobody",
        protocol_type=draw(st.sampled_from(["consumer", "consumer", ""])),
        protocols=[JoinGroupRequest.JoinGroupRequestProtocol(*pair) for pair in protocols],
    )
    return ask(version, request)


@st.composite
def sync_group(draw: st.DrawFn, version: int) -> Ask:
    request = SyncGroupRequest(
        group_id=draw(groups), generation_id=draw(st.sampled_from([-1, 0, 1])), member_id=draw(members)
    )
    if version >= 3:
        request.group_instance_id = draw(instances)
    if version >= 5:
        request.protocol_type = draw(st.sampled_from([None, "consumer"]))
        request.protocol_name = draw(st.sampled_from([None, "range"]))
    return ask(version, request)


members = st.sampled_from(["nobody", ""])
instances = st.sampled_from([None, "static"])


@st.composite
def heartbeat(draw: st.DrawFn, version: int) -> Ask:
    request = HeartbeatRequest(draw(groups), draw(st.sampled_from([-1, 0, 1])), draw(members))
    if version >= 3:
        request.group_instance_id = draw(instances)
    return ask(version, request)


@st.composite
def leave_group(draw: st.DrawFn, version: int) -> Ask:
    if version < 3:
        return ask(version, LeaveGroupRequest(group_id=draw(groups), member_id=draw(members)))
    leaving = draw(st.lists(st.tuples(members, instances), max_size=2))
    return ask(
        version,
        LeaveGroupRequest(group_id=draw(groups), members=[LeaveGroupRequest.MemberIdentity(*one) for one in leaving]),
    )


@st.composite
def offset_commit(draw: st.DrawFn, version: int) -> Ask:
    metadata = st.sampled_from([None, "", "note", LONG_METADATA])
    per_partition = st.tuples(st.sampled_from([0, 5, -1]), metadata)
    wanted = draw(st.dictionaries(topics, st.dictionaries(partitions, per_partition, max_size=2), max_size=2))
    group, generation, member_id = (
        draw(groups),
        draw(st.sampled_from([-1, -1, -1, 0, 1])),
        draw(st.sampled_from(["", "", "nobody"])),
    )
    instance = draw(st.sampled_from([None, None, "static"])) if version >= 7 else None

    def build(side: Side) -> OffsetCommitRequest:
        part = OffsetCommitRequest.OffsetCommitRequestPartition
        return OffsetCommitRequest(
            group_id=group,
            generation_id_or_member_epoch=generation,
            member_id=member_id,
            group_instance_id=instance,
            topics=[
                OffsetCommitRequest.OffsetCommitRequestTopic(
                    name,
                    topic_id(side, name),
                    [part(index, offset, -1, note) for index, (offset, note) in parts.items()],
                )
                for name, parts in wanted.items()
            ],
        )

    return Ask(version, build, text=f"commit {group!r} {generation} {member_id!r} {instance} {wanted}")


@st.composite
def offset_fetch(draw: st.DrawFn, version: int) -> Ask:
    contents = st.dictionaries(topics, st.lists(partitions, max_size=2, unique=True), max_size=2)
    wanted = draw(st.dictionaries(groups, st.none() | contents, min_size=1, max_size=2))
    stable = version >= 7 and draw(st.booleans())

    def build(side: Side) -> OffsetFetchRequest:
        if version >= 8:
            one = OffsetFetchRequest.OffsetFetchRequestTopics
            return OffsetFetchRequest(
                groups=[
                    OffsetFetchRequest.OffsetFetchRequestGroup(
                        group_id=group,
                        topics=None
                        if parts is None
                        else [one(name, topic_id(side, name), list(indexes)) for name, indexes in parts.items()],
                    )
                    for group, parts in wanted.items()
                ],
                require_stable=stable,
            )
        group, parts = next(iter(wanted.items()))
        listed: list[Any] | None = [
            OffsetFetchRequest.OffsetFetchRequestTopic(name, list(indexes)) for name, indexes in (parts or {}).items()
        ]
        return OffsetFetchRequest(
            group_id=group, topics=None if parts is None and version >= 2 else listed, require_stable=stable
        )

    return Ask(version, build, text=f"offsets {wanted} stable={stable}")


@st.composite
def list_groups(draw: st.DrawFn, version: int) -> Ask:
    request = ListGroupsRequest()
    if version >= 4:
        request.states_filter = draw(st.lists(st.sampled_from(["Empty", "stable", "Dead", "unheard of"]), max_size=2))
    if version >= 5:
        request.types_filter = draw(
            st.lists(st.sampled_from(["classic", "Consumer", "share", "unheard of"]), max_size=2)
        )
    return ask(version, request)


@st.composite
def describe_groups(draw: st.DrawFn, version: int) -> Ask:
    return ask(
        version,
        DescribeGroupsRequest(draw(st.lists(groups, max_size=3, unique=True)), version >= 3 and draw(st.booleans())),
    )


@st.composite
def delete_groups(draw: st.DrawFn, version: int) -> Ask:
    return ask(version, DeleteGroupsRequest(draw(st.lists(groups, max_size=2, unique=True))))


@st.composite
def consumer_group_heartbeat(draw: st.DrawFn, version: int) -> Ask:
    """What is refused, and what leaves: who joins is told of in stories."""
    request = ConsumerGroupHeartbeatRequest(
        group_id=draw(groups),
        member_id=draw(members),
        member_epoch=draw(st.sampled_from([-3, -2, -1, 1, 5])),
        instance_id=draw(st.sampled_from([None, "static", " "])),
        rack_id=draw(st.sampled_from([None, "rack", ""])),
        server_assignor=draw(st.sampled_from([None, "range", "own"])),
    )
    if version >= 1:
        request.subscribed_topic_regex = draw(st.sampled_from([None, "one|two", "("]))
    return ask(version, request)


@st.composite
def consumer_group_describe(draw: st.DrawFn, version: int) -> Ask:
    wanted = draw(st.lists(groups, max_size=3, unique=True))
    return ask(version, ConsumerGroupDescribeRequest(wanted, draw(st.booleans())))


@st.composite
def streams_group_heartbeat(draw: st.DrawFn, version: int) -> Ask:
    """Refused requests and leaves, as for consumer groups."""
    it = StreamsGroupHeartbeatRequest
    tasks = st.sampled_from([None, [], [it.TaskIds("0", [0])]])
    request = it(
        group_id=draw(groups),
        member_id=draw(members),
        member_epoch=draw(st.sampled_from([-3, -2, -1, 1, 5])),
        instance_id=draw(st.sampled_from([None, "static", ""])),
        rack_id=draw(st.sampled_from([None, "rack", ""])),
        topology=draw(st.sampled_from([None, it.Topology(0, [it.Subtopology("0", ["one"])])])),
        active_tasks=draw(tasks),
        standby_tasks=draw(tasks),
        warmup_tasks=draw(tasks),
    )
    return ask(version, request)


@st.composite
def streams_group_describe(draw: st.DrawFn, version: int) -> Ask:
    wanted = draw(st.lists(groups, max_size=3, unique=True))
    request = StreamsGroupDescribeRequest(wanted, draw(st.booleans()))
    if version >= 1:
        request.include_topology_description = draw(st.booleans())
    return ask(version, request)


@st.composite
def topology_description_update(draw: st.DrawFn, version: int) -> Ask:
    return ask(version, StreamsGroupTopologyDescriptionUpdateRequest(draw(groups), draw(members)))


@st.composite
def offset_delete(draw: st.DrawFn, version: int) -> Ask:
    topic, partition = OffsetDeleteRequest.OffsetDeleteRequestTopic, OffsetDeleteRequest.OffsetDeleteRequestPartition
    wanted = draw(st.dictionaries(topics, st.lists(partitions, min_size=1, max_size=2, unique=True), max_size=2))
    listed = [topic(name, [partition(index) for index in parts]) for name, parts in wanted.items()]
    return ask(version, OffsetDeleteRequest(draw(groups), listed))


GROUP_REQUESTS = {
    ApiKey.JOIN_GROUP: join_group,
    ApiKey.SYNC_GROUP: sync_group,
    ApiKey.HEARTBEAT: heartbeat,
    ApiKey.LEAVE_GROUP: leave_group,
    ApiKey.OFFSET_COMMIT: offset_commit,
    ApiKey.OFFSET_FETCH: offset_fetch,
    ApiKey.LIST_GROUPS: list_groups,
    ApiKey.DESCRIBE_GROUPS: describe_groups,
    ApiKey.DELETE_GROUPS: delete_groups,
    ApiKey.OFFSET_DELETE: offset_delete,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: consumer_group_heartbeat,
    ApiKey.CONSUMER_GROUP_DESCRIBE: consumer_group_describe,
    ApiKey.STREAMS_GROUP_HEARTBEAT: streams_group_heartbeat,
    ApiKey.STREAMS_GROUP_DESCRIBE: streams_group_describe,
    ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE: topology_description_update,
}
