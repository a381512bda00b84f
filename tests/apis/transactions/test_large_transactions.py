"""Transactions of many partitions, which are added and written in turns: the view of other requests between them.

Turns are counted, not timed: a turn does as much work as its cost allows, on any machine.
"""

import attrs
import pytest

from pipeline_broker.apis.data.produce import ADMITTED_AT_ONCE_MAX
from pipeline_broker.apis.transactions.list_transactions import ID_COST
from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.state.topics import NewTopic
from pipeline_broker.state.transactions.transaction import Partition, by_topic
from pipeline_broker.wire.messages.data.produce import ProduceRequest
from pipeline_broker.wire.messages.transactions.add_partitions_to_txn import AddPartitionsToTxnRequest
from pipeline_broker.wire.messages.transactions.list_transactions import ListTransactionsRequest
from stages.request import TURN_COST, Pending, Send, Unfinished, go_on
from tests.apis.desk import Desk
from tests.apis.transactions.transaction_desk import FULL, SETTINGS, Producer, added, codes, ready
from tests.coordinators import transaction_coordinator_of

LARGE = 5_000
WRITTEN = 3 * ADMITTED_AT_ONCE_MAX
ADD, ADD_BETWEEN_BROKERS, END = 2, 4, 2
PRODUCE = pytest.mark.parametrize("version", [9, 12])


@pytest.fixture
def desk():
    desk = ready(Desk(*SETTINGS))
    create(desk)
    return desk


def create(desk):
    new = NewTopic(name="large", topic_id=desk.broker.new_id().bytes, partitions=LARGE)
    commit(desk, desk.broker.topics.create(new))


def delete(desk):
    """Delete a topic like a request, which may have to wait for its place."""
    commit(desk, desk.broker.topics.delete("large"))


def commit(desk, write):
    pending = desk.broker.commit_metadata([(write, desk.broker.topic_durable)], desk.now_ms, Send())
    desk.submit(pending.entries, pending.on_durable)


def steps_of(desk, result):
    """Run the steps of a request one by one, like the server; return the commits of each."""
    while True:
        pending = result.first if isinstance(result, Unfinished) else result
        if isinstance(pending, Pending):
            desk.submit(list(pending.entries), pending.on_durable or (lambda: None))
            yield list(pending.entries)
        else:
            yield []
        if not isinstance(result, Unfinished):
            return
        result = go_on(result.steps)


def partitions_of(desk, name="x"):
    """Return the number of visible partitions in the transaction of an id."""
    return len(transaction_coordinator_of(desk.broker, name).get(name).partitions)


def mark(desk):
    """Let the markers of a wide transaction be written in parts, until it is completed."""
    for _ in range(LARGE):
        if not desk.broker.transactions.usage.open_ids:
            return
        desk.now_ms += 100
        desk.broker.advance(desk.now_ms)
    raise AssertionError("it is never completed")


def produced(producer, partitions=WRITTEN):
    return producer.produce(*range(partitions), topic="large")


def test_partitions_are_added_to_a_transaction_in_turns_and_visible_at_once(desk):
    producer = Producer(desk)
    seen = [partitions_of(desk) for _ in steps_of(desk, desk.decide(producer.add(*range(LARGE), topic="large"), ADD))]
    assert set(seen) == {0, LARGE}
    assert seen == sorted(seen)
    answer = desk.ask(producer.add(*range(LARGE), topic="large"), ADD)
    assert added(answer) == [ErrorCode.NONE] * LARGE
    assert partitions_of(desk.restart()) == LARGE


def test_writes_to_added_partitions_write_no_transaction_record(desk):
    producer = Producer(desk)
    logs = []
    for _ in range(2):
        entries = [it for done in steps_of(desk, desk.decide(produced(producer), 12)) for it in done]
        logs.append([entry.log.topic for entry in entries if entry.log.topic != "large"])
    assert logs == [["__transaction_state"], []]


def test_older_versions_add_no_partition_by_writing_to_it(desk):
    answer = desk.ask(produced(Producer(desk)), 9)
    assert set(codes(answer).values()) == {ErrorCode.INVALID_TXN_STATE}
    assert partitions_of(desk) == 0


def test_a_large_request_adds_no_partition_once_the_journal_is_full(desk):
    producer = Producer(desk)
    result = desk.decide(produced(producer, LARGE), 12)
    assert isinstance(result, Unfinished), "its batches are read in turns"
    desk.journal.room.obstacle = FULL
    written = [entry for entries in steps_of(desk, result) for entry in entries]
    assert (written, partitions_of(desk)) == ([], 0)


def test_a_large_request_of_unknown_partitions_adds_none(desk):
    answer = desk.ask(Producer(desk).produce(*range(LARGE, LARGE + WRITTEN), topic="large"), 12)
    assert set(codes(answer).values()) == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert partitions_of(desk) == 0


def test_no_partition_is_added_if_a_topic_is_deleted_between_turns(desk):
    producer = Producer(desk)
    request = producer.add(*range(LARGE), topic="large")
    request.v3_and_below_topics.append(AddPartitionsToTxnRequest.AddPartitionsToTxnTopic("t", [0]))
    unfinished = desk.decide(request, ADD)
    assert isinstance(unfinished, Unfinished)
    delete(desk)
    answer = desk.finish(request, ADD, unfinished)
    assert added(answer) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * LARGE + [ErrorCode.OPERATION_NOT_ATTEMPTED]
    assert partitions_of(desk) == 0


def test_of_several_transactions_each_is_added_or_refused_by_itself_and_answered_in_its_place(desk):
    producers = [Producer(desk, name) for name in ("x", "y", "z")]
    numbers = [range(LARGE // 3), range(LARGE // 3, LARGE // 2), range(LARGE // 2, LARGE)]
    transactions = [
        AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction(
            it.name, it.id, it.epoch, topics=it.add(*mine, topic="large").v3_and_below_topics
        )
        for it, mine in zip(producers, numbers, strict=True)
    ]
    transactions[1].producer_epoch += 1
    request = AddPartitionsToTxnRequest(transactions)
    appended = list(steps_of(desk, desk.decide(request, ADD_BETWEEN_BROKERS)))
    assert sum(map(len, appended)) == 2
    answer = desk.ask(request, ADD_BETWEEN_BROKERS)
    told = [
        [(it.partition_index, it.partition_error_code) for it in result.topic_results[0].results_by_partition]
        for result in answer.results_by_transaction
    ]
    errors = (ErrorCode.NONE, ErrorCode.PRODUCER_FENCED, ErrorCode.NONE)
    assert told == [[(index, error) for index in mine] for mine, error in zip(numbers, errors, strict=True)]
    assert [partitions_of(desk, it.name) for it in producers] == [len(numbers[0]), 0, len(numbers[2])]


@PRODUCE
def test_many_batches_of_a_transaction_are_appended_in_several_commits(desk, version):
    producer = Producer(desk)
    if version < 12:
        desk.ask(producer.add(*range(WRITTEN), topic="large"), ADD)
    committed = list(steps_of(desk, desk.decide(produced(producer), version)))
    batches = [[entry.log.partition for entry in entries if entry.log.topic == "large"] for entries in committed]
    assert max(map(len, batches)) <= ADMITTED_AT_ONCE_MAX
    assert [partition for some in batches for partition in some] == list(range(WRITTEN))
    records = [entry for entries in committed for entry in entries if entry.log.topic == "__transaction_state"]
    assert len(records) == (version >= 12), "one tells of all partitions"
    assert producer.ended(version=5 if version >= 12 else END) == 0
    mark(desk)
    assert desk.broker.logs.find("large", WRITTEN - 1).last_stable_offset == 2


@PRODUCE
def test_all_partitions_of_a_large_request_are_answered(desk, version):
    producer = Producer(desk)
    if version < 12:
        desk.ask(producer.add(*range(WRITTEN), topic="large"), ADD)
    request = produced(producer)
    request.topic_data.append(
        ProduceRequest.TopicProduceData("unknown", partition_data=request.topic_data[0].partition_data[:1])
    )
    answer = desk.ask(request, version)
    assert codes(answer) == dict.fromkeys(range(WRITTEN), ErrorCode.NONE) | {0: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


@PRODUCE
def test_batches_after_the_end_of_their_transaction_are_refused_and_earlier_ones_are_part_of_it(desk, version):
    """Like several requests; no transaction stays open that no request would end."""
    producer = Producer(desk)
    if version < 12:
        desk.ask(producer.add(*range(WRITTEN), topic="large"), ADD)
    request = produced(producer)
    unfinished = desk.decide(request, version)
    logs = desk.broker.logs.partitions("large")
    while not logs[0].log_end_offset:
        if isinstance(unfinished.first, Pending):
            desk.submit(unfinished.first.entries, unfinished.first.on_durable)
        unfinished = go_on(unfinished.steps)
    pending = unfinished.first
    desk.submit(pending.entries, pending.on_durable)
    written = sum(bool(log.log_end_offset) for log in logs)
    assert producer.ended(committed=False, version=5 if version >= 12 else END) == 0
    mark(desk)
    answer = desk.finish(request, version, go_on(unfinished.steps))
    error = ErrorCode.INVALID_PRODUCER_EPOCH if version >= 12 else ErrorCode.INVALID_TXN_STATE
    assert codes(answer) == {number: 0 if number < written else error for number in range(WRITTEN)}
    assert 0 < written < WRITTEN
    assert not any(log.producers.open for log in logs)


def test_a_client_that_disconnects_between_turns_leaves_a_transaction_that_times_out(desk):
    producer = Producer(desk)
    unfinished = desk.decide(produced(producer), 12)
    while not desk.broker.logs.find("large", 0).log_end_offset:
        if isinstance(unfinished.first, Pending):
            desk.submit(unfinished.first.entries, unfinished.first.on_durable)
        unfinished = go_on(unfinished.steps)
    desk.submit(unfinished.first.entries, unfinished.first.on_durable)
    unfinished.steps.close()
    assert desk.broker.logs.find("large", 0).producers.open
    desk.now_ms += 120_000
    mark(desk)
    assert not any(log.producers.open for log in desk.broker.logs.partitions("large"))


def test_partitions_are_in_their_order_in_a_record_and_among_the_markers():
    partitions = [Partition("b", 2), Partition("a", 10), Partition("b", 1), Partition("a", 9)]
    assert by_topic(partitions) == [("a", [9, 10]), ("b", [1, 2])]
    assert [
        Partition(*it) for topic, numbers in by_topic(partitions) for it in [(topic, n) for n in numbers]
    ] == sorted(partitions)


def test_many_ids_are_listed_in_turns_as_of_the_first_turn(desk):
    Producer(desk)
    coordinator = transaction_coordinator_of(desk.broker, "x")
    known = coordinator.get("x")
    names = [f"id-{number}" for number in range(2 * TURN_COST // ID_COST)]
    for name in names:
        coordinator.replay((name, attrs.evolve(known, transactional_id=name)))
    request = ListTransactionsRequest()
    unfinished = desk.decide(request, 1)
    assert isinstance(unfinished, Unfinished)
    coordinator.replay((names[-1], None))
    assert len(list(steps_of(desk, unfinished))) > len(names) * ID_COST // TURN_COST
    answer = desk.ask(request, 1)
    assert [it.transactional_id for it in answer.transaction_states] == ["x", *names[:-1]]
