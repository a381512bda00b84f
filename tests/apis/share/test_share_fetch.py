"""ShareFetch and ShareAcknowledge: acquire, wait, acknowledge, and recover after a restart."""

from __future__ import annotations

import pytest

from pipeline_broker.apis.registry import SERVED
from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.records.batch import iterate_batches
from pipeline_broker.wire.messages.share.share_group_heartbeat import ShareGroupHeartbeatRequest
from pipeline_broker.wire.messages.topics.create_partitions import CreatePartitionsRequest
from pipeline_broker.wire.registry import ApiKey
from stages.request import Parked, Pending
from tests.apis.share.share_desk import ACCEPT, GROUP, REJECT, RELEASE, RENEW, ShareDesk, acquired, errors
from tests.coordinators import coordinator_of

FINAL = -1


@pytest.fixture
def desk():
    """A member with a session that begins at the first record."""
    made = ShareDesk()
    made.begin()
    return made


def parked(desk, epoch, **more):
    """Send a fetch that must be parked."""
    desk.desk.connection.completed.clear()
    request = desk.fetch_request(epoch, wait_ms=5000, **more)
    assert isinstance(desk.desk.decide(request, 2), Parked)
    return request


def answered(desk, request):
    """Return the answer to the one parked request."""
    waited = [one for one in desk.desk.connection.completed if not isinstance(one[1], Parked)]
    ((slot, result),) = waited
    desk.desk.connection.completed.clear()
    desk.desk.asked = slot.sequence
    return desk.desk.finish(request, 2, result)


@pytest.mark.parametrize("version", SERVED[ApiKey.SHARE_FETCH].versions)
def test_records_are_delivered_once_and_acknowledged(version):
    """Records are acquired with their bytes; once accepted, they do not count for the lag."""
    desk = ShareDesk()
    desk.begin()
    desk.produce(10)
    answer = desk.fetch(1, version=version)
    assert acquired(answer) == [(0, 9, 1)]
    (data,) = answer.responses[0].partitions
    assert [header.record_count for header, _ in iterate_batches(data.records)] == [10]
    assert answer.acquisition_lock_timeout_ms == 30_000
    assert acquired(desk.fetch(2, version=version)) == []
    assert errors(desk.acknowledge(3, [(0, 9, ACCEPT)], version=version)) == [0]
    assert desk.offsets() == [(10, 0)]


def test_an_acknowledgement_is_answered_when_it_is_durable(desk):
    """Alone, or together with a fetch."""
    desk.produce(10)
    desk.fetch(1)
    request = desk.acknowledge_request(2, [(0, 4, ACCEPT)])
    result = desk.desk.decide(request, 2)
    assert isinstance(result, Pending)
    assert len(result.entries) == 1
    assert desk.offsets()[0][0] == 0, "an undurable acknowledgement is not visible"


def test_durable_acknowledgements_survive_a_restart(desk):
    """Acquired records are available again."""
    desk.produce(10)
    desk.fetch(1)
    desk.acknowledge(2, [(0, 4, ACCEPT), (6, 6, REJECT), (7, 7, RELEASE)])
    again = desk.restart()
    assert again.offsets() == [(5, 4)]
    assert acquired(again.fetch(0, [0])) == [(5, 5, 1), (7, 7, 2), (8, 9, 1)]


def test_a_fetch_with_acknowledgements_waits_for_both(desk):
    """Acknowledgements are committed at once; the answer is sent with records, or at the deadline."""
    desk.produce(3)
    desk.fetch(1)
    request = parked(desk, 2, acknowledgements={0: [(0, 2, ACCEPT)]})
    assert desk.offsets() == [(3, 0)]
    desk.produce(1)
    answer = answered(desk, request)
    assert acquired(answer) == [(3, 3, 1)]
    assert answer.responses[0].partitions[0].acknowledge_error_code == ErrorCode.NONE


def test_a_start_offset_is_durable_before_the_answer(desk):
    """Like the acknowledgements. Otherwise a restart would begin at the end of the log at that time."""
    desk.produce(3)
    desk.fetch(1)
    grown = CreatePartitionsRequest.CreatePartitionsTopic("t", 2, None)
    assert desk.ask(CreatePartitionsRequest(topics=[grown], timeout_ms=1000), 3).results[0].error_code == 0
    held, inner = [], desk.desk
    inner.submit = lambda entries, on_durable: held.append((entries, on_durable))
    request = parked(desk, 2, partitions=[1], acknowledgements={0: [(0, 2, ACCEPT)]})
    assert len(held) == 1
    member = coordinator_of(inner.broker, GROUP).share.existing(GROUP).members[desk.member_id]
    fields = {"group_id": GROUP, "member_id": desk.member_id}
    beaten = inner.decide(ShareGroupHeartbeatRequest(member_epoch=member.epoch, **fields), 1)
    held.append((beaten.entries, beaten.on_durable))
    inner.now_ms += 5_000
    inner.broker.advance(inner.now_ms)
    for entries, on_durable in held:
        assert all(isinstance(result, Parked) for _, result in inner.connection.completed), "it waits for all of it"
        inner.commit(list(entries))
        on_durable()
    answered(desk, request)
    assert desk.restart().offsets() == [(3, 0), (0, 0)]


def test_a_fetch_that_waits_is_answered_empty_at_its_deadline(desk):
    """Neither earlier nor later."""
    request = parked(desk, 1)
    desk.desk.now_ms += 4_999
    desk.desk.broker.advance(desk.desk.now_ms)
    assert not desk.desk.connection.completed
    desk.desk.now_ms += 1
    desk.desk.broker.advance(desk.desk.now_ms)
    assert acquired(answered(desk, request)) == []


def test_an_abandoned_fetch_acquires_no_records(desk):
    """A later request of the session shows it; its records would stay locked until the locks expire."""
    parked(desk, 1)
    given_up = desk.desk.asked
    request = parked(desk, 2)
    desk.produce(3)
    found = {}
    for slot, result in desk.desk.connection.completed:
        assert not isinstance(result, Parked), "there is something for it, or it is given up"
        desk.desk.asked = slot.sequence
        found[slot.sequence] = acquired(desk.desk.finish(request, 2, result))
    assert found == {given_up: [], given_up + 1: [(0, 2, 1)]}


def test_records_released_by_another_member_wake_a_fetch(desk):
    """By a release, by closing the session, or when the locks expire."""
    desk.produce(3)
    other = ShareDesk(desk=desk.desk)
    other.member_id = "other"
    assert acquired(other.fetch(0, [0])) == [(0, 2, 1)]
    request = parked(desk, 1)
    other.acknowledge(1, [(0, 0, RELEASE)])
    assert acquired(answered(desk, request)) == [(0, 0, 2)]
    request = parked(desk, 2)
    other.acknowledge(FINAL, [])
    assert acquired(answered(desk, request)) == [(1, 2, 2)]
    other.fetch(0, [0])
    desk.acknowledge(3, [(0, 2, ACCEPT)])
    desk.produce(1)
    other.fetch(1)
    desk.desk.now_ms += 29_000
    request = parked(desk, 4)
    desk.desk.now_ms += 1_000
    desk.desk.broker.advance(desk.desk.now_ms)
    assert acquired(answered(desk, request)) == [(3, 3, 2)]


def test_released_records_wake_a_fetch_once_the_release_is_durable(desk):
    """Otherwise the entries of the woken fetch would be submitted before those of the release."""
    desk.produce(1)
    desk.fetch(1)
    waiting = ShareDesk(desk=desk.desk)
    waiting.member_id = "waiting"
    waiting.fetch(0, [0])
    request = parked(waiting, 1)
    released = desk.desk.decide(desk.acknowledge_request(2, [(0, 0, RELEASE)]), 2)
    assert not desk.desk.connection.completed
    desk.desk.submit(released.entries, released.on_durable)
    assert acquired(answered(waiting, request)) == [(0, 0, 2)]


def test_the_group_s_settings_act():
    """Lock duration, delivery count, window and start offset."""
    desk = ShareDesk()
    desk.produce(100)
    desk.produce(50)
    desk.configure(
        {
            "share.auto.offset.reset": "earliest",
            "share.record.lock.duration.ms": "15000",
            "share.delivery.count.limit": "2",
            "share.partition.max.record.locks": "100",
        }
    )
    desk.heartbeat()
    desk.produce(1)
    answer = desk.fetch(0, [0], share_acquire_mode=1)
    assert (acquired(answer), answer.acquisition_lock_timeout_ms) == ([(0, 99, 1)], 15_000)
    assert acquired(desk.fetch(1)) == [], "the window is full"
    desk.acknowledge(2, [(0, 0, RELEASE)])
    assert acquired(desk.fetch(3)) == [(0, 0, 2)]
    desk.acknowledge(4, [(0, 0, RELEASE)])
    assert desk.offsets()[0][0] == 1, "delivered often enough"


@pytest.mark.parametrize(
    ("reset", "first"),
    [("earliest", 0), ("latest", 3), ("by_duration:PT1M", 2), ("by_duration:PT0S", 3), ("by_duration:P1DT2H", 0)],
)
@pytest.mark.parametrize("is_archived", [False, True])
def test_start_offsets_of_a_group(reset, first, is_archived):
    """At the first record, after the last, or at the first one that is recent enough; the start offset is durable."""
    desk = ShareDesk()
    for _ in range(3):
        desk.produce(1)
        desk.desk.now_ms += 50_000
    if is_archived:
        desk.desk.archive_all()
    desk.reset(reset)
    desk.heartbeat()
    desk.fetch(0, [0])
    desk.fetch(FINAL)
    desk.produce(2)
    desk.desk.now_ms += 1_000_000
    again = desk.restart()
    assert again.offsets()[0][0] == first
    assert acquired(again.fetch(0, [0]))[0][0] == first


def test_records_are_read_from_the_archive():
    """In a thread; records that other members acquired during the read are not acquired again."""
    desk = ShareDesk()
    for _ in range(5):
        desk.produce(10)
    desk.desk.archive_all()
    again = desk.restart()
    again.begin()
    result = again.desk.decide(again.fetch_request(1), 2)
    found = acquired(again.desk.finish(again.fetch_request(1), 2, result))
    assert found == [] or found[0][0] == 0
    start = found[-1][1] + 1 if found else 0
    assert start == 50 or acquired(again.fetch(2)) or start == 0
    assert again.offsets() == [(0, 50)]


def test_a_batch_in_many_parts_is_returned_whole(desk):
    """Large batches are stored as header and payload; the answer has the original bytes."""
    desk.produce(3, size=200_000)
    desk.produce(2)
    answer = desk.fetch(1)
    (data,) = answer.responses[0].partitions
    assert [header.record_count for header, _ in iterate_batches(data.records)] == [3, 2]
    assert acquired(answer) == [(0, 4, 1)]


def test_record_limit_and_batches(desk):
    """Exactly the limit, or up to the end of the batch; consecutive records are one range."""
    for _ in range(4):
        desk.produce(3)
    assert acquired(desk.fetch(1, max_records=4, batch_size=2)) == [(0, 2, 1), (3, 5, 1)]
    answer = desk.fetch(2, max_records=4, batch_size=2, share_acquire_mode=1)
    assert acquired(answer) == [(6, 9, 1)]
    (data,) = answer.responses[0].partitions
    assert [header.base_offset for header, _ in iterate_batches(data.records)] == [6, 9]


def test_an_answer_is_limited_in_bytes_but_has_at_least_one_batch(desk):
    """As in Fetch, a batch larger than the limit is returned alone."""
    for _ in range(3):
        desk.produce(1, size=1000)
    assert acquired(desk.fetch(1, max_bytes=10)) == [(0, 0, 1)]
    assert acquired(desk.fetch(2, max_bytes=2300)) == [(1, 2, 1)]


@pytest.mark.parametrize("nothing", [{"max_bytes": 0}, {"max_records": 0}])
def test_a_fetch_of_nothing_gets_nothing(desk, nothing):
    """Not even one batch, and only at its deadline."""
    desk.produce(1)
    assert acquired(desk.fetch(1, **nothing)) == []
    parked(desk, 2, **nothing)


def test_sessions_are_checked():
    """Unknown session, wrong epoch, too many sessions; an acknowledgement opens no session."""
    desk = ShareDesk("group.share.max.share.sessions=1", "group.share.max.size=1")
    desk.begin()
    assert desk.fetch(7).error_code == ErrorCode.INVALID_SHARE_SESSION_EPOCH
    assert desk.acknowledge(0, []).error_code == ErrorCode.INVALID_SHARE_SESSION_EPOCH
    other = ShareDesk(desk=desk.desk)
    other.member_id = "other"
    assert other.fetch(1).error_code == ErrorCode.SHARE_SESSION_NOT_FOUND
    assert other.acknowledge(1, []).error_code == ErrorCode.SHARE_SESSION_NOT_FOUND
    assert other.fetch(0, [0]).error_code == ErrorCode.SHARE_SESSION_LIMIT_REACHED
    assert desk.fetch(FINAL).error_code == ErrorCode.NONE
    assert desk.fetch(FINAL).error_code == ErrorCode.SHARE_SESSION_NOT_FOUND
    assert other.fetch(0, [0]).error_code == ErrorCode.NONE


@pytest.mark.parametrize(
    "wrong",
    [
        {"member_id": ""},
        {"member_id": "x" * 37},
        {"group_id": None},
        {"share_acquire_mode": 7},
        {"is_renew_ack": True, "max_records": 1},
    ],
)
def test_invalid_requests(desk, wrong):
    """INVALID_REQUEST for the whole request."""
    request = desk.fetch_request(1)
    for name, value in wrong.items():
        setattr(request, name, value)
    assert desk.ask(request, 2).error_code == ErrorCode.INVALID_REQUEST


def test_a_first_fetch_must_not_acknowledge(desk):
    """It cannot have acquired anything."""
    assert desk.fetch(0, acknowledgements={0: [(0, 0, ACCEPT)]}).error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    "batches",
    [
        [(5, 4, ACCEPT)],
        [(0, 4, [])],
        [(0, 4, [1, 1])],
        [(0, 4, [9])],
        [(0, 4, RENEW)],
        [(3, 4, ACCEPT), (0, 1, ACCEPT)],
    ],
)
def test_invalid_acknowledgements(desk, batches):
    """INVALID_REQUEST for the partition; its state does not change."""
    desk.produce(10)
    desk.fetch(1)
    assert errors(desk.acknowledge(2, batches)) == [ErrorCode.INVALID_REQUEST]
    assert errors(desk.acknowledge(3, [(0, 9, ACCEPT)])) == [ErrorCode.NONE]


def test_unknown_topics_and_partitions(desk):
    """And partitions that the group does not read."""
    desk.produce(1)
    answer = desk.fetch(1, [0, 9])
    found = {data.partition_index: data.error_code for topic in answer.responses for data in topic.partitions}
    assert found == {0: ErrorCode.NONE, 9: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert errors(desk.acknowledge(2, [(0, 0, ACCEPT)], partition=7)) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    request = desk.acknowledge_request(3, [(0, 0, ACCEPT)])
    request.topics[0].topic_id = b"x" * 16
    assert errors(desk.ask(request, 2)) == [ErrorCode.UNKNOWN_TOPIC_ID]


def test_a_closed_connection_releases_all_records(desk):
    """Like a closed session, without a request."""
    desk.produce(2)
    desk.fetch(1)
    desk.desk.dispatcher.connection_closed(desk.desk.connection.session)
    assert desk.fetch(2).error_code == ErrorCode.SHARE_SESSION_NOT_FOUND
    assert acquired(desk.fetch(0, [0])) == [(0, 1, 2)]


def test_a_closed_connection_releases_the_records_of_all_its_sessions(desk):
    other = ShareDesk(desk=desk.desk)
    other.member_id = "other"
    other.fetch(0, [0])
    desk.produce(1)
    assert acquired(desk.fetch(1)) == [(0, 0, 1)]
    desk.produce(1)
    assert acquired(other.fetch(1)) == [(1, 1, 1)]
    desk.desk.dispatcher.connection_closed(desk.desk.connection.session)
    assert not desk.desk.broker.share.manager.sessions.listed()
    assert acquired(desk.fetch(0, [0])) == [(0, 1, 2)]


def test_share_partitions_without_sessions_are_unloaded(desk):
    """After the last session is closed, only the stored state remains."""
    desk.produce(2)
    desk.fetch(1)
    coordinator = desk.desk.broker.share.manager
    assert len(coordinator) == 1
    desk.acknowledge(FINAL, [(0, 0, ACCEPT)])
    assert len(coordinator) == 0
    assert acquired(desk.fetch(0, [0])) == [(1, 1, 2)]


def test_deleted_records_are_skipped(desk):
    """The group's start offset follows the log start offset."""
    desk.produce(10)
    desk.fetch(1, max_records=1)
    log = desk.desk.broker.logs.find("t", 0)
    assert log is not None
    desk.produce(5)
    log.raise_log_start(10)
    assert acquired(desk.fetch(2)) == [(10, 14, 1)]
