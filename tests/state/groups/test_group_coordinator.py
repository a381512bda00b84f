"""Groups of several kinds side by side: ids, lists, deletion and offsets."""

from __future__ import annotations

import subprocess
import sys

import attrs
import pytest

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.config.broker_config import BrokerConfig
from pipeline_broker.state.groups.administration import DeletedOffset
from pipeline_broker.state.groups.classic.messages import LeavingMember
from pipeline_broker.state.groups.commits import CommitRequest, FetchTopic, PartitionCommit
from pipeline_broker.state.groups.consumer.group import ConsumerGroup
from pipeline_broker.state.groups.coordinator import GroupCoordinator
from pipeline_broker.state.groups.records import read_group_record
from pipeline_broker.state.groups.registry import GroupRegistry
from tests.state.groups.consumer.consumer_driver import ConsumerDriver


@pytest.fixture
def driver() -> ConsumerDriver:
    driver = ConsumerDriver()
    driver.create("t")
    return driver


def commit(driver, group_id="g", member_id="", generation_id=-1, topic="t"):
    parts = [PartitionCommit(topic=topic, partition=0, offset=5)]
    request = CommitRequest(group_id=group_id, member_id=member_id, generation_id=generation_id, partitions=parts)
    result = driver.coordinator.commit(request, driver.now_ms)
    if result.write is not None:
        driver.pending.append(result.write)
        driver.settle()
    return result.errors[0]


def delete_offsets(driver, topic="t", group_id="g"):
    result = driver.coordinator.delete_offsets(group_id, [DeletedOffset(topic, 0)])
    if result.write is not None:
        driver.pending.append(result.write)
        driver.settle()
    return result.error, result.errors


def test_the_registry_has_a_pending_and_a_durable_view():
    registry = GroupRegistry()
    old, new = ConsumerGroup(group_id="g"), ConsumerGroup(group_id="g")
    registry.put(old)
    assert (registry.get("g"), registry.shown("g")) == (old, None)
    registry.show(old)
    registry.put(new)
    registry.remove(old)
    assert (registry.get("g"), registry.shown("g")) == (new, old), "another one has its id by now"
    registry.show(new)
    registry.hide(old)
    assert [*registry.all_shown()] == [new]


def test_a_broker_without_consumer_groups_does_not_load_them():
    """Classic groups are also loaded on first use only."""
    script = """
import sys
from pipeline_broker.config.broker_config import BrokerConfig
from pipeline_broker.state.groups.coordinator import GroupCoordinator
coordinator = GroupCoordinator(BrokerConfig())
loaded = {name.split(".")[3] for name in sys.modules if name.startswith("pipeline_broker.state.groups.")}
assert "classic" not in loaded and "consumer" not in loaded, loaded
coordinator.classic
loaded = {name.split(".")[3] for name in sys.modules if name.startswith("pipeline_broker.state.groups.")}
assert "classic" in loaded and "consumer" not in loaded, loaded
"""
    subprocess.run([sys.executable, "-c", script], check=True)


def test_offsets_of_topics_consumed_by_a_classic_group_are_not_deleted(driver):
    assert delete_offsets(driver) == (ErrorCode.GROUP_ID_NOT_FOUND, ())
    commit(driver)
    assert delete_offsets(driver) == (ErrorCode.NONE, (ErrorCode.NONE,))
    assert driver.coordinator.fetch("g") == []
    ids = driver.stable(1)
    assert delete_offsets(driver) == (ErrorCode.NONE, (ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,)), (
        "its subscription is unreadable"
    )
    driver.leave(LeavingMember(ids[0]))
    assert delete_offsets(driver) == (ErrorCode.NONE, (ErrorCode.NONE,))


def test_offsets_of_the_empty_group_id_are_committed_but_not_deleted(driver):
    for _ in range(2):
        assert delete_offsets(driver, group_id="") == (ErrorCode.INVALID_GROUP_ID, ()), "with a commit and without"
        assert commit(driver, group_id="") is ErrorCode.NONE
    assert len(driver.coordinator.fetch("")) == 1


def test_offsets_of_other_protocol_types_are_not_deleted(driver):
    driver.join("connect", protocol_type="connect")
    driver.tick(10_000)
    assert delete_offsets(driver) == (ErrorCode.NON_EMPTY_GROUP, ())


def test_pending_offsets_are_deleted_too(driver):
    driver.hold = True
    parts = [PartitionCommit(topic="t", partition=0, offset=5)]
    result = driver.coordinator.commit(CommitRequest(group_id="g", partitions=parts), driver.now_ms)
    deletion = driver.coordinator.delete_offsets("g", [DeletedOffset("t", 0)])
    driver.pending += [result.write, deletion.write]
    driver.settle()
    assert driver.coordinator.fetch("g") == []


def test_simple_groups_with_offsets_become_consumer_groups_and_keep_them(driver):
    commit(driver)
    driver.enter("m")
    assert [found.committed.offset for found in driver.coordinator.fetch("g")] == [5]
    driver.restart()
    assert driver.group().members.keys() == {"m"}
    assert [found.committed.offset for found in driver.coordinator.fetch("g")] == [5]


def test_a_simple_group_converted_and_deleted_stays_deleted_after_a_restart(driver):
    """Even if compaction has removed the tombstone of the simple group."""
    commit(driver)
    before = len(driver.journal)
    driver.enter("m")
    assert driver.journal.pop(before).value is None
    driver.beat("m", member_epoch=-1)
    assert driver.delete() is ErrorCode.NONE
    driver.restart()
    assert (driver.coordinator.registry.get("g"), driver.coordinator.list_groups()) == (None, [])


@pytest.mark.parametrize("settled", [True, False])
def test_a_consumer_group_is_deleted_and_created_again(driver, settled):
    """Also while its deletion is pending."""
    driver.enter("m")
    commit(driver, member_id="m", generation_id=2)
    driver.beat("m", member_epoch=-1)
    driver.hold = True
    assert driver.delete() is ErrorCode.NONE
    assert driver.delete() is ErrorCode.GROUP_ID_NOT_FOUND
    assert driver.coordinator.consumer.describe("g").not_found is None, "it is not durable yet"
    if settled:
        driver.settle()
        assert driver.coordinator.consumer.describe("g").not_found is not None
    driver.enter("m")
    driver.settle()
    described = driver.coordinator.consumer.describe("g")
    assert (described.epoch, len(described.members)) == (2, 1)
    assert driver.coordinator.fetch("g") == []
    driver.hold = False
    driver.restart()
    assert driver.coordinator.consumer.describe("g") == described


def test_a_failed_deletion_restores_the_group(driver):
    driver.enter("m")
    driver.beat("m", member_epoch=-1)
    driver.hold = True
    driver.delete()
    driver.restart()
    assert driver.coordinator.consumer.describe("g").state == "Empty"


def test_offsets_of_a_group_being_deleted_are_hidden(driver):
    commit(driver)
    commit(driver, topic="u")
    assert (driver.coordinator.count_offsets("g"), driver.coordinator.count_offsets("other")) == (2, 0)
    assert driver.coordinator.committed_partitions("g") == {"t": [0], "u": [0]}
    assert driver.coordinator.committed_partitions("other") == {}
    driver.hold = True
    assert driver.delete() is ErrorCode.NONE
    assert (driver.coordinator.fetch("g"), driver.coordinator.count_offsets("g")) == ([], 0)
    assert driver.coordinator.committed_partitions("g") == {}
    (asked,) = driver.coordinator.fetch("g", [FetchTopic("t", [0])])
    assert asked.committed.offset == 5, "a named partition still returns its durable offset"


def test_stable_fetches_do_not_see_offsets_with_open_transactions(driver):
    def told(topics=None):
        found = driver.coordinator.fetch("g", topics, require_stable=True)
        return {(each.partition, each.committed.offset, each.error) for each in found}

    for partition in (0, 1):
        parts = [PartitionCommit(topic="t", partition=partition, offset=5)]
        request = CommitRequest(group_id="g", partitions=parts)
        driver.coordinator.durable(driver.coordinator.commit(request, 0).write, 0)
    held = attrs.evolve(request, producer_id=7)
    driver.coordinator.durable(driver.coordinator.commit(held, 0).write, 0)
    stable, unstable = (0, 5, ErrorCode.NONE), (1, -1, ErrorCode.UNSTABLE_OFFSET_COMMIT)
    assert told() == told([FetchTopic("t", [0, 1])]) == {stable, unstable}
    assert {each.committed.offset for each in driver.coordinator.fetch("g")} == {5}
    driver.coordinator.end_transaction(7, committed=True)
    assert told() == {stable, (1, 5, ErrorCode.NONE)}


@pytest.mark.parametrize("committed", [True, False])
def test_offsets_of_a_transaction_are_replayed_and_count_when_it_commits(driver, committed):
    """The group exists from the replay on. Records of members in a transaction are ignored."""
    parts = [PartitionCommit(topic="t", partition=0, offset=5)]
    request = CommitRequest(group_id="g", partitions=parts, producer_id=7)
    (record,) = driver.coordinator.commit(request, 0).write.records
    driver.enter("m", group_id="members")
    again = GroupCoordinator(BrokerConfig(), driver.topics)
    for each in (record, *driver.journal):
        again.replay_held(7, read_group_record(each.key, each.value))
    assert again.fetch("g") == []
    again.end_transaction(7, committed=committed)
    again.loaded(0)
    assert [each.committed.offset for each in again.fetch("g")] == ([5] if committed else [])
    assert [group.group_id for group in again.list_groups()] == ["g"]


def test_a_replayed_offset_tombstone_creates_no_group(driver):
    commit(driver)
    delete_offsets(driver)
    again = GroupCoordinator(BrokerConfig(), driver.topics)
    tombstone = driver.journal[-1]
    again.replay(read_group_record(tombstone.key, tombstone.value))
    again.replay_held(7, read_group_record(tombstone.key, tombstone.value))
    assert again.list_groups() == []


def test_changed_settings_apply_to_all_kinds_at_once(driver):
    driver.enter("a")
    changed = attrs.evolve(
        driver.settings, group_consumer_max_size=1, group_min_session_timeout_ms=10_001, pipeline_group_bytes=1 << 30
    )
    driver.coordinator.change_config(changed)
    assert driver.enter("b").error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert driver.join("c", group_id="classic").error is ErrorCode.INVALID_SESSION_TIMEOUT
    assert driver.coordinator.memory.bytes_max == 1 << 30


@pytest.mark.parametrize(
    ("more", "error"),
    [
        ({"session_timeout_ms": 5_999}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"member_id": "stranger"}, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_invalid_classic_joins_do_not_convert_an_empty_consumer_group(driver, more, error):
    driver.enter("m")
    driver.beat("m", member_epoch=-1)
    before = len(driver.journal)
    assert driver.join("join", **more).error is error
    assert (len(driver.journal), driver.coordinator.list_groups()[0].group_type) == (before, "consumer")


def test_a_group_named_twice_is_deleted_once_and_one_with_members_is_not(driver):
    driver.enter("m")
    commit(driver, group_id="simple")
    errors, outcome = driver.coordinator.delete(["simple", "g", "simple", "none"], driver.now_ms)
    assert errors == {
        "simple": ErrorCode.NONE,
        "g": ErrorCode.NON_EMPTY_GROUP,
        "none": ErrorCode.GROUP_ID_NOT_FOUND,
    }
    assert len(outcome.writes) == 1


def test_describe_finds_only_groups_of_its_kind(driver):
    driver.enter("m")
    driver.join("join", group_id="classic")
    assert driver.coordinator.describe("g").not_found == "Group g is not a classic group."
    assert driver.coordinator.consumer.describe("classic").not_found == "Group classic is not a consumer group."
    assert driver.coordinator.consumer.describe("none").not_found == "Group none not found."


def test_a_member_that_cannot_be_served_keeps_its_session(driver):
    epoch = driver.enter("m").member_epoch
    driver.tick(40_000)
    for group_id, member_id in (("g", "m"), ("g", "stranger"), ("none", "m")):
        driver.coordinator.consumer.refresh_session(group_id, member_id, driver.now_ms)
    driver.tick(44_999)
    assert driver.beat("m", member_epoch=epoch).error is ErrorCode.NONE
    driver.coordinator.consumer.refresh_session("g", "stranger", driver.now_ms)
    driver.tick(45_000)
    assert driver.group().is_empty


def test_a_join_refused_for_memory_creates_no_group(driver):
    driver.coordinator.change_config(attrs.evolve(driver.settings, pipeline_group_bytes=100))
    assert driver.join("join").error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert driver.coordinator.registry.get("g") is None
    assert driver.coordinator.list_groups() == []


def test_responses_wait_for_a_pending_conversion(driver):
    """They fail if the conversion cannot be stored."""
    driver.hold = True
    driver.enter("m")
    driver.settle()
    driver.beat("m", member_epoch=-1)
    driver.settle(ErrorCode.KAFKA_STORAGE_ERROR)
    assert [answer.error for answer in driver.answers.values()] == [ErrorCode.NONE, ErrorCode.KAFKA_STORAGE_ERROR]


def test_unload_answers_waiting_requests(driver):
    driver.hold = True
    driver.enter("m")
    driver.pending.clear()
    outcome = driver.coordinator.unload(driver.now_ms)
    assert [completion.result.error for completion in outcome.completions] == [ErrorCode.NOT_COORDINATOR]


def test_an_expired_group_stays_while_a_transaction_is_open(driver):
    """Its tombstones would follow the pending offsets in the log, and delete them."""
    commit(driver)
    stored = CommitRequest(group_id="g", partitions=[PartitionCommit("t", 1, 9)], producer_id=7)
    driver.pending.append(driver.coordinator.commit(stored, driver.now_ms).write)
    driver.settle()
    driver.tick(2 * driver.settings.offsets_retention_minutes * 60_000)
    assert [each.group_id for each in driver.coordinator.list_groups()] == ["g"]
    driver.coordinator.end_transaction(7, committed=True)
    assert [(each.partition, each.committed.offset) for each in driver.coordinator.fetch("g")] == [(1, 9)]
