"""A data directory that holds much of everything, so that each element of a request costs as much as it can.

Rules of this file: what there is, is named in `World`; names count up, so that a case can name as many as it likes.
The directory is made once for all brokers of a run and copied for each.
"""

import shutil
import time

import attrs

from pipeline_broker.records.batch import NewRecord, build_batch
from pipeline_broker.records.compression import Compression
from pipeline_broker.wire.messages.configs.alter_client_quotas import AlterClientQuotasRequest
from pipeline_broker.wire.messages.configs.incremental_alter_configs import IncrementalAlterConfigsRequest
from pipeline_broker.wire.messages.groups.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from pipeline_broker.wire.messages.groups.find_coordinator import FindCoordinatorRequest
from pipeline_broker.wire.messages.groups.join_group import JoinGroupRequest
from pipeline_broker.wire.messages.groups.offset_commit import OffsetCommitRequest
from pipeline_broker.wire.messages.groups.sync_group import SyncGroupRequest
from pipeline_broker.wire.messages.security.alter_user_scram_credentials import AlterUserScramCredentialsRequest
from pipeline_broker.wire.messages.security.create_acls import CreateAclsRequest
from pipeline_broker.wire.messages.share.share_group_heartbeat import ShareGroupHeartbeatRequest
from pipeline_broker.wire.messages.topics.create_topics import CreateTopicsRequest
from pipeline_broker.wire.messages.topics.metadata import MetadataRequest
from pipeline_broker.wire.messages.transactions.add_partitions_to_txn import AddPartitionsToTxnRequest
from pipeline_broker.wire.messages.transactions.init_producer_id import InitProducerIdRequest
from tests.bad_input.raw_client import ACKS_ALL, produce_request
from tests.conftest import start_broker
from tests.crashes.lengths import AT_LENGTH
from tests.crashes.wire_client import WireClient
from tests.hostile import innocent

AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
TOPIC_RESOURCE, GROUP_RESOURCE = 2, 32
PREPARING = ["group.initial.rebalance.delay.ms=0"]
SESSION_MS = 1_800_000
CLEANUP_MS = 10_000 if AT_LENGTH else 1_000
"""How often a broker looks for transactions that are too old; ten seconds are Kafka's default."""
METADATA_BYTES = 1_000_000
"""Of the member of the large group; its assignment is as large."""
WHOLE_BATCH_RECORDS = 10_000


@attrs.frozen
class World:
    """What there is, by kind.

    Attributes:
        topics: names of the topics, of two partitions each.
        topic_ids: their ids, in the same order.
        large_group: has one member with METADATA_BYTES of metadata and an assignment of that size, and offsets of
            all partitions.
        groups: names of groups without members that have committed an offset.
        consumer_groups: with a member that subscribes to many topics.
        share_groups: likewise.
        transactional_ids: each with an open transaction.
        producer_ids: theirs.
        users: with SCRAM credentials and quotas.
        acls: how many there are.
    """

    topics: list[str]
    topic_ids: list[bytes]
    large_group: str
    groups: list[str]
    consumer_groups: list[str]
    share_groups: list[str]
    transactional_ids: list[str]
    producer_ids: list[int]
    users: list[str]
    acls: int

    @property
    def described_groups(self):
        """Some of each kind, the large one first."""
        return [self.large_group, *self.consumer_groups, *self.share_groups, *self.groups]


SMALL_WORLD = World(
    topics=["topic-0"],
    topic_ids=[bytes(range(16))],
    large_group="large-group",
    groups=["group-0"],
    consumer_groups=["consumers-0"],
    share_groups=["sharers-0"],
    transactional_ids=["transaction-0"],
    producer_ids=[0],
    users=["user-0"],
    acls=1,
)
"""One of each kind, for tests that ask for nothing or of a broker of their own."""


@attrs.frozen
class Amounts:
    """How much there is."""

    topics: int
    groups: int
    of_each: int


ORDINARY = Amounts(topics=2_000, groups=400, of_each=200)
LARGE = Amounts(topics=5_000, groups=1_000, of_each=1_000)
PARTITIONS = 2
AT_ONCE = 500


def prepare(directory, amounts):
    """Fill a data directory; returns the World."""
    settings = [*PREPARING, f"authorizer.class.name={AUTHORIZER}", "super.users=User:ANONYMOUS"]
    broker = start_broker(
        directory / "preparing", data=directory / "data", settings=settings, arguments=["--flush", "os"]
    )
    try:
        with WireClient((broker.host, broker.port), seconds_max=60.0) as client:
            world = _fill(client, amounts)
    finally:
        broker.stop()
        broker.process.stdout.close()
    return world


def copy_of(directory, target):
    """A data directory as `prepare` left it."""
    shutil.copytree(directory / "data", target)
    return target


def _fill(client, amounts):
    topics = [f"topic-{number}" for number in range(amounts.topics)]
    ids = _create_topics(client, topics)
    _produce(client, topics)
    for key_type in (0, 1):  # creates the topics of the coordinators
        client.ask(FindCoordinatorRequest(key_type=key_type, coordinator_keys=["any"]))
    member = _join_large_group(client, "large-group")
    _commit(client, "large-group", topics, *member)
    groups = [f"group-{number}" for number in range(amounts.groups)]
    for group in groups:
        _commit(client, group, topics[:1])
    consumer_groups = [f"consumers-{number}" for number in range(amounts.of_each)]
    share_groups = [f"sharers-{number}" for number in range(amounts.of_each)]
    for name in consumer_groups:
        client.ask(
            ConsumerGroupHeartbeatRequest(
                name,
                member_id="A" * 22,
                rebalance_timeout_ms=SESSION_MS,
                subscribed_topic_names=topics[:50],
                topic_partitions=[],
            ),
            0,
        )
    _configure(client, GROUP_RESOURCE, share_groups, "share.auto.offset.reset", "earliest")
    for name in share_groups:
        client.ask(ShareGroupHeartbeatRequest(name, member_id="A" * 22, subscribed_topic_names=topics[:5]))
    transactional_ids = [f"transaction-{number}" for number in range(amounts.of_each)]
    producer_ids = [_begin(client, name, topics[number % len(topics)]) for number, name in enumerate(transactional_ids)]
    users = [f"user-{number}" for number in range(amounts.of_each)]
    _create_users(client, users)
    acls = _create_acls(client, amounts.of_each)
    _configure(client, TOPIC_RESOURCE, topics[:AT_ONCE], "max.message.bytes", "1048588")
    return World(
        topics, ids, "large-group", groups, consumer_groups, share_groups, transactional_ids, producer_ids, users, acls
    )


def _check(codes):
    wrong = {code for code in codes if code}
    assert not wrong, wrong


def _create_topics(client, names):
    topic = CreateTopicsRequest.CreatableTopic
    for first in range(0, len(names), AT_ONCE):
        wanted = [topic(name, PARTITIONS, 1) for name in names[first : first + AT_ONCE]]
        _check(each.error_code for each in client.ask(CreateTopicsRequest(wanted)).topics)
    _check(each.error_code for each in client.ask(CreateTopicsRequest([topic(innocent.TOPIC, 1, 1)])).topics)
    listed = {each.name: each.topic_id for each in client.ask(MetadataRequest(topics=None)).topics}
    return [listed[name] for name in names]


def _produce(client, topics):
    """A compressed batch of many records in the first topic, one record in the next ones."""
    now_ms = time.time_ns() // 1_000_000
    large = [NewRecord(b"v", timestamp=now_ms - 1000 + number // 20) for number in range(WHOLE_BATCH_RECORDS)]
    requests = [
        produce_request((0, build_batch(large, compression=Compression.ZSTD)), topic=topics[0], timeout_ms=10_000)
    ]
    small = build_batch([NewRecord(b"v", timestamp=now_ms)])
    requests += [produce_request((0, small), (1, small), topic=name, acks=ACKS_ALL) for name in topics[1:AT_ONCE]]
    for request in requests:
        answer = client.ask(request, 9)
        _check(each.error_code for topic in answer.responses for each in topic.partition_responses)


def _join_large_group(client, name):
    protocol = JoinGroupRequest.JoinGroupRequestProtocol("range", bytes(METADATA_BYTES))
    joined = client.ask(
        JoinGroupRequest(name, SESSION_MS, SESSION_MS, protocol_type="consumer", protocols=[protocol]), 3
    )
    _check([joined.error_code])
    member = joined.generation_id, joined.member_id
    given = SyncGroupRequest.SyncGroupRequestAssignment(joined.member_id, bytes(METADATA_BYTES))
    _check([client.ask(SyncGroupRequest(name, *member, assignments=[given]), 3).error_code])
    return member


def _commit(client, group, topics, generation=-1, member_id=""):
    """Without a member as an administrator does, or as a member."""
    topic, partition = OffsetCommitRequest.OffsetCommitRequestTopic, OffsetCommitRequest.OffsetCommitRequestPartition
    partitions = range(PARTITIONS)
    for first in range(0, len(topics), AT_ONCE):
        names = topics[first : first + AT_ONCE]
        wanted = [topic(name, partitions=[partition(index, 1) for index in partitions]) for name in names]
        answer = client.ask(OffsetCommitRequest(group, generation, member_id, topics=wanted), 8)
        _check(each.error_code for found in answer.topics for each in found.partitions)


def _begin(client, transactional_id, topic):
    producer = client.ask(InitProducerIdRequest(transactional_id, 900_000))
    _check([producer.error_code])
    added = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=transactional_id,
        v3_and_below_producer_id=producer.producer_id,
        v3_and_below_producer_epoch=producer.producer_epoch,
        v3_and_below_topics=[AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(topic, [0])],
    )
    answer = client.ask(added, 3)
    _check(
        each.partition_error_code
        for found in answer.results_by_topic_v3_and_below
        for each in found.results_by_partition
    )
    return producer.producer_id


def _create_users(client, names):
    upsertion = AlterUserScramCredentialsRequest.ScramCredentialUpsertion
    wanted = [upsertion(name, 1, 4096, b"salt", bytes(32)) for name in names]
    _check(each.error_code for each in client.ask(AlterUserScramCredentialsRequest(upsertions=wanted)).results)
    request = AlterClientQuotasRequest
    entries = [
        request.EntryData([request.EntityData("user", name)], [request.OpData("producer_byte_rate", 1e12)])
        for name in names
    ]
    _check(each.error_code for each in client.ask(AlterClientQuotasRequest(entries)).entries)


def _create_acls(client, count):
    """Each allows one user to read one topic."""
    wanted = [
        CreateAclsRequest.AclCreation(2, f"topic-{number}", 3, f"User:user-{number}", "*", 3, 3)
        for number in range(count)
    ]
    _check(each.error_code for each in client.ask(CreateAclsRequest(wanted)).results)
    return count


def _configure(client, resource_type, names, setting, value):
    config = IncrementalAlterConfigsRequest.AlterableConfig(setting, 0, value)
    wanted = [IncrementalAlterConfigsRequest.AlterConfigsResource(resource_type, name, [config]) for name in names]
    _check(each.error_code for each in client.ask(IncrementalAlterConfigsRequest(wanted)).responses)
