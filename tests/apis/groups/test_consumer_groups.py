"""ConsumerGroupHeartbeat, ConsumerGroupDescribe and OffsetDelete, through the dispatcher and the journal."""

from __future__ import annotations

import errno

import pytest

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.broker.group_shard import PARKED_WITHOUT_FRAME
from pipeline_broker.security.acl import AclOperation, ResourceType
from pipeline_broker.security.authorizer import Authorizer
from pipeline_broker.wire.messages.groups.consumer_group_describe import ConsumerGroupDescribeRequest
from pipeline_broker.wire.messages.groups.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from pipeline_broker.wire.messages.groups.delete_groups import DeleteGroupsRequest
from pipeline_broker.wire.messages.groups.describe_groups import DescribeGroupsRequest
from pipeline_broker.wire.messages.groups.find_coordinator import FindCoordinatorRequest
from pipeline_broker.wire.messages.groups.join_group import JoinGroupRequest
from pipeline_broker.wire.messages.groups.list_groups import ListGroupsRequest
from pipeline_broker.wire.messages.groups.offset_commit import OffsetCommitRequest
from pipeline_broker.wire.messages.groups.offset_delete import OffsetDeleteRequest
from pipeline_broker.wire.messages.groups.offset_fetch import OffsetFetchRequest
from tests.apis.authorized_requests import rule
from tests.apis.desk import Desk
from tests.apis.groups.group_desk import GroupDesk

VERSIONS = pytest.mark.parametrize("version", [0, 1])


@pytest.fixture
def desk() -> GroupDesk:
    return GroupDesk()


def beat(desk, member_id="m", version=1, **more):
    request = ConsumerGroupHeartbeatRequest(group_id="g", member_id=member_id, **more)
    return desk.ask(request, version)


def enter(desk, member_id="m", version=1, **more):
    first = {"rebalance_timeout_ms": 60_000, "topic_partitions": [], "subscribed_topic_names": ["t"]}
    return beat(desk, member_id, version, **{**first, **more})


def describe(desk, *group_ids, version=1):
    return desk.ask(ConsumerGroupDescribeRequest(list(group_ids)), version).groups


def commit(desk, member_id, epoch, *, offset=7, version=9):
    partition = OffsetCommitRequest.OffsetCommitRequestPartition(0, offset)
    request = OffsetCommitRequest(
        group_id="g",
        member_id=member_id,
        generation_id_or_member_epoch=epoch,
        topics=[OffsetCommitRequest.OffsetCommitRequestTopic(name="t", partitions=[partition])],
    )
    return desk.ask(request, version).topics[0].partitions[0].error_code


def fetch(desk, member_id=None, epoch=-1):
    group = OffsetFetchRequest.OffsetFetchRequestGroup(
        group_id="g", member_id=member_id, member_epoch=epoch, topics=None
    )
    (answer,) = desk.ask(OffsetFetchRequest(groups=[group]), 9).groups
    return answer.error_code, [each.committed_offset for topic in answer.topics for each in topic.partitions]


def delete_offsets(desk, *partitions, group_id="g"):
    wanted = [OffsetDeleteRequest.OffsetDeleteRequestPartition(index) for index in partitions]
    request = OffsetDeleteRequest(group_id, [OffsetDeleteRequest.OffsetDeleteRequestTopic("t", wanted)])
    answer = desk.ask(request, 0)
    return answer.error_code, [
        (each.partition_index, each.error_code) for topic in answer.topics for each in topic.partitions
    ]


@VERSIONS
def test_a_member_joins_and_is_described(desk, version):
    answer = enter(desk, version=version, rack_id="r")
    assert (answer.error_code, answer.member_id, answer.member_epoch) == (0, "m", 2)
    ((partitions),) = answer.assignment.topic_partitions
    assert partitions.partitions == [0, 1, 2, 3]
    (group,) = describe(desk, "g", version=version)
    assert (group.group_state, group.group_epoch, group.assignment_epoch) == ("Stable", 2, 2)
    assert group.assignor_name == "uniform"
    (member,) = group.members
    assert (member.member_id, member.rack_id, member.member_epoch, member.client_id) == ("m", "r", 2, "desk")
    assert (member.client_host, member.subscribed_topic_names) == ("/127.0.0.1", ["t"])
    for assignment in (member.assignment, member.target_assignment):
        assert [(each.topic_name, each.partitions) for each in assignment.topic_partitions] == [("t", [0, 1, 2, 3])]
    assert member.member_type == (1 if version else -1)


def test_an_id_of_the_servers_is_text_of_22_letters_in_version_0_and_missing_in_version_1(desk):
    assert len(enter(desk, "", version=0).member_id) == 22
    assert enter(desk, "", version=1).error_code == ErrorCode.INVALID_REQUEST


def test_an_answer_waits_until_it_is_durable(desk):
    desk.held = []
    request = ConsumerGroupHeartbeatRequest(
        group_id="g", member_id="m", rebalance_timeout_ms=1, topic_partitions=[], subscribed_topic_names=["t"]
    )
    assert desk.decide(request, 1) is PARKED_WITHOUT_FRAME
    sequence = desk.asked
    assert desk.later(sequence) is None
    assert describe(desk, "g")[0].error_code == ErrorCode.GROUP_ID_NOT_FOUND
    desk.release()
    assert desk.later(sequence) is not None
    assert describe(desk, "g")[0].error_code == 0


def test_groups_survive_a_restart(desk):
    enter(desk, instance_id="i")
    commit(desk, "m", 2)
    before = describe(desk, "g")
    again = desk.restart()
    assert describe(again, "g") == before
    assert beat(again, member_epoch=2, instance_id="i").error_code == 0
    assert fetch(again, "m", 2) == (0, [7])


def test_groups_of_all_types_are_listed_by_state_and_type(desk):
    enter(desk)
    protocols = [JoinGroupRequest.JoinGroupRequestProtocol("range", b"s")]
    desk.decide(
        JoinGroupRequest(group_id="c", session_timeout_ms=10_000, protocol_type="consumer", protocols=protocols), 3
    )

    def listed(**filters):
        return sorted(
            (group.group_id, group.group_type, group.group_state)
            for group in desk.ask(ListGroupsRequest(**filters), 5).groups
        )

    assert listed() == [("c", "classic", "PreparingRebalance"), ("g", "consumer", "Stable")]
    assert listed(types_filter=["Consumer"]) == [("g", "consumer", "Stable")]
    assert listed(states_filter=["stable"]) == [("g", "consumer", "Stable")]
    assert listed(types_filter=["classic"], states_filter=["stable"]) == []


def test_each_describe_knows_its_own_kind(desk):
    enter(desk)
    (group,) = desk.ask(DescribeGroupsRequest(["g"]), 6).groups
    assert (group.error_code, group.error_message) == (69, "Group g is not a classic group.")
    assert desk.ask(DescribeGroupsRequest(["g"]), 5).groups[0].group_state == "Dead"
    (group,) = describe(desk, "none")
    assert (group.error_code, group.error_message) == (69, "Group none not found.")


def test_commits_and_fetches_name_the_epoch(desk):
    enter(desk)
    assert commit(desk, "m", 2) == 0
    assert commit(desk, "m", 1) == ErrorCode.STALE_MEMBER_EPOCH
    assert commit(desk, "m", 3) == ErrorCode.STALE_MEMBER_EPOCH
    assert commit(desk, "m", 2, version=8) == ErrorCode.UNSUPPORTED_VERSION
    assert commit(desk, "zombie", 2) == ErrorCode.UNKNOWN_MEMBER_ID
    assert commit(desk, "", -1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert fetch(desk, "m", 2) == (0, [7])
    assert fetch(desk, "m", 1) == (ErrorCode.STALE_MEMBER_EPOCH, [])
    assert fetch(desk, "zombie", 2) == (ErrorCode.UNKNOWN_MEMBER_ID, [])
    assert fetch(desk) == (0, [7])
    beat(desk, member_epoch=-1)
    assert commit(desk, "", -1, offset=8) == 0, "an empty group takes commits of anybody"


def test_a_member_with_an_older_epoch_may_commit_partitions_it_keeps(desk):
    """KIP-1251: it commits before the answer with its new epoch arrives."""
    enter(desk)
    enter(desk, "other")
    desk.now_ms += 1_000
    beat(desk, "other", member_epoch=2)
    told = beat(desk, member_epoch=2)
    owned = [
        ConsumerGroupHeartbeatRequest.TopicPartitions(each.topic_id, each.partitions)
        for each in told.assignment.topic_partitions
    ]
    assert beat(desk, member_epoch=2, topic_partitions=owned).member_epoch == 3
    kept = 0 in owned[0].partitions
    assert commit(desk, "m", 2) == (0 if kept else ErrorCode.STALE_MEMBER_EPOCH)
    assert commit(desk, "m", 1) == ErrorCode.STALE_MEMBER_EPOCH


def test_offsets_of_subscribed_topics_are_not_deleted(desk):
    enter(desk)
    commit(desk, "m", 2)
    assert delete_offsets(desk, 0, 9) == (0, [(9, 3), (0, 86)])
    beat(desk, member_epoch=-1)
    assert delete_offsets(desk, 0) == (0, [(0, 0)])
    assert fetch(desk) == (0, [])
    assert delete_offsets(desk, 0, group_id="none") == (69, [])


def test_groups_with_members_are_not_deleted(desk):
    enter(desk)
    commit(desk, "m", 2)

    def delete():
        return [result.error_code for result in desk.ask(DeleteGroupsRequest(["g"]), 2).results]

    assert delete() == [ErrorCode.NON_EMPTY_GROUP]
    beat(desk, member_epoch=-1)
    assert delete() == [0]
    assert (describe(desk, "g")[0].error_code, fetch(desk)) == (69, (0, []))
    assert describe(desk.restart(), "g")[0].error_code == 69


def test_sessions_and_offsets_expire_without_requests():
    desk = GroupDesk("offsets.retention.minutes=1", "offsets.retention.check.interval.ms=60000")
    enter(desk)
    commit(desk, "m", 2)
    desk.now_ms += 45_000
    assert desk.broker.next_deadline_ms() <= desk.now_ms
    desk.broker.advance(desk.now_ms)
    assert describe(desk, "g")[0].group_state == "Empty"
    desk.now_ms += 120_000
    desk.broker.advance(desk.now_ms)
    assert describe(desk, "g")[0].error_code == 69, "it went with the last of its offsets"


def test_offsets_of_topics_that_a_member_consumes_do_not_expire():
    desk = GroupDesk("offsets.retention.minutes=1", "offsets.retention.check.interval.ms=60000")
    enter(desk)
    commit(desk, "m", 2)
    for _ in range(10):
        desk.now_ms += 30_000
        desk.broker.advance(desk.now_ms)
        beat(desk, member_epoch=2)
    assert fetch(desk) == (0, [7])


def test_a_topic_that_grows_reaches_its_members(desk):
    enter(desk)
    broker = desk.broker
    result = broker.commit_metadata([(broker.topics.add_partitions("t", 5), broker.topic_durable)], desk.now_ms, None)
    desk.commit(list(result.entries))
    result.on_durable()
    desk.now_ms += 1_000
    assert beat(desk, member_epoch=2).assignment.topic_partitions[0].partitions == [0, 1, 2, 3, 4]


def test_group_settings_act(desk):
    for write in (desk.broker.dynamic_settings.alter(("group", "g"), {"consumer.heartbeat.interval.ms": "6000"}),):
        desk.broker.dynamic_settings.durable(write)
    assert enter(desk).heartbeat_interval_ms == 6_000


def test_an_interval_that_is_changed_while_the_broker_runs_acts(desk):
    enter(desk)
    key = ("broker", "")
    desk.broker.settings_durable(
        desk.broker.dynamic_settings.alter(key, {"group.consumer.assignment.interval.ms": "0"})
    )
    assert enter(desk, "other").member_epoch == 3, "the target was made at once"


def test_of_two_concurrent_lookups_the_first_creates_the_topic_and_the_second_retries():
    desk, request = Desk("offsets.topic.num.partitions=1"), FindCoordinatorRequest(key="g")
    first = desk.decide(request, 2)
    assert desk.ask(request, 2).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert desk.finish(request, 2, first).error_code == 0
    assert desk.ask(request, 2).error_code == 0


def test_without_its_topic_there_is_no_coordinator():
    desk = Desk()
    assert describe(desk, "g")[0].error_code == ErrorCode.NOT_COORDINATOR
    assert delete_offsets(desk, 0)[0] == ErrorCode.NOT_COORDINATOR


def test_the_first_heartbeat_creates_the_topic_and_the_next_begins_a_membership():
    """For clients that do not look for their coordinator first."""
    desk = Desk("offsets.topic.num.partitions=1")
    assert enter(desk).error_code == ErrorCode.NOT_COORDINATOR
    assert enter(desk).error_code == 0


def test_a_heartbeat_does_not_create_the_topic_while_the_journal_cannot_be_written():
    desk = Desk("offsets.topic.num.partitions=1")
    desk.journal.room.obstacle = OSError(errno.ENOSPC, "full")
    for _ in range(2):
        assert enter(desk).error_code == ErrorCode.NOT_COORDINATOR
    desk.journal.room.obstacle = None
    assert enter(desk).error_code == ErrorCode.NOT_COORDINATOR
    assert enter(desk).error_code == 0


def test_members_get_not_coordinator_while_the_journal_cannot_be_written(desk):
    enter(desk)
    desk.journal.room.obstacle = OSError(errno.ENOSPC, "full")
    for _ in range(3):
        desk.now_ms += 30_000
        desk.broker.advance(desk.now_ms)
        assert beat(desk, member_epoch=2).error_code == ErrorCode.NOT_COORDINATOR
    assert describe(desk, "g")[0].error_code == 0
    desk.journal.room.obstacle = None
    assert beat(desk, member_epoch=2).error_code == 0


def test_rights(desk):
    """READ on the group and DESCRIBE on named topics; a pattern matches only topics that the client may describe."""
    desk.broker.authorizer = Authorizer(desk.broker.acls)

    def allow(*rules):
        desk.broker.acls_durable(desk.broker.acls.add(rules))

    assert enter(desk).error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
    allow(rule(ResourceType.GROUP, "g", AclOperation.READ))
    assert enter(desk).error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    hidden = enter(desk, subscribed_topic_names=None, subscribed_topic_regex=".*")
    assert (hidden.error_code, hidden.assignment.topic_partitions) == (0, [])
    allow(rule(ResourceType.TOPIC, "t", AclOperation.DESCRIBE))
    assert enter(desk, "other").error_code == 0
    assert describe(desk, "g")[0].error_code == 0
    desk.broker.acls_durable(desk.broker.acls.remove([rule(ResourceType.TOPIC, "t", AclOperation.DESCRIBE)]))
    (group,) = describe(desk, "g")
    assert group.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert group.members == []


def test_undurable_changes_of_a_deleted_group_topic_do_not_reach_later_groups(desk):
    def change(write):
        return desk.broker.commit_metadata([(write, desk.broker.topic_durable)], desk.now_ms, None)

    gone = change(desk.broker.topics.delete("__consumer_offsets"))
    partition = OffsetCommitRequest.OffsetCommitRequestPartition(0, 7)
    topic = OffsetCommitRequest.OffsetCommitRequestTopic(name="t", partitions=[partition])
    late = desk.decide(OffsetCommitRequest(group_id="g", topics=[topic]), 9)
    desk.submit([*gone.entries, *late.entries], gone.on_durable)
    late.on_durable()
    desk.create(desk.broker.new_topic("__consumer_offsets"))
    assert fetch(desk) == (0, [])
    assert fetch(desk.restart()) == (0, [])
