"""A group while the disk is full: members get an error at once, and retry."""

import errno
import os

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.wire.messages.groups.find_coordinator import FindCoordinatorRequest
from pipeline_broker.wire.messages.groups.join_group import JoinGroupRequest
from pipeline_broker.wire.messages.groups.sync_group import SyncGroupRequest
from tests.apis.groups.group_desk import GroupDesk

JOIN_VERSION = 3
SYNC_VERSION = 2


def test_a_leader_with_assignments_gets_not_coordinator_until_they_can_be_written():
    desk = GroupDesk("group.initial.rebalance.delay.ms=0")
    desk.ask(FindCoordinatorRequest(key="g"), 2)
    protocols = [JoinGroupRequest.JoinGroupRequestProtocol("range", b"subscription")]
    join = JoinGroupRequest("g", 60_000, 60_000, protocol_type="consumer", protocols=protocols)
    parked = desk.decide(join, JOIN_VERSION)
    desk.now_ms += 1
    desk.broker.advance(desk.now_ms)
    joined = desk.finish(join, JOIN_VERSION, parked)
    assigned = [SyncGroupRequest.SyncGroupRequestAssignment(joined.member_id, b"all")]
    sync = SyncGroupRequest("g", joined.generation_id, joined.member_id, assignments=assigned)
    room = desk.broker.logs.journal.room

    room.obstacle = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert desk.ask(sync, SYNC_VERSION).error_code == ErrorCode.NOT_COORDINATOR

    room.obstacle = None
    answer = desk.ask(sync, SYNC_VERSION)
    assert (answer.error_code, answer.assignment) == (ErrorCode.NONE, b"all")
