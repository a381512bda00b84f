"""Sends a broker requests about everything that it knows, and fires its timers: no handler may raise."""

from __future__ import annotations

from typing import Any

from pipeline_broker.state.groups.classic.classic_group import ClassicGroup
from pipeline_broker.wire.messages.configs.describe_client_quotas import DescribeClientQuotasRequest
from pipeline_broker.wire.messages.groups.consumer_group_describe import ConsumerGroupDescribeRequest
from pipeline_broker.wire.messages.groups.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from pipeline_broker.wire.messages.groups.delete_groups import DeleteGroupsRequest
from pipeline_broker.wire.messages.groups.describe_groups import DescribeGroupsRequest
from pipeline_broker.wire.messages.groups.heartbeat import HeartbeatRequest
from pipeline_broker.wire.messages.groups.join_group import JoinGroupRequest
from pipeline_broker.wire.messages.groups.leave_group import LeaveGroupRequest
from pipeline_broker.wire.messages.groups.list_groups import ListGroupsRequest
from pipeline_broker.wire.messages.groups.offset_fetch import OffsetFetchRequest
from pipeline_broker.wire.messages.groups.streams_group_describe import StreamsGroupDescribeRequest
from pipeline_broker.wire.messages.groups.streams_group_heartbeat import StreamsGroupHeartbeatRequest
from pipeline_broker.wire.messages.groups.sync_group import SyncGroupRequest
from pipeline_broker.wire.messages.security.describe_user_scram_credentials import DescribeUserScramCredentialsRequest
from pipeline_broker.wire.messages.share.describe_share_group_offsets import DescribeShareGroupOffsetsRequest
from pipeline_broker.wire.messages.share.read_share_group_state import ReadShareGroupStateRequest
from pipeline_broker.wire.messages.share.share_fetch import ShareFetchRequest
from pipeline_broker.wire.messages.share.share_group_describe import ShareGroupDescribeRequest
from pipeline_broker.wire.messages.share.share_group_heartbeat import ShareGroupHeartbeatRequest
from pipeline_broker.wire.messages.topics.metadata import MetadataRequest
from pipeline_broker.wire.messages.transactions.describe_transactions import DescribeTransactionsRequest
from pipeline_broker.wire.messages.transactions.end_txn import EndTxnRequest
from pipeline_broker.wire.messages.transactions.init_producer_id import InitProducerIdRequest
from pipeline_broker.wire.messages.transactions.list_transactions import ListTransactionsRequest
from stages.request import Parked, Pending
from tests.apis.desk import Desk

Protocol = JoinGroupRequest.JoinGroupRequestProtocol
SUBSCRIPTION = b"\0\0\0\0\0\1\0\1t\xff\xff\xff\xff"
TOPIC = "t"
TURN_MS = 1_000
TIMERS_MAX = 1_000


def _ask(desk: Desk, message: Any, version: int) -> None:
    """Handle a request; a parked one stays parked."""
    result = desk.decide(message, version)
    while isinstance(result, Parked) and result.work is not None:
        found = result.work()
        result = found if result.then is None else result.then(found)
    if isinstance(result, Pending):
        desk.submit(result.entries, result.on_durable or (lambda: None))


def ask_about_everything(desk: Desk) -> None:
    """Describe everything, then act on each item."""
    for message, version in (
        (MetadataRequest(topics=None), 12),
        (ListGroupsRequest(), 5),
        (ListTransactionsRequest(), 2),
        (DescribeClientQuotasRequest([], strict=False), 1),
        (DescribeUserScramCredentialsRequest(None), 0),
    ):
        _ask(desk, message, version)
    for groups in desk.broker.groups:
        for group in list(groups.coordinator.registry.all()):
            _ask_about_group(desk, group)
    for transaction in list(desk.broker.transactions.all()):
        name, producer = transaction.transactional_id, (transaction.producer_id, transaction.producer_epoch)
        _ask(desk, DescribeTransactionsRequest([name]), 0)
        _ask(desk, EndTxnRequest(name, *producer, committed=True), 5)
        _ask(desk, InitProducerIdRequest(name, 60_000), 5)
        _ask(desk, InitProducerIdRequest(name, 60_000), 5)
    for key in desk.broker.share.manager.states.all():
        _ask_about_share(desk, key)


def _ask_about_group(desk: Desk, group: Any) -> None:
    name = group.group_id
    wanted = OffsetFetchRequest.OffsetFetchRequestGroup(name, topics=None)
    _ask(desk, OffsetFetchRequest(groups=[wanted]), 9)
    _ask(desk, DescribeGroupsRequest([name]), 5)
    _ask(desk, ConsumerGroupDescribeRequest([name]), 1)
    _ask(desk, ShareGroupDescribeRequest([name]), 1)
    _ask(desk, StreamsGroupDescribeRequest([name]), 1)
    _ask(desk, DescribeShareGroupOffsetsRequest([DescribeShareGroupOffsetsRequest.Group(name, None)]), 1)
    generation = group.generation_id if isinstance(group, ClassicGroup) else 0
    for member_id in list(group.members):
        _ask(desk, HeartbeatRequest(name, generation, member_id), 4)
        _ask(desk, SyncGroupRequest(name, generation, member_id), 5)
        _ask(desk, _join(name, member_id), 9)
        _ask(desk, ConsumerGroupHeartbeatRequest(name, member_id, 0, rebalance_timeout_ms=1, topic_partitions=[]), 1)
        _ask(desk, _enter_streams(name, member_id), 1)
    for member_id in ("fresh", "fresher"):
        beat = ConsumerGroupHeartbeatRequest(name, member_id, 0, rebalance_timeout_ms=1, topic_partitions=[])
        beat.subscribed_topic_names = [TOPIC]
        _ask(desk, beat, 1)
        _ask(desk, ShareGroupHeartbeatRequest(name, member_id, 0, subscribed_topic_names=[TOPIC]), 1)
        _ask(desk, _enter_streams(name, member_id), 1)
    _ask(desk, _join(name, ""), 3)
    for member_id in list(group.members)[:1]:
        _ask(desk, LeaveGroupRequest(name, members=[LeaveGroupRequest.MemberIdentity(member_id)]), 5)
    _ask(desk, DeleteGroupsRequest([name]), 2)


def _join(group_id: str, member_id: str) -> JoinGroupRequest:
    protocols = [Protocol("range", SUBSCRIPTION)]
    return JoinGroupRequest(group_id, 30_000, 60_000, member_id, protocol_type="consumer", protocols=protocols)


def _enter_streams(group_id: str, member_id: str) -> StreamsGroupHeartbeatRequest:
    request = StreamsGroupHeartbeatRequest(group_id, member_id, 0, rebalance_timeout_ms=1, process_id="p")
    request.topology = StreamsGroupHeartbeatRequest.Topology(
        0, [StreamsGroupHeartbeatRequest.Subtopology("0", [TOPIC])]
    )
    request.active_tasks, request.standby_tasks, request.warmup_tasks = [], [], []
    return request


def _ask_about_share(desk: Desk, key: Any) -> None:
    partition = ReadShareGroupStateRequest.PartitionData(key.partition, 0)
    topic = ReadShareGroupStateRequest.ReadStateData(key.topic_id, [partition])
    _ask(desk, ReadShareGroupStateRequest(key.group_id, [topic]), 0)
    for epoch in (0, 1, 2):
        wanted = ShareFetchRequest.FetchTopic(key.topic_id, [ShareFetchRequest.FetchPartition(key.partition)])
        fetch = ShareFetchRequest(key.group_id, "m", epoch, 0, 1, 1 << 20, 500, 500, topics=[wanted])
        _ask(desk, fetch, 1)


def let_time_pass(desk: Desk, milliseconds: int, turn_ms: int = TURN_MS) -> None:
    """Advance the clock, fire all timers that have expired, and commit the records that they append.

    A turn of the timers takes time, so timers that expire during it fire late, with the next turn.
    """
    end_ms = desk.now_ms + milliseconds
    for _ in range(TIMERS_MAX):
        due_ms = desk.broker.next_deadline_ms()
        if due_ms > end_ms:
            break
        desk.now_ms = max(desk.now_ms, due_ms)
        desk.broker.advance(desk.now_ms)
        desk.now_ms += turn_ms
    desk.now_ms = max(desk.now_ms, end_ms)
    desk.broker.advance(desk.now_ms)
