"""Hanging transactions and their markers, in a cluster with a scripted coordinator."""

import pytest

from pipeline_broker.client.cluster_client import connected
from pipeline_broker.client.transactions import abort_transaction, find_hanging
from pipeline_broker.wire.messages.transactions.describe_producers import DescribeProducersResponse
from pipeline_broker.wire.messages.transactions.describe_transactions import DescribeTransactionsResponse
from pipeline_broker.wire.messages.transactions.list_transactions import ListTransactionsResponse
from pipeline_broker.wire.messages.transactions.write_txn_markers import WriteTxnMarkersResponse
from pipeline_broker.wire.registry import ApiKey
from tests.client.fake_cluster import TOPIC, FakeCluster, serving

TIMEOUT_S = 5.0
PRODUCER, START, LAST_MS = 5, 10, 1_000

pytestmark = pytest.mark.trio


class Transactions:
    """A producer with an open transaction in partitions 0 and 1. Its coordinator knows the partitions `known`."""

    def __init__(self, known=None):
        self.known = known
        self.markers = []
        self.fake = FakeCluster({0: 1, 1: 1}, nodes=1, coordinator=1)
        self.fake.answers = {
            ApiKey.DESCRIBE_PRODUCERS: self.describe_producers,
            ApiKey.LIST_TRANSACTIONS: self.list,
            ApiKey.DESCRIBE_TRANSACTIONS: self.describe,
            ApiKey.WRITE_TXN_MARKERS: self.write,
        }

    def describe_producers(self, request):
        state = DescribeProducersResponse.ProducerState(PRODUCER, 0, 3, LAST_MS, 4, START)
        partitions = [
            DescribeProducersResponse.PartitionResponse(it, 0, None, [state])
            for it in request.topics[0].partition_indexes
        ]
        return DescribeProducersResponse(topics=[DescribeProducersResponse.TopicResponse(TOPIC, partitions)])

    def list(self, _request):
        states = [ListTransactionsResponse.TransactionState("x", PRODUCER, "Ongoing")]
        return ListTransactionsResponse(transaction_states=[] if self.known is None else states)

    def describe(self, _request):
        topics = [DescribeTransactionsResponse.TopicData(TOPIC, self.known)] if self.known else []
        state = DescribeTransactionsResponse.TransactionState(0, "x", "Ongoing", 1, 1, PRODUCER, 0, topics)
        return DescribeTransactionsResponse(transaction_states=[state])

    def write(self, request):
        result = WriteTxnMarkersResponse.WritableTxnMarkerResult
        topic = WriteTxnMarkersResponse.WritableTxnMarkerTopicResult
        partition = WriteTxnMarkersResponse.WritableTxnMarkerPartitionResult
        (marker,) = request.markers
        (written,) = marker.topics
        self.markers.append((marker.producer_id, marker.coordinator_epoch, written.name, written.partition_indexes))
        partitions = [partition(it, 0) for it in written.partition_indexes]
        return WriteTxnMarkersResponse([result(PRODUCER, [topic(TOPIC, partitions)])])


@pytest.mark.parametrize(
    ("known", "hanging"),
    [
        (None, [(0, None), (1, None)]),
        ([], [(0, "x"), (1, "x")]),
        ([0], [(1, "x")]),
        ([0, 1], []),
    ],
    ids=["no transaction", "without partitions", "one of them", "both"],
)
async def test_a_transaction_hangs_in_each_partition_in_which_its_coordinator_does_not_know_it(known, hanging):
    transactions = Transactions(known)
    async with serving(transactions.fake) as address, connected([address], TIMEOUT_S) as cluster:
        found = await find_hanging(cluster, [TOPIC], [], LAST_MS + 1)
    assert [(it.producer.partition, it.transactional_id) for it in found] == hanging


async def test_a_transaction_with_a_recent_batch_does_not_hang():
    transactions = Transactions()
    async with serving(transactions.fake) as address, connected([address], TIMEOUT_S) as cluster:
        assert await find_hanging(cluster, [TOPIC], [], LAST_MS) == []


@pytest.mark.parametrize("partition", [0, 1])
async def test_a_marker_is_for_the_named_partition_and_has_the_epoch_of_the_previous_marker(partition):
    transactions = Transactions()
    async with serving(transactions.fake) as address, connected([address], TIMEOUT_S) as cluster:
        assert (await abort_transaction(cluster, TOPIC, partition, START)).producer_id == PRODUCER
    assert transactions.markers == [(PRODUCER, 4, TOPIC, [partition])]
