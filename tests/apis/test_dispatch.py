"""A handler that fails is answered in its API's own response, in every version."""

import errno

import pytest

from pipeline_broker.apis.dispatch import LEASE_RUN_OUT, Dispatcher
from pipeline_broker.apis.registry import SERVED
from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.records.batch import NewRecord, build_batch
from pipeline_broker.wire.codec import encode
from pipeline_broker.wire.header import RequestHeader, encode_request_header
from pipeline_broker.wire.messages.cluster.describe_cluster import DescribeClusterRequest
from pipeline_broker.wire.messages.configs.alter_client_quotas import AlterClientQuotasRequest
from pipeline_broker.wire.messages.configs.describe_client_quotas import DescribeClientQuotasRequest
from pipeline_broker.wire.messages.configs.describe_configs import DescribeConfigsRequest
from pipeline_broker.wire.messages.configs.incremental_alter_configs import IncrementalAlterConfigsRequest
from pipeline_broker.wire.messages.data.delete_records import DeleteRecordsRequest
from pipeline_broker.wire.messages.data.list_offsets import ListOffsetsRequest
from pipeline_broker.wire.messages.data.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from pipeline_broker.wire.messages.data.produce import ProduceRequest
from pipeline_broker.wire.messages.groups.find_coordinator import FindCoordinatorRequest
from pipeline_broker.wire.messages.topics.create_partitions import CreatePartitionsRequest
from pipeline_broker.wire.messages.topics.create_topics import CreateTopicsRequest
from pipeline_broker.wire.messages.topics.delete_topics import DeleteTopicsRequest
from pipeline_broker.wire.messages.topics.describe_topic_partitions import DescribeTopicPartitionsRequest
from pipeline_broker.wire.messages.topics.metadata import MetadataRequest
from pipeline_broker.wire.messages.transactions.init_producer_id import InitProducerIdRequest
from stages.request import TURN_COST, Close, Request, Unfinished
from tests.apis.configs.quota_requests import alteration
from tests.apis.desk import Desk
from tests.tables import each_row

FULL = OSError(errno.ENOSPC, "no space")


def requests_in(version):
    """A request for each administrative API, with the errors that its response can carry."""
    named = {"topic_names": ["t"]} if version < 6 else {"topics": [DeleteTopicsRequest.DeleteTopicState("t")]}
    partition = ListOffsetsRequest.ListOffsetsPartition(partition_index=0, timestamp=-1)
    deleted = DeleteRecordsRequest.DeleteRecordsPartition(0, 0)
    asked = OffsetForLeaderEpochRequest.OffsetForLeaderPartition(0)
    return [
        (CreateTopicsRequest(topics=[CreateTopicsRequest.CreatableTopic("t", 1, 1)]), lambda r: r.topics),
        (DeleteTopicsRequest(**named), lambda r: r.responses),
        (
            CreatePartitionsRequest(topics=[CreatePartitionsRequest.CreatePartitionsTopic("t", 2)]),
            lambda r: r.results,
        ),
        (
            DescribeConfigsRequest(resources=[DescribeConfigsRequest.DescribeConfigsResource(2, "t")]),
            lambda r: r.results,
        ),
        (
            IncrementalAlterConfigsRequest(resources=[IncrementalAlterConfigsRequest.AlterConfigsResource(2, "t", [])]),
            lambda r: r.responses,
        ),
        (DescribeClusterRequest(), lambda r: [r]),
        (
            DescribeTopicPartitionsRequest(topics=[DescribeTopicPartitionsRequest.TopicRequest("t")]),
            lambda r: r.topics,
        ),
        (InitProducerIdRequest(transactional_id=None), lambda r: [r]),
        (DescribeClientQuotasRequest(), lambda r: [r]),
        (AlterClientQuotasRequest(entries=[alteration([("user", "u")])]), lambda r: r.entries),
        (MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name="t")]), lambda r: r.topics),
        (
            ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsRequest.ListOffsetsTopic("t", [partition])]),
            lambda r: r.topics[0].partitions,
        ),
        (
            DeleteRecordsRequest(topics=[DeleteRecordsRequest.DeleteRecordsTopic("t", [deleted])], timeout_ms=1000),
            lambda r: r.topics[0].partitions,
        ),
        (
            OffsetForLeaderEpochRequest(topics=[OffsetForLeaderEpochRequest.OffsetForLeaderTopic("t", [asked])]),
            lambda r: r.topics[0].partitions,
        ),
    ]


def cases():
    for version in range(16):
        for request, errors in requests_in(version):
            served = SERVED[type(request).SCHEMA.key]
            if version in served.versions:
                yield pytest.param(request, version, errors, id=f"{served.name} {version}")


@each_row("message, version, errors", list(cases()))
def test_a_handler_that_fails_is_answered_with_an_error(message, version, errors):
    desk = Desk()
    frame = encode_request_header(RequestHeader(type(message).SCHEMA.key, version, 1, "x"))
    request = Request(desk.connection, 0, frame + b"".join(map(bytes, encode(message, version))), 0)
    desk.dispatcher.handle(request)
    answer = desk.finish(message, version, desk.dispatcher.failed(request, RuntimeError("broken on purpose")))
    assert [each.error_code for each in errors(answer)] == [-1]


def test_batches_after_one_whose_handler_failed_are_refused():
    """The producer is unknown, so any sequence would be accepted, and the failed batch would be missing."""
    desk = Desk()
    desk.ask(CreateTopicsRequest(topics=[CreateTopicsRequest.CreatableTopic("t", 1, 1)]), 4)
    first, second = produce_of(0), produce_of(1)
    frame = encode_request_header(RequestHeader(0, 9, 1, "x")) + b"".join(map(bytes, encode(first, 9)))
    request = Request(desk.connection, 0, frame, 0)
    request.api, request.version = 0, 9
    desk.dispatcher.failed(request, RuntimeError("broken on purpose"))
    answers = [desk.ask(message, 9).responses[0].partition_responses[0] for message in (second, first, second)]
    assert [answer.error_code for answer in answers] == [ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, 0, 0]


@each_row("message, version, errors", list(cases()))
def test_writes_are_refused_and_reads_served_while_the_journal_cannot_be_written(message, version, errors):
    desk = Desk()
    desk.ask(CreateTopicsRequest(topics=[CreateTopicsRequest.CreatableTopic("t", 1, 1)]), 4)
    desk.journal.room.obstacle = FULL
    lsn = desk.journal.next_lsn
    codes = [each.error_code for each in errors(desk.ask(message, version))]
    is_refused = codes == [ErrorCode.KAFKA_STORAGE_ERROR]
    assert is_refused == SERVED[type(message).SCHEMA.key].writes
    assert desk.journal.next_lsn == lsn


def test_batches_after_one_refused_for_lack_of_space_are_refused_until_it_is_resent():
    """On the fast path as well, which a producer's requests take after the first one."""
    desk = Desk()
    desk.ask(CreateTopicsRequest(topics=[CreateTopicsRequest.CreatableTopic("t", 1, 1)]), 4)

    def code_of(sequence):
        return desk.ask(produce_of(sequence), 9).responses[0].partition_responses[0].error_code

    assert [code_of(0), code_of(1), code_of(2)] == [0, 0, 0]
    desk.journal.room.obstacle = FULL
    assert [code_of(3), code_of(4)] == [ErrorCode.KAFKA_STORAGE_ERROR] * 2
    desk.journal.room.obstacle = None
    assert [code_of(4), code_of(3), code_of(4)] == [ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, 0, 0]


def test_no_topic_is_auto_created_while_the_journal_cannot_be_written():
    desk = Desk()
    desk.journal.room.obstacle = FULL
    wanted = MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name="t")])
    assert desk.ask(wanted, 12).topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    coordinator = FindCoordinatorRequest(key="group")
    assert desk.ask(coordinator, 3).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    desk.journal.room.obstacle = None
    assert desk.ask(coordinator, 3).error_code == 0


def test_an_api_without_descriptors_to_load_closes_the_connection_and_loads_later(monkeypatch):
    desk = Desk()

    def refuse(_name):
        raise OSError(errno.EMFILE, "too many open files")

    with monkeypatch.context() as patched:
        patched.setattr("pipeline_broker.apis.loading.import_module", refuse)
        assert isinstance(desk.decide(DescribeClusterRequest(), 0), Close)
    assert desk.ask(DescribeClusterRequest(), 0).error_code == 0


def test_produce_with_acks_0_closes_its_connection_while_the_journal_cannot_be_written():
    desk = Desk()
    desk.ask(CreateTopicsRequest(topics=[CreateTopicsRequest.CreatableTopic("t", 1, 1)]), 4)
    desk.journal.room.obstacle = FULL
    message = produce_of(0)
    message.acks = 0
    assert isinstance(desk.decide(message, 9), Close)


def produce_of(sequence, partitions=(0,)):
    batch = build_batch([NewRecord(b"v", timestamp=0)], producer_id=7, producer_epoch=0, base_sequence=sequence)
    data = [ProduceRequest.PartitionProduceData(partition, batch) for partition in partitions]
    return ProduceRequest(acks=-1, timeout_ms=1, topic_data=[ProduceRequest.TopicProduceData("t", partition_data=data)])


class Leased(Desk):
    """A broker whose lease may run out."""

    def __init__(self):
        super().__init__()
        self.is_owner = True
        self.journal.is_owned = lambda: self.is_owner
        self.dispatcher = Dispatcher(self.broker)
        self.create_topic("t")


LARGE = range(1, TURN_COST)
"""Partitions that are named in more than one turn."""
MANY_TOPICS = [DescribeTopicPartitionsRequest.TopicRequest(f"absent-{number}") for number in LARGE]


@each_row(
    "message, version, turns_min",
    [
        pytest.param(produce_of(5), 9, 1, id="a sequence number that is out of order"),
        pytest.param(produce_of(0, LARGE), 9, 2, id="unknown partitions, in several turns"),
        pytest.param(DescribeClusterRequest(), 0, 1, id="a read"),
        pytest.param(DescribeTopicPartitionsRequest(topics=MANY_TOPICS), 0, 2, id="a read in several turns"),
    ],
)
def test_after_the_lease_ran_out_nothing_is_answered_from_memory(message, version, turns_min):
    """Both if it ran out before the request arrived, and if it ran out between two turns."""
    desk = Leased()
    desk.ask(produce_of(0), 9)
    desk.ask(message, version)
    begun = desk.decide(message, version)
    assert isinstance(begun, Unfinished) == (turns_min > 1)
    desk.is_owner = False
    if isinstance(begun, Unfinished):
        assert desk.do_steps(begun) is LEASE_RUN_OUT
    assert desk.do_steps(desk.decide(message, version)) is LEASE_RUN_OUT


@pytest.mark.parametrize("partitions", [(0,), LARGE])
def test_after_the_lease_ran_out_writes_are_refused_while_the_store_fails(partitions):
    """Producers retry, and learn the state of the partition once the store answers."""
    desk = Leased()
    desk.is_owner = False
    desk.journal.room.obstacle = FULL
    (topic,) = desk.ask(produce_of(0, partitions), 9).responses
    assert {each.error_code for each in topic.partition_responses} == {ErrorCode.KAFKA_STORAGE_ERROR}
