"""Expected values are those of Apache Kafka."""

import pytest

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.wire.codec import versions_of
from pipeline_broker.wire.messages.data.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from tests.apis.data.test_delete_records import create, delete, produce, production
from tests.apis.desk import Desk

UNKNOWN = (0, -1, -1)
NONE, EPOCH_MAX = -1, 2**31 - 1


@pytest.fixture
def desk():
    """Topic `t`, with three records in partition 0, of which the first is deleted."""
    desk = Desk()
    create(desk, "t")
    produce(desk, timestamps=(1, 2, 3))
    delete(desk, (0, 1))
    return desk


def ask(desk, *wanted, version=4, name="t", **more):
    """Partitions are (index, epoch) or (index, epoch, current epoch); the results (error, epoch, end offset)."""
    partitions = [
        OffsetForLeaderEpochRequest.OffsetForLeaderPartition(index, current[0] if current else NONE, epoch)
        for index, epoch, *current in wanted
    ]
    topics = [OffsetForLeaderEpochRequest.OffsetForLeaderTopic(name, partitions)]
    response = desk.ask(OffsetForLeaderEpochRequest(topics=topics, **more), version)
    return [
        (each.error_code, each.leader_epoch, each.end_offset) for topic in response.topics for each in topic.partitions
    ]


@pytest.mark.parametrize("version", versions_of(OffsetForLeaderEpochRequest))
def test_the_one_epoch_ends_where_the_log_does(desk, version):
    assert ask(desk, (0, 0), (1, 0), version=version) == [(0, 0, 3), (0, 0, 0)]
    produce(desk)
    assert ask(desk, (0, 0), version=version) == [(0, 0, 5)]


@pytest.mark.parametrize("epoch", [NONE, 1, EPOCH_MAX])
def test_an_epoch_that_has_not_begun_has_no_end(desk, epoch):
    assert ask(desk, (0, epoch)) == [UNKNOWN]


def test_an_epoch_before_the_first_ends_at_the_log_start(desk):
    assert ask(desk, (0, -5)) == [(0, -5, 1)]


@pytest.mark.parametrize(
    ("current", "code"),
    [(NONE, 0), (0, 0), (1, ErrorCode.UNKNOWN_LEADER_EPOCH), (-5, ErrorCode.FENCED_LEADER_EPOCH)],
)
def test_a_client_with_another_current_epoch_is_refused(desk, current, code):
    assert ask(desk, (0, 0, current)) == [(code, -1, -1) if code else (0, 0, 3)]


def test_what_is_not_here_is_refused(desk):
    assert ask(desk, (9, 0), (-1, 0), (0, 0)) == [(3, -1, -1), (3, -1, -1), (0, 0, 3)]
    assert ask(desk, (0, 0), name="missing") == [(3, -1, -1)]
    assert ask(desk, (0, 0), name="__cluster_metadata") == [(3, -1, -1)]


@pytest.mark.parametrize("replica_id", [-2, -1, 0, 1])
def test_the_replica_id_changes_nothing(desk, replica_id):
    assert ask(desk, (0, 0), replica_id=replica_id) == [(0, 0, 3)]


def test_a_duplicate_partition_is_answered_twice(desk):
    assert ask(desk, (0, 0), (0, 0)) == [(0, 0, 3)] * 2


def test_the_epoch_ends_before_records_that_are_not_durable(desk):
    """Otherwise a client could see a truncated log after a crash."""
    desk.decide(production(), 9)
    assert ask(desk, (0, 0)) == [(0, 0, 3)]
    assert ask(desk.restart(), (0, 0)) == [(0, 0, 3)]
