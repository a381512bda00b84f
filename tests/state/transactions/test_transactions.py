"""Rules of the transaction coordinator, one by one; the responses were observed on Apache Kafka.

Longer than most files: one test for each rule.
"""

import itertools

import attrs
import pytest

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.state.outcome import StateRecord
from pipeline_broker.state.transactions import coordinator as coordinator_module
from pipeline_broker.state.transactions.coordinator import (
    Marker,
    Producer,
    TransactionCoordinator,
    TransactionSettings,
    TransactionUsage,
)
from pipeline_broker.state.transactions.records import read_transaction, tombstone
from pipeline_broker.state.transactions.states import NEXT_STATES, TransactionState
from pipeline_broker.state.transactions.transaction import EPOCH_MAX, Partition

S = TransactionState
T0, T1 = Partition("t", 0), Partition("t", 1)
NONE, FENCED, COME_AGAIN = ErrorCode.NONE, ErrorCode.PRODUCER_FENCED, ErrorCode.CONCURRENT_TRANSACTIONS


def coordinator_with(*, markers_at_once=100, **settings):
    ids = itertools.count(100)
    return TransactionCoordinator(
        TransactionSettings(900_000, 1_000, markers_at_once, **settings), TransactionUsage(), ids.__next__
    )


@pytest.fixture
def coordinator():
    return coordinator_with()


def init(coordinator, expected=None, timeout_ms=60_000, now_ms=0):
    decision = coordinator.init_producer_id("x", timeout_ms, expected, now_ms)
    return decision.producer if decision.error is NONE else decision.error


def begin(coordinator, producer, *partitions, version=2, now_ms=0):
    return coordinator.add_partitions("x", producer, partitions or (T0,), version, now_ms).error


def end(coordinator, producer, *, committed=True, version=2, now_ms=0):
    return coordinator.end("x", producer, version, now_ms, committed=committed)


def states(decision):
    """Return the steps as states of records and verdicts of markers."""
    return [
        read_transaction(step.key, step.value)[1].state
        if isinstance(step, StateRecord)
        else (step.partition, step.committed)
        for step in decision.steps
    ]


def marked(decision):
    """Return the later markers."""
    return [(marker.partition, marker.committed) for marker in decision.later]


def test_the_first_producer_of_an_id_has_epoch_0_and_each_one_after_it_the_next(coordinator):
    assert [init(coordinator) for _ in range(3)] == [Producer(100, epoch) for epoch in range(3)]


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001, 2**31 - 1])
def test_a_timeout_must_be_positive_and_not_above_the_maximum(coordinator, timeout_ms):
    assert init(coordinator, timeout_ms=timeout_ms) is ErrorCode.INVALID_TRANSACTION_TIMEOUT
    assert coordinator.get("x") is None


def test_an_empty_id_is_invalid_everywhere(coordinator):
    producer = Producer(1, 0)
    assert coordinator.init_producer_id("", 1, None, 0).error is ErrorCode.INVALID_REQUEST
    assert coordinator.add_partitions("", producer, [T0], 2, 0).error is ErrorCode.INVALID_REQUEST
    assert coordinator.end("", producer, 2, 0, committed=True).error is ErrorCode.INVALID_REQUEST
    assert set(coordinator.verify_partitions("", producer, [T0]).values()) == {ErrorCode.INVALID_REQUEST}


def test_a_producer_has_no_epoch_that_is_kept_for_fencing_it(coordinator):
    """Only the coordinator uses the last epoch."""
    init(coordinator)
    known = attrs.evolve(coordinator.get("x"), last_producer_epoch=5)
    assert attrs.evolve(known, producer_epoch=EPOCH_MAX).bumped(1, 5, 0) is None
    assert attrs.evolve(known, producer_epoch=EPOCH_MAX - 1).bumped(1, 5, 0).producer_epoch == EPOCH_MAX - 1


@pytest.mark.parametrize("is_begun", [True, False])
def test_a_request_without_a_producer_id_ends_nothing(coordinator, is_begun):
    producer = init(coordinator)
    if is_begun:
        begin(coordinator, producer)
    assert end(coordinator, Producer(-1, 0)).error is ErrorCode.INVALID_PRODUCER_ID_MAPPING


def test_an_unknown_id_cannot_end_a_transaction(coordinator):
    assert end(coordinator, Producer(1, 0)).error is ErrorCode.INVALID_PRODUCER_ID_MAPPING


def test_repeat_returns_the_latest_record_and_changes_nothing(coordinator):
    producer = init(coordinator)
    decision = coordinator.add_partitions("x", producer, (T0,), 2, 0)
    again = coordinator.repeat("x")
    assert (again.error, again.steps) == (NONE, decision.steps)
    assert coordinator.usage.open_partitions == 1


def test_an_id_whose_record_is_a_tombstone_is_forgotten_with_its_partitions(coordinator):
    decision = coordinator.add_partitions("x", init(coordinator), (T0, T1), 2, 0)
    again = TransactionCoordinator(coordinator.settings, TransactionUsage(), lambda: 1)
    for step in (*decision.steps, tombstone("x"), tombstone("never"), *decision.steps):
        again.replay(read_transaction(step.key, step.value))
    assert (again.usage.ids, again.usage.open_partitions) == (1, 2)
    again.replay(read_transaction(tombstone("x").key, None))
    assert (again.usage.ids, again.usage.open_partitions, again.get("x")) == (0, 0, None)


def test_one_call_aborts_a_limited_number_of_ids(coordinator, monkeypatch):
    monkeypatch.setattr(coordinator_module, "IDS_AT_ONCE", 2)
    for number in range(5):
        name = f"x{number}"
        producer = coordinator.init_producer_id(name, 1, None, 0).producer
        coordinator.add_partitions(name, producer, (T0,), 2, 0)
    rounds = iter(lambda: [it.transactional_id for it in coordinator.timed_out(2)], [])
    assert list(rounds) == [["x0", "x1"], ["x2", "x3"], ["x4"]]
    assert coordinator.usage.open_partitions == 0


def test_a_producer_continues_after_an_error_and_may_repeat_its_request(coordinator):
    first = init(coordinator)
    second = init(coordinator, expected=first)
    assert second == Producer(100, 1)
    assert init(coordinator, expected=first) == second
    assert init(coordinator, expected=second) == Producer(100, 2)
    assert init(coordinator, expected=first) is FENCED


def test_a_continuing_client_must_name_the_current_producer_id(coordinator):
    first = init(coordinator)
    assert init(coordinator, expected=Producer(99, first.epoch)) is FENCED
    told = coordinator.get("x")
    coordinator.replay(("x", attrs.evolve(told, producer_epoch=-1)))
    assert init(coordinator, expected=Producer(99, 7)) == Producer(100, 0)
    coordinator.replay(("x", attrs.evolve(told, previous_producer_id=99)))
    assert init(coordinator, expected=Producer(99, EPOCH_MAX - 2)) is FENCED, "its epochs were not used up"
    coordinator.replay(("x", attrs.evolve(told, previous_producer_id=99, last_producer_epoch=EPOCH_MAX - 1)))
    assert init(coordinator, expected=Producer(99, EPOCH_MAX - 1)) == Producer(100, 0)


def test_a_continuing_client_is_fenced_by_a_newer_one(coordinator):
    first = init(coordinator)
    init(coordinator)
    assert init(coordinator, expected=first) is FENCED
    assert init(coordinator, expected=Producer(999, 0)) is FENCED


def test_an_unknown_id_may_be_named_with_a_producer(coordinator):
    assert init(coordinator, expected=Producer(77, 3)) == Producer(100, 0)


def test_an_open_transaction_is_aborted_and_the_client_retries(coordinator):
    first = init(coordinator)
    begin(coordinator, first, T1, T0)
    decision = coordinator.init_producer_id("x", 60_000, None, 0)
    assert decision.error is COME_AGAIN
    assert states(decision) == [S.PREPARE_ABORT, (T0, False), (T1, False), S.COMPLETE_ABORT]
    assert {step.producer for step in decision.steps if isinstance(step, Marker)} == {Producer(100, 1)}
    assert end(coordinator, first).error is ErrorCode.INVALID_TXN_STATE
    assert init(coordinator) == Producer(100, 2)
    assert end(coordinator, first).error is FENCED


def test_a_continuing_client_keeps_the_epoch_of_its_abort(coordinator):
    first = init(coordinator)
    begin(coordinator, first)
    assert init(coordinator, expected=first) is COME_AGAIN
    assert init(coordinator, expected=first) == Producer(100, 1)


def test_used_up_epochs_bring_a_new_producer_id(coordinator):
    producer = init(coordinator)
    while producer.epoch < EPOCH_MAX - 1:
        producer = init(coordinator, expected=producer)
    used_up = coordinator.get("x")
    assert init(coordinator, expected=producer) == Producer(101, 0)
    assert init(coordinator, expected=producer) is not FENCED
    coordinator.replay(("x", used_up))
    assert init(coordinator) == Producer(102, 0), "a new client cannot name one"


def test_the_transaction_that_uses_up_the_epochs_ends_with_a_new_producer_id(coordinator):
    producer = init(coordinator)
    while producer.epoch < EPOCH_MAX - 1:
        producer = end(coordinator, producer, committed=False).producer
    begin(coordinator, producer)
    decision = end(coordinator, producer)
    assert decision.producer == Producer(101, 0)
    (marker,) = (step for step in decision.steps if isinstance(step, Marker))
    assert marker.producer == Producer(100, EPOCH_MAX)
    again = end(coordinator, producer)
    assert (again.error, again.producer, again.steps) == (NONE, Producer(101, 0), ())


def test_partitions_begin_a_transaction_once(coordinator):
    producer = init(coordinator)
    first = coordinator.add_partitions("x", producer, [T0], 2, 5)
    assert states(first) == [S.ONGOING]
    assert not coordinator.add_partitions("x", producer, [T0], 2, 6).steps
    assert states(coordinator.add_partitions("x", producer, [T1], 2, 7)) == [S.ONGOING]
    assert (coordinator.get("x").start_ms, coordinator.get("x").partitions) == (5, {T0, T1})


@pytest.mark.parametrize(
    ("producer", "code"),
    [
        (Producer(100, 1), FENCED),
        (Producer(100, -1), FENCED),
        (Producer(99, 0), ErrorCode.INVALID_PRODUCER_ID_MAPPING),
    ],
)
def test_only_the_producer_of_the_id_may_use_it(coordinator, producer, code):
    init(coordinator)
    assert begin(coordinator, producer) is code
    assert coordinator.verify_partitions("x", producer, [T0]) == {T0: code}
    assert coordinator.add_partitions("y", producer, [T0], 2, 0).error is ErrorCode.INVALID_PRODUCER_ID_MAPPING


def test_a_partition_is_part_of_a_transaction_until_that_ends(coordinator):
    producer = init(coordinator)
    abortable = ErrorCode.TRANSACTION_ABORTABLE
    assert coordinator.verify_partitions("x", producer, [T0]) == {T0: abortable}
    begin(coordinator, producer, T0)
    assert coordinator.verify_partitions("x", producer, [T0, T1]) == {T0: NONE, T1: abortable}
    producer = end(coordinator, producer).producer
    assert coordinator.verify_partitions("x", producer, [T0]) == {T0: abortable}


@pytest.mark.parametrize("committed", [True, False])
def test_a_transaction_is_decided_marked_and_completed_at_once(coordinator, committed):
    producer = init(coordinator)
    begin(coordinator, producer, T0, T1)
    decision = end(coordinator, producer, committed=committed)
    prepared, completed = (S.PREPARE_COMMIT, S.COMPLETE_COMMIT) if committed else (S.PREPARE_ABORT, S.COMPLETE_ABORT)
    assert states(decision) == [prepared, (T0, committed), (T1, committed), completed]
    assert decision.producer == Producer(100, 1)


def test_an_end_that_comes_late_cannot_end_the_next_transaction(coordinator):
    """Case 55."""
    producer = init(coordinator)
    begin(coordinator, producer)
    after = end(coordinator, producer).producer
    begin(coordinator, after)
    for committed in (True, False):
        late = end(coordinator, producer, committed=committed)
        assert (late.error, late.steps) == (FENCED, ())
    assert coordinator.get("x").state is S.ONGOING


def test_an_end_that_comes_twice_is_answered_twice_and_done_once(coordinator):
    """Case 55."""
    producer = init(coordinator)
    begin(coordinator, producer)
    first, second = end(coordinator, producer), end(coordinator, producer)
    assert (second.error, second.producer, second.steps) == (NONE, first.producer, ())


def test_with_version_2_nothing_may_be_aborted_and_the_epoch_rises(coordinator):
    producer = init(coordinator)
    decision = end(coordinator, producer, committed=False, now_ms=9)
    assert states(decision) == [S.PREPARE_ABORT, S.COMPLETE_ABORT]
    assert (decision.producer, coordinator.get("x").start_ms) == (Producer(100, 1), 9)


def test_with_version_0_the_epoch_stays(coordinator):
    producer = init(coordinator)
    begin(coordinator, producer, version=0)
    end(coordinator, producer, version=0)
    assert coordinator.get("x").producer_epoch == producer.epoch
    assert end(coordinator, producer, version=0).error is NONE


def test_a_timed_out_transaction_is_aborted_and_its_producer_fenced(coordinator):
    producer = init(coordinator, timeout_ms=100)
    assert coordinator.usage.open_ids == 0
    begin(coordinator, producer, now_ms=50)
    assert coordinator.usage.open_ids == 1
    assert coordinator.timed_out(150) == []
    (decision,) = coordinator.timed_out(151)
    assert states(decision) == [S.PREPARE_ABORT, (T0, False), S.COMPLETE_ABORT]
    assert end(coordinator, producer).error is ErrorCode.INVALID_TXN_STATE
    assert begin(coordinator, producer) is FENCED
    assert coordinator.usage.open_ids == 0


def test_a_transaction_lasts_from_its_beginning_however_often_it_grows(coordinator):
    producer = init(coordinator, timeout_ms=100)
    begin(coordinator, producer, T0, now_ms=0)
    begin(coordinator, producer, T1, now_ms=90)
    (decision,) = coordinator.timed_out(101)
    assert states(decision) == [S.PREPARE_ABORT, (T0, False), (T1, False), S.COMPLETE_ABORT]


@pytest.mark.parametrize(
    ("epoch", "expected", "may"),
    [
        (3, Producer(7, 1), True),
        (-1, Producer(9, 1), True),
        (3, Producer(6, EPOCH_MAX - 1), True),
        (3, Producer(6, EPOCH_MAX - 2), False),
        (3, Producer(9, EPOCH_MAX - 1), False),
        (3, Producer(9, 1), False),
    ],
)
def test_a_client_continues_as_the_current_or_the_exhausted_producer(epoch, expected, may):
    known = coordinator_module.Transaction(
        transactional_id="x", producer_id=7, previous_producer_id=6, producer_epoch=epoch, timeout_ms=1
    )
    assert coordinator_module._may_continue(known, expected) is may


def test_adding_no_partition_begins_a_transaction_as_in_kafka(coordinator):
    producer = init(coordinator)
    decision = coordinator.add_partitions("x", producer, [], 2, 0)
    assert (decision.error, coordinator.get("x").state, coordinator.usage.open_ids) == (NONE, S.ONGOING, 1)


def begin_as(coordinator, name, partitions, timeout_ms=100):
    producer = coordinator.init_producer_id(name, timeout_ms, None, 0).producer
    wanted = [Partition("t", number) for number in range(partitions)]
    return coordinator.add_partitions(name, producer, wanted, 2, 0).error


def test_timed_out_transactions_are_aborted_in_parts():
    """Aborting all of them in one turn would take seconds."""
    coordinator = coordinator_with(markers_at_once=10)
    for name, partitions in [("a", 4), ("b", 6), ("c", 30), ("d", 1), ("e", 1)]:
        assert begin_as(coordinator, name, partitions) is NONE
    rounds = iter(lambda: [it.transactional_id for it in coordinator.timed_out(101)], [])
    assert list(rounds) == [["a", "b"], ["c"], ["d", "e"]]
    coordinator.complete("c", 101)
    assert coordinator.usage.open_ids == 0


def test_expired_ids_are_deleted_in_parts(coordinator, monkeypatch):
    monkeypatch.setattr(coordinator_module, "IDS_AT_ONCE", 2)
    for name in "abc":
        coordinator.init_producer_id(name, 100, None, 0)
    rounds = iter(lambda: [it.transactional_id for it in coordinator.expired(1_000)], [])
    assert list(rounds) == [["a", "b"], ["c"]]


def test_the_partitions_of_open_transactions_are_limited():
    coordinator = coordinator_with(partitions_max=10)
    assert begin_as(coordinator, "a", 6) is NONE
    assert begin_as(coordinator, "b", 5) is ErrorCode.POLICY_VIOLATION
    assert begin_as(coordinator, "b", 4) is NONE
    assert coordinator.usage.open_partitions == 10
    producer = Producer(coordinator.get("a").producer_id, coordinator.get("a").producer_epoch)
    more = coordinator.add_partitions("a", producer, [Partition("more", 0)], 2, 0)
    assert more.error is ErrorCode.POLICY_VIOLATION, "one that is open already grows no further either"
    coordinator.forget_topic("t")
    assert coordinator.usage.open_partitions == 0
    assert begin_as(coordinator, "c", 10) is NONE
    coordinator.timed_out(101)
    assert (coordinator.usage.open_partitions, begin_as(coordinator, "d", 10)) == (0, NONE)


def test_the_partitions_of_open_transactions_are_counted_at_startup(coordinator):
    producer = init(coordinator)
    decision = coordinator.add_partitions("x", producer, [T0, T1], 2, 0)
    again = TransactionCoordinator(coordinator.settings, TransactionUsage(), itertools.count(200).__next__)
    for step in decision.steps:
        again.replay(read_transaction(step.key, step.value))
    assert again.usage.open_partitions == coordinator.usage.open_partitions == 2


def test_an_id_at_rest_expires(coordinator):
    producer = init(coordinator, now_ms=0)
    begin(coordinator, producer, now_ms=10)
    assert coordinator.expired(10_000) == []  # a transaction is open
    end(coordinator, producer, now_ms=10_000)
    assert coordinator.expired(10_999) == []
    (decision,) = coordinator.expired(11_000)
    assert [step.value for step in decision.steps] == [None]
    assert coordinator.get("x") is None


def test_a_deleted_topic_gets_no_marker(coordinator):
    producer = init(coordinator)
    begin(coordinator, producer, T0, Partition("u", 0))
    coordinator.forget_topic("u")
    assert states(end(coordinator, producer)) == [S.PREPARE_COMMIT, (T0, True), S.COMPLETE_COMMIT]


def test_without_its_records_a_coordinator_can_only_abort(coordinator):
    producer = init(coordinator)
    begin(coordinator, producer)
    (decision,) = coordinator.abandon(0)
    assert (states(decision), marked(decision)) == ([], [(T0, False)])


def test_every_state_except_dead_has_a_next_state():
    assert {state for state, following in NEXT_STATES.items() if not following} == {S.DEAD}
    assert set(NEXT_STATES) == set(S)
    assert [state.title for state in S][-1] == "PrepareEpochFence"


def test_the_number_of_ids_is_limited_and_known_ones_continue():
    coordinator = coordinator_with(ids_max=1)
    assert init(coordinator) == Producer(100, 0)
    assert coordinator.init_producer_id("another", 60_000, None, 0).error is ErrorCode.POLICY_VIOLATION
    assert init(coordinator) == Producer(100, 1)


def test_a_wide_transaction_is_prepared_until_its_markers_are_written():
    coordinator = coordinator_with(markers_at_once=1)
    producer = init(coordinator)
    begin(coordinator, producer, T0, T1)
    decision = end(coordinator, producer)
    assert (decision.error, states(decision), marked(decision)) == (NONE, [S.PREPARE_COMMIT], [(T0, True), (T1, True)])
    assert decision.producer == Producer(100, 1)
    for asked_by in (producer, decision.producer):
        assert begin(coordinator, asked_by) is COME_AGAIN
        assert set(coordinator.verify_partitions("x", asked_by, [T0]).values()) == {COME_AGAIN}
        assert end(coordinator, asked_by).error is COME_AGAIN
        assert init(coordinator, expected=asked_by) is COME_AGAIN
    assert init(coordinator) is COME_AGAIN
    assert not coordinator.timed_out(10**9)
    assert states(coordinator.complete("x", 5)) == [S.COMPLETE_COMMIT]
    assert begin(coordinator, decision.producer) is NONE


def test_partitions_whose_markers_are_not_written_count_as_open():
    coordinator = coordinator_with(markers_at_once=1, partitions_max=3)
    producer = init(coordinator)
    begin(coordinator, producer, T0, T1)
    end(coordinator, producer)
    assert coordinator.usage.open_partitions == 2
    assert begin_as(coordinator, "y", 2) is ErrorCode.POLICY_VIOLATION
    coordinator.complete("x", 0)
    assert coordinator.usage.open_partitions == 0
    assert begin_as(coordinator, "z", 2) is NONE


def test_a_timed_out_wide_transaction_is_prepared_first():
    coordinator = coordinator_with(markers_at_once=1)
    begin(coordinator, init(coordinator, timeout_ms=10), T0, T1)
    (decision,) = coordinator.timed_out(100)
    assert (states(decision), marked(decision)) == ([S.PREPARE_ABORT], [(T0, False), (T1, False)])
    assert states(coordinator.complete("x", 100)) == [S.COMPLETE_ABORT]


@pytest.mark.parametrize(("partitions", "is_wide"), [(9, False), (10, False), (11, True)])
def test_an_end_is_wide_when_it_has_more_markers_than_one_decision_may_have(partitions, is_wide):
    coordinator = coordinator_with(markers_at_once=10)
    assert begin_as(coordinator, "x", partitions) is NONE
    decision = coordinator.end("x", Producer(100, 0), 2, 0, committed=True)
    assert len(list(decision.later or ())) == (partitions if is_wide else 0)
    assert len(decision.steps) == (1 if is_wide else partitions + 2)


@pytest.mark.parametrize(("version", "changes"), [(0, False), (1, False), (2, True)])
def test_only_version_2_continues_with_a_new_producer_id(coordinator, version, changes):
    producer = init(coordinator)
    begin(coordinator, producer, version=version)
    coordinator._transactions["x"] = attrs.evolve(coordinator.get("x"), producer_epoch=EPOCH_MAX - 1)
    last = Producer(producer.producer_id, EPOCH_MAX - 1)
    assert end(coordinator, last, version=version).error is NONE
    assert (coordinator.get("x").producer_id != producer.producer_id) is changes
