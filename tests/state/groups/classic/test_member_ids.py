"""Ids of members: somebody new is told one first, and a rebalance waits for it (KIP-394)."""

from __future__ import annotations

from pipeline_broker.state.groups.classic.messages import LeavingMember
from pipeline_broker.wire.error import ErrorCode
from tests.state.group_driver import Driver


def test_member_id_is_required_first() -> None:
    """From version 4 somebody new is told its id and joins with it; until then it is not a member."""
    driver = Driver()
    first = driver.join("first", member_id_required=True)
    assert first.error is ErrorCode.MEMBER_ID_REQUIRED
    assert first.member_id.startswith("client-")
    assert driver.state == "Empty"
    assert driver.join("second", first.member_id, member_id_required=True) is None
    driver.tick(6_000)
    joined = driver.answers["second"]
    assert (joined.error, joined.generation_id, joined.leader) == (ErrorCode.NONE, 1, first.member_id)


def test_a_rebalance_waits_for_whoever_was_just_told_its_id() -> None:
    """KIP-394: the next generation has the member that joins again with the id, instead of one more rebalance."""
    driver = Driver()
    (old,) = driver.stable(1)
    told = driver.join("told", member_id_required=True)
    assert driver.join("again", old) is None
    assert driver.state == "PreparingRebalance"
    driver.join("new", told.member_id, member_id_required=True)
    joined = driver.answers["again"], driver.answers["new"]
    assert [(one.error, one.generation_id) for one in joined] == [(ErrorCode.NONE, 2)] * 2


def test_a_rebalance_waits_no_longer_for_an_id_that_has_expired() -> None:
    """Whoever was told an id and never came again holds the others up for its session timeout at most."""
    driver = Driver()
    (old,) = driver.stable(1)
    driver.join("told", member_id_required=True)
    assert driver.join("again", old) is None
    driver.tick(9_999)
    assert "again" not in driver.answers
    driver.tick(1)
    assert driver.answers["again"].generation_id == 2


def test_an_id_that_was_given_out_goes_with_its_group() -> None:
    """Nothing is waited for in a group that is being deleted, nor when it stays after all."""
    driver = Driver(hold=True)
    first = driver.join("first", member_id_required=True)
    assert driver.delete() is ErrorCode.NONE
    assert driver.coordinator.classic.next_deadline_ms() is None
    driver.settle(ErrorCode.KAFKA_STORAGE_ERROR)
    assert driver.join("second", first.member_id).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_an_id_that_was_given_out_leaves_an_empty_group_as_it_was() -> None:
    driver = Driver()
    first = driver.join("first", member_id_required=True)
    (left,) = driver.leave(LeavingMember(first.member_id)).members
    assert (left.error, driver.state) == (ErrorCode.NONE, "Empty")
    assert driver.join("second", first.member_id).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_an_id_that_was_given_out_expires() -> None:
    """An id nobody joins with is forgotten after the session timeout."""
    driver = Driver()
    first = driver.join("first", member_id_required=True)
    driver.tick(10_001)
    assert driver.join("second", first.member_id).error is ErrorCode.UNKNOWN_MEMBER_ID
