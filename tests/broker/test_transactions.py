"""One coordinator for each partition of `__transaction_state`, with limits over all of them."""

import pytest

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.wire.messages.groups.find_coordinator import FindCoordinatorRequest
from pipeline_broker.wire.messages.topics.delete_topics import DeleteTopicsRequest
from pipeline_broker.wire.messages.transactions.init_producer_id import InitProducerIdRequest
from pipeline_broker.wire.messages.transactions.list_transactions import ListTransactionsRequest
from tests.apis.desk import Desk
from tests.apis.transactions.transaction_desk import SETTINGS, TRANSACTION, Producer
from tests.coordinators import transaction_coordinator_of

MINE, OTHER = "x", "y"
"""Ids of two partitions."""


@pytest.fixture
def desk():
    desk = Desk(*SETTINGS, "pipeline.transactional.ids=2", "pipeline.transaction.partitions=3")
    desk.create_topic("t")
    desk.ask(FindCoordinatorRequest(key=MINE, key_type=TRANSACTION), 3)
    return desk


def test_without_the_topic_no_coordinator_answers_for_an_id():
    transactions = Desk().broker.transactions
    assert transactions.coordinator_of(MINE) is ErrorCode.NOT_COORDINATOR
    assert transactions.coordinator_of("") is ErrorCode.INVALID_REQUEST


def test_ids_of_a_partition_share_a_coordinator(desk):
    Producer(desk, MINE), Producer(desk, OTHER)
    mine, other = (transaction_coordinator_of(desk.broker, name) for name in (MINE, OTHER))
    assert mine is not other
    assert [it.transactional_id for it in mine] == [MINE]
    assert [it.transactional_id for it in other] == [OTHER]
    listed = desk.ask(ListTransactionsRequest(), 1).transaction_states
    assert sorted(it.transactional_id for it in listed) == [MINE, OTHER]


def test_limits_count_the_ids_and_partitions_of_all_coordinators(desk):
    mine, other = Producer(desk, MINE), Producer(desk, OTHER)
    assert desk.ask(InitProducerIdRequest("z", 60_000), 5).error_code == ErrorCode.POLICY_VIOLATION
    desk.ask(mine.add(0, 1), 3)
    refused = desk.ask(other.add(0, 1), 3).results_by_topic_v3_and_below[0].results_by_partition
    assert {it.partition_error_code for it in refused} == {ErrorCode.POLICY_VIOLATION}
    usage = desk.broker.transactions.usage
    assert (usage.ids, usage.open_ids, usage.open_partitions) == (2, 1, 2)


def test_an_id_waits_for_no_decision_about_an_id_of_another_coordinator(desk):
    mine, other = Producer(desk, MINE), Producer(desk, OTHER)
    pending = desk.decide(mine.add(0), 3)
    assert pending.entries, "not committed yet"
    transactions, answer = desk.broker.transactions, object()
    assert transactions.answer_settled(OTHER, answer) is answer
    assert transactions.answer_settled(MINE, answer) is not answer
    assert transactions.answer_settled(None, answer) is not answer
    assert other.ended() == ErrorCode.INVALID_TXN_STATE


def test_timed_out_transactions_of_all_coordinators_are_aborted(desk):
    for name in (MINE, OTHER):
        desk.ask(Producer(desk, name, timeout_ms=1_000).add(0), 3)
    transactions = desk.broker.transactions
    assert transactions.usage.open_ids == 2
    turns = 0
    while transactions.usage.open_ids:
        desk.now_ms = max(desk.now_ms + 1_000, desk.broker.coordinators.next_deadline_ms())
        desk.broker.advance(desk.now_ms)
        turns += 1
        assert turns < 100
    assert {it.state.title for it in transactions.all()} == {"CompleteAbort"}


def test_counts_begin_anew_after_the_topic_was_deleted(desk):
    desk.ask(Producer(desk, MINE).add(0, 1), 3)
    Producer(desk, OTHER)
    desk.ask(DeleteTopicsRequest(topic_names=["__transaction_state"], timeout_ms=1000), 5)
    assert desk.broker.transactions.coordinator_of(MINE) is ErrorCode.NOT_COORDINATOR
    desk.ask(FindCoordinatorRequest(key="z", key_type=TRANSACTION), 3)
    Producer(desk, "z")
    assert desk.broker.transactions.usage.ids == 1
