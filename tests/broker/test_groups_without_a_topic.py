"""Changes of groups after `__consumer_offsets` was deleted, and before it exists."""

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.broker.group_shard import WaitingMember
from pipeline_broker.state.groups.consumer.messages import HeartbeatRequest
from pipeline_broker.wire.messages.groups.find_coordinator import FindCoordinatorRequest
from pipeline_broker.wire.messages.groups.offset_commit import OffsetCommitRequest
from pipeline_broker.wire.messages.topics.delete_topics import DeleteTopicsRequest
from pipeline_broker.wire.registry import ApiKey
from stages.request import Send
from tests.apis.desk import Desk
from tests.state.groups.consumer.consumer_driver import JOIN


def test_without_the_topic_no_coordinator_answers_for_a_group():
    groups = Desk().broker.groups
    assert groups.coordinator_of("g") is ErrorCode.NOT_COORDINATOR
    assert groups.coordinator_of_named("") is ErrorCode.INVALID_GROUP_ID
    assert not list(groups)


def test_a_waiting_member_gets_an_error_if_the_topic_was_deleted():
    desk, told = Desk("offsets.topic.num.partitions=2"), []
    desk.create_topic("t")
    desk.ask(FindCoordinatorRequest(key="g"), 3)
    groups = desk.broker.groups.coordinator_of("g")
    desk.ask(DeleteTopicsRequest(topic_names=["__consumer_offsets"], timeout_ms=1000), 5)
    assert desk.broker.groups.coordinator_of("g") is ErrorCode.NOT_COORDINATOR

    def encode(result):
        told.append(result.error)
        return Send()

    waiting = WaitingMember(desk.call(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1).request, encode)
    request = HeartbeatRequest(group_id="g", member_id="m", fresh_id="f", **JOIN)
    groups.carry_out(groups.coordinator.consumer.heartbeat(request, waiting, desk.now_ms), desk.now_ms, waiting)
    assert told == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    assert [request for request, _ in desk.connection.completed] == [waiting.request]


def test_the_memory_of_groups_is_free_again_after_their_topic_was_deleted():
    desk, find = Desk("offsets.topic.num.partitions=2"), FindCoordinatorRequest(key="g")
    desk.create_topic("t")
    desk.ask(find, 3)
    partition = OffsetCommitRequest.OffsetCommitRequestPartition(0)
    topic = OffsetCommitRequest.OffsetCommitRequestTopic("t", partitions=[partition])
    held = []
    for group_id in ("g", "h"):
        desk.ask(OffsetCommitRequest(group_id, topics=[topic]), 8)
        held.append(desk.broker.groups.memory.bytes_held)
    assert 0 < held[0] < held[1], "all coordinators share one bound"
    desk.ask(DeleteTopicsRequest(topic_names=["__consumer_offsets"], timeout_ms=1000), 5)
    desk.ask(find, 3)
    desk.ask(OffsetCommitRequest("g", topics=[topic]), 8)
    assert desk.broker.groups.memory.bytes_held == held[0]
