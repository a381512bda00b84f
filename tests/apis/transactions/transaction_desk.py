"""A desk with transactional producers."""

from __future__ import annotations

import errno

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.records.batch import NewRecord, build_batch
from pipeline_broker.wire.messages.data.fetch import FetchRequest
from pipeline_broker.wire.messages.data.produce import ProduceRequest
from pipeline_broker.wire.messages.groups.find_coordinator import FindCoordinatorRequest
from pipeline_broker.wire.messages.groups.offset_fetch import OffsetFetchRequest
from pipeline_broker.wire.messages.transactions.add_partitions_to_txn import AddPartitionsToTxnRequest
from pipeline_broker.wire.messages.transactions.describe_transactions import DescribeTransactionsRequest
from pipeline_broker.wire.messages.transactions.end_txn import EndTxnRequest
from pipeline_broker.wire.messages.transactions.init_producer_id import InitProducerIdRequest
from pipeline_broker.wire.messages.transactions.txn_offset_commit import TxnOffsetCommitRequest
from stages.request import Pending

GROUP, TRANSACTION = 0, 1
SETTINGS = ("num.partitions=2", "offsets.topic.num.partitions=3", "transaction.state.log.num.partitions=2")
FULL = OSError(errno.ENOSPC, "full")
NOT_ENOUGH_REPLICAS, INVALID_EPOCH = ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.INVALID_PRODUCER_EPOCH
INVALID_STATE, ABORTABLE = ErrorCode.INVALID_TXN_STATE, ErrorCode.TRANSACTION_ABORTABLE


class Producer:
    """A transactional producer at a desk."""

    def __init__(self, desk, name="x", timeout_ms=60_000, version=5):
        self.desk = desk
        self.name = name
        self.sequences = {}
        answer = desk.ask(self.init(timeout_ms), version)
        if answer.error_code == ErrorCode.CONCURRENT_TRANSACTIONS:
            answer = desk.ask(self.init(timeout_ms), version)
        assert answer.error_code == 0, ErrorCode(answer.error_code)
        self.id, self.epoch = answer.producer_id, answer.producer_epoch

    def init(self, timeout_ms=60_000):
        return InitProducerIdRequest(self.name, timeout_ms)

    def batch(self, partition, *, transactional=True):
        sequence = self.sequences.get((partition, self.epoch), 0)
        self.sequences[partition, self.epoch] = sequence + 1
        return build_batch(
            [NewRecord(b"%d" % sequence, None, 0)],
            producer_id=self.id,
            producer_epoch=self.epoch,
            base_sequence=sequence,
            transactional=transactional,
        )

    def produce(self, *partitions, topic="t", acks=-1, transactional=True, name=""):
        data = [
            ProduceRequest.PartitionProduceData(index, self.batch((topic, index), transactional=transactional))
            for index in partitions
        ]
        return ProduceRequest(
            self.name if name == "" else name, acks, 0, [ProduceRequest.TopicProduceData(topic, partition_data=data)]
        )

    def add(self, *partitions, topic="t"):
        topics = [AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(topic, list(partitions))]
        return AddPartitionsToTxnRequest([], self.name, self.id, self.epoch, topics)

    def end(self, *, committed=True):
        return EndTxnRequest(self.name, self.id, self.epoch, committed)

    def ended(self, *, committed=True, version=5):
        answer = self.desk.ask(self.end(committed=committed), version)
        if version >= 5 and not answer.error_code:
            self.id, self.epoch = answer.producer_id, answer.producer_epoch
        return answer.error_code

    def offsets(self, *offsets, group="g", generation=-1, member=""):
        partitions = [TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition(i, it) for i, it in enumerate(offsets)]
        topic = self.desk.broker.topics.get("t")
        topics = [TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic("t", topic.topic_id, partitions)]
        return TxnOffsetCommitRequest(self.name, group, self.id, self.epoch, generation, member, topics=topics)


def ready(desk):
    for kind in (GROUP, TRANSACTION):
        desk.ask(FindCoordinatorRequest(key="any", key_type=kind), 2)
    desk.create_topic("t")
    return desk


def codes(answer):
    found = {}
    for topic in answer.responses if hasattr(answer, "responses") else answer.topics:
        partitions = topic.partition_responses if hasattr(topic, "partition_responses") else topic.partitions
        for partition in partitions:
            index = partition.index if hasattr(partition, "index") else partition.partition_index
            found[index] = ErrorCode(partition.error_code)
    return found


def added(answer):
    return [
        ErrorCode(partition.partition_error_code)
        for topic in answer.results_by_topic_v3_and_below
        for partition in topic.results_by_partition
    ]


def state_of(desk, name="x"):
    (found,) = desk.ask(DescribeTransactionsRequest([name]), 0).transaction_states
    return found


def read(desk, partition=0, *, committed=True):
    """Return the number of batches that a consumer gets, and the aborted producers."""
    wanted = FetchRequest.FetchPartition(partition=partition, partition_max_bytes=1 << 20)
    answer = desk.ask(
        FetchRequest(
            max_wait_ms=0,
            max_bytes=1 << 20,
            isolation_level=1 if committed else 0,
            topics=[FetchRequest.FetchTopic("t", partitions=[wanted])],
        ),
        12,
    )
    data = answer.responses[0].partitions[0]
    return data.last_stable_offset, [it.producer_id for it in data.aborted_transactions or ()]


def fetched(desk, *, stable=False, group="g", partitions=(0, 1)):
    wanted = OffsetFetchRequest.OffsetFetchRequestTopics("t", partition_indexes=list(partitions))
    groups = [OffsetFetchRequest.OffsetFetchRequestGroup(group, topics=[wanted])]
    answer = desk.ask(OffsetFetchRequest(groups=groups, require_stable=stable), 8)
    return [(it.committed_offset, it.error_code) for it in answer.groups[0].topics[0].partitions]


def logs_of(result):
    assert isinstance(result, Pending)
    return [entry.log.topic for entry in result.entries]
