"""A group of many members: work for all of them is done in turns, because all clients wait in the meantime."""

import itertools

from pipeline_broker.apis.groups.delete_groups import DELETED_IN_A_TURN
from pipeline_broker.apis.groups.leave_group import LEAVING_IN_A_TURN
from pipeline_broker.apis.groups.list_groups import GROUP_COST
from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.base.steps import THINGS_PER_STEP
from pipeline_broker.broker.group_shard import ANSWERED_AT_ONCE_MAX, PARKED_WITHOUT_FRAME
from pipeline_broker.state.groups.group import MEMBERS_AT_ONCE_MAX
from pipeline_broker.state.groups.kind import DUE_AT_ONCE_MAX
from pipeline_broker.state.topics import NewTopic
from pipeline_broker.wire.messages.groups.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from pipeline_broker.wire.messages.groups.delete_groups import DeleteGroupsRequest
from pipeline_broker.wire.messages.groups.describe_groups import DescribeGroupsRequest
from pipeline_broker.wire.messages.groups.find_coordinator import FindCoordinatorRequest
from pipeline_broker.wire.messages.groups.join_group import JoinGroupRequest
from pipeline_broker.wire.messages.groups.leave_group import LeaveGroupRequest
from pipeline_broker.wire.messages.groups.list_groups import ListGroupsRequest
from pipeline_broker.wire.messages.groups.offset_commit import OffsetCommitRequest
from stages.request import TURN_COST, Parked, Pending, Send, Unfinished, go_on
from tests.apis.desk import Desk
from tests.apis.groups.group_desk import GroupDesk
from tests.coordinators import coordinator_of

VERSION = 3
MEMBERS = 3 * ANSWERED_AT_ONCE_MAX
PROTOCOLS = [JoinGroupRequest.JoinGroupRequestProtocol("range", b"subscription")]
CHANGED = [JoinGroupRequest.JoinGroupRequestProtocol("range", b"another subscription")]


def formed(members):
    """Return a group of `members` members that wait for their assignments, and their ids."""
    desk = GroupDesk("group.initial.rebalance.delay.ms=0")
    join = JoinGroupRequest("g", 60_000, 60_000, protocol_type="consumer", protocols=PROTOCOLS)
    for _ in range(members):
        desk.decide(join, VERSION)
    desk.now_ms += 1
    desk.broker.advance(desk.now_ms)
    return desk, [member.member_id for member in members_of(desk)]


def members_of(desk):
    return desk.ask(DescribeGroupsRequest(["g"]), 3).groups[0].members


def test_expired_members_are_removed_in_turns():
    desk, ids = formed(2 * DUE_AT_ONCE_MAX + 1)
    desk.now_ms += 60_001
    left = []
    while desk.broker.next_deadline_ms() <= desk.now_ms:
        desk.broker.advance(desk.now_ms)
        left.append(len(members_of(desk)))
    gone = [before - after for before, after in itertools.pairwise([len(ids), *left])]
    assert max(gone) <= DUE_AT_ONCE_MAX
    assert left[-1] == 0


def test_very_many_members_leave_in_turns_each_of_them_once():
    desk, ids = formed(2 * LEAVING_IN_A_TURN + 1)
    leaving = LeaveGroupRequest("g", members=[LeaveGroupRequest.MemberIdentity(each) for each in [*ids, ids[0]]])
    result, left = desk.decide(leaving, 3), []
    while isinstance(result, Unfinished):
        left.append(len(members_of(desk)))
        if isinstance(result.first, Pending):
            desk.commit(list(result.first.entries))
            result.first.on_durable()
        result = go_on(result.steps)
    assert left == [len(ids), LEAVING_IN_A_TURN + 1, 1, 0], "the first turn reads the request"
    answer = desk.finish(leaving, 3, result)
    assert [(each.member_id, each.error_code) for each in answer.members] == [
        *((each, 0) for each in ids),
        (ids[0], ErrorCode.UNKNOWN_MEMBER_ID),
    ]


def test_many_members_leaving_an_invalid_group_are_refused_in_one_turn():
    desk = GroupDesk()
    identities = [LeaveGroupRequest.MemberIdentity(f"m{number}") for number in range(2 * LEAVING_IN_A_TURN)]
    answer = desk.ask(LeaveGroupRequest("", members=identities), 3)
    assert (answer.error_code, answer.members) == (ErrorCode.INVALID_GROUP_ID, [])


def test_very_many_groups_are_deleted_in_turns_each_of_them_once():
    desk = GroupDesk()
    names = [f"g-{number}" for number in range(2 * DELETED_IN_A_TURN + 1)]
    partition = OffsetCommitRequest.OffsetCommitRequestPartition(0, 0, -1, "")
    topic = OffsetCommitRequest.OffsetCommitRequestTopic("t", partitions=[partition])
    for name in names[1:]:
        desk.ask(OffsetCommitRequest(name, topics=[topic]), 7)
    request = DeleteGroupsRequest([*names, names[1]])
    result, left = desk.decide(request, 1), []
    while isinstance(result, Unfinished):
        pending = result.first
        if isinstance(pending, Pending):
            desk.commit(list(pending.entries))
            pending.on_durable()
            left.append(len(desk.ask(ListGroupsRequest(), 3).groups))
        result = go_on(result.steps)
    assert left == [len(names) - DELETED_IN_A_TURN, 1, 0]
    answer = desk.finish(request, 1, result)
    assert [(each.group_id, each.error_code) for each in answer.results] == [
        (names[0], ErrorCode.GROUP_ID_NOT_FOUND),
        *((name, 0) for name in names[1:]),
    ]


def test_the_members_of_a_generation_are_answered_in_turns():
    desk = GroupDesk("group.initial.rebalance.delay.ms=0")
    desk.ask(FindCoordinatorRequest(key="g"), 2)
    join = JoinGroupRequest("g", 60_000, 60_000, protocol_type="consumer", protocols=PROTOCOLS)
    for _ in range(MEMBERS):
        assert desk.decide(join, VERSION) is PARKED_WITHOUT_FRAME
    desk.now_ms += 1
    desk.broker.advance(desk.now_ms)

    connection = desk.connection
    assert connection.completed == []
    assert len(connection.callbacks) == MEMBERS
    for request, callback in connection.callbacks:
        connection.complete(request, callback())
    assert all(isinstance(answer, Send) for _, answer in connection.completed)
    assert len({request.sequence for request, _ in connection.completed}) == MEMBERS


def test_the_join_that_begins_a_generation_of_many_members_has_a_turn_of_its_own():
    """The decision about all members must not add to a turn that other joins share."""
    members = MEMBERS_AT_ONCE_MAX + 1
    desk, ids = formed(members)
    again = [
        JoinGroupRequest("g", 60_000, 60_000, member_id, protocol_type="consumer", protocols=CHANGED)
        for member_id in ids
    ]
    assert [type(desk.decide(request, VERSION)) for request in again[:-1]] == [Parked] * (members - 1)
    last = desk.decide(again[-1], VERSION)
    assert isinstance(last, Unfinished)
    assert coordinator_of(desk.broker, "g").describe("g").state == "PreparingRebalance"
    go_on(last.steps)
    assert coordinator_of(desk.broker, "g").describe("g").state == "CompletingRebalance"
    assert {member.member_id for member in members_of(desk)} == set(ids)


def test_joins_to_a_forming_group_of_many_members_share_a_turn():
    """None of them begins the generation."""
    desk = GroupDesk("group.initial.rebalance.delay.ms=3000")
    join = JoinGroupRequest("g", 60_000, 60_000, protocol_type="consumer", protocols=PROTOCOLS)
    assert {type(desk.decide(join, VERSION)) for _ in range(MEMBERS_AT_ONCE_MAX + 2)} == {Parked}


def test_only_joins_to_a_large_consumer_group_have_their_own_turns():
    desk = GroupDesk("group.consumer.assignment.interval.ms=0")
    answers = []
    for number in range(MEMBERS_AT_ONCE_MAX + 2):
        joins = ConsumerGroupHeartbeatRequest(
            "g", f"m{number}", 0, rebalance_timeout_ms=60_000, subscribed_topic_names=["t"], topic_partitions=[]
        )
        result = desk.decide(joins, 1)
        assert isinstance(result, Unfinished) == (number > MEMBERS_AT_ONCE_MAX)
        answers.append(desk.finish(joins, 1, result))
    assert {answer.error_code for answer in answers} == {0}
    stays = ConsumerGroupHeartbeatRequest("g", f"m{number}", answers[-1].member_epoch)
    assert not isinstance(desk.decide(stays, 1), Unfinished)


def test_many_groups_are_listed_in_turns_without_those_deleted_between():
    desk = GroupDesk()
    names = [f"g-{number}" for number in range(2 * TURN_COST // GROUP_COST + 1)]
    for name in names:
        coordinator_of(desk.broker, name).classic.create(name, desk.now_ms)
    request = ListGroupsRequest()
    result = go_on(desk.decide(request, 4).steps)  # in its own turn
    assert isinstance(result, Unfinished)
    desk.ask(DeleteGroupsRequest([names[0], names[-1]]), 2)
    turns = 1
    while isinstance(result, Unfinished):
        result, turns = go_on(result.steps), turns + 1
    assert turns > len(names) * GROUP_COST // TURN_COST
    assert [group.group_id for group in desk.finish(request, 4, result).groups] == names[:-1]


def test_a_long_filter_is_read_in_turns_once_however_many_coordinators_there_are():
    desk = Desk("offsets.topic.num.partitions=9")
    desk.ask(FindCoordinatorRequest(key="g"), 3)
    request, turns = ListGroupsRequest(types_filter=["x"] * TURN_COST), []
    for groups in (0, 20):
        for number in range(groups):
            coordinator_of(desk.broker, f"g-{number}").classic.create(f"g-{number}", desk.now_ms)
        result = desk.decide(request, 5)
        turns.append(0)
        while isinstance(result, Unfinished):
            result, turns[-1] = go_on(result.steps), turns[-1] + 1
    assert len(list(desk.broker.groups)) > 1
    assert 1 < turns[0] == turns[1]


def test_a_new_expression_is_matched_with_many_topics_in_turns():
    desk = GroupDesk()
    for number in range(2 * THINGS_PER_STEP):
        desk.create(NewTopic(name=f"many-{number}", topic_id=desk.broker.new_id().bytes, partitions=1))
    matching_turns = 3  # the topics of the desk are matched too
    request = ConsumerGroupHeartbeatRequest(
        "g", "m", rebalance_timeout_ms=60_000, topic_partitions=[], subscribed_topic_regex="many-.*"
    )
    for member_id in "m", "n":  # the group has the expression when the second comes
        request.member_id = member_id
        result, count = desk.decide(request, 1), 0
        while isinstance(result, Unfinished):
            assert result.first is None
            result, count = go_on(result.steps), count + 1
        assert count == (1 + matching_turns if member_id == "m" else 1)
        assert desk.finish(request, 1, result).error_code == 0
