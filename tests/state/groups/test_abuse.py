"""Groups under abuse: large, numerous or absurd requests take bounded time and do not harm other groups."""

from __future__ import annotations

import time

import pytest

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.config.broker_config import BrokerConfig
from pipeline_broker.state.groups.classic.messages import LeavingMember, MemberProtocol
from pipeline_broker.state.groups.commits import CommitRequest, PartitionCommit
from tests.state.group_driver import Driver
from tests.state.groups.consumer.consumer_driver import ConsumerDriver

INT32_MAX = 2**31 - 1
MEGABYTE = 1 << 20
AT_ONCE = BrokerConfig(group_initial_rebalance_delay_ms=0)


def test_metadata_of_ten_megabytes():
    driver = Driver(AT_ONCE)
    began = time.monotonic()
    large = (MemberProtocol("range", bytes(10 * MEGABYTE)),)
    driver.join("join", protocols=large)
    driver.tick(0)
    joined = driver.answers["join"]
    driver.sync("sync", joined.member_id, 1, assignments={joined.member_id: b"a"})
    assert driver.state == "Stable"
    driver.restart()
    assert driver.heartbeat(joined.member_id, 1) is ErrorCode.NONE
    assert time.monotonic() - began < 5


def test_ten_thousand_members_of_a_classic_group():
    driver = Driver()
    began = time.monotonic()
    for number in range(10_000):
        driver.join(f"join-{number}")
    driver.tick(6_000)
    joined = [driver.answers[f"join-{number}"] for number in range(10_000)]
    assert {answer.generation_id for answer in joined} == {1}
    leader = next(answer for answer in joined if answer.members)
    assert len(leader.members) == 10_000
    driver.sync("leader", leader.member_id, 1, assignments={answer.member_id: b"a" for answer in joined})
    assert driver.state == "Stable"
    assert time.monotonic() - began < 30


def test_a_thousand_members_of_a_consumer_group():
    """Each joins and is assigned at once. The time of a heartbeat depends only on the existing members."""
    driver = ConsumerDriver(BrokerConfig(group_consumer_assignment_interval_ms=0))
    driver.create("t", 1_000)
    began = time.monotonic()
    for number in range(1_000):
        assert driver.enter(f"m{number}").error is ErrorCode.NONE
    assert time.monotonic() - began < 60


@pytest.mark.parametrize("timeout_ms", [0, -1, INT32_MAX])
def test_session_timeouts_out_of_bounds(timeout_ms):
    driver = Driver()
    assert driver.join("join", session_timeout_ms=timeout_ms).error is ErrorCode.INVALID_SESSION_TIMEOUT
    assert driver.coordinator.list_groups() == []


@pytest.mark.parametrize("timeout_ms", [0, -1, INT32_MAX])
def test_extreme_rebalance_timeouts(timeout_ms):
    """A timeout of 0 drops the other members; an endless one waits for sessions to expire."""
    driver = Driver()
    first, second = driver.stable(2)
    driver.join("changed", first, rebalance_timeout_ms=timeout_ms, protocols=(MemberProtocol("range", b"new"),))
    driver.tick(40_000)
    assert driver.answers["changed"].error is ErrorCode.NONE, "the other one is out by now"
    assert driver.heartbeat(second, 1) is ErrorCode.UNKNOWN_MEMBER_ID
    consumers = ConsumerDriver()
    consumers.create("t")
    consumers.enter("a", rebalance_timeout_ms=max(timeout_ms, 0))
    consumers.tick(1_000)
    consumers.enter("b")
    consumers.beat("a", member_epoch=2)
    consumers.tick(44_999)
    assert ("a" in consumers.group().members) == (timeout_ms == INT32_MAX)


def test_a_join_with_another_protocol_does_not_disturb_members():
    driver = Driver()
    ids = driver.stable(2)
    for more in ({"protocol_type": "connect"}, {"protocols": (MemberProtocol("other", b""),)}, {"protocols": ()}):
        answer = driver.join(f"wrong-{len(driver.answers)}", **more)
        assert answer.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert [driver.heartbeat(member_id, 1) for member_id in ids] == [ErrorCode.NONE] * 2


def test_an_instance_that_runs_twice_is_fenced_each_time():
    driver = Driver(AT_ONCE)
    driver.join("first", group_instance_id="i")
    driver.tick(0)
    former = driver.answers["first"].member_id
    driver.sync("sync", former, 1, group_instance_id="i", assignments={former: b"a"})
    for number in range(5):
        driver.join(f"again-{number}", group_instance_id="i")
        now = driver.answers[f"again-{number}"].member_id
        assert driver.heartbeat(former, 1, group_instance_id="i") is ErrorCode.FENCED_INSTANCE_ID
        assert driver.heartbeat(now, 1, group_instance_id="i") is ErrorCode.NONE
        former = now


def commit(driver, member_id, generation_id):
    parts = [PartitionCommit(topic="t", partition=0, offset=5)]
    request = CommitRequest(group_id="g", member_id=member_id, generation_id=generation_id, partitions=parts)
    return driver.coordinator.commit(request, driver.now_ms).errors


def test_commits_of_old_generations_and_of_zombies_are_refused():
    driver = Driver()
    ids = driver.stable(2)
    driver.leave(LeavingMember(ids[1]))
    driver.join("again", ids[0])
    driver.sync("sync", ids[0], 2, assignments={ids[0]: b"a"})
    assert commit(driver, ids[0], 1) == (ErrorCode.ILLEGAL_GENERATION,)
    assert commit(driver, ids[1], 1) == (ErrorCode.UNKNOWN_MEMBER_ID,)
    assert commit(driver, ids[0], 2) == (ErrorCode.NONE,)


def test_many_joins_and_leaves_leak_nothing():
    """Six thousand, as many as in ten minutes at ten a second: no id, protocol or deadline remains."""
    driver = ConsumerDriver(AT_ONCE)
    driver.create("t")
    driver.stable(1)
    began = time.monotonic()
    for number in range(3_000):
        driver.join(f"storm-{number}", protocols=(MemberProtocol("range", b"m"), MemberProtocol(f"p{number}", b"")))
        member_id = next(reversed(driver.coordinator.registry.get("g").members))
        driver.leave(LeavingMember(member_id))
        driver.enter(f"m{number}", group_id="c")
        driver.beat(f"m{number}", member_epoch=-1, group_id="c")
        driver.tick(100)
    assert time.monotonic() - began < 60
    driver.tick(60_000)
    classic = driver.coordinator.registry.get("g")
    consumers = driver.coordinator.registry.get("c")
    assert (classic.members, classic.static_members, dict(classic._supporters)) == ({}, {}, {})
    assert (consumers.members, consumers.target, consumers._owners, dict(consumers._names)) == ({}, {}, {}, {})
    assert len(driver.coordinator.classic._deadlines) == 0
    assert len(driver.coordinator.consumer._deadlines) == 0
    assert driver.coordinator.consumer._unsettled == {}
