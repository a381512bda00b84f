"""Commits of many offsets, whose records are made in turns: a group has all of them or none, as with small commits.

Turns are counted, not timed: one turn makes as many records as its cost allows, on any machine.
"""

import errno

import pytest

from pipeline_broker.apis.groups.offset_fetch import FETCHED_AT_ONCE, SEVERAL_GROUPS_FROM, TOPIC_ID_FROM
from pipeline_broker.apis.offsets_to_commit import OFFSET_COST
from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.security.authorizer import Authorizer
from pipeline_broker.state.groups.commits import PreparedOffsets
from pipeline_broker.state.topics import NewTopic
from pipeline_broker.wire.messages.groups.delete_groups import DeleteGroupsRequest
from pipeline_broker.wire.messages.groups.join_group import JoinGroupRequest
from pipeline_broker.wire.messages.groups.offset_commit import OffsetCommitRequest
from pipeline_broker.wire.messages.groups.offset_fetch import OffsetFetchRequest
from stages.request import TURN_COST, Pending, Send, Unfinished, go_on
from tests.apis.groups.group_desk import GroupDesk
from tests.apis.transactions.transaction_desk import TRANSACTION, FindCoordinatorRequest, Producer
from tests.coordinators import coordinator_of

LARGE = 5_000
VERSION = 7
TXN_VERSION = 5
Partition = OffsetCommitRequest.OffsetCommitRequestPartition
Topic = OffsetCommitRequest.OffsetCommitRequestTopic


@pytest.fixture
def desk():
    desk = GroupDesk("group.initial.rebalance.delay.ms=0", "offset.metadata.max.bytes=16")
    desk.ask(FindCoordinatorRequest(key="any", key_type=TRANSACTION), 2)
    create(desk)
    return desk


def create(desk):
    desk.create(NewTopic(name="large", topic_id=desk.broker.new_id().bytes, partitions=LARGE))


def commit(offset=7, generation=-1, member="", topics=("large",), metadata=""):
    named = [
        Topic(topic, partitions=[Partition(index, offset, -1, metadata) for index in range(LARGE // len(topics))])
        for topic in topics
    ]
    return OffsetCommitRequest("g", generation, member, topics=named)


def delete(desk, name="large"):
    """Delete a topic like a request, which may have to wait for its place."""
    write = desk.broker.topics.delete(name)
    pending = desk.broker.commit_metadata([(write, desk.broker.topic_durable)], desk.now_ms, Send())
    desk.submit(pending.entries, pending.on_durable)


def codes(answer):
    """Return the number of partitions per error."""
    found = [partition.error_code for topic in answer.topics for partition in topic.partitions]
    return {ErrorCode(code): found.count(code) for code in set(found)}


def stored(desk):
    """Return the number of the group's visible offsets, by offset."""
    found = [each.committed.offset for each in coordinator_of(desk.broker, "g").fetch("g")]
    return {offset: found.count(offset) for offset in set(found)}


def steps_of(desk, result):
    """Run the steps of a request one by one, like the server."""
    while isinstance(result, Unfinished):
        yield result.first
        if isinstance(result.first, Pending):
            desk.submit(list(result.first.entries), result.first.on_durable or (lambda: None))
        result = go_on(result.steps)
    assert isinstance(result, Send)


def prepared(desk, request, version=VERSION):
    """Return a request with all of its records made; its next step decides."""
    result = desk.decide(request, version)
    for _ in range(LARGE * OFFSET_COST // TURN_COST - 1):
        assert result.first is None
        result = go_on(result.steps)
    assert result.first is None
    return result


def joined(desk):
    """Return the generation and the only member of a stable group."""
    protocols = [JoinGroupRequest.JoinGroupRequestProtocol("range", b"subscription")]
    join = JoinGroupRequest("g", 60_000, 60_000, protocol_type="consumer", protocols=protocols)
    parked = desk.decide(join, 3)
    desk.now_ms += 1
    desk.broker.advance(desk.now_ms)
    answer = desk.finish(join, 3, parked)
    return answer.generation_id, answer.member_id


def test_records_are_made_in_turns_and_others_see_none_of_the_offsets_or_all(desk, monkeypatch):
    made = []
    original = PreparedOffsets.add
    monkeypatch.setattr(PreparedOffsets, "add", lambda *arguments: made.append(1) or original(*arguments))
    seen, most, before = [], 0, 0
    for _ in steps_of(desk, desk.decide(commit(), VERSION)):
        most, before = max(most, len(made) - before), len(made)
        seen.append(stored(desk))
    assert len(made) == LARGE
    assert most <= TURN_COST // OFFSET_COST + 1
    assert {} in seen
    assert {LARGE} in [set(each.values()) for each in seen]
    assert all(each in ({}, {7: LARGE}) for each in seen)
    assert stored(desk) == stored(desk.restart()) == {7: LARGE}


@pytest.mark.parametrize("version", [SEVERAL_GROUPS_FROM - 1, SEVERAL_GROUPS_FROM])
def test_all_offsets_of_a_group_are_fetched_in_turns_and_those_deleted_between_are_missing(desk, version):
    desk.ask(commit(), VERSION)
    group = OffsetFetchRequest.OffsetFetchRequestGroup("g", topics=None)
    fetch_all = OffsetFetchRequest(groups=[group]) if version == SEVERAL_GROUPS_FROM else OffsetFetchRequest("g", None)
    result = desk.decide(fetch_all, version)
    for _ in range(LARGE // FETCHED_AT_ONCE - 2):  # the first offsets are fetched already, the last ones are not
        assert isinstance(result, Unfinished)
        result = go_on(result.steps)
    desk.ask(DeleteGroupsRequest(["g"]), 2)
    answer = desk.finish(fetch_all, version, result)
    (topic,) = answer.groups[0].topics if version == SEVERAL_GROUPS_FROM else answer.topics
    found = [partition.committed_offset for partition in topic.partitions]
    assert (topic.name, len(found)) == ("large", LARGE)
    assert found == [7] * (LARGE - FETCHED_AT_ONCE) + [-1] * FETCHED_AT_ONCE


def test_a_duplicate_group_is_answered_again_unless_it_repeats_the_previous_one(desk):
    """A client may request the topics of a group one by one; a repetition costs nothing."""
    desk.ask(commit(offset=5, topics=("large", "t")), VERSION)
    group, topic = OffsetFetchRequest.OffsetFetchRequestGroup, OffsetFetchRequest.OffsetFetchRequestTopics
    asked = ["large", "t", "t", "large"]
    groups = [group("g", topics=[topic(name, partition_indexes=[1])]) for name in asked]
    answer = desk.ask(OffsetFetchRequest(groups=groups), SEVERAL_GROUPS_FROM)
    told = [(it.group_id, it.topics[0].name, it.topics[0].partitions[0].committed_offset) for it in answer.groups]
    assert told == [("g", "large", 5), ("g", "t", 5), ("g", "large", 5)]


def test_all_offsets_of_a_commit_are_one_batch(desk):
    entries = [
        entry
        for first in steps_of(desk, desk.decide(commit(), VERSION))
        if isinstance(first, Pending)
        for entry in first.entries
    ]
    assert [entry.last_offset - entry.base_offset + 1 for entry in entries] == [LARGE]


def test_a_commit_whose_generation_ends_between_turns_is_refused_as_a_whole(desk):
    generation, member = joined(desk)
    unfinished = prepared(desk, commit(generation=generation, member=member))
    desk.broker.groups.expire_member("g", member, desk.now_ms)
    answer = desk.finish(commit(), VERSION, unfinished)
    assert codes(answer) == {ErrorCode.UNKNOWN_MEMBER_ID: LARGE}
    assert stored(desk) == {}


def test_offsets_of_a_topic_deleted_between_turns_are_not_stored(desk):
    request = commit(topics=("t", "large"))
    unfinished = prepared(desk, request)
    delete(desk)
    answer = desk.finish(request, VERSION, unfinished)
    assert codes(answer) == {ErrorCode.NONE: 4, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: LARGE - 4}
    assert stored(desk) == {7: 4}


def test_offsets_belong_to_the_topic_that_exists_at_the_decision(desk):
    """Offsets of a topic recreated before it belong to the new topic, and are deleted with it."""
    unfinished = prepared(desk, commit())
    delete(desk)
    create(desk)
    assert codes(desk.finish(commit(), VERSION, unfinished)) == {ErrorCode.NONE: LARGE}
    (topic_id,) = {it.committed.topic_id for it in coordinator_of(desk.broker, "g").fetch("g")}
    assert topic_id == desk.broker.topics.get("large").topic_id


@pytest.mark.parametrize("is_all", [False, True])
def test_offsets_whose_coordinator_is_gone_before_the_last_turn_are_not_fetched(desk, is_all):
    desk.ask(commit(), VERSION)
    topics = [OffsetFetchRequest.OffsetFetchRequestTopics("large", partition_indexes=[*range(LARGE)])]
    wanted = OffsetFetchRequest.OffsetFetchRequestGroup("g", topics=None if is_all else topics)
    fetch = OffsetFetchRequest(groups=[wanted])
    (complete,) = desk.ask(fetch, 8).groups
    assert (complete.error_code, len(complete.topics[0].partitions)) == (ErrorCode.NONE, LARGE)
    unfinished = desk.decide(fetch, 8)
    assert isinstance(unfinished, Unfinished)
    delete(desk, "__consumer_offsets")
    (group,) = desk.finish(fetch, 8, unfinished).groups
    assert (group.error_code, group.topics) == (ErrorCode.NOT_COORDINATOR, [])


@pytest.mark.parametrize("is_deleted", [False, True])
def test_a_commit_whose_coordinator_is_gone_before_its_last_turn_stores_nothing(desk, is_deleted):
    request = commit()
    unfinished = prepared(desk, request)
    if is_deleted:
        delete(desk, "__consumer_offsets")
    expected = ErrorCode.NOT_COORDINATOR if is_deleted else ErrorCode.NONE
    assert codes(desk.finish(request, VERSION, unfinished)) == {expected: LARGE}


def test_an_offset_whose_metadata_are_too_long_is_refused_alone(desk):
    request = commit()
    request.topics[0].partitions[3].committed_metadata = "m" * 17
    answer = desk.ask(request, VERSION)
    assert codes(answer) == {ErrorCode.NONE: LARGE - 1, ErrorCode.OFFSET_METADATA_TOO_LARGE: 1}
    assert answer.topics[0].partitions[3].error_code == ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert stored(desk) == {7: LARGE - 1}


def test_a_commit_is_refused_if_the_journal_became_unwritable(desk):
    unfinished = prepared(desk, commit())
    desk.broker.logs.journal.room.obstacle = OSError(errno.ENOSPC, "full")
    assert codes(desk.finish(commit(), VERSION, unfinished)) == {ErrorCode.KAFKA_STORAGE_ERROR: LARGE}
    assert stored(desk) == {}


def test_groups_whose_memory_is_full_take_a_commit_that_replaces_and_none_that_adds(desk):
    desk.ask(commit(), VERSION)
    memory = desk.broker.groups.memory
    memory.bytes_max = memory.bytes_held
    assert codes(desk.ask(commit(offset=8), VERSION)) == {ErrorCode.NONE: LARGE}
    longer = desk.ask(commit(offset=9, metadata="m"), VERSION)
    assert codes(longer) == {ErrorCode.INVALID_COMMIT_OFFSET_SIZE: LARGE}
    assert stored(desk) == {8: LARGE}


def test_a_client_that_disconnects_before_the_decision_commits_nothing(desk):
    prepared(desk, commit()).steps.close()
    assert stored(desk) == {}
    assert codes(desk.ask(commit(), VERSION)) == {ErrorCode.NONE: LARGE}


def in_transaction(desk):
    producer = Producer(desk)
    request = producer.offsets(*[7] * LARGE)
    request.topics[0].name = "large"
    return producer, request


@pytest.mark.parametrize("committed", [True, False])
def test_offsets_of_a_transaction_are_seen_when_it_commits_and_in_no_turn_before(desk, committed):
    producer, request = in_transaction(desk)
    for _ in steps_of(desk, desk.decide(request, TXN_VERSION)):
        assert stored(desk) == {}
    assert stored(desk) == {}
    assert producer.ended(committed=committed) == 0
    assert stored(desk) == stored(desk.restart()) == ({7: LARGE} if committed else {})


def test_offsets_of_a_producer_fenced_between_turns_are_refused_as_a_whole(desk):
    _, request = in_transaction(desk)
    unfinished = prepared(desk, request, TXN_VERSION)
    later = Producer(desk)
    assert codes(desk.finish(request, TXN_VERSION, unfinished)) == {ErrorCode.INVALID_PRODUCER_EPOCH: LARGE}
    assert later.ended() == ErrorCode.INVALID_TXN_STATE, "no transaction has begun"
    assert stored(desk) == {}


def test_offsets_of_a_producer_whose_right_ends_between_turns_are_refused_as_a_whole(desk):
    _, request = in_transaction(desk)
    unfinished = prepared(desk, request, TXN_VERSION)
    desk.broker.authorizer = Authorizer(desk.broker.acls)
    refused = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert codes(desk.finish(request, TXN_VERSION, unfinished)) == {refused: LARGE}
    assert desk.broker.transactions.usage.open_ids == 0


def test_a_large_answer_waits_for_earlier_decisions_about_the_transaction(desk):
    producer = Producer(desk)
    small = desk.decide(producer.offsets(1), TXN_VERSION)
    assert isinstance(small, Pending)
    refused = producer.offsets(*[7] * LARGE)
    refused.topics[0].name = "large"
    refused.group_id = ""
    firsts = list(steps_of(desk, desk.decide(refused, TXN_VERSION)))
    assert not any(isinstance(first, Pending) for first in firsts), "no group, so no question to the coordinator"
    refused.group_id, refused.producer_epoch = "g", producer.epoch + 1
    waits = [first for first in steps_of(desk, desk.decide(refused, TXN_VERSION)) if isinstance(first, Pending)]
    assert [list(first.entries) for first in waits] == [[]]


@pytest.mark.parametrize("is_named", [True, False], ids=["named", "all"])
@pytest.mark.parametrize("version", [SEVERAL_GROUPS_FROM - 1, SEVERAL_GROUPS_FROM, TOPIC_ID_FROM])
def test_a_recreated_topic_shows_no_offsets_of_its_predecessor_while_they_are_deleted(desk, version, is_named):
    desk.ask(commit(), VERSION)
    delete(desk)
    create(desk)
    assert stored(desk), "they are not forgotten yet"
    indexes = list(range(LARGE))
    request = OffsetFetchRequest
    if version < SEVERAL_GROUPS_FROM:
        asked = request("g", [request.OffsetFetchRequestTopic("large", indexes)] if is_named else None)
    else:
        topic_id = desk.broker.topics.get("large").topic_id
        name = {"topic_id": topic_id} if version >= TOPIC_ID_FROM else {"name": "large"}
        topics = [request.OffsetFetchRequestTopics(partition_indexes=indexes, **name)] if is_named else None
        asked = request(groups=[request.OffsetFetchRequestGroup("g", topics=topics)])
    answer = desk.ask(asked, version)
    (topic,) = answer.topics if version < SEVERAL_GROUPS_FROM else answer.groups[0].topics
    assert {partition.committed_offset for partition in topic.partitions} == {-1}


def test_offsets_of_a_deleted_topic_are_deleted_in_turns_and_those_of_its_successor_kept(desk):
    desk.ask(commit(), VERSION)
    delete(desk)
    left = sum(stored(desk).values())
    assert 0 < left < LARGE, "some of them at once"
    create(desk)
    desk.ask(commit(offset=8, topics=("large", "t")), VERSION)
    _, request = in_transaction(desk)
    desk.ask(request, TXN_VERSION)
    while desk.broker.groups.next_deadline_ms() <= desk.now_ms:
        desk.broker.advance(desk.now_ms)
    assert stored(desk) == stored(desk.restart()) == {8: LARGE // 2 + 4}
