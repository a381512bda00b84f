"""Requests that change or describe topics, settings and groups, drawn by Hypothesis."""

from __future__ import annotations

from hypothesis import strategies as st

from pipeline_broker.wire.messages.cluster.describe_cluster import DescribeClusterRequest
from pipeline_broker.wire.messages.cluster.describe_log_dirs import DescribeLogDirsRequest
from pipeline_broker.wire.messages.configs.describe_configs import DescribeConfigsRequest
from pipeline_broker.wire.messages.configs.incremental_alter_configs import IncrementalAlterConfigsRequest
from pipeline_broker.wire.messages.groups.find_coordinator import FindCoordinatorRequest
from pipeline_broker.wire.messages.topics.create_partitions import CreatePartitionsRequest
from pipeline_broker.wire.messages.topics.create_topics import CreateTopicsRequest
from pipeline_broker.wire.messages.topics.delete_topics import DeleteTopicsRequest
from pipeline_broker.wire.messages.topics.describe_topic_partitions import (
    DescribeTopicPartitionsCursor,
    DescribeTopicPartitionsRequest,
)
from pipeline_broker.wire.registry import ApiKey
from tests.differential.data_requests import BAD_NAMES, NO_ID, Ask, ask, partitions, topic_id, topics
from tests.differential.oracle import Side

CREATED = ["made0", "made1", "made2", "made3"]
GROUPS = ["simple", "other", "nobody", ""]
TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
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
def other_resources(draw: st.DrawFn) -> tuple[int, str, list[tuple[str, str]]]:
    """A subscription or a group, and values for some of its settings."""
    if draw(st.booleans()):
        values = {
            "interval.ms": ["100", "99", "x", "3600001", "5000"],
            "metrics": ["org.apache", "a,b", "*", ""],
            "match": ["client_id=.*", "client_id=", "nope=1", "client_id", "client_id=[", ""],
            "no.such.setting": ["1"],
        }
        kind, name = CLIENT_METRICS, draw(st.sampled_from(["subscribed", "subscribed", ""]))
    else:
        values = {
            "consumer.session.timeout.ms": ["50000", "1", "70000", "x"],
            "consumer.heartbeat.interval.ms": ["6000", "1"],
            "share.auto.offset.reset": ["earliest", "nope", "by_duration:PT1H", "by_duration:-PT1H"],
            "share.isolation.level": ["read_committed", "other"],
            "share.record.lock.duration.ms": ["20000", "1", "1000", "3600001"],
            "share.delivery.count.limit": ["3", "1", "11"],
            "no.such.setting": ["1"],
        }
        kind, name = GROUP, draw(st.sampled_from(["simple", "nobody", ""]))
    names = draw(st.lists(st.sampled_from(sorted(values)), max_size=2, unique=True))
    return kind, name, [(each, draw(st.sampled_from(values[each]))) for each in names]


@st.composite
def describe_configs(draw: st.DrawFn, version: int) -> Ask:
    names = st.none() | st.lists(
        st.sampled_from(
            ["retention.ms", "cleanup.policy", "no.such.setting", "num.io.threads", "broker.id", "log.retention.ms"]
        ),
        max_size=2,
        unique=True,
    )
    resources = st.sampled_from(
        [
            *((TOPIC, name) for name in ("one", "made0", "missing", "")),
            *((BROKER, name) for name in ("1", "7", "x", "")),
            *((CLIENT_METRICS, name) for name in ("subscribed", "")),
            *((GROUP, name) for name in ("simple", "")),
            (BROKER_LOGGER, ""),
            (99, "one"),
        ]
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
    if draw(st.booleans()):
        kind, name, pairs = draw(other_resources())
        operations = st.sampled_from([0, 0, 0, 1, 2, 3])
        configs = [altered.AlterableConfig(setting, draw(operations), value) for setting, value in pairs]
        wanted.append(altered.AlterConfigsResource(kind, name, configs))
    return ask(version, IncrementalAlterConfigsRequest(wanted, draw(st.booleans())), changes_settings=True)


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
    request = FindCoordinatorRequest(key_type=draw(st.sampled_from([0, 0, 0, 2, 3])) if version else 0)
    if version >= 4:
        request.coordinator_keys = draw(st.lists(groups, max_size=2, unique=True))
    else:
        request.key = draw(groups)
    return ask(version, request)


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
}
