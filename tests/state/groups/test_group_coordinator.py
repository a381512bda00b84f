"""Groups of several kinds side by side: ids, lists, deletion, offsets."""

from __future__ import annotations

import subprocess
import sys

import pytest

from pipeline_broker.state.groups.administration import DeletedOffset
from pipeline_broker.state.groups.classic.messages import LeavingMember
from pipeline_broker.state.groups.commits import CommitRequest, PartitionCommit
from pipeline_broker.state.groups.consumer.group import ConsumerGroup
from pipeline_broker.state.groups.registry import GroupRegistry
from pipeline_broker.wire.error import ErrorCode
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


def delete_offsets(driver, topic="t"):
    result = driver.coordinator.delete_offsets("g", [DeletedOffset(topic, 0)])
    if result.write is not None:
        driver.pending.append(result.write)
        driver.settle()
    return result.error, result.errors


def test_a_registry_shows_what_is_durable_and_decides_on_what_comes():
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
    """Nor classic groups before somebody asks for one."""
    script = """
import sys
from pipeline_broker.state.groups.coordinator import GroupCoordinator
from pipeline_broker.state.groups.settings import GroupSettings
coordinator = GroupCoordinator(GroupSettings())
loaded = {name.split(".")[3] for name in sys.modules if name.startswith("pipeline_broker.state.groups.")}
assert "classic" not in loaded and "consumer" not in loaded, loaded
coordinator.classic
loaded = {name.split(".")[3] for name in sys.modules if name.startswith("pipeline_broker.state.groups.")}
assert "classic" in loaded and "consumer" not in loaded, loaded
"""
    subprocess.run([sys.executable, "-c", script], check=True)


def test_offsets_of_a_classic_group_are_deleted_but_of_topics_that_are_consumed(driver):
    assert delete_offsets(driver) == (ErrorCode.GROUP_ID_NOT_FOUND, ())
    commit(driver)
    assert delete_offsets(driver) == (ErrorCode.NONE, (ErrorCode.NONE,))
    assert driver.coordinator.fetch("g") == []
    ids = driver.stable(1)
    assert delete_offsets(driver) == (ErrorCode.NONE, (ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,)), (
        "nobody can read what it is"
    )
    driver.leave(LeavingMember(ids[0]))
    assert delete_offsets(driver) == (ErrorCode.NONE, (ErrorCode.NONE,))


def test_offsets_of_members_that_are_no_consumers_are_not_deleted(driver):
    driver.join("connect", protocol_type="connect")
    driver.tick(10_000)
    assert delete_offsets(driver) == (ErrorCode.NON_EMPTY_GROUP, ())


def test_offsets_on_their_way_are_deleted_too(driver):
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


@pytest.mark.parametrize("settled", [True, False])
def test_a_consumer_group_is_deleted_and_made_again(driver, settled):
    """Also while its deletion is on its way."""
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


def test_a_deletion_that_is_not_durable_was_none(driver):
    driver.enter("m")
    driver.beat("m", member_epoch=-1)
    driver.hold = True
    driver.delete()
    driver.restart()
    assert driver.coordinator.consumer.describe("g").state == "Empty"


def test_who_waits_is_told_when_the_topic_of_groups_goes(driver):
    driver.hold = True
    driver.enter("m")
    driver.pending.clear()
    outcome = driver.coordinator.unload(driver.now_ms)
    assert [completion.result.error for completion in outcome.completions] == [ErrorCode.NOT_COORDINATOR]
