"""Other ends of transactions: by timeout, at startup after a crash, and with the deletion of their topics."""

from __future__ import annotations

import pytest

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.broker import transactions, wide_ends
from pipeline_broker.broker.transactions import MARKING_PAUSE_MS, PAUSE_MS
from pipeline_broker.wire.messages.groups.find_coordinator import FindCoordinatorRequest
from pipeline_broker.wire.messages.topics.create_topics import CreateTopicsRequest
from pipeline_broker.wire.messages.topics.delete_topics import DeleteTopicsRequest
from pipeline_broker.wire.messages.transactions.add_offsets_to_txn import AddOffsetsToTxnRequest
from pipeline_broker.wire.messages.transactions.init_producer_id import InitProducerIdRequest
from tests.apis.desk import Desk
from tests.apis.transactions.transaction_desk import (
    FULL,
    INVALID_EPOCH,
    INVALID_STATE,
    NOT_ENOUGH_REPLICAS,
    SETTINGS,
    TRANSACTION,
    Producer,
    added,
    codes,
    fetched,
    logs_of,
    read,
    ready,
    state_of,
)


@pytest.fixture
def desk():
    return ready(Desk(*SETTINGS))


def test_a_transaction_that_lasts_too_long_is_aborted(desk):
    producer = Producer(desk, timeout_ms=1_000)
    desk.ask(producer.produce(0), 12)
    assert desk.broker.next_deadline_ms() <= desk.now_ms + 10_000
    desk.now_ms += 10_000
    desk.broker.advance(desk.now_ms)
    assert read(desk) == (2, [producer.id])
    assert state_of(desk).transaction_state == "CompleteAbort"
    assert producer.ended() == INVALID_STATE
    assert codes(desk.ask(producer.produce(0), 12)) == {0: INVALID_EPOCH}


def test_the_scan_repeats_soon_while_many_transactions_have_timed_out(desk, monkeypatch):
    monkeypatch.setattr(transactions, "MARKERS_AT_ONCE", 1)
    for name in ("x", "y"):
        desk.ask(Producer(desk, name, timeout_ms=1_000).produce(0), 12)
    desk.now_ms += 10_000
    desk.broker.advance(desk.now_ms)
    assert [state_of(desk, name).transaction_state for name in ("x", "y")] == ["CompleteAbort", "Ongoing"]
    assert desk.broker.next_deadline_ms() == desk.now_ms + PAUSE_MS
    desk.now_ms += PAUSE_MS
    desk.broker.advance(desk.now_ms)
    assert state_of(desk, "y").transaction_state == "CompleteAbort"


@pytest.fixture
def wide(desk):
    """A producer with a transaction in three partitions, of which two are marked at once."""
    desk.create_topic("u")
    producer = Producer(desk, timeout_ms=1_000)
    desk.ask(producer.produce(0, 1), 12)
    desk.ask(producer.produce(0, topic="u"), 12)
    return producer


@pytest.fixture
def _few_at_once(monkeypatch):
    for module in (transactions, wide_ends):
        monkeypatch.setattr(module, "MARKERS_AT_ONCE", 2)


def run_turn(desk):
    """Run the next turn of a wide end; return what consumers of the topic's first two partitions receive."""
    desk.now_ms += MARKING_PAUSE_MS
    desk.broker.advance(desk.now_ms)
    return [read(desk, partition)[0] for partition in (0, 1)]


@pytest.mark.usefixtures("_few_at_once")
@pytest.mark.parametrize("committed", [True, False])
def test_a_wide_transaction_is_marked_in_turns(desk, wide, committed):
    result = desk.decide(wide.end(committed=committed), 5)
    assert logs_of(result) == ["__transaction_state"]
    assert run_turn(desk) == [0, 0]  # no marker before the decision is durable
    answer = desk.finish(wide.end(committed=committed), 5, result)
    assert answer.error_code == 0
    assert state_of(desk).transaction_state == ("PrepareCommit" if committed else "PrepareAbort")
    wide.id, wide.epoch = answer.producer_id, answer.producer_epoch
    again = ErrorCode.CONCURRENT_TRANSACTIONS
    assert added(desk.ask(wide.add(0), 3)) == [again]
    assert codes(desk.ask(wide.produce(0), 12)) == {0: again}
    assert desk.ask(wide.init(), 5).error_code == again
    assert desk.broker.next_deadline_ms() <= desk.now_ms + MARKING_PAUSE_MS
    assert run_turn(desk) == [2, 2]
    assert state_of(desk).transaction_state.startswith("Prepare")
    run_turn(desk)
    assert state_of(desk).transaction_state == ("CompleteCommit" if committed else "CompleteAbort")
    assert added(desk.ask(wide.add(0), 3)) == [ErrorCode.NONE]
    assert wide.ended() == 0


@pytest.mark.usefixtures("_few_at_once")
def test_wide_transactions_that_time_out_are_marked_in_turns(desk, wide):
    desk.now_ms += 10_000
    desk.broker.advance(desk.now_ms)
    assert state_of(desk).transaction_state == "PrepareAbort"
    assert run_turn(desk) == [2, 2]
    run_turn(desk)
    assert state_of(desk).transaction_state == "CompleteAbort"
    assert codes(desk.ask(wide.produce(0), 12)) == {0: INVALID_EPOCH}


@pytest.mark.usefixtures("_few_at_once")
def test_a_wide_end_does_not_wait_for_all_the_markers_of_a_wider_one(desk, wide):
    desk.ask(CreateTopicsRequest([CreateTopicsRequest.CreatableTopic("v", 8, 1)]), 7)
    wider = Producer(desk, "y")
    desk.ask(wider.add(*range(8), topic="v"), 3)
    assert [wider.ended(), wide.ended()] == [0, 0]
    for _ in range(4):
        run_turn(desk)
    assert [state_of(desk, name).transaction_state for name in ("x", "y")] == ["CompleteCommit", "PrepareCommit"]
    for _ in range(3):
        run_turn(desk)
    assert state_of(desk, "y").transaction_state == "CompleteCommit"


@pytest.mark.usefixtures("_few_at_once")
def test_a_wide_end_interrupted_by_a_crash_is_completed_at_the_next_startup(desk, wide):
    desk.ask(wide.end(), 5)
    run_turn(desk)
    again = desk.restart()
    assert state_of(again).transaction_state == "CompleteCommit"
    assert again.broker.logs.find("u", 0).last_stable_offset == 2
    assert [read(again, partition) for partition in (0, 1)] == [(2, []), (2, [])]


@pytest.mark.usefixtures("_few_at_once")
def test_a_topic_recreated_amid_a_wide_end_gets_no_marker(desk, wide):
    desk.ask(wide.end(), 5)
    run_turn(desk)
    desk.ask(DeleteTopicsRequest(topic_names=["u"], timeout_ms=1_000), 5)
    desk.create_topic("u")
    run_turn(desk)
    assert desk.broker.logs.find("u", 0).log_end_offset == 0
    assert state_of(desk).transaction_state == "CompleteCommit"


@pytest.mark.usefixtures("_few_at_once")
def test_a_topic_recreated_before_a_wide_end_is_durable_gets_no_marker(desk, wide):
    """Commits without a common partition may become durable in any order."""
    result = desk.decide(wide.end(), 5)
    desk.ask(DeleteTopicsRequest(topic_names=["u"], timeout_ms=1_000), 5)
    desk.create_topic("u")
    desk.submit(result.entries, result.on_durable)
    for _ in range(3):
        run_turn(desk)
    assert desk.broker.logs.find("u", 0).log_end_offset == 0
    assert state_of(desk).transaction_state == "CompleteCommit"


@pytest.mark.usefixtures("_few_at_once")
def test_a_wide_end_waits_while_the_journal_cannot_be_written(desk, wide):
    desk.ask(wide.end(), 5)
    desk.journal.room.obstacle = FULL
    assert run_turn(desk) == [0, 0]
    desk.journal.room.obstacle = None
    desk.now_ms += PAUSE_MS
    assert run_turn(desk) == [2, 2]


@pytest.mark.usefixtures("_few_at_once")
def test_a_wide_end_continues_without_its_records(desk, wide):
    desk.ask(wide.end(), 5)
    desk.ask(DeleteTopicsRequest(topic_names=["__transaction_state"], timeout_ms=1_000), 5)
    run_turn(desk)
    run_turn(desk)
    assert desk.broker.logs.find("u", 0).last_stable_offset == 2
    desk.ask(FindCoordinatorRequest(key="x", key_type=TRANSACTION), 2)
    assert Producer(desk).epoch == 0


@pytest.mark.usefixtures("_few_at_once")
def test_a_wide_end_does_not_complete_a_later_transaction_of_its_id(desk, wide):
    desk.ask(wide.end(), 5)
    desk.ask(DeleteTopicsRequest(topic_names=["__transaction_state"], timeout_ms=1_000), 5)
    desk.ask(FindCoordinatorRequest(key="x", key_type=TRANSACTION), 2)
    again = Producer(desk)
    desk.ask(again.add(0), 3)
    for _ in range(3):
        run_turn(desk)
    assert state_of(desk).transaction_state == "Ongoing"
    assert desk.broker.logs.find("u", 0).last_stable_offset == 2


def test_the_scan_interval_is_a_setting():
    desk = ready(Desk(*SETTINGS, "transaction.abort.timed.out.transaction.cleanup.interval.ms=50"))
    producer = Producer(desk, timeout_ms=10)
    desk.ask(producer.produce(0), 12)
    desk.now_ms += 50
    desk.broker.advance(desk.now_ms)
    assert state_of(desk).transaction_state == "CompleteAbort"


def test_the_longest_timeout_is_a_setting():
    desk = ready(Desk(*SETTINGS, "transaction.max.timeout.ms=500"))
    assert desk.ask(InitProducerIdRequest("x", 501), 5).error_code == ErrorCode.INVALID_TRANSACTION_TIMEOUT
    assert desk.ask(InitProducerIdRequest("x", 500), 5).error_code == 0


def test_an_idle_id_is_removed_for_good():
    settings = ("transactional.id.expiration.ms=100", "transaction.remove.expired.transaction.cleanup.interval.ms=30")
    desk = ready(Desk(*SETTINGS, *settings))
    Producer(desk)
    desk.now_ms += 99
    desk.broker.advance(desk.now_ms)
    assert state_of(desk).transaction_state == "Empty"
    desk.now_ms += 31
    desk.broker.advance(desk.now_ms)
    assert state_of(desk).error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    assert state_of(desk.restart()).error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND


@pytest.mark.parametrize("archived", [False, True])
def test_an_open_transaction_is_open_after_a_restart(desk, archived):
    producer = Producer(desk)
    desk.ask(producer.produce(0), 12)
    desk.ask(producer.offsets(5, 6), 5)
    if archived:
        desk.archive_all()
    again = producer.desk = desk.restart()
    assert state_of(again).transaction_state == "Ongoing"
    assert fetched(again, stable=True) == [(-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)] * 2
    assert codes(again.ask(producer.produce(0), 12)) == {0: 0}
    assert producer.ended() == 0
    assert fetched(again, stable=True) == [(5, 0), (6, 0)]
    assert fetched(again.restart(), stable=True) == [(5, 0), (6, 0)]


@pytest.mark.parametrize("committed", [True, False])
@pytest.mark.parametrize("kept", range(1, 6))
def test_a_decided_end_is_completed_at_the_next_startup(desk, kept, committed):
    """A crash that a frame of the journal prevents: between the steps of an end. Case 8."""
    producer = Producer(desk)
    desk.ask(producer.produce(0, 1), 12)
    desk.ask(producer.offsets(5, 6), 5)
    result = desk.decide(producer.end(committed=committed), 5)
    assert len(result.entries) == 5
    desk.commit(list(result.entries[:kept]))
    again = desk.restart()
    assert state_of(again).transaction_state == ("CompleteCommit" if committed else "CompleteAbort")
    for partition in (0, 1):
        assert read(again, partition) == (2, [] if committed else [producer.id])
    assert fetched(again, stable=True) == ([(5, 0), (6, 0)] if committed else [(-1, 0)] * 2)
    ends = [(log.topic, log.partition, log.log_end_offset) for log in again.broker.logs]
    once_more = again.restart()
    assert [(log.topic, log.partition, log.log_end_offset) for log in once_more.broker.logs] == ends
    assert once_more.ask(producer.end(committed=committed), 5).error_code == 0


def test_an_existing_marker_is_not_written_again_at_startup(desk):
    producer, other = Producer(desk), Producer(desk, "y")
    for each in (producer, other):
        desk.ask(each.produce(0), 12)
    result = desk.decide(producer.end(), 5)
    desk.commit(list(result.entries[:2]))  # the decision and the marker
    again = desk.restart()
    assert state_of(again).transaction_state == "CompleteCommit"
    assert again.broker.logs.find("t", 0).log_end_offset == 3
    assert again.broker.logs.find("t", 0).last_stable_offset == 1


def test_an_undecided_transaction_is_unchanged_after_a_crash(desk):
    producer = Producer(desk)
    desk.ask(producer.produce(0), 12)
    desk.decide(producer.end(), 5)  # and the power goes
    again = producer.desk = desk.restart()
    assert state_of(again).transaction_state == "Ongoing"
    assert producer.ended() == 0


def test_a_producer_id_is_never_returned_twice(desk):
    first = Producer(desk)
    again = desk.restart()
    assert Producer(again, "y").id != first.id
    assert Producer(again).epoch == first.epoch + 1


def test_a_topic_deleted_within_a_transaction_leaves_nothing_to_end_there(desk):
    producer = Producer(desk)
    desk.create_topic("u")
    desk.ask(producer.produce(0, topic="u"), 12)
    desk.ask(producer.produce(0), 12)
    desk.ask(DeleteTopicsRequest(topic_names=["u"], timeout_ms=1_000), 5)
    desk.create_topic("u")
    assert logs_of(desk.decide(producer.end(), 5)) == ["__transaction_state", "t", "__transaction_state"]
    assert desk.broker.logs.find("u", 0).log_end_offset == 0


def test_deleting_the_coordinators_topic_deletes_all_open_transactions(desk):
    producer = Producer(desk)
    desk.ask(producer.produce(0), 12)
    desk.ask(DeleteTopicsRequest(topic_names=["__transaction_state"], timeout_ms=1_000), 5)
    desk.broker.advance(desk.now_ms)
    assert read(desk) == (2, [producer.id])
    assert producer.ended() == ErrorCode.NOT_COORDINATOR
    assert desk.ask(producer.init(), 5).error_code == ErrorCode.NOT_COORDINATOR
    assert codes(desk.ask(producer.produce(1), 12)) == {1: NOT_ENOUGH_REPLICAS}
    desk.ask(FindCoordinatorRequest(key="x", key_type=TRANSACTION), 2)
    assert Producer(desk).epoch == 0
    assert Producer(desk.restart()).epoch == 1


def test_the_offsets_topic_deleted_within_a_transaction_ends_nothing_else(desk):
    producer = Producer(desk)
    desk.ask(producer.offsets(5), 5)
    desk.ask(producer.produce(0), 12)
    desk.ask(DeleteTopicsRequest(topic_names=["__consumer_offsets"], timeout_ms=1_000), 5)
    assert producer.ended() == 0
    assert read(desk) == (2, [])


def test_clients_retry_while_the_journal_cannot_be_written(desk):
    producer = Producer(desk)
    desk.ask(producer.produce(0), 12)
    desk.journal.room.obstacle = FULL
    unavailable = ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert desk.ask(producer.end(), 5).error_code == unavailable
    assert added(desk.ask(producer.add(0), 3)) == [unavailable]
    assert codes(desk.ask(producer.offsets(5), 5)) == {0: unavailable}
    assert desk.ask(AddOffsetsToTxnRequest("x", producer.id, 0, "g"), 3).error_code == unavailable
    desk.now_ms += 100_000
    desk.broker.advance(desk.now_ms)
    assert state_of(desk).transaction_state == "Ongoing"
    desk.journal.room.obstacle = None
    assert producer.ended() == 0
