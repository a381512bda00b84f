"""Operator interventions in groups: expiring members and forcing rebalances."""

from __future__ import annotations

import pytest

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.config.broker_config import BrokerConfig
from pipeline_broker.state.groups.administration import DeletedOffset
from pipeline_broker.state.groups.group import GroupType
from pipeline_broker.state.groups.share.messages import FoundTopic, Heartbeat
from tests.state.groups.consumer.consumer_driver import ConsumerDriver
from tests.state.groups.consumer.test_migration import protocols


class Outsider(ConsumerDriver):
    """A driver with a group `g` of one kind, which has two members."""

    ids: list[str]

    @classmethod
    def of(cls, kind: str) -> Outsider:
        driver = cls(BrokerConfig(group_initial_rebalance_delay_ms=0, group_consumer_assignment_interval_ms=0))
        driver.create("t")
        if kind == "classic":
            driver.ids = driver.stable(2)
        else:
            driver.ids = ["a", "b"]
            for member_id in driver.ids:
                driver.share_beat(member_id) if kind == "share" else driver.enter(member_id)
        return driver

    def share_beat(self, member_id: str) -> None:
        beat = Heartbeat(group_id="g", member_id=member_id, member_epoch=0, topics=["t"])
        found = FoundTopic(self.topics.get("t").topic_id, 4)
        answer = self.coordinator.share.heartbeat(beat, {"t": found}.get, self.now_ms)
        self.pending.append(answer.write)
        self.settle()

    def expire(self, member_id: str | None) -> bool:
        """Return whether a member or group to expire exists."""
        outcome = self.coordinator.expire_members("g", member_id, self.now_ms)
        if outcome is not None:
            self.take(outcome)
        return outcome is not None

    def rebalance(self) -> bool:
        outcome = self.coordinator.force_rebalance("g", self.now_ms)
        if outcome is not None:
            self.take(outcome)
        return outcome is not None

    @property
    def left(self) -> list[str]:
        return list(self.coordinator.registry.get("g").members)


KINDS = pytest.mark.parametrize("kind", ["classic", "consumer", "share"])


def test_offsets_of_subscribed_topics_are_not_deleted():
    driver = Outsider.of("consumer")
    wanted = [DeletedOffset("t", 0), DeletedOffset("other", 0)]
    found = driver.coordinator.delete_offsets("g", wanted)
    assert found.error is ErrorCode.NONE
    assert found.errors == (ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, ErrorCode.NONE)


@KINDS
def test_expiring_one_member_keeps_the_others_also_after_a_restart(kind):
    driver = Outsider.of(kind)
    assert driver.expire(driver.ids[0])
    assert driver.left == driver.ids[1:]
    if kind != "classic":  # members of a classic group are stored only with a generation
        driver.restart()
        assert driver.left == driver.ids[1:]


@KINDS
def test_all_members_of_a_group_expire_together(kind):
    driver = Outsider.of(kind)
    assert driver.expire(None)
    assert driver.left == []
    assert [group.state for group in driver.coordinator.list_groups()] == ["Empty"]


def test_all_members_expire_even_if_the_group_is_downgraded():
    driver = Outsider(BrokerConfig(group_initial_rebalance_delay_ms=0))
    driver.create("t")
    driver.enter("new")
    driver.join("join", protocols=protocols("t"))
    assert driver.left[0] == "new"
    assert driver.expire(None)
    assert driver.left == []
    assert driver.coordinator.registry.get("g").group_type is GroupType.CLASSIC


@KINDS
def test_missing_groups_and_members_cannot_expire(kind):
    driver = Outsider.of(kind)
    assert driver.coordinator.expire_members("other", None, driver.now_ms) is None
    assert driver.coordinator.expire_members("other", "a", driver.now_ms) is None
    assert not driver.expire("stranger")
    assert driver.left == driver.ids


@KINDS
def test_a_forced_rebalance_needs_no_change(kind):
    driver = Outsider.of(kind)
    group = driver.coordinator.registry.get("g")
    if kind == "classic":
        assert driver.heartbeat(driver.ids[0], 1) is ErrorCode.NONE
        assert driver.rebalance()
        assert driver.heartbeat(driver.ids[0], 1) is ErrorCode.REBALANCE_IN_PROGRESS
        return
    epoch = group.epoch
    assert driver.rebalance()
    assert group.epoch == epoch + 1
    driver.restart()
    assert driver.coordinator.registry.get("g").epoch == epoch + 1
    shown = driver.coordinator.share if kind == "share" else driver.coordinator.consumer
    described = shown.describe("g")
    assert (described.group_epoch if kind == "share" else described.epoch) == epoch + 1


@KINDS
def test_an_empty_group_cannot_rebalance(kind):
    driver = Outsider.of(kind)
    assert driver.coordinator.force_rebalance("other", driver.now_ms) is None
    driver.expire(None)
    assert not driver.rebalance()
    driver.hold = True
    assert driver.delete() is ErrorCode.NONE
    assert not driver.rebalance()
    assert not driver.expire(None)


@KINDS
def test_a_group_being_deleted_counts_as_missing(kind):
    driver = Outsider.of(kind)
    driver.expire(None)
    driver.hold = True
    assert driver.delete() is ErrorCode.NONE
    assert driver.delete() is ErrorCode.GROUP_ID_NOT_FOUND
    driver.settle()
    assert driver.coordinator.registry.get("g") is None


def test_every_join_bumps_the_epoch_of_a_share_group():
    driver = Outsider.of("share")
    group = driver.coordinator.registry.get("g")
    for number in range(2):
        epoch = group.epoch
        beat = Heartbeat(group_id="g", member_id=f"new-{number}", member_epoch=0, topics=[])
        answer = driver.coordinator.share.heartbeat(beat, lambda _: None, driver.now_ms)
        driver.pending.append(answer.write)
        driver.settle()
        assert group.epoch == epoch + 1


def test_a_group_of_another_kind_being_deleted_does_not_block_a_new_one():
    driver = Outsider.of("classic")
    driver.expire(None)
    driver.hold = True
    assert driver.delete() is ErrorCode.NONE
    driver.share_beat("m")
    assert driver.left == ["m"]
