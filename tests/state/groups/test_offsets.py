"""Committed offsets, compared with a dictionary: visible once durable, deleted with group, topic or expiration."""

from __future__ import annotations

from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.config.broker_config import BrokerConfig
from pipeline_broker.state.groups import commits
from pipeline_broker.state.groups.administration import DeletedOffset, delete_offsets
from pipeline_broker.state.groups.classic.classic_group import ClassicGroup, GroupState
from pipeline_broker.state.groups.classic.messages import LeavingMember, MemberProtocol
from pipeline_broker.state.groups.commits import CommitRequest, FetchTopic, PartitionCommit
from pipeline_broker.state.groups.consumer.group import ConsumerGroup
from pipeline_broker.state.groups.coordinator import GroupCoordinator
from pipeline_broker.state.groups.memory import GroupMemory
from pipeline_broker.state.groups.offset_expiry import GROUP_COST, OFFSETS_AT_ONCE_MAX, expired
from pipeline_broker.state.groups.offset_records import CommittedOffset, OffsetKey
from pipeline_broker.state.groups.offsets import CommittedOffsets
from tests.crashes.lengths import examples
from tests.state.group_driver import Driver
from tests.state.replaying import replay_group

RETENTION_MS = 60_000
SETTINGS = BrokerConfig(
    offsets_retention_minutes=1, offsets_retention_check_interval_ms=10_000, offset_metadata_max_bytes=8
)
GROUPS = st.sampled_from(["a", "b"])
TOPICS = st.sampled_from(["t", "u"])
PARTITIONS = st.integers(0, 1)
TOPIC_ID = bytes(range(16))


def commit(driver, group_id="g", offset=1, topic="t", partition=0, **more):
    partition_more = {name: more.pop(name) for name in ("metadata", "leader_epoch", "topic_id") if name in more}
    wanted = PartitionCommit(topic=topic, partition=partition, offset=offset, **partition_more)
    result = driver.coordinator.commit(CommitRequest(group_id=group_id, partitions=[wanted], **more), driver.now_ms)
    if result.write is not None:
        driver.pending.append(result.write)
        if not driver.hold:
            driver.settle()
    return result.errors[0]


def offsets(coordinator, group_id="g"):
    return {(found.topic, found.partition): found.committed.offset for found in coordinator.fetch(group_id)}


class OffsetLives(RuleBasedStateMachine):
    """Simple groups; each action updates a dictionary once its write is durable."""

    def __init__(self) -> None:
        super().__init__()
        self.driver = Driver(SETTINGS, hold=True)
        self.durable: dict[tuple[str, str, int], tuple[int, int]] = {}  # -> offset, when it was committed
        self.coming: list[tuple[tuple[str, str, int], tuple[int, int] | None]] = []
        self.next_offset = 0

    def dead(self, group_id) -> bool:
        return self.driver.coordinator.describe(group_id).state == "Dead" and any(
            write.subject == group_id for write in self.driver.pending
        )

    @rule(group_id=GROUPS, topic=TOPICS, partition=PARTITIONS)
    def commit(self, group_id, topic, partition) -> None:
        self.next_offset += 1
        dead = self.dead(group_id)
        error = commit(self.driver, group_id, self.next_offset, topic, partition)
        if dead:
            assert error is ErrorCode.COORDINATOR_NOT_AVAILABLE
        else:
            assert error is ErrorCode.NONE
            self.coming.append(((group_id, topic, partition), (self.next_offset, self.driver.now_ms)))

    @rule(group_id=GROUPS)
    def delete(self, group_id) -> None:
        if self.driver.delete(group_id) is ErrorCode.NONE:
            keys = dict.fromkeys([*self.durable, *(key for key, _ in self.coming)])
            self.coming += [(key, None) for key in keys if key[0] == group_id]

    @rule(topic=TOPICS)
    def delete_topic(self, topic) -> None:
        self.driver.take(self.driver.coordinator.forgetting.forget_topic(topic))
        keys = dict.fromkeys([*self.durable, *(key for key, _ in self.coming)])
        self.coming += [(key, None) for key in keys if key[1] == topic]

    @rule()
    def settle(self) -> None:
        self.driver.settle()
        for key, value in self.coming:
            if value is None:
                self.durable.pop(key, None)
            else:
                self.durable[key] = value
        self.coming.clear()

    @rule()
    def fail_and_stop(self) -> None:
        self.driver.settle(ErrorCode.KAFKA_STORAGE_ERROR)
        assert not self.driver.coordinator._offsets._unsettled
        self.what_is_durable_is_visible()
        self.crash()

    @rule()
    def crash(self) -> None:
        self.driver.restart()
        self.coming.clear()

    @rule(delay_ms=st.sampled_from([1_000, RETENTION_MS // 2, RETENTION_MS + 10_000]))
    def wait(self, delay_ms) -> None:
        self.settle()
        self.driver.hold = False
        for _ in range(0, delay_ms, 1_000):  # each check of the retention at its own time
            before = self.driver.now_ms
            deadline_ms = self.driver.coordinator.next_deadline_ms()
            self.driver.tick(1_000)
            if before < deadline_ms <= before + 1_000:
                self.durable = {
                    key: value for key, value in self.durable.items() if deadline_ms - value[1] < RETENTION_MS
                }
        self.driver.hold = True

    @invariant()
    def what_is_durable_is_visible(self) -> None:
        for group_id in ("a", "b"):
            expected = {key[1:]: value[0] for key, value in self.durable.items() if key[0] == group_id}
            if not self.dead(group_id):
                assert offsets(self.driver.coordinator, group_id) == expected
        replayed = GroupCoordinator(SETTINGS)
        for record in self.driver.journal:
            replay_group(replayed, record)
        everything = {(group_id, *key) for group_id in ("a", "b") for key in offsets(replayed, group_id)}
        assert everything == set(self.durable)


TestOffsetLives = OffsetLives.TestCase
TestOffsetLives.settings = hypothesis_settings(max_examples=examples(100), stateful_step_count=25, deadline=None)


def test_fetch_of_an_offset_that_was_never_committed() -> None:
    """Offset -1 and empty metadata without an error, also for an unknown group."""
    driver = Driver()
    commit(driver, offset=7, partition=1, metadata="m", leader_epoch=3)
    found = driver.coordinator.fetch("g", [FetchTopic("t", [0, 1]), FetchTopic("u", [0])])
    assert [(one.topic, one.partition, one.committed.offset) for one in found] == [
        ("t", 0, -1),
        ("t", 1, 7),
        ("u", 0, -1),
    ]
    assert (found[1].committed.metadata, found[1].committed.leader_epoch) == ("m", 3)
    assert driver.coordinator.fetch("h", [FetchTopic("t", [0])])[0].committed.metadata == ""


def test_the_metadata_of_one_commit_have_a_common_limit(monkeypatch) -> None:
    monkeypatch.setattr(commits, "METADATA_BYTES_MAX", 10)
    driver = Driver(SETTINGS)
    wanted = [PartitionCommit(topic="t", partition=number, offset=1, metadata="m" * 5) for number in range(3)]
    results = [driver.coordinator.commit(CommitRequest(group_id="g", partitions=wanted[:count]), 0) for count in (3, 2)]
    assert [set(result.errors) for result in results] == [{ErrorCode.INVALID_COMMIT_OFFSET_SIZE}, {ErrorCode.NONE}]
    assert results[0].write is None


def test_metadata_has_a_limit() -> None:
    """Only the partition with the long text fails."""
    driver = Driver(SETTINGS)
    assert commit(driver, metadata="m" * 9) is ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert commit(driver, metadata="m" * 8) is ErrorCode.NONE


def test_offset_of_a_deleted_topic_is_not_returned() -> None:
    """A commit with a topic id does not apply to a new topic of the same name; a commit without one may."""
    driver = Driver()
    commit(driver, topic_id=TOPIC_ID)
    commit(driver, partition=1)
    driver.restart()
    for topic_id, expected in [(TOPIC_ID, [1, 1]), (bytes(16), [1, 1]), (TOPIC_ID[::-1], [-1, 1])]:
        found = driver.coordinator.fetch("g", [FetchTopic("t", [0, 1], topic_id)])
        assert [one.committed.offset for one in found] == expected


def test_commit_with_its_own_retention() -> None:
    """Old clients send their own retention time, which survives a restart."""
    driver = Driver(SETTINGS)
    commit(driver, retention_ms=600_000)
    driver.restart()
    driver.tick(599_000)
    assert offsets(driver.coordinator) == {("t", 0): 1}
    driver.tick(20_000)
    assert offsets(driver.coordinator) == {}
    assert driver.coordinator.list_groups() == []


def test_an_offset_with_retention_0_expires_at_the_next_check() -> None:
    driver = Driver(SETTINGS)
    commit(driver, retention_ms=0)
    commit(driver, partition=1)
    driver.tick(10_000)
    assert offsets(driver.coordinator) == {("t", 1): 1}


def test_a_group_without_offsets_takes_no_memory() -> None:
    """Clients choose the names: each one that stays would take memory for ever."""
    held = CommittedOffsets(GroupMemory(1 << 20))
    keys = [OffsetKey("g", topic, partition) for topic in "tu" for partition in (0, 1)]
    held.apply(held.change((key, CommittedOffset(1)) for key in keys))
    held.drop(held.change((key, CommittedOffset(2)) for key in keys))
    for count, key in enumerate(keys, 1):
        held.apply(held.change([(key, None)]))
        assert held.count("g") == len(keys) - count
        assert list(held.of_topic(key.topic)) == ["g"] * (count % 2)
    assert (held._groups, held._unsettled, held.memory.bytes_held) == ({}, {}, 0)


def test_offsets_expire_while_another_group_is_deleted() -> None:
    driver = Driver(SETTINGS)
    for group_id in ("a", "b"):
        commit(driver, group_id)
    driver.hold = True
    driver.delete("a")
    driver.tick(RETENTION_MS + 10_000)
    assert [write.subject for write in driver.pending] == ["a", "b"]
    driver.settle()
    assert driver.coordinator.list_groups() == []


def test_an_expiration_time_in_1970_is_valid() -> None:
    """Only a negative time leaves the expiration to the broker."""
    group, offsets = ConsumerGroup(group_id="g"), CommittedOffsets(GroupMemory(1 << 20))
    keys = [OffsetKey("g", "t", partition) for partition in range(3)]
    times = (0, 5, -1)
    changes = [(key, CommittedOffset(1, -1, "", 1, time)) for key, time in zip(keys, times, strict=True)]
    offsets.apply(offsets.change(changes))
    assert expired(group, offsets, 1_000, 4) == keys[:1]
    assert expired(group, offsets, 1_000, 5) == keys[:2]
    assert expired(group, offsets, 1_000, 1_000) == keys[:2]
    assert expired(group, offsets, 1_000, 1_001) == keys
    group = ClassicGroup(group_id="g", protocol_type="connect", state=GroupState.STABLE)
    assert expired(group, offsets, 1_000, 1_001) == [], "the topics of its members are unknown"


def test_expiration_checks_each_group_once_in_several_turns() -> None:
    driver = Driver(SETTINGS)
    groups = [f"g{number}" for number in range(3 * OFFSETS_AT_ONCE_MAX // (2 * GROUP_COST))]
    for group_id in groups:
        commit(driver, group_id)
    coordinator = driver.coordinator
    now_ms, gone, turns = driver.now_ms + 2 * RETENTION_MS, [], 0
    while not turns or coordinator.next_deadline_ms() == 0:
        turns += 1
        some = [write.subject for write in coordinator.advance(now_ms).writes]
        assert len(some) <= OFFSETS_AT_ONCE_MAX // (1 + GROUP_COST) + 1
        gone += some
    assert turns == 2
    assert gone == groups
    assert coordinator.next_deadline_ms() == now_ms + SETTINGS.offsets_retention_check_interval_ms


def test_offsets_of_a_consumed_topic_do_not_expire() -> None:
    """Offsets of subscribed topics stay until the group is empty; others expire."""
    subscription = b"\x00\x00" + b"\x00\x00\x00\x01" + b"\x00\x01t" + b"\xff\xff\xff\xff"
    driver = Driver(SETTINGS)
    driver.join("join", protocols=(MemberProtocol("range", subscription),), session_timeout_ms=1_800_000)
    driver.tick(6_000)
    member_id = driver.answers["join"].member_id
    driver.sync("sync", member_id, 1, assignments={member_id: b"all"})
    for topic in "tu":
        commit(driver, topic=topic, member_id=member_id, generation_id=1)
    driver.tick(RETENTION_MS + 20_000)
    assert offsets(driver.coordinator) == {("t", 0): 1}
    driver.leave(LeavingMember(member_id))
    driver.tick(RETENTION_MS - 20_000)
    assert offsets(driver.coordinator) == {("t", 0): 1}
    driver.tick(40_000)
    assert driver.coordinator.list_groups() == []


def test_offset_with_a_pending_commit_does_not_expire() -> None:
    """The tombstone would come after the new offset and delete it."""
    driver = Driver(SETTINGS)
    commit(driver, offset=1)
    driver.tick(RETENTION_MS - 5_000)
    driver.hold = True
    commit(driver, offset=2)
    driver.tick(20_000)
    driver.settle()
    assert offsets(driver.coordinator) == {("t", 0): 2}
    driver.restart()
    assert offsets(driver.coordinator) == {("t", 0): 2}


def test_group_with_an_unreadable_subscription_keeps_its_offsets() -> None:
    """Without known subscriptions nothing expires."""
    driver = Driver(SETTINGS)
    ids = driver.stable(1)
    commit(driver, member_id=ids[0], generation_id=1)
    for _ in range(20):
        driver.heartbeat(ids[0], 1)
        driver.tick(RETENTION_MS // 10)
    assert offsets(driver.coordinator) == {("t", 0): 1}


def test_commit_keeps_the_session_of_a_member() -> None:
    """A commit counts as a heartbeat."""
    driver = Driver()
    ids = driver.stable(1)
    for _ in range(5):
        driver.tick(9_000)
        assert commit(driver, member_id=ids[0], generation_id=1) is ErrorCode.NONE


class NotWalked(CommittedOffsets):
    """Offsets of a large group, of which no turn may visit all."""

    def of_group(self, group_id):
        raise AssertionError(f"all offsets of {group_id} are visited")


def test_deleting_some_offsets_visits_no_others():
    """A group may have 100,000 offsets. Pending and held ones among the requested offsets are deleted, too."""
    made = NotWalked(GroupMemory(2**30))
    keys = [OffsetKey("g", "t", partition) for partition in range(5)]
    for key in keys[:3]:
        made.replay(key, CommittedOffset(1))
    made.replay_held(1, keys[3], CommittedOffset(1))
    made.change([(keys[4], CommittedOffset(1))])
    wanted = [DeletedOffset("t", partition) for partition in (4, 7, 1, 3, 1)]
    found = delete_offsets(ClassicGroup(group_id="g"), made, "g", wanted)
    assert found.errors == (ErrorCode.NONE,) * len(wanted)
    assert [key for key, _ in found.write.change.changes] == [keys[4], keys[1], keys[3]]
