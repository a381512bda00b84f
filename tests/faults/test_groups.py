"""Expired members and forced rebalances of every type of group."""

import pytest

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.faults.names import FaultError
from pipeline_broker.wire.messages.groups.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from pipeline_broker.wire.messages.groups.heartbeat import HeartbeatRequest
from pipeline_broker.wire.messages.groups.join_group import JoinGroupRequest
from pipeline_broker.wire.messages.groups.streams_group_heartbeat import StreamsGroupHeartbeatRequest
from pipeline_broker.wire.messages.groups.sync_group import SyncGroupRequest
from pipeline_broker.wire.messages.share.share_group_heartbeat import ShareGroupHeartbeatRequest
from tests.apis.groups.group_desk import GroupDesk

GROUP = "g"


@pytest.fixture
def desk():
    return GroupDesk("group.initial.rebalance.delay.ms=0")


def join_classic(desk, member_id="", group=GROUP):
    """Join a classic group and store its assignment; return the member id and the generation."""
    protocol = JoinGroupRequest.JoinGroupRequestProtocol("range", b"")
    request = JoinGroupRequest(
        group_id=group,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        member_id=member_id,
        protocol_type="consumer",
        protocols=[protocol],
    )
    decided = desk.decide(request, 3)
    desk.broker.advance(desk.now_ms)
    answer = desk.finish(request, 3, decided)
    assert answer.error_code == 0
    assignment = SyncGroupRequest.SyncGroupRequestAssignment(answer.member_id, b"a")
    synced = desk.ask(SyncGroupRequest(group, answer.generation_id, answer.member_id, assignments=[assignment]), 2)
    assert synced.error_code == 0
    return answer.member_id, answer.generation_id


def classic_heartbeat(desk, member_id, generation):
    return desk.ask(HeartbeatRequest(GROUP, generation, member_id), 2).error_code


def test_an_expired_classic_member_is_unknown_and_rejoins(desk):
    member_id, generation = join_classic(desk)
    assert classic_heartbeat(desk, member_id, generation) == 0
    desk.broker.faults.expire_member(GROUP, member_id)
    assert classic_heartbeat(desk, member_id, generation) == ErrorCode.UNKNOWN_MEMBER_ID
    assert join_classic(desk)[1] > generation


def test_a_classic_group_rebalances_on_command(desk):
    member_id, generation = join_classic(desk)
    desk.broker.faults.force_rebalance(GROUP)
    assert classic_heartbeat(desk, member_id, generation) == ErrorCode.REBALANCE_IN_PROGRESS
    assert join_classic(desk, member_id) == (member_id, generation + 1)
    assert classic_heartbeat(desk, member_id, generation + 1) == 0


def consumer_heartbeat(desk, member_id, epoch):
    topics, owned = (["t"], []) if epoch == 0 else (None, None)
    return desk.ask(
        ConsumerGroupHeartbeatRequest(
            group_id=GROUP,
            member_id=member_id,
            member_epoch=epoch,
            rebalance_timeout_ms=10_000 if epoch == 0 else -1,
            subscribed_topic_names=topics,
            topic_partitions=owned,
        ),
        1,
    )


def test_partitions_of_an_expired_consumer_member_are_reassigned(desk):
    epochs = {member_id: consumer_heartbeat(desk, member_id, 0).member_epoch for member_id in ("a" * 22, "b" * 22)}
    desk.broker.faults.expire_member(GROUP, "a" * 22)
    gone = consumer_heartbeat(desk, "a" * 22, epochs["a" * 22])
    assert gone.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    desk.now_ms += 10_000
    left = consumer_heartbeat(desk, "b" * 22, epochs["b" * 22])
    assert (left.error_code, left.member_epoch > epochs["b" * 22]) == (0, True)
    (topic,) = left.assignment.topic_partitions
    assert topic.partitions == [0, 1, 2, 3]


def test_a_rebalance_bumps_the_epoch_of_a_consumer_group(desk):
    epoch = consumer_heartbeat(desk, "a" * 22, 0).member_epoch
    desk.broker.faults.force_rebalance(GROUP)
    desk.now_ms += 10_000
    again = consumer_heartbeat(desk, "a" * 22, epoch)
    assert (again.error_code, again.member_epoch) == (0, epoch + 1)


def share_heartbeat(desk, epoch):
    topics = ["t"] if epoch == 0 else None
    return desk.ask(
        ShareGroupHeartbeatRequest(
            group_id=GROUP, member_id="a" * 22, member_epoch=epoch, subscribed_topic_names=topics
        ),
        1,
    )


def test_a_share_group_s_member_expires_and_its_epoch_moves(desk):
    epoch = share_heartbeat(desk, 0).member_epoch
    desk.broker.faults.force_rebalance(GROUP)
    desk.now_ms += 10_000
    again = share_heartbeat(desk, epoch)
    assert (again.error_code, again.member_epoch) == (0, epoch + 1)
    desk.broker.faults.expire_member(GROUP)
    assert share_heartbeat(desk, again.member_epoch).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def streams_heartbeat(desk, epoch):
    first = {}
    if epoch == 0:
        topology = StreamsGroupHeartbeatRequest.Topology(1, [StreamsGroupHeartbeatRequest.Subtopology("0", ["t"])])
        first = {"rebalance_timeout_ms": 10_000, "topology": topology, "process_id": "p"}
        first |= {"active_tasks": [], "standby_tasks": [], "warmup_tasks": []}
    request = StreamsGroupHeartbeatRequest(group_id=GROUP, member_id="m", member_epoch=epoch, **first)
    return desk.ask(request, 1)


def test_a_streams_group_s_member_expires_and_its_epoch_moves():
    desk = GroupDesk("group.streams.initial.rebalance.delay.ms=0")
    epoch = streams_heartbeat(desk, 0).member_epoch
    desk.broker.faults.force_rebalance(GROUP)
    desk.now_ms += 10_000
    again = streams_heartbeat(desk, epoch)
    assert (again.error_code, again.member_epoch) == (0, epoch + 1)
    desk.broker.faults.expire_member(GROUP)
    assert streams_heartbeat(desk, again.member_epoch).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_all_members_expire_if_none_is_named(desk):
    member_id, generation = join_classic(desk)
    desk.broker.faults.expire_member(GROUP)
    assert classic_heartbeat(desk, member_id, generation) == ErrorCode.UNKNOWN_MEMBER_ID
    with pytest.raises(FaultError, match="the group 'g' does not exist or has no members"):
        desk.broker.faults.force_rebalance(GROUP)


def test_an_unknown_group_or_member_is_one_line(desk):
    with pytest.raises(FaultError, match=r"^the group 'none' does not exist$"):
        desk.broker.faults.expire_member("none")
    join_classic(desk)
    with pytest.raises(FaultError, match=r"^the group 'g' has no member 'nobody'$"):
        desk.broker.faults.expire_member(GROUP, "nobody")
    with pytest.raises(FaultError, match="the group 'none' does not exist or has no members"):
        desk.broker.faults.force_rebalance("none")
