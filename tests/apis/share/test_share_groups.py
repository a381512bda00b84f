"""Share groups through the dispatcher: members, administration, and requests to the share coordinator.

Longer than most files: requests of members, administrators and brokers concern one group, and one desk.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.config.assignors import CLASSES
from pipeline_broker.config.settings import parse_settings
from pipeline_broker.wire.messages.configs.describe_configs import DescribeConfigsRequest
from pipeline_broker.wire.messages.groups.delete_groups import DeleteGroupsRequest
from pipeline_broker.wire.messages.groups.find_coordinator import FindCoordinatorRequest
from pipeline_broker.wire.messages.groups.list_groups import ListGroupsRequest
from pipeline_broker.wire.messages.share.alter_share_group_offsets import AlterShareGroupOffsetsRequest
from pipeline_broker.wire.messages.share.delete_share_group_offsets import DeleteShareGroupOffsetsRequest
from pipeline_broker.wire.messages.share.delete_share_group_state import DeleteShareGroupStateRequest
from pipeline_broker.wire.messages.share.describe_share_group_offsets import DescribeShareGroupOffsetsRequest
from pipeline_broker.wire.messages.share.initialize_share_group_state import InitializeShareGroupStateRequest
from pipeline_broker.wire.messages.share.read_share_group_state import ReadShareGroupStateRequest
from pipeline_broker.wire.messages.share.read_share_group_state_summary import ReadShareGroupStateSummaryRequest
from pipeline_broker.wire.messages.share.share_group_describe import ShareGroupDescribeRequest
from pipeline_broker.wire.messages.share.write_share_group_state import WriteShareGroupStateRequest
from pipeline_broker.wire.messages.topics.create_topics import CreateTopicsRequest
from pipeline_broker.wire.messages.topics.delete_topics import DeleteTopicsRequest
from pipeline_broker.wire.primitives import UUID_ZERO
from stages.request import Parked, Pending
from tests.apis.desk import Desk
from tests.apis.share.share_desk import ACCEPT, GROUP, RELEASE, ShareDesk, acquired, errors

SHARE = 2
BROKER = 4
STATIC, DEFAULT = 4, 5


@pytest.fixture
def desk():
    """A desk with a topic, without members."""
    return ShareDesk(partitions=2)


def listed(desk):
    groups = desk.ask(ListGroupsRequest(types_filter=["share"]), 5).groups
    return [(group.group_id, group.protocol_type, group.group_state, group.group_type) for group in groups]


def test_a_member_joins_stays_and_leaves(desk):
    """The first answer has the assignment, later ones only changes; after leaving, the group is empty."""
    answer = desk.heartbeat()
    assert (answer.error_code, answer.member_id, answer.member_epoch, answer.heartbeat_interval_ms) == (0, "m", 1, 5000)
    (given,) = answer.assignment.topic_partitions
    assert (given.topic_id, given.partitions) == (desk.topic_id, [0, 1])
    assert desk.heartbeat(1).assignment is None
    assert listed(desk) == [("g", "share", "Stable", "share")]
    answer = desk.heartbeat(-1)
    assert (answer.error_code, answer.member_epoch) == (0, -1)
    assert listed(desk) == [("g", "share", "Empty", "share")]


def test_a_heartbeat_is_answered_when_it_is_durable(desk):
    """The states of partitions come first, then the group, in one commit."""
    desk.heartbeat()
    desk.member_id = "other"
    result = desk.desk.decide(_joining("other"), 1)
    assert isinstance(result, Pending)
    again = desk.restart()
    (group,) = again.ask(ShareGroupDescribeRequest(["g"]), 1).groups
    assert [member.member_id for member in group.members] == ["m"]


def _joining(member_id):
    from pipeline_broker.wire.messages.share.share_group_heartbeat import ShareGroupHeartbeatRequest

    return ShareGroupHeartbeatRequest(GROUP, member_id, 0, None, ["t"])


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        ({"group_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"member_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"rack_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"subscribed_topic_names": None}, ErrorCode.INVALID_REQUEST),
        ({"epoch": -2}, ErrorCode.INVALID_REQUEST),
        ({"epoch": 5}, ErrorCode.GROUP_ID_NOT_FOUND),
    ],
)
def test_invalid_heartbeats(desk, wrong, code):
    """Errors are Kafka's."""
    assert desk.heartbeat(**wrong).error_code == code


def test_without_its_topic_there_is_no_coordinator_of_share_groups():
    """A client's lookup creates the topic."""
    desk = ShareDesk.__new__(ShareDesk)
    desk.desk, desk.topic, desk.member_id = Desk(), "t", "m"
    assert desk.heartbeat().error_code == ErrorCode.NOT_COORDINATOR


def test_describe(desk):
    """Members with their assignments; an unknown group is an error with a message."""
    desk.heartbeat()
    group, missing = desk.ask(ShareGroupDescribeRequest(["g", "none"], include_authorized_operations=True), 1).groups
    assert (group.group_state, group.assignor_name, group.group_epoch, group.assignment_epoch) == (
        "Stable",
        "simple",
        1,
        1,
    )
    (member,) = group.members
    assert (member.client_id, member.client_host, member.subscribed_topic_names) == ("desk", "/127.0.0.1", ["t"])
    assert [given.topic_name for given in member.assignment.topic_partitions] == ["t"]
    assert (missing.error_code, missing.error_message) == (ErrorCode.GROUP_ID_NOT_FOUND, "Group none not found.")


def test_members_fall_silent():
    """After their sessions the group is empty; a restart starts the sessions again."""
    names = ("min.session.timeout.ms=1000", "session.timeout.ms=1000")
    names += ("min.heartbeat.interval.ms=500", "heartbeat.interval.ms=500")
    desk = ShareDesk(*(f"group.share.{name}" for name in names))
    desk.heartbeat()
    desk.desk.now_ms += 1_000
    desk.desk.broker.advance(desk.desk.now_ms)
    assert listed(desk) == [("g", "share", "Empty", "share")]


def test_a_group_s_own_heartbeats_and_sessions_act(desk):
    """Within the broker's limits: the interval sent to members, and the session timeout."""
    desk.configure({"share.heartbeat.interval.ms": "6000", "share.session.timeout.ms": "50000"})
    assert desk.heartbeat().heartbeat_interval_ms == 6_000
    for silent_ms, state in ((49_999, "Stable"), (1, "Empty")):
        desk.desk.now_ms += silent_ms
        desk.desk.broker.advance(desk.desk.now_ms)
        assert listed(desk) == [("g", "share", state, "share")]


def test_settings_that_change_before_the_first_group_act():
    """No coordinator exists yet to receive them."""
    share = Desk().broker.share
    config, _ = parse_settings([("group.share.max.size", "7")])
    share.settings_changed(config)
    assert not share.is_used
    assert share.manager.config.group_share_max_size == 7


def test_the_assignor_may_be_named_by_its_class():
    """Its setting keeps the class, and descriptions show its name."""
    desk = ShareDesk(f"group.share.assignors={CLASSES}SimpleAssignor")
    desk.heartbeat()
    (group,) = desk.ask(ShareGroupDescribeRequest(["g"]), 1).groups
    assert (group.assignor_name, len(group.members[0].assignment.topic_partitions)) == ("simple", 1)
    wanted = DescribeConfigsRequest.DescribeConfigsResource(BROKER, "1", ["group.share.assignors"])
    (found,) = desk.ask(DescribeConfigsRequest([wanted], include_synonyms=True), 4).results[0].configs
    assert (found.value, found.read_only) == (f"{CLASSES}SimpleAssignor", True)
    assert [(each.value, each.source) for each in found.synonyms] == [(found.value, STATIC), ("simple", DEFAULT)]


def test_offsets_are_described_changed_and_deleted(desk):
    """Only for a group without members; the states of records are discarded."""
    desk.reset("earliest")
    desk.produce(10)
    desk.heartbeat()
    desk.fetch(0, [0, 1])
    desk.acknowledge(1, [(0, 3, ACCEPT), (6, 6, ACCEPT)])
    assert desk.offsets() == [(4, 5), (0, 0)]
    assert alter(desk, (0, 2)).error_code == ErrorCode.NON_EMPTY_GROUP
    assert forget(desk).error_code == ErrorCode.NON_EMPTY_GROUP
    desk.heartbeat(-1)
    answer = alter(desk, (0, 2), (9, 0))
    assert errors_of(answer) == [ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert desk.offsets() == [(2, 8), (0, 0)]
    assert desk.restart().offsets() == [(2, 8), (0, 0)]


def test_altered_offsets_count_for_the_next_member(desk):
    """Records acquired before do not count."""
    desk.reset("earliest")
    desk.produce(5)
    desk.heartbeat()
    desk.fetch(0, [0])
    desk.heartbeat(-1)
    alter(desk, (0, 3))
    assert acquired(desk.fetch(1)) == [(3, 4, 1)]


def test_offsets_may_be_set_before_there_is_a_group(desk):
    desk.heartbeat()  # makes the topic of the share coordinator
    request = AlterShareGroupOffsetsRequest(
        "new", [AlterShareGroupOffsetsRequest.Topic("t", [AlterShareGroupOffsetsRequest.Partition(0, 3)])]
    )
    assert desk.ask(request, 0).error_code == ErrorCode.NONE
    assert ("new", "share", "Empty", "share") in listed(desk)
    request = AlterShareGroupOffsetsRequest(
        "new", [AlterShareGroupOffsetsRequest.Topic("none", [AlterShareGroupOffsetsRequest.Partition(0, 3)])]
    )
    assert errors_of(desk.ask(request, 0)) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert desk.ask(AlterShareGroupOffsetsRequest(""), 0).error_code == ErrorCode.INVALID_GROUP_ID


def test_offsets_of_unknown_topics_create_no_group(desk):
    """As in Kafka; an existing topic creates one, even with unknown partitions."""
    desk.heartbeat()
    topic = AlterShareGroupOffsetsRequest.Topic
    nowhere = [AlterShareGroupOffsetsRequest.Partition(9, 3)]
    for topics in ([], [topic("none", nowhere)]):
        desk.ask(AlterShareGroupOffsetsRequest("new", topics), 0)
        assert not [group for group in listed(desk) if group[0] == "new"]
    answer = desk.ask(AlterShareGroupOffsetsRequest("new", [topic("none", nowhere), topic("t", nowhere)]), 0)
    assert [each.topic_id for each in answer.responses] == [bytes(16), desk.topic_id]
    assert [group[0] for group in listed(desk) if group[0] == "new"] == ["new"]


def alter(desk, *partitions):
    wanted = [AlterShareGroupOffsetsRequest.Partition(*one) for one in partitions]
    request = AlterShareGroupOffsetsRequest(GROUP, [AlterShareGroupOffsetsRequest.Topic("t", wanted)])
    return desk.ask(request, 0)


def forget(desk, *names, group=GROUP):
    wanted = [DeleteShareGroupOffsetsRequest.Topic(name) for name in names]
    return desk.ask(DeleteShareGroupOffsetsRequest(group, wanted), 0)


def errors_of(answer):
    return [one.error_code for topic in answer.responses for one in topic.partitions]


def test_deleted_offsets_are_initialized_again(desk):
    desk.heartbeat()
    desk.heartbeat(-1)
    answer = forget(desk, "t", "none")
    assert [topic.error_code for topic in answer.responses] == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert desk.offsets() == []
    assert forget(desk, "t", group="none").error_code == ErrorCode.GROUP_ID_NOT_FOUND
    desk.heartbeat()
    assert len(desk.offsets()) == 2


def test_unknown_offsets_cannot_be_deleted(desk):
    """Of a topic that the group never read, or whose offsets were deleted; these come last in the answer."""
    other = CreateTopicsRequest.CreatableTopic("other", 1, 1)
    desk.ask(CreateTopicsRequest([other]), 7)
    desk.heartbeat()
    desk.heartbeat(-1)
    nothing = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, UUID_ZERO, "There is no offset information to delete.")
    first, *others = forget(desk, "other", "t", "t").responses
    assert (first.topic_name, first.error_code, first.error_message) == ("t", ErrorCode.NONE, None)
    assert first.topic_id == desk.desk.broker.topics.get("t").topic_id
    assert [one.topic_name for one in others] == ["t", "other"]
    (again,) = forget(desk, "t").responses
    for one in (others[-1], again):
        assert (one.error_code, one.topic_id, one.error_message) == nothing


def test_a_deleted_group_leaves_nothing_behind(desk):
    """Group and state are deleted in one commit, and the name can be used again."""
    desk.reset("earliest")
    desk.produce(5)
    desk.heartbeat()
    desk.fetch(0, [0])
    desk.acknowledge(1, [(0, 1, ACCEPT)])
    desk.fetch(-1)
    assert desk.ask(DeleteGroupsRequest(["g"]), 2).results[0].error_code == ErrorCode.NON_EMPTY_GROUP
    desk.heartbeat(-1)
    assert desk.ask(DeleteGroupsRequest(["g"]), 2).results[0].error_code == ErrorCode.NONE
    again = desk.restart()
    assert listed(again) == []
    assert len(again.desk.broker.share.manager.states) == 0
    again.heartbeat()
    assert acquired(again.fetch(0, [0])) == [(0, 4, 1)]


def test_a_deleted_topic_leaves_nothing_behind(desk):
    """Its state is deleted; a new topic of the same name starts without state."""
    desk.heartbeat()
    assert len(desk.desk.broker.share.manager.states) == 2
    desk.ask(DeleteTopicsRequest(topics=[DeleteTopicsRequest.DeleteTopicState("t")], timeout_ms=1000), 6)
    assert len(desk.desk.broker.share.manager.states) == 0
    desk.desk.now_ms += 1_000  # between two assignments
    assert desk.heartbeat(1).assignment.topic_partitions == []
    assert len(desk.desk.restart().broker.share.manager.states) == 0


def test_without_the_topic_of_its_state_nothing_is_known(desk):
    """After `__share_group_state` is deleted, share partitions are initialized again, and no request fails for ever."""
    desk.reset("earliest")
    desk.produce(2)
    desk.heartbeat()
    desk.fetch(0, [0])
    broker = desk.desk.broker
    write = broker.topics.delete("__share_group_state")
    desk.desk.commit([broker.append_metadata(write, desk.desk.now_ms)])
    broker.topic_durable(write)
    assert desk.fetch(1).error_code == ErrorCode.SHARE_SESSION_NOT_FOUND
    assert desk.heartbeat(1).error_code == ErrorCode.NONE
    assert acquired(desk.fetch(0, [0])) == [(0, 1, 1)]


def test_the_share_coordinator_is_found(desk):
    """By brokers, for a share partition; the lookup creates its topic."""
    key = "g:AAAAAAAAAAAAAAAAAAAAAA:0"
    found = desk.ask(FindCoordinatorRequest(key_type=SHARE, coordinator_keys=[key, "x"]), 6).coordinators
    assert [(one.error_code, one.node_id) for one in found] == [(0, 1), (ErrorCode.INVALID_REQUEST, -1)]
    assert desk.desk.broker.share.topic.exists
    refused = desk.ask(FindCoordinatorRequest(key_type=SHARE, coordinator_keys=[key]), 5).coordinators
    assert [one.error_code for one in refused] == [ErrorCode.INVALID_REQUEST]


class State:
    """Requests of brokers to the share coordinator, for one partition."""

    def __init__(self, desk):
        self.desk = desk

    def _one(self, request_class, topic_name, version, *fields, group="g", topic_id=None):
        topic = getattr(request_class, topic_name)
        partition = request_class.PartitionData(*fields)
        request = request_class(group, [topic(topic_id or self.desk.topic_id, [partition])])
        results = self.desk.ask(request, version).results
        return results[0].partitions[0] if results else None

    def begin(self, epoch, start, partition=0, **more):
        fields = (partition, epoch, start)
        return self._one(InitializeShareGroupStateRequest, "InitializeStateData", 0, *fields, **more)

    def read(self, leader_epoch=0, partition=0, **more):
        return self._one(ReadShareGroupStateRequest, "ReadStateData", 0, partition, leader_epoch, **more)

    def write(self, start, batches=(), count=-1, epoch=0, leader_epoch=0, partition=0, **more):
        told = [WriteShareGroupStateRequest.StateBatch(*batch) for batch in batches]
        fields = (partition, epoch, leader_epoch, start, count, told)
        return self._one(WriteShareGroupStateRequest, "WriteStateData", 1, *fields, **more)

    def summary(self, partition=0, **more):
        return self._one(ReadShareGroupStateSummaryRequest, "ReadStateSummaryData", 1, partition, 0, **more)

    def delete(self, partition=0, **more):
        return self._one(DeleteShareGroupStateRequest, "DeleteStateData", 0, partition, **more)


@pytest.fixture
def state(desk):
    """The share coordinator, for a group without members."""
    desk.ask(FindCoordinatorRequest(key_type=SHARE, coordinator_keys=["g:AAAAAAAAAAAAAAAAAAAAAA:0"]), 6)
    return State(desk)


def test_a_fetch_waiting_for_a_reinitialized_partition_wakes_once_it_is_durable(desk):
    desk.begin()
    assert isinstance(desk.desk.decide(desk.fetch_request(1, wait_ms=1000), 2), Parked)
    answered = desk.desk.connection.completed
    answered.clear()
    wanted = InitializeShareGroupStateRequest.PartitionData(0, 5, 0)
    topic = InitializeShareGroupStateRequest.InitializeStateData(desk.topic_id, [wanted])
    on_its_way = desk.desk.decide(InitializeShareGroupStateRequest("g", [topic]), 0)
    assert answered == []
    desk.desk.submit(on_its_way.entries, on_its_way.on_durable)
    assert len(answered) == 1


def test_state_is_begun_written_read_and_deleted(state):
    """Written state can be read, also after a restart; deleted state cannot."""
    assert state.begin(1, 0).error_code == ErrorCode.NONE
    assert state.write(5, [(7, 9, 2, 1)], 3, epoch=1).error_code == ErrorCode.NONE
    for one in (state, State(state.desk.restart())):
        found = one.read()
        assert (found.error_code, found.state_epoch, found.start_offset) == (0, 1, 5)
        assert [(batch.first_offset, batch.delivery_state) for batch in found.state_batches] == [(7, 2)]
        summary = one.summary()
        assert (summary.start_offset, summary.delivery_complete_count) == (5, 3)
    one.delete()
    assert one.read().error_code == ErrorCode.INVALID_REQUEST
    assert one.summary().start_offset == -1


def test_state_requests_are_refused_as_kafka_does(state):
    """Uninitialized, unknown, negative, of former epochs, and with invalid record states."""
    unknown = {"topic_id": b"x" * 16}
    assert state.write(0).error_code == ErrorCode.INVALID_REQUEST
    assert state.begin(0, 0, **unknown).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert state.begin(0, 0, partition=-1).error_code == ErrorCode.INVALID_REQUEST
    assert state.begin(0, 0, group="") is None
    state.begin(2, 0)
    assert state.begin(1, 0).error_code == ErrorCode.FENCED_STATE_EPOCH
    assert state.write(0, epoch=1).error_code == ErrorCode.FENCED_STATE_EPOCH
    assert state.read(leader_epoch=3).error_code == ErrorCode.NONE
    assert state.read(leader_epoch=2).error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert state.write(0, [(0, 0, 9, 1)], epoch=2, leader_epoch=3).error_code == ErrorCode.INVALID_REQUEST
    assert state.write(0, [(5, 4, 2, 1)], epoch=2, leader_epoch=3).error_code == ErrorCode.INVALID_REQUEST


def test_state_written_by_others_counts(desk, state):
    """A loaded share partition is loaded again."""
    desk.reset("earliest")
    desk.produce(10)
    desk.heartbeat()
    desk.fetch(0, [0])
    desk.acknowledge(1, [(0, 0, RELEASE)])
    epoch = state.read().state_epoch
    state.write(6, epoch=epoch)
    assert acquired(desk.fetch(2)) == [(6, 9, 1)]


def test_a_loaded_share_partition_is_reloaded_when_its_group_initializes_it(desk, state):
    """Records acquired before are released."""
    desk.reset("earliest")
    desk.produce(10)
    state.begin(0, 4)
    assert acquired(desk.fetch(0, [0])) == [(4, 9, 1)]
    assert acquired(desk.fetch(1)) == []
    desk.heartbeat()
    assert acquired(desk.fetch(2)) == [(0, 9, 1)]


def test_offsets_of_unknown_groups(desk):
    """Unknown groups and partitions have no offsets; unknown topics have an error."""
    wanted = [DescribeShareGroupOffsetsRequest.Topic("t", [0, 9]), DescribeShareGroupOffsetsRequest.Topic("none", [0])]
    (group,) = desk.ask(
        DescribeShareGroupOffsetsRequest([DescribeShareGroupOffsetsRequest.Group("none", wanted)]), 1
    ).groups
    assert group.error_code == ErrorCode.NONE
    known, unknown = group.topics
    assert [(one.start_offset, one.lag, one.error_code) for one in known.partitions] == [(-1, -1, 0)] * 2
    assert [one.error_code for one in unknown.partitions] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


def test_a_broker_without_share_groups_loads_no_share_modules():
    """Neither state machines nor handlers, only the loader."""
    script = (
        "import sys, pipeline_broker.node.process, pipeline_broker.apis.dispatch\n"
        "found = [name for name in sys.modules if 'share' in name and name.startswith('pipeline_broker')]\n"
        "print(sorted(found))"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    of_the_place = ["pipeline_broker.broker.share", "pipeline_broker.broker.share_ports"]
    assert run.stdout.strip() == str(of_the_place)


def test_errors_are_shown_for_every_partition(desk):
    """An answer about two partitions has two results."""
    desk.heartbeat()
    desk.fetch(0, [0, 1])
    answer = desk.acknowledge(1, [(0, 0, ACCEPT)])
    assert errors(answer) == [ErrorCode.INVALID_RECORD_STATE]
