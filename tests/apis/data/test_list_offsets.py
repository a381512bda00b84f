"""Expected values are those of Apache Kafka."""

import errno

import pytest

from pipeline_broker.apis.data import list_offsets
from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.records.batch import NewRecord, build_batch
from pipeline_broker.wire.codec import versions_of
from pipeline_broker.wire.messages.data.list_offsets import ListOffsetsRequest
from pipeline_broker.wire.messages.data.produce import ProduceRequest
from pipeline_broker.wire.messages.topics.create_topics import CreateTopicsRequest
from pipeline_broker.wire.registry import ApiKey
from stages.request import TURN_COST
from tests.apis.desk import Desk
from tests.apis.transactions.transaction_desk import SETTINGS, Producer, ready

Wanted = ListOffsetsRequest.ListOffsetsPartition
LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING = range(-1, -7, -1)
NOTHING = (0, -1, -1, -1)
UNSUPPORTED = (ErrorCode.UNSUPPORTED_VERSION, -1, -1, -1)


@pytest.fixture
def desk():
    desk = Desk()
    desk.ask(CreateTopicsRequest(topics=[CreateTopicsRequest.CreatableTopic("t", 2, 1)]), 7)
    for timestamps in ([1000, 3000, 2000], [3000, 100]):
        batch = build_batch([NewRecord(b"v", None, timestamp) for timestamp in timestamps])
        data = ProduceRequest.PartitionProduceData(index=0, records=batch)
        topic = ProduceRequest.TopicProduceData(name="t", partition_data=[data])
        assert (
            desk.ask(ProduceRequest(acks=-1, topic_data=[topic]), 9).responses[0].partition_responses[0].error_code == 0
        )
    return desk


def ask(desk, *wanted, version=11, topic="t", **more):
    """Partitions are (index, timestamp) or (index, timestamp, leader epoch)."""
    partitions = [
        Wanted(partition_index=index, timestamp=timestamp, current_leader_epoch=epoch[0] if epoch else -1)
        for index, timestamp, *epoch in wanted
    ]
    asked = ListOffsetsRequest.ListOffsetsTopic(topic, partitions)
    response = desk.ask(ListOffsetsRequest(replica_id=-1, topics=[asked], **more), version)
    return [
        (each.error_code, each.timestamp, each.offset, each.leader_epoch)
        for topic in response.topics
        for each in topic.partitions
    ]


@pytest.mark.parametrize(
    ("timestamp", "expected"),
    [
        (0, (0, 1000, 0, 0)),
        (1000, (0, 1000, 0, 0)),
        (1001, (0, 3000, 1, 0)),
        (2500, (0, 3000, 1, 0)),
        (3000, (0, 3000, 1, 0)),
        (3001, NOTHING),
        (LATEST, (0, -1, 5, 0)),
        (EARLIEST, (0, -1, 0, 0)),
        (MAX_TIMESTAMP, (0, 3000, 1, 0)),
        (EARLIEST_LOCAL, (0, -1, 0, 0)),
        (LATEST_TIERED, NOTHING),
        (EARLIEST_PENDING, NOTHING),
        (-7, UNSUPPORTED),
    ],
)
def test_offsets_by_time(desk, timestamp, expected):
    assert ask(desk, (0, timestamp)) == [expected]


@pytest.mark.parametrize("version", versions_of(ListOffsetsRequest))
def test_a_special_time_is_known_from_its_first_version(desk, version):
    epoch = 0 if version >= 4 else -1
    found = ask(desk, (0, LATEST), version=version), ask(desk, (0, EARLIEST), version=version)
    assert found == ([(0, -1, 5, epoch)], [(0, -1, 0, epoch)])
    assert ask(desk, (0, 2500), version=version) == [(0, 3000, 1, epoch)]
    first = {MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, EARLIEST_PENDING: 11}
    known = {timestamp: ask(desk, (0, timestamp), version=version)[0][0] == 0 for timestamp in first}
    assert known == {timestamp: version >= since for timestamp, since in first.items()}


def test_an_empty_partition_has_no_times(desk):
    times = (0, LATEST, EARLIEST, MAX_TIMESTAMP)
    found = [ask(desk, (1, timestamp)) for timestamp in times]
    assert found == [[NOTHING], [(0, -1, 0, 0)], [(0, -1, 0, 0)], [NOTHING]]


def test_what_is_not_here_is_refused(desk):
    assert [each[0] for each in ask(desk, (9, LATEST), (-1, LATEST))] == [3, 3]
    assert ask(desk, (0, LATEST), topic="z")[0][0] == 3


def test_a_partition_named_twice_is_refused_once(desk):
    for again in (1, 2):
        assert [each[0] for each in ask(desk, (0, LATEST), *[(0, EARLIEST)] * again, (1, LATEST))] == [42, 0]
    topics = [ListOffsetsRequest.ListOffsetsTopic("t", [Wanted(partition_index=0, timestamp=LATEST)])] * 2
    (topic,) = desk.ask(ListOffsetsRequest(replica_id=-1, topics=topics), 7).topics
    assert [each.error_code for each in topic.partitions] == [42]


@pytest.mark.parametrize(("epoch", "code"), [(-1, 0), (0, 0), (1, 75), (-5, 74)])
def test_the_leaders_epoch_is_0(desk, epoch, code):
    assert ask(desk, (0, LATEST, epoch))[0][0] == code


@pytest.mark.parametrize(("level", "code"), [(0, 0), (1, 0), (9, -1)])
def test_an_unknown_isolation_level_is_an_error(desk, level, code):
    assert ask(desk, (0, LATEST), isolation_level=level)[0][0] == code


def test_a_topic_without_partitions_is_answered_without_any(desk):
    topics = [ListOffsetsRequest.ListOffsetsTopic(name) for name in ("t", "z")]
    found = desk.ask(ListOffsetsRequest(replica_id=-1, topics=topics), 9).topics
    assert [(topic.name, list(topic.partitions)) for topic in found] == [("t", []), ("z", [])]


@pytest.mark.parametrize("is_cold", [False, True], ids=["cached", "from the disk"])
def test_a_time_that_the_disk_does_not_tell_is_a_storage_error(desk, is_cold):
    desk.archive_all()
    desk = desk.restart()
    assert ask(desk, (0, 2500)) == [(0, 3000, 1, 0)]  # so that the content of the segment is known
    desk.files.is_cold, desk.files.before = is_cold, fail
    assert ask(desk, (0, 2500), (1, LATEST)) == [(ErrorCode.KAFKA_STORAGE_ERROR, -1, -1, -1), (0, -1, 0, 0)]


def fail(operation, path):
    if operation == "read":
        raise OSError(errno.EIO, "broken")


def test_batches_only_on_disk_are_read_from_disk(desk):
    again = desk.restart()
    assert ask(again, (0, 2500), (1, LATEST)) == [(0, 3000, 1, 0), (0, -1, 0, 0)]
    assert ask(again, (0, MAX_TIMESTAMP)) == [(0, 3000, 1, 0)]


def test_read_committed_sees_no_open_transaction_that_is_only_on_disk():
    desk = ready(Desk(*SETTINGS))
    desk.ask(Producer(desk).produce(0), 12)
    again = desk.restart()
    again.files.is_cold = True
    found = [ask(again, (0, 0), isolation_level=level) for level in (1, 0)]
    assert found == [[NOTHING], [(0, 0, 0, 0)]]


def test_very_many_partitions_are_looked_through_for_repetitions_in_turns(desk, monkeypatch):
    looked_up = []
    find_log = desk.broker.find_log
    monkeypatch.setattr(desk.broker, "find_log", lambda *given, **more: looked_up.append(1) or find_log(*given, **more))
    wanted = [Wanted(partition_index=index, timestamp=LATEST) for index in range(5 * TURN_COST)]
    request = ListOffsetsRequest(topics=[ListOffsetsRequest.ListOffsetsTopic("t", wanted)])
    steps = list_offsets.handle(desk.call(ApiKey.LIST_OFFSETS, 7), request)
    turns = 0
    while not looked_up:
        assert next(steps) is None
        turns += 1
    assert turns > len(wanted) // TURN_COST
    steps.close()
