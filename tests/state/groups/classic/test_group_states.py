"""Responses in each state of a classic group, cell by cell of the table of Kafka's group coordinator."""

from __future__ import annotations

import attrs
import pytest

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.config.broker_config import BrokerConfig
from pipeline_broker.state.groups.classic.classic_group import ClassicGroup, GroupState
from pipeline_broker.state.groups.commits import CommitRequest, PartitionCommit
from pipeline_broker.state.groups.offset_records import CommittedOffset
from tests.state.group_driver import OTHER, RANGE, Driver, in_state

STATES = ["Empty", "PreparingRebalance", "CompletingRebalance", "Stable", "Dead"]


def commit_error(driver: Driver, member_id: str, generation_id: int) -> ErrorCode:
    partition = PartitionCommit(topic="t", partition=0, offset=1)
    request = CommitRequest(group_id="g", member_id=member_id, generation_id=generation_id, partitions=[partition])
    return driver.coordinator.commit(request, driver.now_ms).errors[0]


@pytest.mark.parametrize(
    ("state", "expected"),
    [*((state, "parked") for state in STATES[:-1]), ("Dead", ErrorCode.COORDINATOR_NOT_AVAILABLE)],
)
def test_join_of_a_new_member(state, expected) -> None:
    """It is parked in every state but Dead, and starts a rebalance of a settled group."""
    driver, _, _ = in_state(state)
    result = driver.join("new")
    if expected == "parked":
        assert result is None
        assert driver.state == "PreparingRebalance"
    else:
        assert result.error is expected


@pytest.mark.parametrize(
    ("state", "who", "protocols", "expected"),
    [
        ("Empty", 0, RANGE, ErrorCode.UNKNOWN_MEMBER_ID),
        ("PreparingRebalance", 0, RANGE, "parked"),
        ("CompletingRebalance", 0, RANGE, ErrorCode.NONE),
        ("CompletingRebalance", 1, RANGE, ErrorCode.NONE),
        ("CompletingRebalance", 1, OTHER, "parked"),
        ("Stable", 0, RANGE, "parked"),
        ("Stable", 1, RANGE, ErrorCode.NONE),
        ("Stable", 1, OTHER, "parked"),
        ("Dead", 0, RANGE, ErrorCode.COORDINATOR_NOT_AVAILABLE),
    ],
)
def test_join_of_a_member(state, who, protocols, expected) -> None:
    """An unchanged member gets the current generation again, unless it leads a stable group."""
    driver, ids, generation = in_state(state)
    result = driver.join("again", ids[who], protocols=protocols)
    if expected == "parked":
        assert result is None
        assert driver.state == "PreparingRebalance"
        return
    assert result.error is expected
    if expected is ErrorCode.NONE:
        assert result.generation_id == generation
        assert bool(result.members) == (who == 0)


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ("Empty", ErrorCode.UNKNOWN_MEMBER_ID),
        ("PreparingRebalance", ErrorCode.REBALANCE_IN_PROGRESS),
        ("CompletingRebalance", None),
        ("Stable", ErrorCode.NONE),
        ("Dead", ErrorCode.COORDINATOR_NOT_AVAILABLE),
    ],
)
def test_sync_of_a_follower(state, expected) -> None:
    """A follower waits for the leader's assignment, or gets its current one."""
    driver, ids, generation = in_state(state)
    result = driver.sync("sync", ids[1], generation)
    assert (result and result.error) == expected
    if expected is ErrorCode.NONE:
        assert (result.assignment, result.protocol_type, result.protocol_name) == (b"1", "consumer", "range")


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ("Empty", ErrorCode.UNKNOWN_MEMBER_ID),
        ("PreparingRebalance", ErrorCode.REBALANCE_IN_PROGRESS),
        ("CompletingRebalance", ErrorCode.NONE),
        ("Stable", ErrorCode.NONE),
        ("Dead", ErrorCode.COORDINATOR_NOT_AVAILABLE),
    ],
)
def test_heartbeat(state, expected) -> None:
    """A member must join again only during the join phase."""
    driver, ids, generation = in_state(state)
    assert driver.heartbeat(ids[1], generation) is expected


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ("Empty", ErrorCode.UNKNOWN_MEMBER_ID),
        ("PreparingRebalance", ErrorCode.NONE),
        ("CompletingRebalance", ErrorCode.REBALANCE_IN_PROGRESS),
        ("Stable", ErrorCode.NONE),
        ("Dead", ErrorCode.COORDINATOR_NOT_AVAILABLE),
    ],
)
def test_commit_of_a_member(state, expected) -> None:
    """A member may commit except between its join and its assignment."""
    driver, ids, generation = in_state(state)
    assert commit_error(driver, ids[1], generation) is expected


@pytest.mark.parametrize(("state", "error"), [(state, ErrorCode.NONE) for state in STATES[:-1]])
def test_a_transactional_commit_needs_no_member_id(state, error) -> None:
    """TxnOffsetCommit has one only since version 3. A rebalance does not prevent the commit."""
    driver, _, _ = in_state(state)
    partition = PartitionCommit(topic="t", partition=0, offset=1)
    request = CommitRequest(group_id="g", partitions=[partition], producer_id=7)
    assert driver.coordinator.commit(request, driver.now_ms).errors == (error,)


@pytest.mark.parametrize(
    ("member_id", "instance_id", "generation_id", "error"),
    [
        ("", None, -1, ErrorCode.NONE),
        ("m", None, 0, ErrorCode.NONE),
        ("m", "i", 0, ErrorCode.NONE),
        ("m", None, -1, ErrorCode.ILLEGAL_GENERATION),
        ("m", None, 1, ErrorCode.ILLEGAL_GENERATION),
        ("", None, 0, ErrorCode.UNKNOWN_MEMBER_ID),
        ("stranger", None, -1, ErrorCode.UNKNOWN_MEMBER_ID),
        ("", "j", -1, ErrorCode.UNKNOWN_MEMBER_ID),
        ("", "i", -1, ErrorCode.FENCED_INSTANCE_ID),
        ("stranger", "i", 0, ErrorCode.FENCED_INSTANCE_ID),
    ],
)
def test_a_transactional_commit_with_a_member_id_is_checked(member_id, instance_id, generation_id, error):
    group = ClassicGroup(
        group_id="g",
        state=GroupState.PREPARING_REBALANCE,
        members=dict.fromkeys("m"),
        static_members={"i": "m"},
    )
    request = CommitRequest(
        group_id="g",
        member_id=member_id,
        group_instance_id=instance_id,
        generation_id=generation_id,
        partitions=[],
        producer_id=7,
    )
    assert group.commit_error(request) is error


@pytest.mark.parametrize(
    ("state", "protocol_type", "is_waited_for", "may_go_unasked", "delete_error"),
    [
        ("Empty", None, False, True, ErrorCode.NONE),
        ("Empty", "connect", False, True, ErrorCode.NONE),
        ("Empty", None, True, False, ErrorCode.NONE),
        ("PreparingRebalance", "consumer", False, False, ErrorCode.NONE),
        ("Stable", "consumer", False, False, ErrorCode.NONE),
        ("Stable", "connect", False, False, ErrorCode.NON_EMPTY_GROUP),
        ("Dead", "consumer", False, False, ErrorCode.GROUP_ID_NOT_FOUND),
        ("Dead", None, False, False, ErrorCode.GROUP_ID_NOT_FOUND),
    ],
)
def test_a_group_is_deleted_with_its_last_offset(state, protocol_type, is_waited_for, may_go_unasked, delete_error):
    group = ClassicGroup(
        group_id="g",
        state=GroupState(state),
        protocol_type=protocol_type,
        pending_joins={"id"} if is_waited_for else set(),
    )
    assert (group.is_deletable_unasked, group.delete_offsets_error()) == (may_go_unasked, delete_error)


@pytest.mark.parametrize("state", STATES)
def test_any_client_may_read_offsets_of_a_classic_group(state) -> None:
    driver, ids, _ = in_state(state)
    for member_id, epoch in ((None, -1), ("stranger", 9), (ids[0], 1)):
        assert driver.coordinator.fetch_error("g", member_id, epoch) is ErrorCode.NONE


def test_commit_without_a_member_needs_an_empty_group() -> None:
    """Tools commit with generation -1 and no member id; the group refuses that while it has members."""
    driver, _, _ = in_state("Stable")
    assert commit_error(driver, "", -1) is ErrorCode.UNKNOWN_MEMBER_ID
    driver, _, _ = in_state("Empty")
    assert commit_error(driver, "", -1) is ErrorCode.NONE
    for generation in (0, 2):
        assert commit_error(driver, "", generation) is ErrorCode.UNKNOWN_MEMBER_ID, "a generation is one of members"


@pytest.mark.parametrize(
    ("state", "since_ms", "protocol_type", "topics", "age_from_ms"),
    [
        ("Empty", 7, None, None, 5),
        ("Empty", 7, "consumer", frozenset(), 7),
        ("Empty", 0, "consumer", frozenset(), 0),
        ("Empty", -1, "connect", None, 5),
        ("Stable", 7, "consumer", frozenset("t"), 5),
        ("Stable", 7, "consumer", None, None),
        ("Stable", 7, "connect", frozenset("t"), None),
        ("PreparingRebalance", 7, "consumer", frozenset("t"), None),
        ("CompletingRebalance", 7, "consumer", frozenset("t"), None),
    ],
)
def test_start_of_an_offsets_age(state, since_ms, protocol_type, topics, age_from_ms) -> None:
    """It is the time when the group became empty. If that is unknown, and in a stable group, it is the commit (at
    5).
    """
    group = ClassicGroup(
        group_id="g", state=GroupState(state), state_since_ms=since_ms, protocol_type=protocol_type, topics=topics
    )
    age_from = group.offset_age()
    assert (None if age_from is None else age_from(CommittedOffset(1, commit_timestamp_ms=5))) == age_from_ms


@pytest.mark.parametrize("generation", [0, 3])
def test_commit_with_a_generation_to_a_missing_group(generation) -> None:
    """Versions before 9 get ILLEGAL_GENERATION instead of GROUP_ID_NOT_FOUND."""
    driver = Driver()
    request = CommitRequest(
        group_id="nobody",
        generation_id=generation,
        member_id="m",
        partitions=[PartitionCommit(topic="t", partition=0, offset=1)],
    )
    assert driver.coordinator.commit(request, driver.now_ms).errors == (ErrorCode.GROUP_ID_NOT_FOUND,)
    older = attrs.evolve(request, missing_group_named=False)
    assert driver.coordinator.commit(older, driver.now_ms).errors == (ErrorCode.ILLEGAL_GENERATION,)


@pytest.mark.parametrize(("waited_ms", "is_member"), [(9_999, True), (10_000, False)])
def test_sessions_restart_when_all_have_joined(waited_ms, is_member):
    driver = Driver(BrokerConfig(group_initial_rebalance_delay_ms=8_000))
    driver.join("join", session_timeout_ms=10_000, rebalance_timeout_ms=60_000)
    driver.tick(8_000)
    member_id = driver.answers["join"].member_id
    driver.tick(waited_ms)
    assert [each.member_id for each in driver.coordinator.describe("g").members] == [member_id] * is_member
