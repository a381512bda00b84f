"""Changes of groups while `__consumer_offsets` does not exist."""

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.broker.groups import WaitingMember
from pipeline_broker.state.groups.consumer.messages import HeartbeatRequest
from pipeline_broker.wire.registry import ApiKey
from stages.request import Send
from tests.apis.desk import Desk
from tests.state.groups.consumer.consumer_driver import JOIN


def test_a_waiting_member_gets_an_error_if_the_topic_does_not_exist():
    desk, told = Desk(), []
    desk.create_topic("t")
    groups = desk.broker.groups
    assert not groups.is_ready

    def encode(result):
        told.append(result.error)
        return Send()

    waiting = WaitingMember(desk.call(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1).request, encode)
    request = HeartbeatRequest(group_id="g", member_id="m", fresh_id="f", **JOIN)
    groups.carry_out(groups.coordinator.consumer.heartbeat(request, waiting, desk.now_ms), desk.now_ms, waiting)
    assert told == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    assert [request for request, _ in desk.connection.completed] == [waiting.request]
