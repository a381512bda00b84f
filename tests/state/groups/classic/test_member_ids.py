"""Member ids of new members: MEMBER_ID_REQUIRED, and pending ids that a rebalance waits for (KIP-394)."""

from __future__ import annotations

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.state.groups.classic.messages import LeavingMember
from tests.state.group_driver import Driver


def test_member_id_is_required_first() -> None:
    """Since version 4, a new client gets its id first and joins with it; until then it is not a member."""
    driver = Driver()
    first = driver.join("first", member_id_required=True)
    assert first.error is ErrorCode.MEMBER_ID_REQUIRED
    assert first.member_id.startswith("client-")
    assert driver.state == "Empty"
    assert driver.join("second", first.member_id, member_id_required=True) is None
    driver.tick(6_000)
    joined = driver.answers["second"]
    assert (joined.error, joined.generation_id, joined.leader) == (ErrorCode.NONE, 1, first.member_id)


def test_a_rebalance_waits_for_a_pending_id() -> None:
    """KIP-394: the next generation includes the member that joins with the id. This saves one more rebalance."""
    driver = Driver()
    (old,) = driver.stable(1)
    told = driver.join("told", member_id_required=True)
    assert driver.join("again", old) is None
    assert driver.state == "PreparingRebalance"
    driver.join("new", told.member_id, member_id_required=True)
    joined = driver.answers["again"], driver.answers["new"]
    assert [(one.error, one.generation_id) for one in joined] == [(ErrorCode.NONE, 2)] * 2


def test_a_rebalance_does_not_wait_for_an_expired_id() -> None:
    """A client that never joins with its id delays the others for at most its session timeout."""
    driver = Driver()
    (old,) = driver.stable(1)
    driver.join("told", member_id_required=True)
    assert driver.join("again", old) is None
    driver.tick(9_999)
    assert "again" not in driver.answers
    driver.tick(1)
    assert driver.answers["again"].generation_id == 2


def test_deleting_a_group_deletes_pending_ids() -> None:
    """They do not return if the deletion fails."""
    driver = Driver(hold=True)
    first = driver.join("first", member_id_required=True)
    assert driver.delete() is ErrorCode.NONE
    assert driver.coordinator.classic.next_deadline_ms() is None
    driver.settle(ErrorCode.KAFKA_STORAGE_ERROR)
    assert driver.join("second", first.member_id).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_pending_id_leaves_the_group_empty() -> None:
    driver = Driver()
    first = driver.join("first", member_id_required=True)
    (left,) = driver.leave(LeavingMember(first.member_id)).members
    assert (left.error, driver.state) == (ErrorCode.NONE, "Empty")
    assert driver.join("second", first.member_id).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_pending_id_expires() -> None:
    driver = Driver()
    first = driver.join("first", member_id_required=True)
    driver.tick(10_001)
    assert driver.join("second", first.member_id).error is ErrorCode.UNKNOWN_MEMBER_ID
