"""Attacks that no schema tells of: what is in records, what is kept, what many connections ask for at once.

Rules of this file: each case is a row of HANDMADE; an amount that is a bound of the broker is named by that bound.

Longer than most files: it is one table, with what its rows are made of.
"""

import struct
import time
import zlib
from functools import cache

import attrs

from pipeline_broker.apis.registry import DECIDED_AT_ONCE_MAX
from pipeline_broker.broker.broker import LONG_BATCHES_MAX
from pipeline_broker.config.broker_config import BrokerConfig
from pipeline_broker.records.batch import NewRecord, build_batch
from pipeline_broker.records.checksum import crc32c
from pipeline_broker.records.compression import Compression, compress
from pipeline_broker.records.decompression import DECOMPRESSED_SIZE_MAX
from pipeline_broker.records.record_walk import RECORD_HEADERS_MAX
from pipeline_broker.state.groups.streams.internal_topics import TASKS_MAX
from pipeline_broker.state.groups.streams.topology import SUBTOPOLOGIES_MAX
from pipeline_broker.wire.messages.cluster.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from pipeline_broker.wire.messages.cluster.push_telemetry import PushTelemetryRequest
from pipeline_broker.wire.messages.configs.describe_configs import DescribeConfigsRequest
from pipeline_broker.wire.messages.configs.incremental_alter_configs import IncrementalAlterConfigsRequest
from pipeline_broker.wire.messages.data.fetch import FetchRequest
from pipeline_broker.wire.messages.data.list_offsets import ListOffsetsRequest
from pipeline_broker.wire.messages.groups.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from pipeline_broker.wire.messages.groups.describe_groups import DescribeGroupsRequest
from pipeline_broker.wire.messages.groups.join_group import JoinGroupRequest
from pipeline_broker.wire.messages.groups.offset_fetch import OffsetFetchRequest
from pipeline_broker.wire.messages.groups.streams_group_heartbeat import StreamsGroupHeartbeatRequest
from pipeline_broker.wire.messages.security.sasl_authenticate import SaslAuthenticateRequest
from pipeline_broker.wire.messages.share.share_fetch import ShareFetchRequest
from pipeline_broker.wire.messages.share.share_group_heartbeat import ShareGroupHeartbeatRequest
from pipeline_broker.wire.messages.topics.create_partitions import CreatePartitionsRequest
from pipeline_broker.wire.messages.topics.create_topics import CreateTopicsRequest
from pipeline_broker.wire.messages.topics.metadata import MetadataRequest
from pipeline_broker.wire.messages.transactions.add_partitions_to_txn import AddPartitionsToTxnRequest
from pipeline_broker.wire.messages.transactions.end_txn import EndTxnRequest
from pipeline_broker.wire.messages.transactions.init_producer_id import InitProducerIdRequest
from pipeline_broker.wire.messages.transactions.list_transactions import ListTransactionsRequest
from pipeline_broker.wire.primitives import ELEMENTS_MAX
from tests.bad_input.raw_client import frame_of, produce_request
from tests.bad_input.test_memory import headers_bomb, value_bomb
from tests.bad_input.test_records import with_records
from tests.crashes.lengths import AT_LENGTH
from tests.hostile.amplified import CREATED_BYTES_MAX, KEPT_BYTES_MAX, Case
from tests.hostile.prepared import AT_ONCE, CLEANUP_MS, GROUP_RESOURCE, PARTITIONS, SESSION_MS, TOPIC_RESOURCE

PRODUCE_VERSION = 9
TINY_RECORDS = 1_000_000
MEGABYTE = 1_000_000
LARGE_METADATA_BYTES = 10 * MEGABYTE
FORGOTTEN_TOPICS = 45_000
DECODED_NAME_BYTES = 430
"""A name of 249 characters, in its object and with its list, as tracemalloc counts them."""
WAITING_FETCHES = 10
"""They are more bytes than all unanswered requests may have, as are MANY_CONNECTIONS with LARGE_METADATA_BYTES."""
MANY_CONNECTIONS = 20
CONNECTIONS_THAT_READ_NOTHING = 150
"""Their answers of 2 MB each are more than all may leave unread."""
TRANSACTION_PARTITIONS = 9_900 if AT_LENGTH else 3_000
MATCHED_TOPICS = 9_800 if AT_LENGTH else 3_000
MARKER_BYTES = 1_300
"""A batch of a log that is not archived yet."""
BROKER_RESOURCE = 4
EPOCH_OF_A_NEW_SESSION = 0
GROUPS_OF_TASKS = 5
WIDE_TOPIC = "wide"
WIDE_PARTITIONS = 12 if AT_LENGTH else 2
"""Each million of records takes a second of the broker."""
LARGE_SESSIONS = 8 if AT_LENGTH else 4
UNKNOWN_TO_MANY = 10 if AT_LENGTH else 4
"""Connections; with as many it is nearly a second of the broker, far more than anyone may wait."""
ABORTED_SECONDS_MAX = 5
DENSE_TOPIC = "dense"
GROUP_BYTES_MAX = BrokerConfig().pipeline_group_bytes
SESSION_PARTITIONS_MAX = BrokerConfig().pipeline_fetch_session_partitions
UNSENT_BYTES_MAX = BrokerConfig().pipeline_unsent_response_bytes
SESSION_PARTITION_BYTES = 450
CRC, ATTRIBUTES, BASE_TIMESTAMP = 17, 21, 27
"""Positions in the header of a batch."""
NAMES = ELEMENTS_MAX - 100
"""Of one request, where each is one element."""
FETCHED_TOPICS = ELEMENTS_MAX // (1 + PARTITIONS) - 100
"""Of one request, with their partitions."""


@cache
def tiny_records():
    """A batch with a million records of nine bytes, which compress to less than a megabyte."""
    record = NewRecord(b"", timestamp=time.time_ns() // 1_000_000)
    batch = build_batch([record] * TINY_RECORDS, compression=Compression.ZSTD)
    assert len(batch) < MEGABYTE
    return batch


def old_tiny_records():
    """The same, of long ago."""
    batch = bytearray(tiny_records())
    struct.pack_into(">qq", batch, BASE_TIMESTAMP, 1, 1)
    struct.pack_into(">I", batch, CRC, crc32c(bytes(batch[ATTRIBUTES:])))
    return bytes(batch)


@cache
def header_records():
    """As many headers as may be, in as many records as fit, all alike."""
    return with_records(compress(Compression.ZSTD, headers_bomb(RECORD_HEADERS_MAX)), attributes=Compression.ZSTD)


@cache
def around_the_limit():
    """A batch that is refused, and those of each codec that are not."""
    record = NewRecord(bytes(DECOMPRESSED_SIZE_MAX - 100), timestamp=time.time_ns() // 1_000_000)
    codecs = (Compression.GZIP, Compression.LZ4, Compression.ZSTD)
    return [value_bomb(Compression.GZIP), *(build_batch([record], compression=codec) for codec in codecs)]


def produce(*batches, topic=WIDE_TOPIC):
    return frame_of(produce_request(*enumerate(batches), topic=topic, timeout_ms=30_000), PRODUCE_VERSION)


def produce_again(batch, times, topic=WIDE_TOPIC):
    """The same partition again and again."""
    return frame_of(produce_request(*[(0, batch)] * times, topic=topic, timeout_ms=30_000), PRODUCE_VERSION)


def make_topic(name, partitions=WIDE_PARTITIONS, **configs):
    """What creates a topic before the attack."""

    def before(client, _world):
        given = [
            CreateTopicsRequest.CreatableTopicConfig(key.replace("_", "."), value) for key, value in configs.items()
        ]
        topic = CreateTopicsRequest.CreatableTopic(name, partitions, 1, configs=given)
        client.ask(CreateTopicsRequest([topic]))

    return before


def make_dense_topic(client, world):
    make_topic(DENSE_TOPIC, 1)(client, world)
    client.ask(produce_request((0, tiny_records()), topic=DENSE_TOPIC, timeout_ms=30_000), PRODUCE_VERSION)


def fetch_of(topics, *, epoch=-1, version=12, by_id=False):
    """Everything of some topics."""
    request, wanted = FetchRequest, []
    for topic in topics:
        partitions = [
            request.FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=2**31 - 1)
            for index in range(PARTITIONS)
        ]
        wanted.append(request.FetchTopic(partitions=partitions, **({"topic_id": topic} if by_id else {"topic": topic})))
    return frame_of(request(topics=wanted, session_id=0, session_epoch=epoch, max_wait_ms=0, min_bytes=0), version)


def describe_groups(groups):
    return frame_of(DescribeGroupsRequest(groups=groups), 5)


def describe_configs(resource_type, names):
    resources = [DescribeConfigsRequest.DescribeConfigsResource(resource_type, name, None) for name in names]
    request = DescribeConfigsRequest(resources, include_synonyms=True, include_documentation=True)
    return frame_of(request, 4)


def metadata(names, *, create=True):
    topics = [MetadataRequest.MetadataRequestTopic(name=name) for name in names]
    return frame_of(MetadataRequest(topics=topics, allow_auto_topic_creation=create), 8)


def join_group(name):
    protocol = JoinGroupRequest.JoinGroupRequestProtocol("range", bytes(LARGE_METADATA_BYTES))
    return frame_of(JoinGroupRequest(name, SESSION_MS, SESSION_MS, protocol_type="consumer", protocols=[protocol]), 3)


def waiting_fetch(topic):
    """A fetch of nothing that has forgotten much."""
    partition = FetchRequest.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1)
    wanted = [FetchRequest.FetchTopic(topic=topic, partitions=[partition])]
    forgotten = [FetchRequest.ForgottenTopic(topic="f" * 249, partitions=[])] * FORGOTTEN_TOPICS
    request = FetchRequest(max_wait_ms=2**31 - 1, min_bytes=1, topics=wanted, forgotten_topics_data=forgotten)
    return frame_of(attrs.evolve(request, session_id=0, session_epoch=-1), 7)


def subscribe(name, topics, regex=None):
    return frame_of(
        ConsumerGroupHeartbeatRequest(
            name,
            member_id="B" * 22,
            rebalance_timeout_ms=30_000,
            subscribed_topic_names=topics,
            subscribed_topic_regex=regex,
            topic_partitions=[],
        ),
        1,
    )


def share(name, topics):
    return frame_of(ShareGroupHeartbeatRequest(name, member_id="B" * 22, subscribed_topic_names=topics), 1)


def offset_fetch(groups, topics=None):
    wanted = None
    if topics is not None:
        wanted = [OffsetFetchRequest.OffsetFetchRequestTopics(name=name, partition_indexes=[0, 1]) for name in topics]
    request = OffsetFetchRequest(
        groups=[OffsetFetchRequest.OffsetFetchRequestGroup(name, topics=wanted) for name in groups]
    )
    return frame_of(request, 9)


def list_offsets(topic, timestamp, times=1):
    partition = ListOffsetsRequest.ListOffsetsPartition(0, -1, timestamp)
    return frame_of(ListOffsetsRequest(-1, topics=[ListOffsetsRequest.ListOffsetsTopic(topic, [partition])] * times), 7)


def join_streams(name, world):
    """A topology of all topics, each with a store."""
    it = StreamsGroupHeartbeatRequest
    topics = world.topics[:SUBTOPOLOGIES_MAX]
    parts = [
        it.Subtopology(topic, [topic], state_changelog_topics=[it.TopicInfo(f"{topic}-of-{name}", 0, 0)])
        for topic in topics
    ]
    owned = {"active_tasks": [], "standby_tasks": [], "warmup_tasks": []}
    more = {"rebalance_timeout_ms": 30_000, "topology": it.Topology(0, parts), "process_id": "p", **owned}
    return frame_of(it(name, "B" * 22, 0, **more), 1)


def join_tasks(group, member):
    """A stateful topology of as many tasks as a group may have, whose topics exist."""
    it = StreamsGroupHeartbeatRequest
    part = it.Subtopology("0", ["tasks-0"], state_changelog_topics=[it.TopicInfo("tasks-1", 0, 0)])
    owned = {"active_tasks": [], "standby_tasks": [], "warmup_tasks": []}
    more = {"rebalance_timeout_ms": 30_000, "topology": it.Topology(0, [part]), "process_id": f"p{member}", **owned}
    return frame_of(it(group, f"{member:022}", 0, **more), 1)


def join_with_tasks(_):
    joins = [join_tasks(f"t{number % GROUPS_OF_TASKS}", number) for number in range(2 * GROUPS_OF_TASKS)]
    return [*joins, *joins]


def make_tasks(client, _):
    """The topics of `join_tasks`, and groups whose assignments are computed at once."""
    client.ask(create_request("tasks", 2, TASKS_MAX))
    config = IncrementalAlterConfigsRequest.AlterableConfig
    configs = [config(f"streams.{name}.ms", 0, "0") for name in ("initial.rebalance.delay", "assignment.interval")]
    groups = [
        IncrementalAlterConfigsRequest.AlterConfigsResource(GROUP_RESOURCE, f"t{number}", configs)
        for number in range(GROUPS_OF_TASKS)
    ]
    client.ask(IncrementalAlterConfigsRequest(groups))


def share_fetch(world, count):
    partitions = [ShareFetchRequest.FetchPartition(index) for index in range(PARTITIONS)]
    topics = [ShareFetchRequest.FetchTopic(each, partitions) for each in world.topic_ids[:count]]
    request = ShareFetchRequest(
        world.share_groups[0],
        "A" * 22,
        0,
        max_wait_ms=0,
        max_bytes=2**31 - 1,
        max_records=2**31 - 1,
        batch_size=1,
        topics=topics,
    )
    return frame_of(request, 1)


def create_request(prefix, count, partitions):
    return CreateTopicsRequest(
        [CreateTopicsRequest.CreatableTopic(f"{prefix}-{number}", partitions, 1) for number in range(count)]
    )


def create_topics(prefix, count, partitions):
    return frame_of(create_request(prefix, count, partitions), 7)


def create_partitions(name, count):
    return frame_of(
        CreatePartitionsRequest([CreatePartitionsRequest.CreatePartitionsTopic(name, count, None)], timeout_ms=30_000),
        3,
    )


def telemetry(metrics, compression_type):
    return frame_of(PushTelemetryRequest(b"i" * 16, 0, False, compression_type, metrics), 0)


def alter_configs(names, settings):
    config = IncrementalAlterConfigsRequest.AlterableConfig
    given = [config("leader.replication.throttled.replicas", 0, "x" * 1000)] * settings
    resource = IncrementalAlterConfigsRequest.AlterConfigsResource
    return frame_of(IncrementalAlterConfigsRequest([resource(TOPIC_RESOURCE, name, given) for name in names]), 1)


def several(make, count=MANY_CONNECTIONS):
    return [make(number) for number in range(count)]


def unknown(count, prefix="u"):
    return [f"{prefix}{number}" for number in range(count)]


def _row(what, message, version, payloads, **options):
    options.setdefault("kept_bytes_max", KEPT_BYTES_MAX.get(message.SCHEMA.key, 0))
    return Case(message.SCHEMA.key, version, what, payloads, **options)


class _Produce:
    SCHEMA = type(produce_request()).SCHEMA


TRANSACTIONAL = {}
"""Transactional ids that a case has begun, with their producers."""


def begin_wide_transactions(client, timeout_ms=SESSION_MS // 3):
    """MANY_CONNECTIONS transactions, each in every partition of one topic."""
    client.ask(CreateTopicsRequest([CreateTopicsRequest.CreatableTopic("ended", TRANSACTION_PARTITIONS, 1)]))
    for number in range(MANY_CONNECTIONS):
        name = f"wide-{number}"
        producer = TRANSACTIONAL[name] = client.ask(InitProducerIdRequest(name, timeout_ms))
        topics = [AddPartitionsToTxnRequest.AddPartitionsToTxnTopic("ended", list(range(TRANSACTION_PARTITIONS)))]
        client.ask(
            AddPartitionsToTxnRequest([], name, producer.producer_id, producer.producer_epoch, topics), version=3
        )


def end_wide_transactions(_world):
    return [
        frame_of(EndTxnRequest(name, it.producer_id, it.producer_epoch, True), 1) for name, it in TRANSACTIONAL.items()
    ]


WIDE = {"before": make_topic(WIDE_TOPIC)}
HANDMADE = [
    _row("a million records", _Produce, 9, lambda _: [produce(tiny_records())], **WIDE),
    _row(
        "a million records to each partition",
        _Produce,
        9,
        lambda _: [produce(*[tiny_records()] * WIDE_PARTITIONS)],
        **WIDE,
    ),
    _row("a million records 12 times to one", _Produce, 9, lambda _: [produce_again(tiny_records(), 12)], **WIDE),
    _row(
        "a million records for many",
        _Produce,
        9,
        lambda _: several(lambda _: produce(tiny_records()), LONG_BATCHES_MAX + 1),
        **WIDE,
    ),
    _row(
        "a million records, too old",
        _Produce,
        9,
        lambda _: [produce(old_tiny_records())] * 2,
        before=make_topic(WIDE_TOPIC, message_timestamp_before_max_ms="1000"),
    ),
    _row(
        "a million records, compressed again",
        _Produce,
        9,
        lambda _: [produce(tiny_records())],
        before=make_topic(WIDE_TOPIC, compression_type="gzip"),
    ),
    _row("headers", _Produce, 9, lambda _: [produce(*[header_records()] * WIDE_PARTITIONS)] * 4, **WIDE),
    _row(
        "records of just more and just less than the limit of decompression",
        _Produce,
        9,
        lambda _: [produce(*[batch] * WIDE_PARTITIONS) for batch in around_the_limit()],
        **WIDE,
    ),
    _row("all topics, whole", FetchRequest, 12, lambda world: [fetch_of(world.topics)] * 4),
    _row(
        "sessions of unknown topics",
        FetchRequest,
        12,
        lambda _: [fetch_of(unknown(FETCHED_TOPICS), epoch=EPOCH_OF_A_NEW_SESSION)] * LARGE_SESSIONS,
    ),
    _row(
        "sessions of unknown ids",
        FetchRequest,
        17,
        lambda _: (
            [
                fetch_of(
                    [n.to_bytes(16, "big") for n in range(1, FETCHED_TOPICS)],
                    epoch=EPOCH_OF_A_NEW_SESSION,
                    version=17,
                    by_id=True,
                )
            ]
            * LARGE_SESSIONS
        ),
    ),
    _row(
        "sessions of all topics",
        FetchRequest,
        12,
        lambda world: [fetch_of(world.topics, epoch=0)] * MANY_CONNECTIONS,
        kept_bytes_max=SESSION_PARTITIONS_MAX * SESSION_PARTITION_BYTES,
    ),
    _row(
        "large ones that wait for long",
        FetchRequest,
        7,
        lambda world: [waiting_fetch(world.topics[-1])] * WAITING_FETCHES,
        kept_bytes_max=WAITING_FETCHES * FORGOTTEN_TOPICS * DECODED_NAME_BYTES,
        reads=False,
    ),
    _row(
        "20 wide transactions",
        EndTxnRequest,
        1,
        end_wide_transactions,
        before=lambda client, _: begin_wide_transactions(client),
        kept_bytes_max=MANY_CONNECTIONS * TRANSACTION_PARTITIONS * MARKER_BYTES,
    ),
    _row(
        "20 wide transactions that time out together",
        ListTransactionsRequest,
        0,
        lambda _: [frame_of(ListTransactionsRequest(), 0)],
        before=lambda client, _: begin_wide_transactions(client, timeout_ms=1_000),
        kept_bytes_max=MANY_CONNECTIONS * TRANSACTION_PARTITIONS * MARKER_BYTES,
        watched_seconds=CLEANUP_MS / 1000 + ABORTED_SECONDS_MAX,
    ),
    _row("everything", ShareFetchRequest, 1, lambda world: [share_fetch(world, AT_ONCE)]),
    _row(
        "as many as fit",
        ShareFetchRequest,
        1,
        lambda world: [share_fetch(world, DECIDED_AT_ONCE_MAX // (1 + PARTITIONS))],
    ),
    _row(
        "topics created by their names",
        MetadataRequest,
        8,
        lambda _: [metadata(unknown(NAMES))],
        kept_bytes_max=CREATED_BYTES_MAX,
    ),
    _row("unknown topics", MetadataRequest, 8, lambda _: [metadata(unknown(NAMES), create=False)]),
    _row(
        "unknown topics for many",
        MetadataRequest,
        8,
        lambda _: [metadata(unknown(NAMES), create=False)] * UNKNOWN_TO_MANY,
    ),
    _row(
        "all topics for many",
        MetadataRequest,
        8,
        lambda _: [frame_of(MetadataRequest(topics=None), 8)] * MANY_CONNECTIONS,
    ),
    _row("10,000 topics", CreateTopicsRequest, 7, lambda _: [create_topics("narrow", 10_000, 1)]),
    _row("one topic of 10,000 partitions", CreateTopicsRequest, 7, lambda _: [create_topics("broad", 1, 10_000)]),
    _row(
        "10,000 partitions more", CreatePartitionsRequest, 3, lambda world: [create_partitions(world.topics[0], 10_000)]
    ),
    _row(
        "10 MB of metadata each",
        JoinGroupRequest,
        3,
        lambda _: several(lambda n: join_group(f"j{n}"), 10),
        kept_bytes_max=GROUP_BYTES_MAX + 10 * LARGE_METADATA_BYTES,  # the answers repeat it
    ),
    _row(
        "10 MB of metadata each, all waiting for the first rebalance",
        JoinGroupRequest,
        3,
        lambda _: several(lambda n: join_group(f"w{n}")),
        kept_bytes_max=GROUP_BYTES_MAX + MANY_CONNECTIONS * LARGE_METADATA_BYTES,
        reads=False,
        watched_seconds=3.0,  # group.initial.rebalance.delay.ms: what begins then is of this case, not of the next
    ),
    _row(
        "a large group 1,000 times",
        DescribeGroupsRequest,
        5,
        lambda world: [describe_groups([world.large_group] * 1000)],
    ),
    _row(
        "a large group for many",
        DescribeGroupsRequest,
        5,
        lambda world: [describe_groups([world.large_group])] * MANY_CONNECTIONS,
    ),
    _row(
        "a large group for 150 that read nothing",
        DescribeGroupsRequest,
        5,
        lambda world: [describe_groups([world.large_group])] * CONNECTIONS_THAT_READ_NOTHING,
        reads=False,
    ),
    _row(
        "all topics for 150 that read nothing",
        MetadataRequest,
        8,
        lambda _: [frame_of(MetadataRequest(topics=None), 8)] * CONNECTIONS_THAT_READ_NOTHING,
        kept_bytes_max=UNSENT_BYTES_MAX,
        reads=False,
    ),
    _row(
        "its broker 2,000 times", DescribeConfigsRequest, 4, lambda _: [describe_configs(BROKER_RESOURCE, ["1"] * 2000)]
    ),
    _row(
        "one topic 2,000 times",
        DescribeConfigsRequest,
        4,
        lambda world: [describe_configs(TOPIC_RESOURCE, world.topics[:1] * 2000)],
    ),
    _row("all topics", DescribeConfigsRequest, 4, lambda world: [describe_configs(TOPIC_RESOURCE, world.topics)]),
    _row(
        "all topics for many",
        DescribeConfigsRequest,
        4,
        lambda world: [describe_configs(TOPIC_RESOURCE, world.topics)] * 10,
    ),
    _row("1,000 settings", IncrementalAlterConfigsRequest, 1, lambda world: [alter_configs(world.topics[:10], 500)]),
    _row("all of a group 1,000 times", OffsetFetchRequest, 9, lambda world: [offset_fetch([world.large_group] * 1000)]),
    _row("all of all groups", OffsetFetchRequest, 9, lambda world: [offset_fetch([world.large_group, *world.groups])]),
    _row(
        "10 groups of many topics",
        OffsetFetchRequest,
        9,
        lambda world: [offset_fetch([*world.groups[:9], world.large_group], world.topics[: FETCHED_TOPICS // 10])] * 4,
    ),
    _row(
        "200 groups of 5,000 topics",
        ConsumerGroupHeartbeatRequest,
        1,
        lambda _: several(lambda n: subscribe(f"c{n}", unknown(5_000)), 200),
        kept_bytes_max=GROUP_BYTES_MAX,
    ),
    _row(
        "groups of all topics",
        ConsumerGroupHeartbeatRequest,
        1,
        lambda world: several(lambda n: subscribe(f"c{n}", world.topics)),
        kept_bytes_max=GROUP_BYTES_MAX,
    ),
    _row(
        "expressions",
        ConsumerGroupHeartbeatRequest,
        1,
        lambda _: several(lambda n: subscribe(f"c{n}", None, f"(({'a?' * 100}|.*){n})+"), 100),
    ),
    _row(
        "expressions that match all of many topics",
        ConsumerGroupHeartbeatRequest,
        1,
        lambda _: several(lambda n: subscribe(f"m{n}", None, f"narrow-.*|{n}")),
        before=lambda client, _: client.ask(create_request("narrow", MATCHED_TOPICS, 1)),
        kept_bytes_max=GROUP_BYTES_MAX,
        watched_seconds=2.0,
    ),
    _row(
        "applications of all topics",
        StreamsGroupHeartbeatRequest,
        1,
        lambda world: several(lambda n: join_streams(f"a{n}", world)),
        kept_bytes_max=GROUP_BYTES_MAX,
        watched_seconds=2.0,
    ),
    _row(
        "applications of many tasks",
        StreamsGroupHeartbeatRequest,
        1,
        join_with_tasks,
        before=make_tasks,
        kept_bytes_max=GROUP_BYTES_MAX,
    ),
    _row(
        "groups of all topics",
        ShareGroupHeartbeatRequest,
        1,
        lambda world: several(lambda n: share(f"s{n}", world.topics)),
        kept_bytes_max=GROUP_BYTES_MAX,
    ),
    _row(
        "by time in a million records",
        ListOffsetsRequest,
        7,
        lambda _: [list_offsets(DENSE_TOPIC, 1)] * 4,
        before=make_dense_topic,
    ),
    _row("zeros", PushTelemetryRequest, 0, lambda _: [telemetry(zlib.compress(bytes(DECOMPRESSED_SIZE_MAX)), 1)] * 4),
    _row(
        "subscriptions",
        GetTelemetrySubscriptionsRequest,
        0,
        lambda _: several(lambda n: frame_of(GetTelemetrySubscriptionsRequest(n.to_bytes(16, "big")), 0), 100),
    ),
    _row(
        "a token of 500 KB",
        SaslAuthenticateRequest,
        2,
        lambda _: [frame_of(SaslAuthenticateRequest(bytes(500_000)), 2)] * 10,
    ),
]
