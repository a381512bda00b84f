"""Expected values are those of Apache Kafka."""

import attrs
import pytest

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.log.archive.manifest import Edit
from pipeline_broker.records.batch import NewRecord, build_batch
from pipeline_broker.wire.codec import versions_of
from pipeline_broker.wire.messages.data.delete_records import DeleteRecordsRequest
from pipeline_broker.wire.messages.data.fetch import FetchRequest
from pipeline_broker.wire.messages.data.list_offsets import ListOffsetsRequest
from pipeline_broker.wire.messages.data.produce import ProduceRequest
from pipeline_broker.wire.messages.topics.create_topics import CreateTopicsRequest
from pipeline_broker.wire.messages.topics.delete_topics import DeleteTopicsRequest
from stages.request import PARKED
from tests.apis.desk import Desk

LATEST, EARLIEST, MAX_TIMESTAMP = -1, -2, -3
WHEN = ["never", "before", "after", "before and after"]
"""Times of archiving the journal, relative to the deletion."""
RECORDS = 4
OUT_OF_RANGE = (-1, ErrorCode.OFFSET_OUT_OF_RANGE)


def create(desk, name, partitions=2, **configs):
    given = [CreateTopicsRequest.CreatableTopicConfig(key.replace("_", "."), value) for key, value in configs.items()]
    topic = CreateTopicsRequest.CreatableTopic(name, partitions, 1, configs=given)
    (result,) = desk.ask(CreateTopicsRequest(topics=[topic]), 7).topics
    assert result.error_code == 0
    return result.topic_id


def production(name="t", partition=0, timestamps=(10, 20)):
    batch = build_batch([NewRecord(b"v", b"k", timestamp) for timestamp in timestamps])
    data = ProduceRequest.PartitionProduceData(partition, batch)
    return ProduceRequest(acks=-1, topic_data=[ProduceRequest.TopicProduceData(name, partition_data=[data])])


def produce(desk, name="t", partition=0, timestamps=(10, 20)):
    (response,) = desk.ask(production(name, partition, timestamps), 9).responses[0].partition_responses
    assert response.error_code == 0
    return response


@pytest.fixture
def desk():
    """Topic `t`, with two batches of two records in partition 0."""
    desk = Desk("offsets.topic.num.partitions=1")
    desk.topic_id = create(desk, "t")
    produce(desk)
    produce(desk, timestamps=(30, 40))
    return desk


def request_of(*wanted, name="t"):
    partitions = [DeleteRecordsRequest.DeleteRecordsPartition(*pair) for pair in wanted]
    return DeleteRecordsRequest(topics=[DeleteRecordsRequest.DeleteRecordsTopic(name, partitions)], timeout_ms=1000)


def results_of(response):
    return [(each.low_watermark, each.error_code) for topic in response.topics for each in topic.partitions]


def delete(desk, *wanted, version=2, name="t"):
    """Partitions are (index, offset); the results are (low watermark, error)."""
    return results_of(desk.ask(request_of(*wanted, name=name), version))


def fetch_request(offset, **more):
    wanted = FetchRequest.FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    return FetchRequest(max_bytes=1 << 20, topics=[FetchRequest.FetchTopic("t", partitions=[wanted])], **more)


def fetch(desk, offset):
    (found,) = desk.ask(fetch_request(offset), 12).responses[0].partitions
    return found


def offset_at(desk, timestamp):
    wanted = ListOffsetsRequest.ListOffsetsPartition(0, timestamp=timestamp)
    request = ListOffsetsRequest(topics=[ListOffsetsRequest.ListOffsetsTopic("t", [wanted])])
    return desk.ask(request, 7).topics[0].partitions[0].offset


@pytest.mark.parametrize("version", versions_of(DeleteRecordsRequest))
@pytest.mark.parametrize(("offset", "start"), [(0, 0), (1, 1), (2, 2), (3, 3), (RECORDS, RECORDS), (-1, RECORDS)])
def test_records_before_the_offset_are_deleted_when_it_is_answered(desk, version, offset, start):
    assert delete(desk, (0, offset), version=version) == [(start, 0)]
    for broker in (desk, desk.restart()):
        assert offset_at(broker, EARLIEST) == start
        assert fetch(broker, start).log_start_offset == start
        assert fetch(broker, start - 1).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        assert fetch(broker, start).error_code == 0


@pytest.mark.parametrize("archives", WHEN)
def test_the_start_only_rises(desk, archives):
    """Case 82."""
    if "before" in archives:
        desk.archive_all()
    assert delete(desk, (0, 3)) == [(3, 0)]
    assert delete(desk, (0, 1)) == [(3, 0)]
    assert delete(desk, (0, 0)) == [(3, 0)]
    if "after" in archives:
        desk.archive_all()
    again = desk.restart()
    assert delete(again, (0, 2)) == [(3, 0)]
    assert offset_at(again, EARLIEST) == 3
    assert fetch(again, 2).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert offset_at(again, LATEST) == RECORDS
    assert delete(again, (0, -1)) == [(RECORDS, 0)]
    again.archive_all()
    assert offset_at(again.restart(), EARLIEST) == RECORDS


def test_a_later_start_of_the_archive_is_kept(desk):
    """Deletion by retention writes no record of the new start."""
    delete(desk, (0, 1))
    desk.archive_all()
    (log,) = (log for log in desk.broker.logs if log.topic == "t" and log.partition == 0)
    manifest = attrs.evolve(log.archived.manifest, log_start_offset=3)
    edit = Edit(desk.archive.lsn, {log.entry_key: manifest})
    desk.archive.commit(edit)
    desk.broker.logs.show(edit)
    assert delete(desk, (0, 2)) == [(3, 0)]
    again = desk.restart()
    assert offset_at(again, EARLIEST) == 3
    assert delete(again, (0, 2)) == [(3, 0)]
    assert delete(again, (0, RECORDS)) == [(RECORDS, 0)]


@pytest.mark.parametrize("offset", [-2, RECORDS + 1, 2**63 - 1, -(2**63)])
def test_an_unknown_offset_is_out_of_range(desk, offset):
    assert delete(desk, (0, offset)) == [OUT_OF_RANGE]
    assert offset_at(desk, EARLIEST) == 0


def test_nothing_is_hidden_before_it_is_durable(desk):
    request = request_of((0, 2))
    pending = desk.decide(request, 2)
    assert offset_at(desk, EARLIEST) == 0
    assert fetch(desk, 0).error_code == 0
    assert results_of(desk.finish(request, 2, pending)) == [(2, 0)]
    assert offset_at(desk, EARLIEST) == 2


def test_a_crash_before_it_is_durable_leaves_everything(desk):
    desk.decide(request_of((0, 2)), 2)
    assert offset_at(desk.restart(), EARLIEST) == 0


def test_of_two_concurrent_deletions_the_later_start_counts(desk):
    requests = [request_of((0, offset)) for offset in (3, 1)]
    pending = [desk.decide(request, 2) for request in requests]
    for request, result in zip(requests, pending, strict=True):
        desk.finish(request, 2, result)
    assert offset_at(desk, EARLIEST) == 3
    assert offset_at(desk.restart(), EARLIEST) == 3


def test_a_partition_named_twice_is_answered_once_by_its_last_offset(desk):
    assert delete(desk, (0, 3), (1, 0), (0, 1)) == [(1, 0), (0, 0)]
    assert offset_at(desk, EARLIEST) == 1


def test_what_is_not_here_is_refused(desk):
    unknown = (-1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert delete(desk, (9, 0), (-1, 0), (0, 1)) == [unknown, unknown, (1, 0)]
    assert delete(desk, (0, 0), name="missing") == [unknown]
    assert delete(desk, (0, 0), name="__cluster_metadata") == [unknown]
    assert delete(desk, (0, 0), name="__consumer_offsets") == [unknown]


def test_internal_topics_are_left_alone(desk):
    create(desk, "__consumer_offsets", 1)
    assert delete(desk, (0, 0), name="__consumer_offsets") == [(-1, ErrorCode.INVALID_TOPIC_EXCEPTION)]


@pytest.mark.parametrize(
    ("policy", "result"),
    [
        ("delete", (1, 0)),
        ("compact,delete", (1, 0)),
        ("", (1, 0)),
        ("compact", (-1, ErrorCode.POLICY_VIOLATION)),
    ],
)
def test_a_compacted_topic_without_deletion_is_refused(desk, policy, result):
    create(desk, "p", cleanup_policy=policy)
    produce(desk, "p")
    assert delete(desk, (0, 1), name="p") == [result]


def test_a_fetch_that_waits_is_answered_when_records_are_deleted(desk):
    assert desk.decide(fetch_request(RECORDS, min_bytes=1, max_wait_ms=1000), 12) is PARKED
    assert not desk.connection.completed
    delete(desk, (0, 1))
    assert len(desk.connection.completed) == 1


def test_producers_receive_the_log_start_offset(desk):
    delete(desk, (0, -1))
    assert produce(desk).log_start_offset == RECORDS


@pytest.mark.parametrize("archives", WHEN)
@pytest.mark.parametrize("is_cold", [False, True])
def test_a_search_by_time_finds_only_remaining_records(desk, archives, is_cold):
    if "before" in archives:
        desk.archive_all()
    delete(desk, (0, 3))
    produce(desk, timestamps=(35, 5))
    if "after" in archives:
        desk.archive_all()
    if is_cold:
        desk = desk.restart()
        desk.files.is_cold = True
    assert [offset_at(desk, at) for at in (0, 10, 30, 35, 40, 41)] == [3, 3, 3, 3, 3, -1]
    delete(desk, (0, RECORDS))
    assert [offset_at(desk, at) for at in (0, 35, 40)] == [4, 4, -1]


@pytest.mark.parametrize("archives", ["never", "before"])
def test_the_largest_timestamp_is_that_of_all_that_is_stored(desk, archives):
    """As in Apache Kafka, which looks into whole segments; they are deleted later."""
    produce(desk, timestamps=(5,))
    if archives == "before":
        desk.archive_all()
    delete(desk, (0, RECORDS))
    assert offset_at(desk, MAX_TIMESTAMP) == 3


def test_nothing_of_a_topic_follows_its_deletion(desk):
    deletion = DeleteTopicsRequest(topics=[DeleteTopicsRequest.DeleteTopicState("t")], timeout_ms=1000)
    pending = desk.decide(deletion, 6)
    assert delete(desk, (0, 1)) == [(-1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]
    creation = CreateTopicsRequest(topics=[CreateTopicsRequest.CreatableTopic("t", 2, 1)])
    next_one = desk.decide(creation, 7)
    assert delete(desk, (0, 1)) == [(-1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]
    desk.finish(deletion, 6, pending)
    desk.finish(creation, 7, next_one)


def test_a_topic_of_the_same_name_begins_at_0(desk):
    delete(desk, (0, 2))
    deletion = DeleteTopicsRequest(topics=[DeleteTopicsRequest.DeleteTopicState("t")], timeout_ms=1000)
    assert desk.ask(deletion, 6).responses[0].error_code == 0
    assert desk.broker.log_starts.get(desk.topic_id, 0) == 0
    create(desk, "t")
    produce(desk)
    for broker in (desk, desk.restart()):
        assert offset_at(broker, EARLIEST) == 0
        assert fetch(broker, 0).error_code == 0
        assert broker.broker.log_starts.get(desk.topic_id, 0) == 0


def test_records_that_are_not_durable_yet_survive_the_deletion_of_all_visible_ones(desk):
    batch = build_batch([NewRecord(b"v", b"k", 50)])
    data = ProduceRequest.PartitionProduceData(0, batch)
    message = ProduceRequest(acks=-1, topic_data=[ProduceRequest.TopicProduceData("t", partition_data=[data])])
    pending = desk.decide(message, 9)
    assert delete(desk, (0, -1)) == [(RECORDS, 0)]
    assert desk.finish(message, 9, pending).responses[0].partition_responses[0].base_offset == RECORDS
    assert fetch(desk, RECORDS).records


@pytest.mark.parametrize("kept", range(3))
def test_an_interrupted_topic_deletion_restores_no_record(desk, kept):
    delete(desk, (0, 2))
    pending = desk.decide(DeleteTopicsRequest(topics=[DeleteTopicsRequest.DeleteTopicState("t")], timeout_ms=1000), 6)
    assert len(pending.entries) == 2
    desk.commit(list(pending.entries)[:kept])
    again = desk.restart()
    assert (again.broker.topics.get("t") is None) is (kept > 0)
    if not kept:
        assert again.broker.logs.find("t", 0).log_start_offset == 2
