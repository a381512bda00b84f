"""Offsets that are committed in a transaction are visible when it commits."""

from __future__ import annotations

import pytest

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.wire.messages.groups.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from pipeline_broker.wire.messages.groups.offset_commit import OffsetCommitRequest
from pipeline_broker.wire.messages.transactions.add_offsets_to_txn import AddOffsetsToTxnRequest
from pipeline_broker.wire.messages.transactions.describe_transactions import DescribeTransactionsRequest
from stages.request import Pending, Send
from tests.apis.desk import Desk
from tests.apis.transactions.transaction_desk import (
    ABORTABLE,
    INVALID_EPOCH,
    INVALID_STATE,
    SETTINGS,
    Producer,
    codes,
    fetched,
    logs_of,
    ready,
)


@pytest.fixture
def desk():
    return ready(Desk(*SETTINGS))


def test_offsets_are_visible_when_the_transaction_commits(desk):
    producer = Producer(desk)
    request = producer.offsets(5, 6)
    result = desk.decide(request, 5)
    assert logs_of(result) == ["__transaction_state", "__consumer_offsets"]
    assert fetched(desk, stable=True) == [(-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)] * 2
    assert codes(desk.finish(request, 5, result)) == {0: 0, 1: 0}
    assert fetched(desk) == [(-1, 0), (-1, 0)]
    assert producer.ended() == 0
    assert fetched(desk, stable=True) == [(5, 0), (6, 0)]


def test_offsets_are_dropped_when_it_aborts(desk):
    producer = Producer(desk)
    desk.ask(producer.offsets(5), 5)
    producer.ended()
    desk.ask(producer.offsets(7, 8), 5)
    assert producer.ended(committed=False) == 0
    assert fetched(desk, stable=True) == [(5, 0), (-1, 0)]


@pytest.mark.parametrize("version", range(5))
def test_before_version_5_the_group_is_added_first(desk, version):
    producer = Producer(desk)
    code = INVALID_STATE if version < 4 else ABORTABLE
    assert codes(desk.ask(producer.offsets(5), version)) == {0: code}
    assert desk.ask(AddOffsetsToTxnRequest("x", producer.id, producer.epoch, "g"), 3).error_code == 0
    assert codes(desk.ask(producer.offsets(5), version)) == {0: 0}
    assert producer.ended(version=3) == 0
    assert fetched(desk) == [(5, 0), (-1, 0)]


def test_a_commit_without_a_transaction_overtakes_a_pending_offset(desk):
    producer = Producer(desk)
    desk.ask(producer.offsets(500, 501), 5)
    partitions = [OffsetCommitRequest.OffsetCommitRequestPartition(0, 400)]
    topics = [OffsetCommitRequest.OffsetCommitRequestTopic("t", partitions=partitions)]
    desk.ask(OffsetCommitRequest("g", -1, "", topics=topics), 8)
    assert fetched(desk) == [(400, 0), (-1, 0)]
    producer.ended()
    assert fetched(desk) == [(400, 0), (501, 0)]
    again = desk.restart()
    assert fetched(again) == [(400, 0), (501, 0)]


@pytest.mark.parametrize(
    ("version", "generation", "code"),
    [(5, 3, ErrorCode.ILLEGAL_GENERATION), (6, 3, ErrorCode.GROUP_ID_NOT_FOUND), (5, -1, 0), (6, -1, 0)],
)
def test_the_group_must_know_the_member(desk, version, generation, code):
    producer = Producer(desk)
    request = producer.offsets(5, generation=generation, member="m" if generation >= 0 else "")
    assert codes(desk.ask(request, version)) == {0: code}


def test_offsets_of_a_fenced_producer_are_refused(desk):
    old = Producer(desk)
    desk.ask(old.offsets(5), 5)
    Producer(desk)
    assert codes(desk.ask(old.offsets(6), 5)) == {0: INVALID_EPOCH}
    assert fetched(desk, stable=True) == [(-1, 0), (-1, 0)]


def test_a_missing_partition_is_refused_alone(desk):
    producer = Producer(desk)
    assert codes(desk.ask(producer.offsets(5, 6, 7), 5)) == {0: 0, 1: 0, 2: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


def test_a_topic_is_named_by_its_id_since_version_6(desk):
    producer = Producer(desk)
    request = producer.offsets(5)
    answer = desk.ask(request, 6)
    assert (answer.topics[0].topic_id, codes(answer)) == (request.topics[0].topic_id, {0: 0})
    request.topics[0].topic_id = bytes(15) + b"x"
    assert codes(desk.ask(request, 6)) == {0: ErrorCode.UNKNOWN_TOPIC_ID}
    assert producer.ended() == 0
    assert fetched(desk) == [(5, 0), (-1, 0)]


def test_a_member_of_the_consumer_protocol_commits_in_its_epoch(desk):
    """KIP-848: its epoch replaces the generation; the error for a stale epoch is known since version 6."""
    producer = Producer(desk)
    heartbeat = ConsumerGroupHeartbeatRequest(
        group_id="g", member_id="m", rebalance_timeout_ms=1_000, subscribed_topic_names=["t"], topic_partitions=[]
    )
    desk.decide(heartbeat, 1)
    ((request, _),) = desk.connection.completed
    epoch = request.answer.member_epoch
    later = producer.offsets(5, generation=epoch + 1, member="m")
    assert codes(desk.ask(later, 5)) == {0: ErrorCode.ILLEGAL_GENERATION}
    assert codes(desk.ask(later, 6)) == {0: ErrorCode.STALE_MEMBER_EPOCH}
    assert codes(desk.ask(producer.offsets(5, generation=epoch, member="x"), 5)) == {0: ErrorCode.UNKNOWN_MEMBER_ID}
    assert codes(desk.ask(producer.offsets(5, generation=epoch, member="m"), 5)) == {0: 0}
    assert producer.ended() == 0
    assert fetched(desk) == [(5, 0), (-1, 0)]


def test_offsets_that_the_log_refuses_leave_nothing_unstable():
    """Otherwise clients that require stable offsets could never read them."""
    desk = ready(Desk(*SETTINGS, "transaction.partition.verification.enable=false"))
    old = Producer(desk)
    desk.ask(AddOffsetsToTxnRequest("x", old.id, old.epoch, "g"), 3)
    desk.ask(old.offsets(5), 4)
    Producer(desk)
    assert codes(desk.ask(old.offsets(6), 4)) == {0: INVALID_EPOCH}
    assert fetched(desk, stable=True) == [(-1, 0), (-1, 0)]


def test_an_id_is_settled_when_the_offsets_that_began_its_transaction_are_durable(desk):
    """Otherwise a client that verifies a partition of it would retry for ever."""
    producer = Producer(desk)
    request = producer.offsets(5)
    result = desk.decide(request, 5)
    assert isinstance(desk.decide(DescribeTransactionsRequest(["x"]), 0), Pending)
    desk.finish(request, 5, result)
    assert isinstance(desk.decide(DescribeTransactionsRequest(["x"]), 0), Send)
    assert codes(desk.ask(producer.offsets(6), 4)) == {0: 0}
