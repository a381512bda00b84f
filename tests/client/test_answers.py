"""Responses that do not match their requests: the client returns the requested elements, or fails with one line."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.base.first_cause import first_cause
from pipeline_broker.client.acls import create_acls, delete_acls
from pipeline_broker.client.answers import answer_to, answers_to
from pipeline_broker.client.cluster_client import connected
from pipeline_broker.client.configs import Subject, alter_settings, settings_of
from pipeline_broker.client.errors import ClientError
from pipeline_broker.client.group_description import group_state
from pipeline_broker.client.groups import commit, committed_offsets, delete_groups
from pipeline_broker.client.offsets import BEGINNING, END, Place, bounds_of, list_offsets
from pipeline_broker.client.record_deletion import delete_planned, plan_deletion
from pipeline_broker.client.scram_users import delete_credentials, list_users
from pipeline_broker.client.topics import add_partitions, create_topic, delete_topic
from pipeline_broker.client.transactions import abort_transaction, describe_transaction, producers_of
from pipeline_broker.security.acl import (
    AclBinding,
    AclFilter,
    AclOperation,
    PatternType,
    PermissionType,
    ResourceType,
)
from pipeline_broker.security.scram import SCRAM_MECHANISMS
from pipeline_broker.wire.messages.data.list_offsets import ListOffsetsResponse
from pipeline_broker.wire.messages.transactions.describe_producers import DescribeProducersResponse
from pipeline_broker.wire.messages.transactions.describe_transactions import DescribeTransactionsResponse
from pipeline_broker.wire.messages.transactions.write_txn_markers import WriteTxnMarkersResponse
from pipeline_broker.wire.registry import ApiKey, message_classes
from tests.client.fake_cluster import TOPIC, FakeCluster, serving

TIMEOUT_S = 5.0
PLACE = (TOPIC, 0)
START = 10
RULE = AclBinding(
    ResourceType.TOPIC, TOPIC, PatternType.LITERAL, "User:a", "*", AclOperation.READ, PermissionType.ALLOW
)
EVERY_RULE = AclFilter(ResourceType.ANY, None, PatternType.ANY, None, None, AclOperation.ANY, PermissionType.ANY)
SCRAM = SCRAM_MECHANISMS["SCRAM-SHA-256"]
ASKED = {
    ApiKey.LIST_OFFSETS: lambda cluster: list_offsets(cluster, {PLACE: -1}),
    ApiKey.DELETE_RECORDS: lambda cluster: delete_planned(
        cluster, [{"topic": TOPIC, "partition": 0, "start": 0, "to": 5}]
    ),
    ApiKey.OFFSET_COMMIT: lambda cluster: commit(cluster, "g", {PLACE: 1}),
    ApiKey.OFFSET_FETCH: lambda cluster: committed_offsets(cluster, "g"),
    ApiKey.DELETE_GROUPS: lambda cluster: delete_groups(cluster, ["g"]),
    ApiKey.CONSUMER_GROUP_DESCRIBE: lambda cluster: group_state(cluster, "g"),
    ApiKey.DESCRIBE_CONFIGS: lambda cluster: settings_of(cluster, Subject("topic", TOPIC)),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: lambda cluster: alter_settings(cluster, Subject("topic", TOPIC), {"a": "b"}),
    ApiKey.ALTER_CLIENT_QUOTAS: lambda cluster: alter_settings(cluster, Subject("user", "u"), {"a": "1"}),
    ApiKey.CREATE_TOPICS: lambda cluster: create_topic(cluster, "new"),
    ApiKey.DELETE_TOPICS: lambda cluster: delete_topic(cluster, TOPIC),
    ApiKey.CREATE_PARTITIONS: lambda cluster: add_partitions(cluster, TOPIC, 3),
    ApiKey.CREATE_ACLS: lambda cluster: create_acls(cluster, [RULE]),
    ApiKey.DELETE_ACLS: lambda cluster: delete_acls(cluster, EVERY_RULE),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: lambda cluster: list_users(cluster, ["u"]),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: lambda cluster: delete_credentials(cluster, "u", [SCRAM]),
    ApiKey.DESCRIBE_TRANSACTIONS: lambda cluster: describe_transaction(cluster, "x"),
    ApiKey.DESCRIBE_PRODUCERS: lambda cluster: producers_of(cluster, TOPIC),
    ApiKey.WRITE_TXN_MARKERS: lambda cluster: abort_transaction(cluster, TOPIC, 0, START),
}


def producers(count=1, topic=TOPIC):
    """Answer DescribeProducers with producers that all have a transaction at one offset."""
    states = [DescribeProducersResponse.ProducerState(5 + each, 0, 3, 1, -1, START) for each in range(count)]
    partition = DescribeProducersResponse.PartitionResponse(0, 0, None, states)
    return lambda _: DescribeProducersResponse(topics=[DescribeProducersResponse.TopicResponse(topic, [partition])])


def written(request):
    result = WriteTxnMarkersResponse.WritableTxnMarkerResult
    topic = WriteTxnMarkersResponse.WritableTxnMarkerTopicResult
    partition = WriteTxnMarkersResponse.WritableTxnMarkerPartitionResult
    return WriteTxnMarkersResponse(
        [result(it.producer_id, [topic(each.name, [partition(0, 0)]) for each in it.topics]) for it in request.markers]
    )


async def asked(fake, ask, timeout_s=TIMEOUT_S):
    try:
        async with serving(fake) as address, connected([address], timeout_s) as cluster:
            return await ask(cluster)
    except BaseExceptionGroup as errors:
        raise first_cause(errors) from None


@pytest.mark.trio
@pytest.mark.parametrize("key", ASKED, ids=lambda key: key.name)
async def test_a_response_that_omits_a_requested_key_is_an_error(key):
    response = message_classes(key)[1]
    fake = FakeCluster({0: 1}, nodes=1, coordinator=1)
    fake.answers = {ApiKey.DESCRIBE_PRODUCERS: producers(), key: lambda _: response()}
    with pytest.raises(ClientError, match=r"the broker's answer omits .*"):
        await asked(fake, ASKED[key])
    assert fake.asked[1, key] == 1


@pytest.mark.trio
async def test_a_response_with_other_keys_is_an_error():
    fake = FakeCluster({0: 1}, nodes=1, answers={ApiKey.DESCRIBE_PRODUCERS: producers(topic="other")})
    with pytest.raises(ClientError, match=f"omits {TOPIC}-0"):
        await asked(fake, ASKED[ApiKey.DESCRIBE_PRODUCERS])


@pytest.mark.trio
async def test_a_transaction_that_is_described_twice_is_an_error():
    states = [DescribeTransactionsResponse.TransactionState(0, "x", "Ongoing", 1, -5, 5, 1, [])] * 2
    fake = FakeCluster({0: 1}, nodes=1, coordinator=1)
    fake.answers = {ApiKey.DESCRIBE_TRANSACTIONS: lambda _: DescribeTransactionsResponse(transaction_states=states)}
    with pytest.raises(ClientError, match="answered twice for transaction x"):
        await asked(fake, ASKED[ApiKey.DESCRIBE_TRANSACTIONS])


@pytest.mark.trio
async def test_two_producers_with_the_same_start_offset_are_not_aborted():
    fake = FakeCluster({0: 1}, nodes=1)
    fake.answers = {ApiKey.DESCRIBE_PRODUCERS: producers(2), ApiKey.WRITE_TXN_MARKERS: written}
    with pytest.raises(ClientError, match="names 2 producers"):
        await asked(fake, ASKED[ApiKey.WRITE_TXN_MARKERS])
    assert fake.asked[1, ApiKey.WRITE_TXN_MARKERS] == 0


@pytest.mark.trio
async def test_a_producer_without_an_earlier_marker_is_aborted_with_epoch_0():
    """Like TransactionsCommand: brokers reject a negative epoch."""
    epochs = []

    def write(request):
        epochs.extend(it.coordinator_epoch for it in request.markers)
        return written(request)

    fake = FakeCluster({0: 1}, nodes=1)
    fake.answers = {ApiKey.DESCRIBE_PRODUCERS: producers(), ApiKey.WRITE_TXN_MARKERS: write}
    assert (await asked(fake, ASKED[ApiKey.WRITE_TXN_MARKERS])).coordinator_epoch == -1
    assert epochs == [0]


@pytest.mark.trio
@pytest.mark.parametrize("comes_back", [True, False])
async def test_a_marker_waits_for_a_leader_that_is_lost_after_describe_producers(comes_back):
    fake = FakeCluster({0: 1}, nodes=1)
    fake.answers = {ApiKey.DESCRIBE_PRODUCERS: producers(), ApiKey.WRITE_TXN_MARKERS: written}
    fake.hooks[ApiKey.DESCRIBE_PRODUCERS] = lambda *_: fake.leaders.update({0: None})
    if comes_back:
        fake.hooks[ApiKey.METADATA] = lambda *_: fake.asked[1, ApiKey.METADATA] > 5 and fake.leaders.update({0: 1})
        assert (await asked(fake, ASKED[ApiKey.WRITE_TXN_MARKERS])).producer_id == 5
        assert fake.asked[1, ApiKey.WRITE_TXN_MARKERS] == 1
        return
    with pytest.raises(ClientError) as error:
        await asked(fake, ASKED[ApiKey.WRITE_TXN_MARKERS], timeout_s=0.3)
    assert error.value.code == ErrorCode.LEADER_NOT_AVAILABLE
    assert fake.asked[1, ApiKey.WRITE_TXN_MARKERS] == 0


@pytest.mark.trio
@pytest.mark.parametrize("place", [BEGINNING, END, Place(offset=0), Place(before_end=1), Place(time=1)], ids=str)
@pytest.mark.parametrize(("start", "end"), [(-5, -1), (-5, 100), (0, -1)])
async def test_negative_offsets_never_become_a_deletion(place, start, end):
    def answer(request):
        (topic,) = request.topics
        offsets = [start if it.timestamp == -2 else end if it.timestamp == -1 else -1 for it in topic.partitions]
        found = [ListOffsetsResponse.ListOffsetsPartitionResponse(0, 0, -1, offset) for offset in offsets]
        return ListOffsetsResponse(topics=[ListOffsetsResponse.ListOffsetsTopicResponse(TOPIC, found)])

    fake = FakeCluster({0: 1}, nodes=1, answers={ApiKey.LIST_OFFSETS: answer})
    with pytest.raises(ClientError, match=f"begins at offset {start} and ends before {end}"):
        await asked(fake, lambda cluster: plan_deletion(cluster, {TOPIC: [0]}, place))


@pytest.mark.trio
async def test_partitions_that_were_not_requested_are_ignored():
    def answer(request):
        numbers = [it.partition_index for it in request.topics[0].partitions]
        found = [ListOffsetsResponse.ListOffsetsPartitionResponse(it, 0, -1, 5) for it in (*numbers, 7)]
        topic = ListOffsetsResponse.ListOffsetsTopicResponse
        return ListOffsetsResponse(topics=[topic(TOPIC, found), topic("other", found)])

    fake = FakeCluster({0: 1}, nodes=1, answers={ApiKey.LIST_OFFSETS: answer})
    assert list(await asked(fake, lambda cluster: bounds_of(cluster, [PLACE]))) == [PLACE]


@given(st.lists(st.integers(0, 5), unique=True), st.lists(st.tuples(st.integers(0, 5), st.integers())))
def test_every_requested_key_is_answered_once_or_an_error(wanted, found):
    counts = [sum(key == each for key, _ in found) for each in wanted]
    try:
        answered = answers_to(wanted, found, str)
    except ClientError:
        assert any(count != 1 for count in counts)
        return
    assert counts == [1] * len(wanted)
    assert list(answered) == wanted
    assert set(answered.items()) <= set(found)
    assert all(answer_to(key, found, str(key)) == element for key, element in answered.items())
