"""Topics of many partitions are created and deleted in turns: the view of other requests between two turns.

Turns are counted, not timed: one step creates as many logs as its cost allows, on any machine.
"""

import pytest

from pipeline_broker.apis.steps import LOG_COST, LOGS_AT_ONCE_MAX
from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.broker.broker import FORGOTTEN_AT_ONCE_MAX
from pipeline_broker.log.partition.partition_log import PartitionLog
from pipeline_broker.wire.messages.data.fetch import FetchRequest
from pipeline_broker.wire.messages.topics.create_partitions import CreatePartitionsRequest
from pipeline_broker.wire.messages.topics.create_topics import CreateTopicsRequest
from pipeline_broker.wire.messages.topics.delete_topics import DeleteTopicsRequest
from stages.request import TURN_COST, Pending, Send, Unfinished, go_on
from tests.apis.desk import Desk

LARGE = 10_000
CREATE, GROW, DELETE = 4, 1, 4


def creation(partitions=LARGE, name="large"):
    return CreateTopicsRequest([CreateTopicsRequest.CreatableTopic(name, partitions, 1)], 1000)


def growth(count):
    return CreatePartitionsRequest([CreatePartitionsRequest.CreatePartitionsTopic("large", count, None)], 1000)


def deletion():
    return DeleteTopicsRequest(topic_names=["large"], timeout_ms=1000)


def partitions_seen(desk):
    """Return the partitions that another request sees, by name."""
    seen = {topic.name: topic.partitions for topic in desk.broker.topics.all()}
    assert {name: len(desk.broker.logs.partitions(name)) for name in seen} == seen
    return seen


@pytest.fixture
def logs_made(monkeypatch):
    """The logs created so far."""
    made = []
    original = PartitionLog.__init__

    def counting(log, *arguments, **named):
        made.append(log)
        original(log, *arguments, **named)

    monkeypatch.setattr(PartitionLog, "__init__", counting)
    return made


def steps_of(desk, result, logs_made):
    """Run the steps of a request one by one; return the logs that each created, and what other requests saw then."""
    while isinstance(result, Unfinished):
        before = len(logs_made)
        pending = result.first
        if isinstance(pending, Pending):
            desk.commit(list(pending.entries))
            pending.on_durable()
        else:
            result = go_on(result.steps)
        yield len(logs_made) - before, partitions_seen(desk)
        if isinstance(pending, Pending):
            result = go_on(result.steps)
    assert isinstance(result, Send)


def test_a_topic_is_created_in_turns_and_visible_as_a_whole(logs_made):
    desk = Desk()
    del logs_made[:]
    seen = list(steps_of(desk, desk.decide(creation(), CREATE), logs_made))
    assert len(seen) >= LARGE * LOG_COST // TURN_COST
    assert max(made for made, _ in seen) <= TURN_COST // LOG_COST
    told = [told for _, told in seen]
    durable = told.index({"large": LARGE})
    assert told[:durable] == [{}] * durable, "the topic is invisible until its record is durable"
    assert len(logs_made) == LARGE, "each log is made once"
    assert [log.partition for log in desk.broker.logs.partitions("large")] == list(range(LARGE))


def test_partitions_are_added_in_turns_and_visible_at_once(logs_made):
    desk = Desk()
    assert desk.ask(creation(3), CREATE).topics[0].error_code == 0
    first = desk.broker.logs.partitions("large")
    del logs_made[:]
    seen = list(steps_of(desk, desk.decide(growth(LARGE), GROW), logs_made))
    assert {told["large"] for _, told in seen} == {3, LARGE}
    assert max(made for made, _ in seen) <= TURN_COST // LOG_COST
    assert len(logs_made) == LARGE - 3
    assert desk.broker.logs.partitions("large")[:3] == first


def test_the_first_decision_takes_the_name_and_the_other_request_is_refused():
    desk = Desk()
    slow = desk.decide(creation(), CREATE)
    assert isinstance(slow, Unfinished)
    assert desk.ask(creation(1), CREATE).topics[0].error_code == 0
    assert desk.finish(creation(), CREATE, slow).topics[0].error_code == ErrorCode.TOPIC_ALREADY_EXISTS
    assert partitions_seen(desk) == {"large": 1}


def test_partitions_added_between_turns_stay_and_the_rest_is_added():
    desk = Desk()
    desk.ask(creation(1), CREATE)
    slow = desk.decide(growth(LARGE), GROW)
    assert desk.ask(growth(5), GROW).results[0].error_code == 0
    kept = desk.broker.logs.partitions("large")
    assert desk.finish(growth(LARGE), GROW, slow).results[0].error_code == 0
    logs = desk.broker.logs.partitions("large")
    assert logs[:5] == kept
    assert [log.partition for log in logs] == list(range(LARGE))


def test_a_topic_recreated_between_turns_grows_by_its_own_logs():
    desk = Desk()
    desk.ask(creation(1), CREATE)
    slow = desk.decide(growth(LARGE), GROW)
    desk.ask(deletion(), DELETE)
    desk.ask(creation(2), CREATE)
    assert desk.finish(growth(LARGE), GROW, slow).results[0].error_code == 0
    (topic_id,) = {log.topic_id for log in desk.broker.logs.partitions("large")}
    assert topic_id == desk.broker.topics.get("large").topic_id


def test_other_requests_do_not_exceed_the_partition_limit_between_turns():
    desk = Desk(f"pipeline.partitions={LARGE}")
    slow = desk.decide(creation(), CREATE)
    assert desk.ask(creation(1, "other"), CREATE).topics[0].error_code == 0
    assert desk.finish(creation(), CREATE, slow).topics[0].error_code == ErrorCode.POLICY_VIOLATION
    assert partitions_seen(desk) == {"other": 1}


def test_a_growing_topic_does_not_exceed_the_partition_limit_between_turns():
    desk = Desk(f"pipeline.partitions={LARGE}")
    desk.ask(creation(1), CREATE)
    slow = desk.decide(growth(LARGE), GROW)
    assert isinstance(slow, Unfinished)
    assert desk.ask(creation(1, "other"), CREATE).topics[0].error_code == 0
    assert desk.finish(growth(LARGE), GROW, slow).results[0].error_code == ErrorCode.POLICY_VIOLATION
    assert partitions_seen(desk) == {"large": 1, "other": 1}


def test_a_topic_recreated_between_turns_is_not_deleted():
    desk = Desk()
    for name in ("large", "other"):
        desk.ask(creation(1_000 if name == "large" else 1, name), CREATE)
    request = DeleteTopicsRequest(topic_names=["large", "other"], timeout_ms=1000)
    slow = desk.decide(request, DELETE)
    desk.submit(list(slow.first.entries), slow.first.on_durable)
    desk.ask(DeleteTopicsRequest(topic_names=["other"], timeout_ms=1000), DELETE)
    desk.ask(creation(2, "other"), CREATE)
    told = [(topic.name, topic.error_code) for topic in desk.finish(request, DELETE, go_on(slow.steps)).responses]
    assert told == [("large", 0), ("other", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]
    assert partitions_seen(desk) == {"other": 2}


def test_a_client_that_disconnects_between_turns_leaves_nothing():
    desk = Desk()
    slow = desk.decide(creation(), CREATE)
    slow.steps.close()
    assert desk.broker.topics.partitions == 0
    assert desk.ask(creation(1), CREATE).topics[0].error_code == 0


def test_a_crash_leaves_all_of_the_topic_or_nothing():
    desk = Desk()
    result = desk.decide(creation(), CREATE)
    while not isinstance(result.first, Pending):
        result = go_on(result.steps)
    assert partitions_seen(desk.restart()) == {}
    desk = Desk()
    desk.ask(creation(), CREATE)
    assert partitions_seen(desk.restart()) == {"large": LARGE}


def test_decided_changes_are_submitted_before_other_requests_get_their_turns():
    """Otherwise changes that others base on them would come before them in the journal."""
    desk = Desk()
    request = CreateTopicsRequest([*creation(1, "small").topics, *creation(LARGE - 1).topics], 1000)
    unfinished = desk.decide(request, CREATE)
    assert isinstance(unfinished.first, Pending)
    assert len(unfinished.first.entries) == 1
    assert [topic.error_code for topic in desk.finish(request, CREATE, unfinished).topics] == [0, 0]


def test_each_change_of_a_request_in_several_turns_is_written_once():
    desk = Desk()
    result, written = (
        desk.decide(CreateTopicsRequest([*creation(1, "small").topics, *creation(LARGE - 1).topics], 1000), CREATE),
        0,
    )
    while isinstance(result, Unfinished):
        if isinstance(result.first, Pending):
            written += len(result.first.entries)
            desk.submit(list(result.first.entries), result.first.on_durable)
        result = go_on(result.steps)
    assert written == 2
    assert partitions_seen(desk) == {"small": 1, "large": LARGE - 1}


def test_few_partitions_are_made_with_their_topic(logs_made):
    desk = Desk()
    del logs_made[:]
    pending = desk.decide(creation(LOGS_AT_ONCE_MAX), CREATE)
    assert not logs_made
    assert desk.finish(creation(LOGS_AT_ONCE_MAX), CREATE, pending).topics[0].error_code == 0
    assert len(logs_made) == LOGS_AT_ONCE_MAX


def test_a_deleted_topic_disappears_at_once_and_its_logs_are_released_in_turns():
    desk = Desk()
    desk.ask(creation(), CREATE)
    last = FetchRequest.FetchPartition(partition=LARGE - 1, fetch_offset=0, partition_max_bytes=1 << 20)
    waiting = FetchRequest(
        topics=[FetchRequest.FetchTopic(topic="large", partitions=[last])],
        max_wait_ms=60_000,
        min_bytes=1,
        max_bytes=1 << 20,
        session_epoch=-1,
    )
    desk.decide(waiting, 12)
    assert len(desk.broker.fetches) == 1
    assert desk.ask(deletion(), DELETE).responses[0].error_code == 0
    assert partitions_seen(desk) == {}
    assert desk.broker.logs.find("large", 0) is None
    turns = 0
    while desk.broker.logs.is_any_leaving:
        assert len(desk.broker.fetches) == 1, "the last partition is the last one that is let go of"
        assert desk.broker.next_deadline_ms() <= desk.now_ms
        desk.broker.advance(desk.now_ms)
        turns += 1
    assert turns == LARGE // FORGOTTEN_AT_ONCE_MAX - 1, "the first ones went with the topic"
    assert len(desk.broker.fetches) == 0
    assert desk.broker.next_deadline_ms() > desk.now_ms
