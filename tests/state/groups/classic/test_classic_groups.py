"""Classic groups from the first join to their deletion, and refused requests.

Longer than most files: a group's life has many events, and each is one test.
"""

from __future__ import annotations

import pytest

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.config.broker_config import BrokerConfig
from pipeline_broker.state.groups.classic.messages import LeavingMember, MemberProtocol
from tests.state.group_driver import OTHER, Driver, in_state


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({"group_id": ""}, ErrorCode.INVALID_GROUP_ID),
        ({"session_timeout_ms": 5_999}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"session_timeout_ms": 1_800_001}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"member_id": "stranger"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"group_id": "h", "member_id": "stranger"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"protocol_type": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocols": (MemberProtocol("sticky", b""),)}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"group_id": "h", "protocols": ()}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"group_id": "h", "protocol_type": ""}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
    ],
)
def test_invalid_joins_are_refused(more, expected) -> None:
    driver, _, _ = in_state("Stable")
    values = {"member_id": ""} | more
    refused = driver.join("bad", **values)
    assert (refused.error, refused.member_id) == (expected, values["member_id"])
    assert driver.state == "Stable"


@pytest.mark.parametrize("timeout_ms", [6_000, 1_800_000])
def test_session_timeout_bounds_are_inclusive(timeout_ms) -> None:
    driver = Driver()
    driver.join("join", session_timeout_ms=timeout_ms)
    driver.tick(3_000)
    joined = driver.answers["join"]
    assert driver.sync("sync", joined.member_id, joined.generation_id).error is ErrorCode.NONE
    driver.tick(timeout_ms - 1)
    assert len(driver.coordinator.describe("g").members) == 1
    driver.tick(1)
    assert not driver.coordinator.describe("g").members


def test_a_rejoin_changes_the_rebalance_timeout() -> None:
    driver = Driver()
    (member_id,) = driver.stable(1)
    joined = driver.join("again", member_id, session_timeout_ms=20_000, rebalance_timeout_ms=60_000)
    driver.sync("sync", member_id, joined.generation_id)
    driver.join("new", rebalance_timeout_ms=1)
    for _ in range(6):
        assert "new" not in driver.answers
        assert driver.heartbeat(member_id, joined.generation_id) is ErrorCode.REBALANCE_IN_PROGRESS
        driver.tick(10_000)
    assert driver.answers["new"].error is ErrorCode.NONE
    driver = Driver()
    (member_id,) = driver.stable(1)
    driver.sync("sync", member_id, driver.join("again", member_id, session_timeout_ms=20_000).generation_id)
    driver.tick(19_999)
    assert driver.state == "Stable"
    driver.tick(1)
    assert driver.state == "Empty"


def test_first_rebalance_waits_and_is_extended() -> None:
    """A join during the initial delay restarts it, up to the rebalance timeout."""
    driver = Driver()
    driver.join("one", rebalance_timeout_ms=7_000)
    driver.tick(2_900)
    driver.join("two", rebalance_timeout_ms=7_000)
    driver.tick(2_900)
    assert "one" not in driver.answers
    driver.join("three", rebalance_timeout_ms=7_000)
    driver.tick(1_300)
    assert {"one", "two", "three"} <= set(driver.answers)
    assert len({driver.answers[token].generation_id for token in ("one", "two", "three")}) == 1


@pytest.mark.parametrize(
    ("timeout_ms", "joins_ms", "answered_ms"),
    [
        (2_000, [0, 1_000], 3_000),
        (3_000, [0, 1_000], 3_000),
        (7_000, [0], 3_000),
        (7_000, [0, 1_000], 6_000),
        (7_000, [0, 1_000, 4_000], 7_000),
        (7_000, [0, 1_000, 4_000, 6_500], 7_000),
        (30_000, [0, 1_000, 4_000, 6_500], 12_000),
    ],
)
def test_the_first_rebalance_ends_after_a_quiet_delay_or_the_timeout(timeout_ms, joins_ms, answered_ms) -> None:
    """It never ends before the first delay is over."""
    driver = Driver(BrokerConfig(group_initial_rebalance_delay_ms=3_000))
    began_ms = driver.now_ms
    for join_ms in joins_ms:
        driver.tick(began_ms + join_ms - driver.now_ms)
        driver.join(str(join_ms), rebalance_timeout_ms=timeout_ms)
    driver.tick(began_ms + answered_ms - 1 - driver.now_ms)
    assert not driver.answers
    driver.tick(1)
    assert set(driver.answers) == set(map(str, joins_ms))


@pytest.mark.parametrize(("size_max", "state"), [(2, "Stable"), (1, "PreparingRebalance")])
def test_a_group_above_the_size_limit_rebalances_after_a_restart(size_max, state) -> None:
    driver = Driver()
    driver.stable(2)
    driver.settings = BrokerConfig(group_max_size=size_max)
    driver.restart()
    assert driver.state == state


def test_an_assignment_stored_late_does_not_apply_to_a_later_generation() -> None:
    driver = Driver()
    (member_id,) = driver.stable(1)
    driver.hold = True
    for generation in (2, 3):
        joined = driver.join(f"join-{generation}", member_id, protocols=(MemberProtocol("range", bytes(generation)),))
        assert joined.generation_id == generation
        driver.sync(f"sync-{generation}", member_id, generation, assignments={member_id: str(generation).encode()})
    assert driver.answers["sync-2"].error is ErrorCode.REBALANCE_IN_PROGRESS
    driver.take(driver.coordinator.durable(driver.pending.pop(0), driver.now_ms))
    assert driver.state == "CompletingRebalance"
    driver.settle()
    assert (driver.state, driver.answers["sync-3"].assignment) == ("Stable", b"3")


def test_a_member_of_a_full_group_may_rejoin() -> None:
    driver = Driver(BrokerConfig(group_max_size=2))
    driver.join("one")
    driver.join("two")
    member_id = driver.coordinator.describe("g").members[1].member_id
    assert driver.join("three").error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert driver.join("two again", member_id) is None
    assert driver.answers["two"].error is ErrorCode.REBALANCE_IN_PROGRESS
    driver.tick(6_000)
    assert [len(driver.answers[token].members) for token in ("one", "two again")] == [2, 0]


def test_a_repeated_sync_restarts_the_session() -> None:
    driver = Driver()
    (member_id,) = driver.stable(1)
    driver.tick(9_999)
    assert driver.sync("again", member_id, 1).error is ErrorCode.NONE
    driver.tick(9_999)
    assert driver.state == "Stable"
    driver.tick(1)
    assert driver.state == "Empty"


def test_an_invalid_join_gets_its_own_error_even_without_memory() -> None:
    driver = Driver(BrokerConfig(pipeline_group_bytes=1))
    assert driver.join("no memory").error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert driver.join("wrong", session_timeout_ms=1).error is ErrorCode.INVALID_SESSION_TIMEOUT
    assert driver.coordinator.memory.refused == 1


def test_only_the_leader_sees_the_members() -> None:
    """Followers get an empty list, and the id of the leader."""
    driver = Driver()
    for token in "abc":
        driver.join(token, protocols=(MemberProtocol("range", token.encode()),))
    driver.tick(6_000)
    seen = [driver.answers[token].members for token in "abc"]
    assert [len(members) for members in seen] == [3, 0, 0]
    assert sorted(member.metadata for member in seen[0]) == [b"a", b"b", b"c"]


def test_members_vote_for_the_protocol() -> None:
    """Only protocols that all members support are candidates. Each member votes for the first one in its list."""
    driver = Driver()

    def protocols(*names: str) -> tuple[MemberProtocol, ...]:
        return tuple(MemberProtocol(name, name.encode()) for name in names)

    driver.join("a", protocols=protocols("mine", "sticky", "range"))
    driver.join("b", protocols=protocols("range", "sticky"))
    driver.join("c", protocols=protocols("range", "sticky"))
    driver.tick(6_000)
    assert {driver.answers[token].protocol_name for token in "abc"} == {"range"}


def test_assignments_wait_for_durability() -> None:
    """All members get their assignments once the record is durable; one without an assignment gets an empty one."""
    driver = Driver()
    for token in "abc":
        driver.join(token)
    driver.tick(6_000)
    driver.hold = True
    ids = [driver.answers[token].member_id for token in "abc"]
    driver.sync("sync-b", ids[1], 1)
    driver.sync("sync-a", ids[0], 1, assignments={ids[0]: b"A", ids[1]: b"B", "stranger": b"?"})
    assert driver.state == "CompletingRebalance"
    driver.sync("sync-c", ids[2], 1)
    assert not {"sync-a", "sync-b", "sync-c"} & set(driver.answers)
    driver.settle()
    assert [driver.answers[f"sync-{token}"].assignment for token in "abc"] == [b"A", b"B", b""]
    assert driver.state == "Stable"


def test_a_repeated_sync_of_the_leader_stores_one_assignment() -> None:
    """A second record of the same generation could differ from the assignments that members have received."""
    driver = Driver()
    driver.join("a")
    driver.tick(6_000)
    member_id = driver.answers["a"].member_id
    driver.hold = True
    driver.sync("first", member_id, 1, assignments={member_id: b"A"})
    driver.sync("second", member_id, 1, assignments={member_id: b"B"})
    driver.settle()
    assert driver.answers["second"].assignment == b"A"
    (member,) = driver.coordinator.describe("g").members
    assert member.assignment == b"A"
    driver.restart()
    (member,) = driver.coordinator.describe("g").members
    assert member.assignment == b"A"


def test_assignment_that_cannot_be_stored() -> None:
    """Parked syncs get an error, and the group rebalances."""
    driver = Driver()
    driver.join("a")
    driver.tick(6_000)
    member_id = driver.answers["a"].member_id
    driver.hold = True
    driver.sync("sync", member_id, 1, assignments={member_id: b"A"})
    driver.settle(ErrorCode.NOT_ENOUGH_REPLICAS)
    assert driver.answers["sync"].error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert driver.state == "PreparingRebalance"


def test_rebalance_cancels_syncs_and_a_pending_assignment() -> None:
    """A new member joins while the leader's assignment is being written, which then never takes effect."""
    driver = Driver()
    driver.join("a")
    driver.tick(6_000)
    member_id = driver.answers["a"].member_id
    driver.hold = True
    driver.sync("sync", member_id, 1, assignments={member_id: b"A"})
    driver.join("b")
    assert driver.answers["sync"].error is ErrorCode.REBALANCE_IN_PROGRESS
    driver.settle()
    assert driver.state == "PreparingRebalance"


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({"generation_id": 0}, ErrorCode.ILLEGAL_GENERATION),
        ({"member_id": "stranger"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"protocol_type": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_name": "sticky"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"group_id": ""}, ErrorCode.INVALID_GROUP_ID),
        ({"group_id": "h"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"group_instance_id": "i"}, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_invalid_syncs_are_refused(more, expected) -> None:
    driver, ids, _ = in_state("Stable")
    values = {"member_id": ids[1], "generation_id": 1} | more
    assert driver.sync("bad", **values).error is expected


def test_invalid_heartbeats_are_refused() -> None:
    driver, ids, _ = in_state("Stable")
    assert driver.heartbeat(ids[0], 0) is ErrorCode.ILLEGAL_GENERATION
    assert driver.heartbeat("stranger", 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.heartbeat(ids[0], 1, group_id="h") is ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.heartbeat(ids[0], 1, group_id="") is ErrorCode.INVALID_GROUP_ID


def test_session_expires_without_heartbeats() -> None:
    """A silent member is removed after its session timeout. The others stay and must join again."""
    driver, ids, _ = in_state("Stable")
    driver.tick(9_000)
    assert driver.heartbeat(ids[0], 1) is ErrorCode.NONE
    driver.tick(2_000)
    assert driver.heartbeat(ids[1], 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.heartbeat(ids[0], 1) is ErrorCode.REBALANCE_IN_PROGRESS
    assert driver.join("again", ids[0]).generation_id == 2


def test_missing_members_are_dropped_when_the_join_phase_ends() -> None:
    """A member that does not rejoin within the rebalance timeout is removed, even if it sends heartbeats."""
    driver, ids, _ = in_state("PreparingRebalance")
    for _ in range(10):
        driver.heartbeat(ids[1], 1)
        driver.tick(3_001)
    assert driver.answers["rejoin"].generation_id == 2
    assert [member.member_id for member in driver.answers["rejoin"].members] == [ids[0]]
    assert driver.heartbeat(ids[1], 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_leadership_passes_to_a_member_that_rejoins() -> None:
    driver, ids, _ = in_state("Stable")
    driver.join("changed", ids[1], protocols=OTHER)
    for _ in range(10):
        driver.heartbeat(ids[0], 1)
        driver.tick(3_001)
    assert driver.answers["changed"].leader == ids[1]
    assert len(driver.answers["changed"].members) == 1


def test_members_that_never_sync_are_dropped() -> None:
    """The sync phase ends after the rebalance timeout. Members that waited for an assignment must join again."""
    driver, ids, _ = in_state("CompletingRebalance")
    driver.sync("sync", ids[1], 2)
    for _ in range(10):
        driver.heartbeat(ids[0], 2)
        driver.tick(3_001)
    assert driver.answers["sync"].error is ErrorCode.REBALANCE_IN_PROGRESS
    assert driver.heartbeat(ids[0], 2) is ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.heartbeat(ids[1], 2) is ErrorCode.REBALANCE_IN_PROGRESS


def test_parked_join_of_a_new_member_expires_after_five_minutes() -> None:
    """The broker cannot tell whether a waiting client is alive, so the client must try again."""
    driver = Driver()
    driver.stable(1)
    ids = [member.member_id for member in driver.coordinator.describe("g").members]
    driver.join("wake", ids[0], rebalance_timeout_ms=900_000)  # alone: completes at once
    driver.sync("sync", ids[0], 2, assignments={})
    driver.join("new", rebalance_timeout_ms=900_000)
    for _ in range(60):
        driver.heartbeat(ids[0], 2)
        driver.tick(5_000)
    assert driver.answers["new"].error is ErrorCode.UNKNOWN_MEMBER_ID


def test_full_group() -> None:
    """A full group refuses new members; its own members may rejoin."""
    driver = Driver(BrokerConfig(group_max_size=2))
    ids = driver.stable(2)
    assert driver.join("third").error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert driver.answers["third"].member_id == ""
    driver.join("again-0", ids[0])
    assert driver.join("again-1", ids[1]).generation_id == 2


def test_group_above_a_lowered_limit_rebalances_when_loaded() -> None:
    """After a restart with a lower limit, the last members to rejoin are refused."""
    driver = Driver()
    ids = driver.stable(3)
    driver.settings = BrokerConfig(group_max_size=2)
    driver.restart()
    assert driver.state == "PreparingRebalance"
    driver.join("a", ids[0])
    driver.join("b", ids[1])
    refused = driver.join("c", ids[2])
    assert (refused.error, refused.member_id) == (ErrorCode.GROUP_MAX_SIZE_REACHED, "")
    assert driver.answers["a"].generation_id == driver.answers["b"].generation_id == 2


def test_leave_by_member_id_and_instance_id() -> None:
    """Each member has its own result, and the group rebalances once for all."""
    driver = Driver()
    driver.join("static", group_instance_id="i")
    driver.join("dynamic")
    driver.tick(6_000)
    dynamic_id = driver.answers["dynamic"].member_id
    left = driver.leave(
        LeavingMember("", "i"),
        LeavingMember("", "j"),
        LeavingMember("stranger"),
        LeavingMember(dynamic_id, "j"),
    )
    expected = [ErrorCode.NONE] + [ErrorCode.UNKNOWN_MEMBER_ID] * 3
    assert [who.error for who in left.members] == expected
    assert driver.state == "PreparingRebalance"
    assert driver.leave(LeavingMember(dynamic_id)).members[0].error is ErrorCode.NONE
    assert driver.state == "Empty"


def test_a_leave_of_unknown_members_changes_nothing() -> None:
    driver, ids, _ = in_state("Stable")
    driver.leave(LeavingMember("stranger"), LeavingMember("", "i"))
    assert driver.state == "Stable"
    assert driver.heartbeat(ids[0], 1) is ErrorCode.NONE


def test_a_rebalance_revokes_assignments() -> None:
    """No member gets an assignment of a previous generation, and each parked sync restarts the session of its
    member.
    """
    driver, ids, _ = in_state("CompletingRebalance")
    driver.tick(9_000)
    assert driver.sync("sync", ids[1], 2) is None
    driver.tick(1_000)
    driver.join("again", ids[1], protocols=OTHER)
    assert driver.answers["sync"].error is ErrorCode.REBALANCE_IN_PROGRESS
    assert {member.assignment for member in driver.coordinator.describe("g").members} == {b""}


def test_unload_answers_parked_requests_with_not_coordinator() -> None:
    for state, wait in (("PreparingRebalance", None), ("CompletingRebalance", "sync")):
        driver, ids, generation = in_state(state)
        if wait is not None:
            driver.sync(wait, ids[1], generation)
        driver.take(driver.coordinator.unload(driver.now_ms))
        assert driver.answers[wait or "rejoin"].error is ErrorCode.NOT_COORDINATOR


def test_a_deleted_group_forgets_pending_ids() -> None:
    driver = Driver()
    given = driver.join("first", member_id_required=True).member_id
    assert driver.coordinator.memory.bytes_held > 0
    assert driver.delete() is ErrorCode.NONE
    assert driver.coordinator.memory.bytes_held == 0
    assert driver.join("again", given).error is ErrorCode.UNKNOWN_MEMBER_ID
    driver.tick(60_000)
    assert driver.coordinator.list_groups() == []


def test_a_protocol_is_forgotten_with_the_last_member() -> None:
    """The next members of an empty group choose its protocol type."""
    driver, ids, _ = in_state("Stable")
    driver.leave(*(LeavingMember(member_id) for member_id in ids))
    described = driver.coordinator.describe("g")
    assert (described.state, described.protocol_name) == ("Empty", "")
    driver.restart()
    assert driver.coordinator.describe("g") == described
    driver.join("connect", protocol_type="connect", protocols=(MemberProtocol("sessioned", b""),))
    driver.tick(3_000)
    assert driver.answers["connect"].protocol_name == "sessioned"
    assert driver.coordinator.describe("g").protocol_type == "connect"


def test_a_group_with_only_offsets_has_no_protocol_type() -> None:
    driver = Driver()
    driver.coordinator.classic.create("g", driver.now_ms)
    described = driver.coordinator.describe("g")
    assert (described.state, described.protocol_type, described.members) == ("Empty", "", ())
    assert [each.protocol_type for each in driver.coordinator.list_groups()] == [""]


def test_leave_of_a_missing_group() -> None:
    """An empty group id is an error of the whole request; in a missing group every member is unknown."""
    driver = Driver()
    assert driver.leave(LeavingMember("m"), group_id="").error is ErrorCode.INVALID_GROUP_ID
    left = driver.leave(LeavingMember("m"), group_id="h")
    assert (left.error, left.members[0].error) == (ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID)
    driver, _, _ = in_state("Dead")
    assert driver.leave(LeavingMember("m")).error is ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_leave_answers_parked_requests_of_the_member() -> None:
    """So no request hangs if an administrator removes the member."""
    driver, ids, _ = in_state("CompletingRebalance")
    driver.sync("sync", ids[1], 2)
    driver.leave(LeavingMember(ids[1]))
    assert driver.answers["sync"].error is ErrorCode.UNKNOWN_MEMBER_ID
    driver, ids, _ = in_state("PreparingRebalance")
    driver.leave(LeavingMember(ids[0]))
    assert driver.answers["rejoin"].error is ErrorCode.UNKNOWN_MEMBER_ID


def test_describe_and_list() -> None:
    """Metadata is shown only in Stable."""
    driver, ids, _ = in_state("Stable")
    described = driver.coordinator.describe("g")
    assert (described.protocol_type, described.protocol_name) == ("consumer", "range")
    assert {member.member_id: (member.metadata, member.assignment) for member in described.members} == {
        ids[0]: (b"range-metadata", b"0"),
        ids[1]: (b"range-metadata", b"1"),
    }
    driver.join("again", ids[0])
    described = driver.coordinator.describe("g")
    assert (described.protocol_name, described.members[0].metadata) == ("", b"")
    assert driver.coordinator.describe("h").not_found == "Group h not found."
    listed = driver.coordinator.list_groups
    assert [(group.group_id, group.state, group.group_type) for group in listed()] == [
        ("g", "PreparingRebalance", "classic")
    ]
    assert [group.group_id for group in listed({"preparingrebalance"}, {"classic"})] == ["g"]
    assert listed({"stable"}) == listed(types={"consumer"}) == []


def test_delete() -> None:
    """Only an empty group is deleted. It is Dead until the deletion is durable."""
    driver, ids, _ = in_state("Stable")
    assert driver.delete() is ErrorCode.NON_EMPTY_GROUP
    assert driver.delete("h") is ErrorCode.GROUP_ID_NOT_FOUND
    driver.leave(*(LeavingMember(member_id) for member_id in ids))
    driver.hold = True
    assert driver.delete() is ErrorCode.NONE
    assert driver.delete() is ErrorCode.GROUP_ID_NOT_FOUND
    driver.settle()
    assert driver.coordinator.list_groups() == []
    driver.restart()
    assert driver.coordinator.list_groups() == []


def test_delete_that_cannot_be_stored() -> None:
    driver, _, _ = in_state("Dead")
    driver.settle(ErrorCode.KAFKA_STORAGE_ERROR)
    assert driver.state == "Empty"


def test_stable_group_survives_a_restart() -> None:
    """Members, generation, leader and assignments are loaded. Sessions start after loading."""
    driver, ids, _ = in_state("Stable")
    before = driver.coordinator.describe("g")
    driver.tick(9_000)
    driver.restart()
    assert driver.coordinator.describe("g") == before
    driver.tick(9_000)
    assert driver.heartbeat(ids[1], 1) is ErrorCode.NONE
    assert driver.sync("sync", ids[1], 1).assignment == b"1"
    assert driver.join("lead", ids[0]) is None
    assert driver.join("follow", ids[1]).leader == ids[0]


def test_earlier_request_of_the_same_member_is_answered() -> None:
    """A member that lost its connection repeats its request on another one; the first request does not hang."""
    driver, ids, _ = in_state("PreparingRebalance")
    driver.join("retry", ids[0])
    assert driver.answers["rejoin"].error is ErrorCode.REBALANCE_IN_PROGRESS
    driver, ids, _ = in_state("CompletingRebalance")
    driver.sync("first", ids[1], 2)
    driver.sync("second", ids[1], 2)
    assert driver.answers["first"].error is ErrorCode.REBALANCE_IN_PROGRESS
    driver.sync("leader", ids[0], 2, assignments={ids[1]: b"x"})
    assert driver.answers["second"].assignment == b"x"


def test_member_id_fits_into_a_string() -> None:
    """A client id of the longest string length gives a member id that can still be encoded."""
    result = Driver().join("long", client_id="c" * 32_767, member_id_required=True)
    assert len(result.member_id) < 2_000
