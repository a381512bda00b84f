"""Static members keep their membership across a restart of the client, which fences the old member id."""

from __future__ import annotations

import pytest

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.state.groups.classic.messages import LeavingMember, MemberProtocol
from tests.state.group_driver import OTHER, Driver


def stable_static(*, hold: bool = False) -> tuple[Driver, str, str]:
    """Return a stable group with the static members `lead` (the leader) and `follow`."""
    driver = Driver()
    driver.join("lead", group_instance_id="lead")
    driver.join("follow", group_instance_id="follow")
    driver.tick(6_000)
    lead, follow = driver.answers["lead"].member_id, driver.answers["follow"].member_id
    driver.sync("sync-follow", follow, 1, group_instance_id="follow")
    driver.sync("sync-lead", lead, 1, group_instance_id="lead", assignments={lead: b"L", follow: b"F"})
    driver.hold = hold
    return driver, lead, follow


def test_static_member_needs_no_id_first() -> None:
    """A static member skips MEMBER_ID_REQUIRED, and its instance id is part of its member id."""
    driver = Driver()
    assert driver.join("a", group_instance_id="i", member_id_required=True) is None
    driver.tick(6_000)
    assert driver.answers["a"].member_id.startswith("i-")
    assert driver.answers["a"].members[0].group_instance_id == "i"


def test_restarted_follower_keeps_its_assignment_without_a_rebalance() -> None:
    """Its join is answered when the new id is durable; then it syncs and gets its old assignment."""
    driver, lead, _ = stable_static(hold=True)
    assert driver.join("again", group_instance_id="follow") is None
    driver.settle()
    result = driver.answers["again"]
    assert (result.generation_id, result.leader, result.skip_assignment, result.members) == (1, lead, False, ())
    assert driver.state == "Stable"
    assert driver.sync("sync", result.member_id, 1, group_instance_id="follow").assignment == b"F"


@pytest.mark.parametrize("skippable", [True, False])
def test_restarted_leader_does_not_assign_again(skippable) -> None:
    """Since version 9 the response says so. Older clients get the old id as leader, so that they act as followers."""
    driver, lead, _ = stable_static()
    result = driver.join("again", group_instance_id="lead", assignment_skippable=skippable)
    if skippable:
        assert (result.leader, result.skip_assignment, len(result.members)) == (result.member_id, True, 2)
    else:
        assert (result.leader, result.skip_assignment, result.members) == (lead, False, ())
    assert driver.coordinator.describe("g").state == "Stable"


def test_restart_with_a_changed_protocol_rebalances() -> None:
    """The group starts over if its members would now elect another protocol."""
    driver, _, follow = stable_static()
    protocols = (MemberProtocol("range", b"range-metadata"), MemberProtocol("sticky", b""))
    assert driver.join("again", group_instance_id="lead", protocols=protocols).generation_id == 1
    driver.leave(LeavingMember(follow))
    lead = driver.answers["again"].member_id
    assert driver.join("alone", lead, group_instance_id="lead", protocols=protocols).generation_id == 2
    driver.sync("sync", lead, 2, assignments={})
    changed = driver.join("other", group_instance_id="lead", protocols=protocols[::-1])
    assert (changed.generation_id, changed.protocol_name) == (3, "sticky")


def test_the_old_id_of_a_static_member_is_fenced() -> None:
    driver, _, follow = stable_static()
    driver.join("again", group_instance_id="follow")
    fenced = ErrorCode.FENCED_INSTANCE_ID
    assert driver.heartbeat(follow, 1, group_instance_id="follow") is fenced
    assert driver.heartbeat(follow, 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.sync("old", follow, 1, group_instance_id="follow").error is fenced
    assert driver.join("old-join", follow, group_instance_id="follow").error is fenced
    assert driver.leave(LeavingMember(follow, "follow")).members[0].error is fenced


@pytest.mark.parametrize("wait", ["join", "sync"])
def test_parked_requests_of_the_old_id_are_answered(wait) -> None:
    driver, lead, follow = stable_static()
    driver.join("lead-again", lead, group_instance_id="lead")
    if wait == "join":
        driver.join("wait", follow + "?", group_instance_id="follow")
        assert driver.answers["wait"].error is ErrorCode.FENCED_INSTANCE_ID
        driver.answers.pop("wait")
        driver.join("blocker")  # keeps the join phase open
    driver.join("follow-again", follow, group_instance_id="follow")
    if wait == "sync":
        driver.sync("wait", follow, 2, group_instance_id="follow")
        assert "wait" not in driver.answers
        driver.join("new-self", group_instance_id="follow")
        assert driver.answers["wait"].error is ErrorCode.FENCED_INSTANCE_ID
        assert driver.state == "PreparingRebalance"


def test_the_old_id_stays_if_the_new_one_cannot_be_stored() -> None:
    """The join gets an error."""
    driver, _, follow = stable_static(hold=True)
    driver.join("again", group_instance_id="follow")
    driver.settle(ErrorCode.KAFKA_STORAGE_ERROR)
    assert driver.answers["again"].error is ErrorCode.KAFKA_STORAGE_ERROR
    assert driver.heartbeat(follow, 1, group_instance_id="follow") is ErrorCode.NONE


def test_a_member_that_keeps_its_old_id_is_restored_with_a_new_session() -> None:
    driver, lead, follow = stable_static(hold=True)
    driver.tick(5_000)
    driver.heartbeat(lead, 1, group_instance_id="lead")
    driver.join("again", group_instance_id="follow", protocols=OTHER, session_timeout_ms=20_000)
    driver.settle(ErrorCode.KAFKA_STORAGE_ERROR)
    found = {member.member_id: member.metadata for member in driver.coordinator.describe("g").members}
    assert found == {lead: b"range-metadata", follow: b"range-metadata"}
    driver.tick(9_999)
    driver.heartbeat(lead, 1, group_instance_id="lead")
    assert driver.state == "Stable"
    driver.tick(1)
    assert [member.member_id for member in driver.coordinator.describe("g").members] == [lead]


@pytest.mark.parametrize("error", [ErrorCode.NONE, ErrorCode.KAFKA_STORAGE_ERROR])
def test_of_two_restarts_in_a_row_the_first_is_fenced_and_the_second_waits_for_its_record(error):
    driver, _, _ = stable_static(hold=True)
    driver.join("first", group_instance_id="follow")
    driver.join("second", group_instance_id="follow")
    assert driver.answers["first"].error is ErrorCode.FENCED_INSTANCE_ID
    driver.settle(None if error is ErrorCode.NONE else error)
    assert driver.answers["second"].error is error
    if error is ErrorCode.NONE:
        assert driver.heartbeat(driver.answers["second"].member_id, 1, group_instance_id="follow") is error


def test_rebalance_overtakes_the_new_id() -> None:
    """A new member joins while the new id is being written: the rebalance answers the parked join, once."""
    driver, lead, _ = stable_static(hold=True)
    driver.join("again", group_instance_id="follow")
    driver.join("new")
    driver.settle()
    assert "again" not in driver.answers
    driver.join("lead-again", lead, group_instance_id="lead")
    assert {driver.answers[token].generation_id for token in ("again", "new", "lead-again")} == {2}


def test_missing_static_members_keep_their_membership() -> None:
    """The end of the join phase drops only dynamic members; static ones expire by their session."""
    driver, lead, follow = stable_static()
    driver.join("lead-again", lead, group_instance_id="lead", session_timeout_ms=60_000)
    for _ in range(11):
        driver.heartbeat(follow, 1, group_instance_id="follow")
        driver.tick(3_000)
    assert [member.member_id for member in driver.answers["lead-again"].members] == [lead, follow]
    driver.tick(10_001)
    assert driver.heartbeat(follow, 2, group_instance_id="follow") is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_missing_static_leader_is_replaced() -> None:
    driver, lead, follow = stable_static()
    driver.join("new")
    driver.join("follow-again", follow, group_instance_id="follow")
    for _ in range(10):
        driver.heartbeat(lead, 1, group_instance_id="lead")
        driver.tick(3_000)
    assert driver.answers["follow-again"].leader == driver.answers["new"].leader != lead
    leader = next(driver.answers[token] for token in ("follow-again", "new") if driver.answers[token].members)
    assert leader.member_id == leader.leader
    assert {member.member_id for member in leader.members} >= {lead, follow}


@pytest.mark.parametrize("both_come", [True, False])
def test_missing_static_members_keep_their_membership_for_another_round(both_come: bool) -> None:
    driver, lead, follow = stable_static()
    driver.join("new")
    driver.leave(LeavingMember(driver.coordinator.describe("g").members[-1].member_id))
    for _ in range(25):
        driver.heartbeat(lead, 1, group_instance_id="lead")
        driver.heartbeat(follow, 1, group_instance_id="follow")
        driver.tick(3_000)
    assert driver.state == "PreparingRebalance"
    driver.join("lead-again", lead, group_instance_id="lead")
    if both_come:
        driver.join("follow-again", follow, group_instance_id="follow")
        assert driver.answers["follow-again"].generation_id == 2
    else:
        for _ in range(10):
            driver.heartbeat(follow, 1, group_instance_id="follow")
            driver.tick(3_000)
    assert driver.answers["lead-again"].generation_id == 2
    assert len(driver.answers["lead-again"].members) == 2


def test_a_restarted_static_member_must_sync_in_time() -> None:
    """Otherwise it is dropped at the end of the sync phase, as its old instance would have been."""
    driver, lead, follow = stable_static()
    driver.join("lead-again", lead, group_instance_id="lead")
    driver.join("follow-again", follow, group_instance_id="follow")
    driver.sync("sync-lead-again", lead, 2, group_instance_id="lead", assignments={lead: b"L", follow: b"F"})
    new = driver.join("new-self", group_instance_id="follow").member_id
    for _ in range(10):
        driver.heartbeat(lead, 2, group_instance_id="lead")
        assert driver.heartbeat(new, 2, group_instance_id="follow") is ErrorCode.NONE
        driver.tick(3_000)
    assert driver.heartbeat(new, 2, group_instance_id="follow") is ErrorCode.UNKNOWN_MEMBER_ID


def test_the_session_of_a_restarted_static_member_begins_with_its_new_id() -> None:
    driver, lead, _ = stable_static()
    new = driver.join("again", group_instance_id="follow").member_id
    driver.tick(9_999)
    driver.heartbeat(lead, 1, group_instance_id="lead")
    assert driver.state == "Stable"
    driver.tick(1)
    assert driver.heartbeat(new, 1, group_instance_id="follow") is ErrorCode.UNKNOWN_MEMBER_ID


def test_static_membership_survives_a_broker_restart() -> None:
    """Instance ids are part of the records."""
    driver, _, follow = stable_static()
    driver.restart()
    result = driver.join("again", group_instance_id="follow")
    assert (result.error, result.generation_id) == (ErrorCode.NONE, 1)
    assert driver.heartbeat(follow, 1, group_instance_id="follow") is ErrorCode.FENCED_INSTANCE_ID
