"""Share groups: members, epochs, assignments and restarts."""

from __future__ import annotations

import pytest

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.config.broker_config import BrokerConfig
from pipeline_broker.config.group_settings import ShareGroupSettings
from pipeline_broker.state.errors import MisplacedRecordError
from pipeline_broker.state.groups.administration import DeletedOffset
from pipeline_broker.state.groups.commits import CommitRequest, PartitionCommit
from pipeline_broker.state.groups.coordinator import GroupCoordinator
from pipeline_broker.state.groups.memory import SHARE_STATE_BYTES
from pipeline_broker.state.groups.share import coordinator
from pipeline_broker.state.groups.share.messages import FoundTopic, Heartbeat, ShareGroupError
from pipeline_broker.state.outcome import Outcome
from tests.state.group_driver import Driver as Groups
from tests.state.replaying import replay_group

A, B = b"a" * 16, b"b" * 16
NOW_MS = 1_000_000
CONFIG = BrokerConfig(group_share_max_size=3, group_share_assignment_interval_ms=0)
SETTINGS = ShareGroupSettings.of(CONFIG, {})


class Driver:
    """A coordinator with writes that are durable at once."""

    def __init__(self, topics=None, config=CONFIG, own=None):
        self.topics = {"a": FoundTopic(A, 2)} if topics is None else topics
        self.config, self.own = config, own or {}
        self.coordinator = GroupCoordinator(config, configs_of=lambda _: self.own)
        self.journal = []
        self.now_ms = NOW_MS

    @property
    def share(self):
        return self.coordinator.share

    def keep(self, write):
        if write is not None:
            self.journal += write.records
            self.coordinator.durable(write, self.now_ms)

    def beat(self, member="m", epoch=0, topics=None, group="g"):
        topics = ["a"] if topics is None and epoch == 0 else topics
        heartbeat = Heartbeat(group_id=group, member_id=member, member_epoch=epoch, topics=topics, client_id="c")
        answer = self.share.heartbeat(heartbeat, self.topics.get, self.now_ms)
        self.keep(answer.write)
        return answer

    def refused(self, *arguments, **named):
        with pytest.raises(ShareGroupError) as refused:
            self.beat(*arguments, **named)
        return refused.value.code

    def restart(self):
        other = Driver(self.topics, self.config, self.own)
        for record in self.journal:
            replay_group(other.coordinator, record)
        other.coordinator.loaded(self.now_ms)
        other.journal, other.now_ms = list(self.journal), self.now_ms
        return other


def test_the_first_member_gets_everything():
    """The same response initializes the partitions."""
    driver = Driver()
    answer = driver.beat()
    assert (answer.member_epoch, answer.assignment) == (1, {A: frozenset({0, 1})})
    assert [(one.topic_id, one.partition) for one in answer.begins] == [(A, 0), (A, 1)]
    again = driver.beat(epoch=1)
    assert (again.assignment, again.write, again.begins) == (None, None, [])


def test_two_members_share_the_partitions_and_a_third_shares_one():
    """No member is idle, and every partition has a reader."""
    driver = Driver()
    driver.beat("one")
    second = driver.beat("two")
    first = driver.beat("one", epoch=1)
    assert sorted([*first.assignment[A], *second.assignment[A]]) == [0, 1]
    third = driver.beat("three")
    assert len(third.assignment[A]) == 1


def test_new_topics_and_partitions_are_noticed():
    """The next heartbeat bumps the epoch and initializes the partitions."""
    driver = Driver({"a": FoundTopic(A, 1)})
    assert driver.beat(topics=["a", "b"]).assignment == {A: frozenset({0})}
    driver.topics["b"] = FoundTopic(B, 1)
    answer = driver.beat(epoch=1)
    assert answer.assignment == {A: frozenset({0}), B: frozenset({0})}
    driver.topics["a"] = FoundTopic(A, 3)
    answer = driver.beat(epoch=answer.member_epoch)
    assert answer.assignment[A] == frozenset({0, 1, 2})
    assert [(one.topic_id, one.partition) for one in answer.begins] == [(A, 1), (A, 2)]
    del driver.topics["b"]
    assert B not in driver.beat(epoch=answer.member_epoch).assignment


def test_many_partitions_are_initialized_over_several_heartbeats(monkeypatch):
    """Partitions that are not initialized have no readers yet."""
    monkeypatch.setattr(coordinator, "PARTITIONS_BEGUN_MAX", 2)
    driver = Driver({"a": FoundTopic(A, 3), "b": FoundTopic(B, 2)})
    begun, epoch, told = [], 0, {}
    for size in (2, 2, 1, 0):
        answer = driver.beat(epoch=epoch, topics=["a", "b"] if epoch == 0 else None)
        begun += [(one.topic_id, one.partition) for one in answer.begins]
        epoch, told = answer.member_epoch, answer.assignment or told
        assert len(answer.begins) == size
        assert {(topic, partition) for topic, partitions in told.items() for partition in partitions} == set(begun)
        driver = driver.restart()
    assert begun == [(A, 0), (A, 1), (A, 2), (B, 0), (B, 1)]


def test_assignments_respect_the_interval():
    """Within the interval members keep their assignments; only a joining member gets one at once."""
    driver = Driver(own={"share.assignment.interval.ms": "1000"})
    driver.beat("one")
    assert len(driver.beat("two").assignment[A]) == 1
    driver.beat("one", epoch=-1)
    assert driver.beat("two", epoch=2).assignment is None
    driver.now_ms += 1000
    assert len(driver.beat("two", epoch=2).assignment[A]) == 2


def test_unexpected_epochs_are_fenced():
    """The previous epoch is accepted; an unknown member must join first."""
    driver = Driver()
    driver.beat("one")
    driver.beat("two")
    assert driver.beat("one", epoch=1).member_epoch == 2
    assert driver.beat("one", epoch=1).member_epoch == 2
    assert driver.refused("one", epoch=7) is ErrorCode.FENCED_MEMBER_EPOCH
    assert driver.refused("nobody", epoch=1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.refused("m", epoch=1, group="none") is ErrorCode.GROUP_ID_NOT_FOUND


def test_a_full_share_group_refuses_new_members():
    driver = Driver()
    for member in ("one", "two", "three"):
        driver.beat(member)
    assert driver.refused("four") is ErrorCode.GROUP_MAX_SIZE_REACHED


@pytest.mark.parametrize(
    ("config", "own", "timeout_ms"),
    [
        (BrokerConfig(group_share_session_timeout_ms=50_000), {}, 50_000),
        (CONFIG, {"share.session.timeout.ms": "55000"}, 55_000),
    ],
)
def test_after_a_restart_a_member_expires_after_the_session_timeout_of_its_group(config, own, timeout_ms):
    """As in Kafka's GroupMetadataManager.onLoaded."""
    driver = Driver(config=config, own=own)
    driver.beat()
    driver = driver.restart()
    assert driver.coordinator.advance(driver.now_ms + timeout_ms - 1).writes == []
    assert len(driver.coordinator.advance(driver.now_ms + timeout_ms).writes) == 1


def test_members_leave_or_expire():
    """Their partitions go to the others."""
    driver = Driver()
    driver.beat("one")
    driver.beat("two")
    assert driver.beat("one", epoch=-1).member_epoch == -1
    assert driver.refused("one", epoch=-1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.beat("two", epoch=2).assignment == {A: frozenset({0, 1})}
    assert driver.coordinator.next_deadline_ms() is not None
    driver.now_ms += SETTINGS.session_timeout_ms
    for write in driver.coordinator.advance(driver.now_ms).writes:
        driver.keep(write)
    described = driver.share.describe("g")
    assert (described.state, described.assignment_epoch) == ("Empty", described.group_epoch)
    again = driver.restart()
    assert again.share.describe("g") == described


def test_only_durable_state_is_shown():
    driver = Driver()
    heartbeat = Heartbeat(group_id="g", member_id="m", member_epoch=0, topics=["a"])
    answer = driver.share.heartbeat(heartbeat, driver.topics.get, NOW_MS)
    assert driver.coordinator.list_groups() == []
    with pytest.raises(ShareGroupError):
        driver.share.describe("g")
    driver.keep(answer.write)
    (listed,) = driver.coordinator.list_groups(types={"share"})
    assert (listed.group_id, listed.state, listed.protocol_type, listed.group_type) == ("g", "Stable", "share", "share")


def test_share_groups_survive_a_restart():
    """Members keep their epochs and assignments."""
    driver = Driver()
    driver.beat("one")
    driver.beat("two")
    driver.beat("one", epoch=1)
    again = driver.restart()
    assert again.share.describe("g") == driver.share.describe("g")
    assert again.beat("one", epoch=2).write is None
    driver.beat("one", epoch=-1)
    assert {member.member_id for member in driver.restart().share.describe("g").members} == {"two"}


def test_groups_are_deleted_when_empty():
    """A deleted group does not return after a restart, and its id is free."""
    driver = Driver()
    driver.beat()
    assert driver.coordinator.delete(["g"], NOW_MS)[0] == {"g": ErrorCode.NON_EMPTY_GROUP}
    driver.beat(epoch=-1)
    errors, outcome = driver.coordinator.delete(["g"], NOW_MS)
    assert errors == {"g": ErrorCode.NONE}
    for write in outcome.writes:
        driver.keep(write)
    assert driver.coordinator.list_groups() == []
    assert driver.restart().coordinator.list_groups() == []
    assert driver.beat().member_epoch == 1


def test_a_name_belongs_to_one_kind():
    driver = Driver()
    driver.coordinator.classic.create("classic", NOW_MS)
    assert driver.refused(group="classic") is ErrorCode.GROUP_ID_NOT_FOUND


def test_classic_members_cannot_join_a_share_group():
    driver, groups = Driver(), Groups()
    driver.beat()
    groups.coordinator = driver.coordinator
    assert groups.join("join").error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert [group.group_type for group in driver.coordinator.list_groups()] == ["share"]


def test_a_changed_subscription_bumps_the_epoch_even_without_a_new_assignment():
    """The epoch is written with the member's record."""
    driver = Driver()
    epoch = driver.beat().member_epoch
    answer = driver.beat(epoch=epoch, topics=["a", "none"])
    assert (answer.member_epoch, driver.share.existing("g").epoch) == (epoch + 1, epoch + 1)
    assert answer.assignment is None
    (member,) = driver.restart().share.describe("g").members
    assert (member.topics, member.member_epoch) == (("a", "none"), epoch + 1)


def test_a_group_of_missing_topics_has_kafkas_hash_0():
    driver = Driver()
    driver.beat(topics=["none"])
    assert driver.share.existing("g").metadata_hash == 0


def test_a_member_keeps_its_rack_until_it_sends_another():
    driver = Driver()

    def racks(epoch, rack_id):
        heartbeat = Heartbeat(
            group_id="g", member_id="m", member_epoch=epoch, rack_id=rack_id, topics=["a"], client_id="c"
        )
        driver.keep(driver.share.heartbeat(heartbeat, driver.topics.get, NOW_MS).write)
        return [member.rack_id for member in driver.share.existing("g").members.values()]

    assert [racks(0, "one"), racks(1, None), racks(1, "two")] == [["one"], ["one"], ["two"]]


def test_a_group_may_be_created_by_setting_its_offsets():
    driver = Driver()
    group, written = driver.share.create("g", 2)
    written.append(driver.share.begin(group, "a", A, frozenset({1})))
    assert driver.coordinator.list_groups() == []
    driver.keep(driver.share.write(group, written))
    for each in (driver, driver.restart()):
        described = each.share.describe("g")
        assert (described.state, described.group_epoch, described.assignment_epoch) == ("Empty", 1, 1)
        assert described.initialized == {A: frozenset({1})}
        assert each.share.all() == [each.share.existing("g")]
    assert driver.share.create("g", 2) == (group, []), "there is one"
    assert driver.share.write(group, []) is None
    assert driver.share.forget(group, {B}) == []
    driver.keep(driver.share.write(group, driver.share.forget(group, {A, B})))
    assert driver.restart().share.describe("g").initialized == {}
    assert [(one.topic_id, one.partition) for one in driver.beat().begins] == [(A, 0), (A, 1)]


def test_the_id_of_a_deleted_group_is_free_before_the_deletion_is_durable():
    driver = Driver()
    driver.beat()
    driver.beat(epoch=-1)
    old = driver.share.existing("g")
    errors, outcome = driver.coordinator.delete(["g", "g"], NOW_MS)
    assert (errors, len(outcome.writes)) == ({"g": ErrorCode.NONE}, 1)
    assert (driver.share.find("g"), driver.share.all()) == (None, [])
    assert driver.refused(epoch=1) is ErrorCode.GROUP_ID_NOT_FOUND
    assert driver.refused(epoch=-1) is ErrorCode.GROUP_ID_NOT_FOUND
    answer = driver.beat()
    assert (answer.member_epoch, len(answer.begins)) == (1, 2), "the group starts over"
    for write in outcome.writes:
        driver.coordinator.durable(write, NOW_MS)
    assert driver.share.existing("g") is not old
    assert list(driver.share.existing("g").members) == ["m"]


def test_a_failed_deletion_restores_the_group():
    driver = Driver()
    driver.beat()
    driver.beat(epoch=-1)
    _, outcome = driver.coordinator.delete(["g"], NOW_MS)
    for write in outcome.writes:
        assert driver.coordinator.failed(write, ErrorCode.KAFKA_STORAGE_ERROR, NOW_MS).completions == []
    assert driver.share.find("g") is not None


def test_a_failed_write_of_a_share_group_answers_no_request():
    driver = Driver()
    beat = Heartbeat(group_id="g", member_id="m", member_epoch=0, topics=["a"])
    write = driver.share.heartbeat(beat, driver.topics.get, NOW_MS).write
    assert driver.coordinator.failed(write, ErrorCode.NOT_LEADER_OR_FOLLOWER, NOW_MS) == Outcome()


def test_share_groups_have_no_committed_offsets():
    driver = Driver()
    driver.beat()
    part = PartitionCommit(topic="a", partition=0, offset=5)
    request = CommitRequest(group_id="g", member_id="m", generation_id=1, partitions=[part, part])
    result = driver.coordinator.commit(request, NOW_MS)
    assert (result.errors, result.write) == ((ErrorCode.GROUP_ID_NOT_FOUND,) * 2, None)
    assert driver.coordinator.fetch_error("g", "m", 1) is ErrorCode.GROUP_ID_NOT_FOUND
    assert driver.coordinator.delete_offsets("g", [DeletedOffset("a", 0)]).error is ErrorCode.GROUP_ID_NOT_FOUND
    group = driver.share.existing("g")
    assert (group.is_subscribed_to("a"), group.is_subscribed_to("b")) == (True, False)
    assert group.offset_age() is None
    assert not group.is_deletable_unasked


def test_only_a_group_with_nothing_but_offsets_becomes_a_share_group():
    driver = Driver()
    driver.beat()
    simple, members = GroupCoordinator(BrokerConfig()), Groups()
    part = PartitionCommit(topic="a", partition=0, offset=5)
    simple.durable(simple.commit(CommitRequest(group_id="g", partitions=[part]), NOW_MS).write, NOW_MS)
    for record in driver.journal:
        replay_group(simple, record)
    assert simple.list_groups() == [], "its earlier kind is hidden too"
    simple.loaded(NOW_MS)
    assert simple.share.describe("g") == driver.share.describe("g")
    assert [group.group_type for group in simple.list_groups()] == ["share"]
    members.stable(1)
    with pytest.raises(MisplacedRecordError):
        replay_group(members.coordinator, driver.journal[0])
    with pytest.raises(ShareGroupError, match="not a share group"):
        members.coordinator.share.describe("g")
    assert members.coordinator.share.find("g") is None


def test_lost_share_states_are_initialized_again():
    driver = Driver()
    epoch = driver.beat().member_epoch
    driver.topics["a"] = FoundTopic(A, 2, frozenset({1}))
    assert [(one.topic_id, one.partition) for one in driver.beat(epoch=epoch).begins] == [(A, 1)]
    driver.topics["a"] = FoundTopic(A, 2)
    assert driver.beat(epoch=epoch).begins == []


def test_an_empty_share_group_has_no_timers():
    driver = Driver()
    driver.beat()
    assert driver.share.next_deadline_ms() is not None
    driver.beat(epoch=-1)
    assert driver.share.next_deadline_ms() is None


@pytest.mark.parametrize(("epoch", "compared"), [(7, "greater"), (-7, "smaller")])
def test_fencing_says_whether_the_epoch_is_greater_or_smaller(epoch, compared):
    driver = Driver()
    driver.beat()
    with pytest.raises(ShareGroupError, match=f"has a {compared} member epoch"):
        driver.beat(epoch=epoch)


def test_existing_raises_for_missing_and_deleted_groups():
    driver = Driver()
    driver.beat()
    assert driver.share.existing("g") is driver.share.find("g")
    with pytest.raises(ShareGroupError, match="Group other not found") as refused:
        driver.share.existing("other")
    assert refused.value.code is ErrorCode.GROUP_ID_NOT_FOUND


def test_creating_a_group_by_its_offsets_needs_memory():
    driver = Driver()
    memory = driver.coordinator.memory
    memory.bytes_held = memory.bytes_max - 3 * SHARE_STATE_BYTES
    with pytest.raises(ShareGroupError) as refused:
        driver.share.create("g", 4)
    assert refused.value.code is ErrorCode.GROUP_MAX_SIZE_REACHED
    group, records = driver.share.create("g", 3)
    assert (group.group_id, len(records), driver.share.find("g")) == ("g", 2, group)


def test_unknown_members_cannot_leave_and_unload_answers_no_request():
    driver = Driver()
    assert driver.refused("m", epoch=-1) is ErrorCode.GROUP_ID_NOT_FOUND
    assert driver.share.find("g") is None
    driver.beat()
    assert driver.coordinator.unload(NOW_MS).completions == []
