"""Requests that change or describe topics, settings and groups, drawn by Hypothesis."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from pipeline_broker.wire.messages.create_partitions import CreatePartitionsRequest
from pipeline_broker.wire.messages.create_topics import CreateTopicsRequest
from pipeline_broker.wire.messages.delete_groups import DeleteGroupsRequest
from pipeline_broker.wire.messages.delete_topics import DeleteTopicsRequest
from pipeline_broker.wire.messages.describe_cluster import DescribeClusterRequest
from pipeline_broker.wire.messages.describe_configs import DescribeConfigsRequest
from pipeline_broker.wire.messages.describe_groups import DescribeGroupsRequest
from pipeline_broker.wire.messages.describe_log_dirs import DescribeLogDirsRequest
from pipeline_broker.wire.messages.describe_topic_partitions import (
    DescribeTopicPartitionsCursor,
    DescribeTopicPartitionsRequest,
)
from pipeline_broker.wire.messages.find_coordinator import FindCoordinatorRequest
from pipeline_broker.wire.messages.heartbeat import HeartbeatRequest
from pipeline_broker.wire.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from pipeline_broker.wire.messages.join_group import JoinGroupRequest
from pipeline_broker.wire.messages.leave_group import LeaveGroupRequest
from pipeline_broker.wire.messages.list_groups import ListGroupsRequest
from pipeline_broker.wire.messages.offset_commit import OffsetCommitRequest
from pipeline_broker.wire.messages.offset_fetch import OffsetFetchRequest
from pipeline_broker.wire.messages.sync_group import SyncGroupRequest
from pipeline_broker.wire.registry import ApiKey
from tests.differential.data_requests import BAD_NAMES, NO_ID, Ask, ask, partitions, topic_id, topics
from tests.differential.oracle import Side

CREATED = ["made0", "made1", "made2", "made3"]
GROUPS = ["simple", "other", "nobody", ""]
TOPIC, BROKER, BROKER_LOGGER = 2, 4, 8
NODE_ID = "1"
LONG_METADATA = "m" * 5000
DELETE_BY_ID_FROM = 6
own_topics = st.sampled_from([*CREATED, *CREATED, "one", *BAD_NAMES])
groups = st.sampled_from(GROUPS)
topic_settings = st.sampled_from(
    [
        ("retention.ms", "1000000"),
        ("retention.ms", "-2"),
        ("retention.ms", "many"),
        ("cleanup.policy", "compact,delete"),
        ("cleanup.policy", "shred"),
        ("compression.type", "zstd"),
        ("compression.type", "brotli"),
        ("max.message.bytes", "2000000"),
        ("min.insync.replicas", "0"),
        ("segment.bytes", "1048576"),
        ("no.such.setting", "1"),
        ("retention.ms", None),
    ]
)


@st.composite
def create_topics(draw: st.DrawFn, version: int) -> Ask:
    made = CreateTopicsRequest
    wanted = []
    for name in draw(st.lists(own_topics, min_size=1, max_size=2)):
        count, replicas = draw(st.sampled_from([(1, 1), (2, 1), (-1, -1), (3, 1), (0, 1), (-2, 1), (1, 2), (1, 0)]))
        assignments = draw(
            st.sampled_from([[], [], [], [(0, [1])], [(0, [1]), (1, [1])], [(1, [1])], [(0, [2])], [(0, [])]])
        )
        if assignments and draw(st.booleans()):
            count, replicas = -1, -1
        configs = draw(st.lists(topic_settings, max_size=2, unique_by=lambda pair: pair[0]))
        wanted.append(
            made.CreatableTopic(
                name,
                count,
                replicas,
                [made.CreatableReplicaAssignment(index, nodes) for index, nodes in assignments],
                [made.CreatableTopicConfig(*pair) for pair in configs],
            )
        )
    request = CreateTopicsRequest(wanted, 20_000, validate_only=draw(st.booleans()))
    return ask(version, request, changes_topics=True)


@st.composite
def delete_topics(draw: st.DrawFn, version: int) -> Ask:
    names = draw(st.lists(st.sampled_from([*CREATED, "missing", *BAD_NAMES]), max_size=2))
    ways = draw(st.sampled_from(["name", "name", "id", "both", "neither"]))

    def build(side: Side) -> DeleteTopicsRequest:
        state = DeleteTopicsRequest.DeleteTopicState
        by_name, by_id = ways in ("name", "both"), ways in ("id", "both")
        states = [state(name if by_name else None, topic_id(side, name) if by_id else NO_ID) for name in names]
        if version < DELETE_BY_ID_FROM:
            return DeleteTopicsRequest(topic_names=names, timeout_ms=20_000)
        return DeleteTopicsRequest(topics=states, timeout_ms=20_000)

    return Ask(version, build, changes_topics=True, text=f"delete {names} by {ways}")


@st.composite
def create_partitions(draw: st.DrawFn, version: int) -> Ask:
    assignments = st.sampled_from([None, None, [[1]], [[1], [1]], [[2]], [[]]])
    wanted = [
        CreatePartitionsRequest.CreatePartitionsTopic(
            name,
            draw(st.sampled_from([0, 1, 2, 3, 4, -1])),
            None
            if (nodes := draw(assignments)) is None
            else [CreatePartitionsRequest.CreatePartitionsAssignment(ids) for ids in nodes],
        )
        for name in draw(st.lists(own_topics, max_size=2))
    ]
    return ask(version, CreatePartitionsRequest(wanted, 20_000, draw(st.booleans())), changes_topics=True)


@st.composite
def describe_configs(draw: st.DrawFn, version: int) -> Ask:
    names = st.none() | st.lists(
        st.sampled_from(["retention.ms", "cleanup.policy", "no.such.setting", "num.io.threads"]),
        max_size=2,
        unique=True,
    )
    resources = st.sampled_from(
        [(TOPIC, "one"), (TOPIC, "made0"), (TOPIC, "missing"), (TOPIC, ""), (BROKER, "7"), (BROKER, "x"), (99, "one")]
    )
    wanted = [
        DescribeConfigsRequest.DescribeConfigsResource(*resource, draw(names))
        for resource in draw(st.lists(resources, max_size=2, unique=True))
    ]
    return ask(version, DescribeConfigsRequest(wanted, draw(st.booleans()), version >= 3 and draw(st.booleans())))


@st.composite
def incremental_alter_configs(draw: st.DrawFn, version: int) -> Ask:
    altered = IncrementalAlterConfigsRequest
    resources = st.sampled_from(
        [(TOPIC, "made0"), (TOPIC, "made1"), (TOPIC, "missing"), (TOPIC, "bad name"), (TOPIC, ""), (99, "one")]
    )
    wanted = [
        altered.AlterConfigsResource(
            *resource,
            [
                altered.AlterableConfig(name, draw(st.sampled_from([0, 0, 1, 2, 3])), value)
                for name, value in draw(st.lists(topic_settings, max_size=2))
            ],
        )
        for resource in draw(st.lists(resources, max_size=2))
    ]
    return ask(version, IncrementalAlterConfigsRequest(wanted, draw(st.booleans())))


@st.composite
def describe_cluster(draw: st.DrawFn, version: int) -> Ask:
    request = DescribeClusterRequest(draw(st.booleans()))
    if version >= 1:
        request.endpoint_type = draw(st.sampled_from([1, 1, 2, 3]))
    if version >= 2:
        request.include_fenced_brokers = draw(st.booleans())
    return ask(version, request)


@st.composite
def describe_topic_partitions(draw: st.DrawFn, version: int) -> Ask:
    wanted = draw(st.lists(topics, max_size=3, unique=True))
    cursor = draw(
        st.none() | st.tuples(st.sampled_from(["one", "three", "missing"]), st.sampled_from([0, 1, 2, 9, -1]))
    )
    request = DescribeTopicPartitionsRequest(
        [DescribeTopicPartitionsRequest.TopicRequest(name) for name in wanted],
        draw(st.sampled_from([0, 1, 2, 2000, -1])),
        None if cursor is None else DescribeTopicPartitionsCursor(*cursor),
    )
    return ask(version, request)


@st.composite
def describe_log_dirs(draw: st.DrawFn, version: int) -> Ask:
    one = st.builds(DescribeLogDirsRequest.DescribableLogDirTopic, topics, st.lists(partitions, max_size=3))
    return ask(version, DescribeLogDirsRequest(draw(st.none() | st.lists(one, max_size=3))))


@st.composite
def find_coordinator(draw: st.DrawFn, version: int) -> Ask:
    request = FindCoordinatorRequest(key_type=draw(st.sampled_from([0, 0, 0, 3])) if version else 0)
    if version >= 4:
        request.coordinator_keys = draw(st.lists(groups, max_size=2, unique=True))
    else:
        request.key = draw(groups)
    return ask(version, request)


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


ADMIN_REQUESTS = {
    ApiKey.CREATE_TOPICS: create_topics,
    ApiKey.DELETE_TOPICS: delete_topics,
    ApiKey.CREATE_PARTITIONS: create_partitions,
    ApiKey.DESCRIBE_CONFIGS: describe_configs,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: incremental_alter_configs,
    ApiKey.DESCRIBE_CLUSTER: describe_cluster,
    ApiKey.DESCRIBE_LOG_DIRS: describe_log_dirs,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: describe_topic_partitions,
    ApiKey.FIND_COORDINATOR: find_coordinator,
    ApiKey.JOIN_GROUP: join_group,
    ApiKey.SYNC_GROUP: sync_group,
    ApiKey.HEARTBEAT: heartbeat,
    ApiKey.LEAVE_GROUP: leave_group,
    ApiKey.OFFSET_COMMIT: offset_commit,
    ApiKey.OFFSET_FETCH: offset_fetch,
    ApiKey.LIST_GROUPS: list_groups,
    ApiKey.DESCRIBE_GROUPS: describe_groups,
    ApiKey.DELETE_GROUPS: delete_groups,
}
