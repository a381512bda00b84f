"""A group of many members: what concerns all of them is told in turns, because all clients wait meanwhile."""

from pipeline_broker.broker.groups import ANSWERED_AT_ONCE_MAX, PARKED_WITHOUT_FRAME
from pipeline_broker.wire.messages.groups.find_coordinator import FindCoordinatorRequest
from pipeline_broker.wire.messages.groups.join_group import JoinGroupRequest
from stages.request import Send
from tests.apis.groups.group_desk import GroupDesk

VERSION = 3
MEMBERS = 3 * ANSWERED_AT_ONCE_MAX


def test_the_members_of_a_generation_are_answered_in_turns():
    desk = GroupDesk("group.initial.rebalance.delay.ms=0")
    desk.ask(FindCoordinatorRequest(key="g"), 2)
    protocols = [JoinGroupRequest.JoinGroupRequestProtocol("range", b"subscription")]
    join = JoinGroupRequest("g", 60_000, 60_000, protocol_type="consumer", protocols=protocols)
    for _ in range(MEMBERS):
        assert desk.decide(join, VERSION) is PARKED_WITHOUT_FRAME
    desk.now_ms += 1
    desk.broker.advance(desk.now_ms)

    connection = desk.connection
    assert len(connection.completed) == ANSWERED_AT_ONCE_MAX
    assert len(connection.callbacks) == MEMBERS - ANSWERED_AT_ONCE_MAX
    for request, callback in connection.callbacks:
        connection.complete(request, callback())
    assert all(isinstance(answer, Send) for _, answer in connection.completed)
    assert len({request.sequence for request, _ in connection.completed}) == MEMBERS
