"""StreamsGroupHeartbeat, StreamsGroupDescribe and offsets of streams groups, through the dispatcher and the journal."""

from __future__ import annotations

import pytest

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.base.steps import finished
from pipeline_broker.broker.streams_topics import StreamsTopics
from pipeline_broker.dashboard.groups_view import group as group_of_dashboard
from pipeline_broker.security.acl import AclOperation, ResourceType
from pipeline_broker.security.authorizer import Authorizer
from pipeline_broker.state.groups.streams.internal_topics import StreamsStatus
from pipeline_broker.state.groups.streams.topology_description import NO_PLUGIN
from pipeline_broker.state.topics import NewTopic
from pipeline_broker.wire.messages.groups.delete_groups import DeleteGroupsRequest
from pipeline_broker.wire.messages.groups.join_group import JoinGroupRequest
from pipeline_broker.wire.messages.groups.list_groups import ListGroupsRequest
from pipeline_broker.wire.messages.groups.offset_commit import OffsetCommitRequest
from pipeline_broker.wire.messages.groups.offset_delete import OffsetDeleteRequest
from pipeline_broker.wire.messages.groups.offset_fetch import OffsetFetchRequest
from pipeline_broker.wire.messages.groups.streams_group_describe import StreamsGroupDescribeRequest
from pipeline_broker.wire.messages.groups.streams_group_heartbeat import StreamsGroupHeartbeatRequest
from pipeline_broker.wire.messages.groups.streams_group_topology_description_update import (
    StreamsGroupTopologyDescriptionUpdateRequest,
)
from pipeline_broker.wire.messages.topics.create_topics import CreateTopicsRequest
from tests.apis.authorized_requests import cluster, group, rule, topic
from tests.apis.desk import Desk
from tests.apis.groups.group_desk import GroupDesk

VERSIONS = pytest.mark.parametrize("version", [0, 1])
NO_DELAY = "group.streams.initial.rebalance.delay.ms=0"
MISSING = StreamsStatus.MISSING_INTERNAL_TOPICS
Heartbeat = StreamsGroupHeartbeatRequest
STORE = Heartbeat.TopicInfo("g-store-changelog", 0, 0, [Heartbeat.KeyValue("cleanup.policy", "compact")])


class Controller:
    """A double for the controller: it answers requests when told to."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.asked = []

    def ask(self, request, response_type, done):
        self.asked.append((request, done))

    def answer(self):
        """Create the requested topics."""
        for request, done in self.asked:
            done(self.desk.ask(request, 7))
        self.asked.clear()

    def fail(self):
        for _, done in self.asked:
            done(None)
        self.asked.clear()


@pytest.fixture
def desk() -> GroupDesk:
    return GroupDesk(NO_DELAY)


@pytest.fixture
def controller(desk):
    controller = Controller(desk)
    desk.broker.streams_topics = StreamsTopics(controller.ask)
    return controller


def topology(*changelogs, source="t", epoch=1):
    return Heartbeat.Topology(epoch, [Heartbeat.Subtopology("0", [source], state_changelog_topics=list(changelogs))])


def beat(desk, member_id="m", version=1, **more):
    return desk.ask(Heartbeat(**{"group_id": "g", "member_id": member_id, **more}), version)


def enter(desk, member_id="m", version=1, **more):
    first = {
        "member_epoch": 0,
        "rebalance_timeout_ms": 60_000,
        "topology": topology(),
        "active_tasks": [],
        "standby_tasks": [],
        "warmup_tasks": [],
        "process_id": f"process of {member_id}",
    }
    return beat(desk, member_id, version, **{**first, **more})


def describe(desk, *group_ids, version=1, **more):
    return desk.ask(StreamsGroupDescribeRequest(list(group_ids), **more), version).groups


def tasks_of(tasks):
    return None if tasks is None else [(each.subtopology_id, each.partitions) for each in tasks]


def statuses(answer):
    return [(each.status_code, each.status_detail) for each in answer.status or ()]


def commit(desk, member_id, epoch, *, offset=7):
    partition = OffsetCommitRequest.OffsetCommitRequestPartition(0, offset)
    request = OffsetCommitRequest(
        group_id="g",
        member_id=member_id,
        generation_id_or_member_epoch=epoch,
        topics=[OffsetCommitRequest.OffsetCommitRequestTopic(name="t", partitions=[partition])],
    )
    return desk.ask(request, 9).topics[0].partitions[0].error_code


def fetch(desk, member_id=None, epoch=-1):
    wanted = OffsetFetchRequest.OffsetFetchRequestGroup(
        group_id="g", member_id=member_id, member_epoch=epoch, topics=None
    )
    (answer,) = desk.ask(OffsetFetchRequest(groups=[wanted]), 9).groups
    return answer.error_code, [each.committed_offset for topic in answer.topics for each in topic.partitions]


def allow(desk, *rules):
    desk.broker.acls_durable(desk.broker.acls.add(rules))


@VERSIONS
def test_a_member_joins_gets_all_tasks_and_is_described(desk, version):
    answer = enter(desk, version=version, rack_id="r", client_tags=[Heartbeat.KeyValue("zone", "a")])
    assert (answer.error_code, answer.member_id, answer.heartbeat_interval_ms) == (0, "m", 5_000)
    assert tasks_of(answer.active_tasks) == [("0", [0, 1, 2, 3])]
    assert (tasks_of(answer.standby_tasks), tasks_of(answer.warmup_tasks)) == ([], [])
    (found,) = describe(desk, "g", version=version)
    assert (found.error_code, found.group_state, found.group_epoch) == (0, "Stable", answer.member_epoch)
    assert [(part.subtopology_id, part.source_topics) for part in found.topology.subtopologies] == [("0", ["t"])]
    (member,) = found.members
    assert (member.member_id, member.rack_id, member.client_id) == ("m", "r", "desk")
    assert (member.process_id, member.topology_epoch) == ("process of m", 1)
    assert [(each.key, each.value) for each in member.client_tags] == [("zone", "a")]
    assert tasks_of(member.assignment.active_tasks) == [("0", [0, 1, 2, 3])]
    assert found.assignor_name == ("sticky" if version else None)


def test_the_dashboard_counts_tasks_that_a_member_warms_up():
    desk = GroupDesk(NO_DELAY, "group.streams.num.standby.replicas=1", "group.streams.assignment.interval.ms=0")
    desk.create(NewTopic(name=STORE.name, topic_id=desk.broker.new_id().bytes, partitions=4))
    members = {member_id: enter(desk, member_id, topology=topology(STORE)) for member_id in ("m", "n")}
    for member_id, answer in members.items():
        beat(desk, member_id, member_epoch=answer.member_epoch, active_tasks=answer.active_tasks, standby_tasks=[])
    shown = finished(group_of_dashboard(desk.broker, "g"))["members"]
    assert {each["member"]: (each["assignment"], each["backup_tasks"]) for each in shown} == {
        "m": ({"t": (0, 1, 2, 3)}, 0),
        "n": ({}, 2),  # tasks that it warms up
    }


def test_a_group_is_listed_with_its_type_and_survives_a_restart(desk):
    epoch = enter(desk).member_epoch
    desk = desk.restart()
    assert [
        (each.group_id, each.group_type, each.group_state, each.protocol_type)
        for each in desk.ask(ListGroupsRequest(types_filter=["streams"]), 5).groups
    ] == [("g", "streams", "Stable", "streams")]
    answer = beat(desk, member_epoch=epoch)
    assert (answer.error_code, answer.member_epoch, answer.active_tasks) == (0, epoch, None)


def test_an_unknown_group_and_one_of_another_kind_are_not_described(desk):
    desk.ask(JoinGroupRequest("classic", 10_000, 10_000, protocol_type="consumer", protocols=[]), 3)
    commit(desk, "", -1)
    unknown, classic = describe(desk, "unknown", "g")
    assert (unknown.error_code, unknown.error_message) == (
        ErrorCode.GROUP_ID_NOT_FOUND,
        "Group unknown not found.",
    )
    assert (classic.error_code, classic.error_message) == (
        ErrorCode.GROUP_ID_NOT_FOUND,
        "Group g is not a streams group.",
    )


def test_a_description_of_a_topology_is_never_stored(desk):
    enter(desk)
    update = desk.ask(StreamsGroupTopologyDescriptionUpdateRequest("g", "m"), 0)
    assert (update.error_code, update.error_message) == (ErrorCode.UNSUPPORTED_VERSION, NO_PLUGIN)
    (asked,) = describe(desk, "g", include_topology_description=True)
    (unasked,) = describe(desk, "g")
    assert (asked.topology_description, unasked.topology_description) == (None, None)
    assert asked.topology_description_status != unasked.topology_description_status


def test_authorized_operations_are_described_on_request(desk):
    enter(desk)
    allow(desk, group(AclOperation.DESCRIBE), group(AclOperation.READ), topic(AclOperation.DESCRIBE))
    desk.broker.authorizer = Authorizer(desk.broker.acls)
    (found,) = describe(desk, "g", include_authorized_operations=True)
    assert found.authorized_operations == 1 << AclOperation.READ | 1 << AclOperation.DESCRIBE


def test_a_group_with_hidden_topics_is_not_described(desk):
    enter(desk)
    allow(desk, group(AclOperation.DESCRIBE))
    desk.broker.authorizer = Authorizer(desk.broker.acls)
    (found,) = describe(desk, "g")
    assert (found.error_code, found.members) == (ErrorCode.TOPIC_AUTHORIZATION_FAILED, [])
    assert "not authorized" in found.error_message


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (
            "__consumer_offsets",
            "Use of Kafka internal topics __consumer_offsets in a Kafka Streams topology is prohibited.",
        ),
        ("a/b", "Topic names a/b are not valid topic names."),
    ],
)
def test_a_topology_with_a_topic_that_it_may_not_use_is_refused(desk, source, message):
    answer = enter(desk, topology=topology(source=source))
    assert (answer.error_code, answer.error_message) == (ErrorCode.STREAMS_INVALID_TOPOLOGY, message)
    assert describe(desk, "g")[0].error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_missing_internal_topics_are_created_in_the_background(desk, controller):
    answer = enter(desk, topology=topology(STORE))
    assert statuses(answer) == [(MISSING, "Internal topics are missing: g-store-changelog")]
    assert tasks_of(answer.active_tasks) == []
    (asked, _), *more = controller.asked
    assert not more
    assert asked == CreateTopicsRequest(
        topics=[
            CreateTopicsRequest.CreatableTopic(
                "g-store-changelog",
                4,
                -1,
                configs=[CreateTopicsRequest.CreatableTopicConfig("cleanup.policy", "compact")],
            )
        ],
        timeout_ms=asked.timeout_ms,
    )
    controller.answer()
    desk.now_ms += desk.broker.config.group_streams_assignment_interval_ms
    answer = beat(desk, member_epoch=answer.member_epoch)
    assert tasks_of(answer.active_tasks) == [("0", [0, 1, 2, 3])]
    assert statuses(answer) == []
    assert desk.broker.topics.get("g-store-changelog").partitions == 4


def test_missing_internal_topics_are_asked_for_once_until_the_controller_answers(desk, controller):
    epoch = enter(desk, topology=topology(STORE)).member_epoch
    beat(desk, member_epoch=epoch)
    assert len(controller.asked) == 1
    controller.fail()
    beat(desk, member_epoch=epoch)
    assert len(controller.asked) == 1


def test_a_failed_creation_is_in_the_status_of_the_next_heartbeat(desk, controller):
    wrong = Heartbeat.TopicInfo("g-store-changelog", 0, 0, [Heartbeat.KeyValue("cleanup.policy", "nonsense")])
    epoch = enter(desk, topology=topology(wrong)).member_epoch
    controller.answer()
    ((status, detail),) = statuses(beat(desk, member_epoch=epoch))
    assert status == MISSING
    assert detail.startswith("Internal topics are missing: g-store-changelog; Creation failed: g-store-changelog (")
    assert "cleanup.policy" in detail
    assert len(controller.asked) == 1, "each heartbeat tries again"


def test_internal_topics_are_created_only_with_the_right_to_create_them(desk, controller):
    name = STORE.name
    allow(
        desk,
        group(AclOperation.READ),
        topic(AclOperation.DESCRIBE),
        rule(ResourceType.TOPIC, name, AclOperation.DESCRIBE),
    )
    desk.broker.authorizer = Authorizer(desk.broker.acls)
    answer = enter(desk, topology=topology(STORE))
    assert statuses(answer) == [
        (MISSING, f"Internal topics are missing: {name}; Unauthorized to CREATE on topics {name}.")
    ]
    assert controller.asked == []
    allow(desk, cluster(AclOperation.CREATE))
    assert statuses(beat(desk, member_epoch=answer.member_epoch)) == [(MISSING, f"Internal topics are missing: {name}")]
    assert len(controller.asked) == 1


def test_offsets_are_committed_and_fetched_with_the_epoch_of_the_member(desk):
    epoch = enter(desk).member_epoch
    assert commit(desk, "m", epoch + 1) == ErrorCode.STALE_MEMBER_EPOCH
    assert commit(desk, "other", epoch) == ErrorCode.UNKNOWN_MEMBER_ID
    assert commit(desk, "m", epoch) == ErrorCode.NONE
    assert fetch(desk, "m", epoch) == (ErrorCode.NONE, [7])
    assert fetch(desk, "m", epoch + 1)[0] == ErrorCode.STALE_MEMBER_EPOCH


def test_offsets_of_read_topics_are_kept_and_others_are_deleted(desk):
    epoch = enter(desk).member_epoch
    commit(desk, "m", epoch)
    wanted = OffsetDeleteRequest.OffsetDeleteRequestTopic("t", [OffsetDeleteRequest.OffsetDeleteRequestPartition(0)])
    deletion = OffsetDeleteRequest("g", [wanted])
    assert desk.ask(deletion, 0).topics[0].partitions[0].error_code == ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    beat(desk, member_epoch=-1)
    assert desk.ask(deletion, 0).topics[0].partitions[0].error_code == ErrorCode.NONE
    assert fetch(desk) == (ErrorCode.NONE, [])


def test_a_group_is_deleted_once_it_is_empty(desk):
    enter(desk)
    deletion = DeleteGroupsRequest(["g"])
    assert desk.ask(deletion, 2).results[0].error_code == ErrorCode.NON_EMPTY_GROUP
    beat(desk, member_epoch=-1)
    assert desk.ask(deletion, 2).results[0].error_code == ErrorCode.NONE
    assert describe(desk.restart(), "g")[0].error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_an_empty_classic_group_becomes_a_streams_group_with_its_offsets(desk):
    commit(desk, "", -1)
    answer = enter(desk)
    assert (answer.error_code, tasks_of(answer.active_tasks)) == (ErrorCode.NONE, [("0", [0, 1, 2, 3])])
    assert fetch(desk, "m", answer.member_epoch) == (ErrorCode.NONE, [7])


def test_an_empty_streams_group_becomes_a_classic_group(desk):
    enter(desk)
    beat(desk, member_epoch=-1)
    protocol = JoinGroupRequest.JoinGroupRequestProtocol("range", b"")
    join = JoinGroupRequest("g", 10_000, 10_000, protocol_type="consumer", protocols=[protocol])
    assert desk.ask(join, 9).error_code == ErrorCode.MEMBER_ID_REQUIRED
    assert describe(desk, "g")[0].error_message == "Group g is not a streams group."


def test_a_heartbeat_to_a_group_of_another_kind_is_refused(desk):
    protocol = JoinGroupRequest.JoinGroupRequestProtocol("range", b"")
    desk.decide(JoinGroupRequest("g", 10_000, 10_000, protocol_type="consumer", protocols=[protocol]), 3)
    assert enter(desk).error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_nothing_is_answered_before_its_records_are_durable(desk):
    desk.held = []
    desk.decide(
        Heartbeat(
            group_id="g",
            member_id="m",
            rebalance_timeout_ms=60_000,
            topology=topology(),
            active_tasks=[],
            standby_tasks=[],
            warmup_tasks=[],
            process_id="p",
        ),
        1,
    )
    sequence = desk.asked
    assert desk.later(sequence) is None
    assert describe(desk, "g")[0].error_code == ErrorCode.GROUP_ID_NOT_FOUND
    desk.release()
    assert desk.later(sequence) is not None
    assert describe(desk, "g")[0].group_state == "Stable"
