"""Classic groups: the life of a group from its first join to its deletion, and what is refused.

Longer than most files: a life has many turns, and each is one test.
"""

from __future__ import annotations

import pytest

from pipeline_broker.state.groups.classic.messages import LeavingMember, MemberProtocol
from pipeline_broker.state.groups.settings import GroupSettings
from pipeline_broker.wire.error import ErrorCode
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
def test_joins_that_are_refused(more, expected) -> None:
    """A join is refused at once for what is wrong in itself or does not fit the group."""
    driver, _, _ = in_state("Stable")
    values = {"member_id": ""} | more
    refused = driver.join("bad", **values)
    assert (refused.error, refused.member_id) == (expected, values["member_id"])
    assert driver.state == "Stable"


@pytest.mark.parametrize("timeout_ms", [6_000, 1_800_000])
def test_the_shortest_and_the_longest_session_are_taken(timeout_ms) -> None:
    driver = Driver()
    driver.join("join", session_timeout_ms=timeout_ms)
    driver.tick(3_000)
    joined = driver.answers["join"]
    assert driver.sync("sync", joined.member_id, joined.generation_id).error is ErrorCode.NONE
    driver.tick(timeout_ms - 1)
    assert len(driver.coordinator.describe("g").members) == 1
    driver.tick(1)
    assert not driver.coordinator.describe("g").members


def test_a_member_that_joins_again_is_waited_for_as_long_as_it_says_now() -> None:
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
    """The initial delay starts again when somebody came meanwhile, up to the rebalance timeout."""
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
def test_the_first_rebalance_ends_after_a_delay_in_which_nobody_came_or_after_its_timeout(
    timeout_ms, joins_ms, answered_ms
) -> None:
    """But not before the first delay is over."""
    driver = Driver(GroupSettings(initial_rebalance_delay_ms=3_000))
    began_ms = driver.now_ms
    for join_ms in joins_ms:
        driver.tick(began_ms + join_ms - driver.now_ms)
        driver.join(str(join_ms), rebalance_timeout_ms=timeout_ms)
    driver.tick(began_ms + answered_ms - 1 - driver.now_ms)
    assert not driver.answers
    driver.tick(1)
    assert set(driver.answers) == set(map(str, joins_ms))


@pytest.mark.parametrize(("size_max", "state"), [(2, "Stable"), (1, "PreparingRebalance")])
def test_a_group_that_is_too_large_after_a_start_comes_together_anew(size_max, state) -> None:
    driver = Driver()
    driver.stable(2)
    driver.settings = GroupSettings(group_size_max=size_max)
    driver.restart()
    assert driver.state == state


def test_an_assignment_that_is_stored_too_late_is_that_of_no_later_generation() -> None:
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


def test_who_has_joined_a_full_group_may_ask_again() -> None:
    driver = Driver(GroupSettings(group_size_max=2))
    driver.join("one")
    driver.join("two")
    member_id = driver.coordinator.describe("g").members[1].member_id
    assert driver.join("three").error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert driver.join("two again", member_id) is None
    assert driver.answers["two"].error is ErrorCode.REBALANCE_IN_PROGRESS
    driver.tick(6_000)
    assert [len(driver.answers[token].members) for token in ("one", "two again")] == [2, 0]


def test_who_asks_for_its_assignment_again_begins_its_session_anew() -> None:
    driver = Driver()
    (member_id,) = driver.stable(1)
    driver.tick(9_999)
    assert driver.sync("again", member_id, 1).error is ErrorCode.NONE
    driver.tick(9_999)
    assert driver.state == "Stable"
    driver.tick(1)
    assert driver.state == "Empty"


def test_a_join_that_is_wrong_is_told_so_where_there_is_no_memory_either() -> None:
    driver = Driver(GroupSettings(memory_bytes_max=1))
    assert driver.join("no memory").error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert driver.join("wrong", session_timeout_ms=1).error is ErrorCode.INVALID_SESSION_TIMEOUT
    assert driver.coordinator.memory.refused == 1


def test_only_the_leader_sees_the_members() -> None:
    """The others get an empty list, and the name of the leader."""
    driver = Driver()
    for token in "abc":
        driver.join(token, protocols=(MemberProtocol("range", token.encode()),))
    driver.tick(6_000)
    seen = [driver.answers[token].members for token in "abc"]
    assert [len(members) for members in seen] == [3, 0, 0]
    assert sorted(member.metadata for member in seen[0]) == [b"a", b"b", b"c"]


def test_protocol_is_voted_for() -> None:
    """Only what all support stands for election; each votes for what it lists first."""
    driver = Driver()

    def protocols(*names: str) -> tuple[MemberProtocol, ...]:
        return tuple(MemberProtocol(name, name.encode()) for name in names)

    driver.join("a", protocols=protocols("mine", "sticky", "range"))
    driver.join("b", protocols=protocols("range", "sticky"))
    driver.join("c", protocols=protocols("range", "sticky"))
    driver.tick(6_000)
    assert {driver.answers[token].protocol_name for token in "abc"} == {"range"}


def test_assignments_wait_for_durability() -> None:
    """Nobody gets an assignment before its record is durable; then all do, and members left out get an empty one."""
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


def test_a_leader_that_asks_twice_gives_one_assignment() -> None:
    """What the members are told is what a replay says: a second assignment of the same generation is not stored."""
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
    """Who waits is told, and the group rebalances."""
    driver = Driver()
    driver.join("a")
    driver.tick(6_000)
    member_id = driver.answers["a"].member_id
    driver.hold = True
    driver.sync("sync", member_id, 1, assignments={member_id: b"A"})
    driver.settle(ErrorCode.NOT_ENOUGH_REPLICAS)
    assert driver.answers["sync"].error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert driver.state == "PreparingRebalance"


def test_rebalance_cancels_syncs_and_an_assignment_on_its_way() -> None:
    """Somebody new joins while the leader's assignment is being written: it never comes true."""
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
def test_syncs_that_are_refused(more, expected) -> None:
    """A sync must be of this member, generation and protocol."""
    driver, ids, _ = in_state("Stable")
    values = {"member_id": ids[1], "generation_id": 1} | more
    assert driver.sync("bad", **values).error is expected


def test_heartbeats_that_are_refused() -> None:
    """A heartbeat must be of this member and generation."""
    driver, ids, _ = in_state("Stable")
    assert driver.heartbeat(ids[0], 0) is ErrorCode.ILLEGAL_GENERATION
    assert driver.heartbeat("stranger", 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.heartbeat(ids[0], 1, group_id="h") is ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.heartbeat(ids[0], 1, group_id="") is ErrorCode.INVALID_GROUP_ID


def test_session_expires_without_heartbeats() -> None:
    """Who is silent is removed after its session timeout; who is not stays, and has to join again."""
    driver, ids, _ = in_state("Stable")
    driver.tick(9_000)
    assert driver.heartbeat(ids[0], 1) is ErrorCode.NONE
    driver.tick(2_000)
    assert driver.heartbeat(ids[1], 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.heartbeat(ids[0], 1) is ErrorCode.REBALANCE_IN_PROGRESS
    assert driver.join("again", ids[0]).generation_id == 2


def test_missing_members_are_dropped_when_the_join_phase_ends() -> None:
    """A member that does not rejoin within the rebalance timeout is out, even if it sends heartbeats."""
    driver, ids, _ = in_state("PreparingRebalance")
    for _ in range(10):
        driver.heartbeat(ids[1], 1)
        driver.tick(3_001)
    assert driver.answers["rejoin"].generation_id == 2
    assert [member.member_id for member in driver.answers["rejoin"].members] == [ids[0]]
    assert driver.heartbeat(ids[1], 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_leadership_passes_to_who_rejoins() -> None:
    """A leader that does not come back loses its place."""
    driver, ids, _ = in_state("Stable")
    driver.join("changed", ids[1], protocols=OTHER)
    for _ in range(10):
        driver.heartbeat(ids[0], 1)
        driver.tick(3_001)
    assert driver.answers["changed"].leader == ids[1]
    assert len(driver.answers["changed"].members) == 1


def test_members_that_never_sync_are_dropped() -> None:
    """After the rebalance timeout the sync phase ends; who waited has to join again."""
    driver, ids, _ = in_state("CompletingRebalance")
    driver.sync("sync", ids[1], 2)
    for _ in range(10):
        driver.heartbeat(ids[0], 2)
        driver.tick(3_001)
    assert driver.answers["sync"].error is ErrorCode.REBALANCE_IN_PROGRESS
    assert driver.heartbeat(ids[0], 2) is ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.heartbeat(ids[1], 2) is ErrorCode.REBALANCE_IN_PROGRESS


def test_parked_join_of_somebody_new_ends_after_five_minutes() -> None:
    """Nobody can tell whether a client that waits is still there, so it is told to try again."""
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
    """Nobody new is let into a group of the greatest size; its members come back as they like."""
    driver = Driver(GroupSettings(group_size_max=2))
    ids = driver.stable(2)
    assert driver.join("third").error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert driver.answers["third"].member_id == ""
    driver.join("again-0", ids[0])
    assert driver.join("again-1", ids[1]).generation_id == 2


def test_group_above_a_lowered_limit_rebalances_when_loaded() -> None:
    """After a restart with a lower limit the last to come back are turned away."""
    driver = Driver()
    ids = driver.stable(3)
    driver.settings = GroupSettings(group_size_max=2)
    driver.restart()
    assert driver.state == "PreparingRebalance"
    driver.join("a", ids[0])
    driver.join("b", ids[1])
    refused = driver.join("c", ids[2])
    assert (refused.error, refused.member_id) == (ErrorCode.GROUP_MAX_SIZE_REACHED, "")
    assert driver.answers["a"].generation_id == driver.answers["b"].generation_id == 2


def test_leave_by_several_names() -> None:
    """Members leave by id, static ones also by instance id alone; each has its own answer; one rebalance for all."""
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


def test_a_leave_of_strangers_disturbs_nobody() -> None:
    driver, ids, _ = in_state("Stable")
    driver.leave(LeavingMember("stranger"), LeavingMember("", "i"))
    assert driver.state == "Stable"
    assert driver.heartbeat(ids[0], 1) is ErrorCode.NONE


def test_assignments_are_taken_back_when_members_are_to_agree_anew() -> None:
    """Nobody is told an assignment of a generation that is over, and who waits for one has its full session again."""
    driver, ids, _ = in_state("CompletingRebalance")
    driver.tick(9_000)
    assert driver.sync("sync", ids[1], 2) is None
    driver.tick(1_000)
    driver.join("again", ids[1], protocols=OTHER)
    assert driver.answers["sync"].error is ErrorCode.REBALANCE_IN_PROGRESS
    assert {member.assignment for member in driver.coordinator.describe("g").members} == {b""}


def test_who_waits_is_told_to_look_elsewhere_when_the_topic_of_groups_goes() -> None:
    for state, wait in (("PreparingRebalance", None), ("CompletingRebalance", "sync")):
        driver, ids, generation = in_state(state)
        if wait is not None:
            driver.sync(wait, ids[1], generation)
        driver.take(driver.coordinator.unload(driver.now_ms))
        assert driver.answers[wait or "rejoin"].error is ErrorCode.NOT_COORDINATOR


def test_a_deleted_group_forgets_the_ids_that_it_gave_out() -> None:
    driver = Driver()
    given = driver.join("first", member_id_required=True).member_id
    assert driver.coordinator.memory.bytes_held > 0
    assert driver.delete() is ErrorCode.NONE
    assert driver.coordinator.memory.bytes_held == 0
    assert driver.join("again", given).error is ErrorCode.UNKNOWN_MEMBER_ID
    driver.tick(60_000)
    assert driver.coordinator.list_groups() == []


def test_a_protocol_is_forgotten_with_the_last_member() -> None:
    """An empty group agrees on nothing, and its type is what its next members bring."""
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


def test_a_group_of_offsets_alone_has_no_protocol_type() -> None:
    driver = Driver()
    driver.coordinator.classic.create("g", driver.now_ms)
    described = driver.coordinator.describe("g")
    assert (described.state, described.protocol_type, described.members) == ("Empty", "", ())
    assert [each.protocol_type for each in driver.coordinator.list_groups()] == [""]


def test_leave_of_a_group_that_is_not_there() -> None:
    """An empty group id is an error of the request; a missing group makes every member unknown."""
    driver = Driver()
    assert driver.leave(LeavingMember("m"), group_id="").error is ErrorCode.INVALID_GROUP_ID
    left = driver.leave(LeavingMember("m"), group_id="h")
    assert (left.error, left.members[0].error) == (ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID)
    driver, _, _ = in_state("Dead")
    assert driver.leave(LeavingMember("m")).error is ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_leave_answers_what_the_member_still_waits_for() -> None:
    """A parked sync or join of who leaves (or is removed by an administrator) does not hang."""
    driver, ids, _ = in_state("CompletingRebalance")
    driver.sync("sync", ids[1], 2)
    driver.leave(LeavingMember(ids[1]))
    assert driver.answers["sync"].error is ErrorCode.UNKNOWN_MEMBER_ID
    driver, ids, _ = in_state("PreparingRebalance")
    driver.leave(LeavingMember(ids[0]))
    assert driver.answers["rejoin"].error is ErrorCode.UNKNOWN_MEMBER_ID


def test_describe_and_list() -> None:
    """Metadata is shown only where a protocol is agreed; filters are by state and type, in any case."""
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
    assert [group.group_id for group in listed(["PREPARINGREBALANCE"], ["Classic"])] == ["g"]
    assert listed(["Stable"]) == listed([], ["consumer"]) == []


def test_delete() -> None:
    """Only an empty group is deleted; it is Dead until that is durable, and then it is gone, also after a restart."""
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
    """The group is there as before."""
    driver, _, _ = in_state("Dead")
    driver.settle(ErrorCode.KAFKA_STORAGE_ERROR)
    assert driver.state == "Empty"


def test_stable_group_survives_a_restart() -> None:
    """Members, generation, leader and assignments are loaded; sessions start at load."""
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
    """A member whose connection was lost asks again on another one: the first request does not hang."""
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
    """A client id as long as a string can be does not make an id that cannot be written."""
    result = Driver().join("long", client_id="c" * 32_767, member_id_required=True)
    assert len(result.member_id) < 2_000
