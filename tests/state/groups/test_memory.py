"""The memory bound of groups: refusals, and memory that is freed."""

from __future__ import annotations

from contextlib import suppress

import pytest

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.config.broker_config import BrokerConfig
from pipeline_broker.state.groups.classic.classic_group import ClassicGroup
from pipeline_broker.state.groups.classic.joining import has_memory
from pipeline_broker.state.groups.classic.messages import JoinRequest, LeavingMember, MemberProtocol
from pipeline_broker.state.groups.commits import CommitRequest, PartitionCommit
from pipeline_broker.state.groups.consumer.group import ConsumerGroup
from pipeline_broker.state.groups.consumer.member import ClassicMetadata, MemberMetadata
from pipeline_broker.state.groups.consumer.updates import ResolvedRegex, Subject
from pipeline_broker.state.groups.memory import (
    ENTRY_BYTES,
    MEMBER_BYTES,
    SHARE_STATE_BYTES,
    GroupMemory,
    HeldBytes,
    size_of_names,
    sizes_of,
)
from pipeline_broker.state.groups.modern.updates import Update
from pipeline_broker.state.groups.share.messages import FoundTopic, Heartbeat, ShareGroupError
from pipeline_broker.state.groups.share.share_group import ShareGroup, ShareMember
from tests.state.group_driver import Driver
from tests.state.groups.classic.test_classic_group import member
from tests.state.groups.consumer.consumer_driver import ConsumerDriver

MEMBER_MAX = 100_000
SETTINGS = BrokerConfig(group_initial_rebalance_delay_ms=0, pipeline_group_bytes=8 * MEMBER_MAX)


def protocol(size):
    return (MemberProtocol("range", bytes(size)),)


def held(driver):
    return driver.coordinator.memory.bytes_held


def test_a_total_includes_its_groups():
    total, held_bytes = GroupMemory(100), HeldBytes()
    held_bytes.add(30)
    assert total.bytes_held == 0
    held_bytes.count_in(total)
    held_bytes.add(-10)
    assert (total.bytes_held, held_bytes.count) == (20, 20)
    held_bytes.count_in(None)
    held_bytes.add(5)
    assert (total.bytes_held, held_bytes.count) == (0, 25)


def test_one_member_may_hold_an_eighth_and_unchanged_sizes_are_never_refused():
    memory = GroupMemory(80)
    assert memory.admits(0, 10)
    assert not memory.admits(0, 11)
    memory.bytes_held = 100  # the bound was lowered
    assert memory.admits(50, 50)
    assert memory.admits(50, 49)
    assert memory.has_room(0)
    assert not memory.has_room(1)
    assert memory.refused == 2


def test_a_classic_member_with_too_much_metadata_is_refused():
    driver = Driver(SETTINGS)
    assert driver.join("large", protocols=protocol(MEMBER_MAX)).error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert driver.coordinator.list_groups() == []
    driver.join("small", protocols=protocol(MEMBER_MAX // 2))
    driver.tick(0)
    joined = driver.answers["small"]
    assert joined.error is ErrorCode.NONE
    grown = driver.join("grown", joined.member_id, protocols=protocol(MEMBER_MAX))
    assert grown.error is ErrorCode.GROUP_MAX_SIZE_REACHED


@pytest.mark.parametrize("protocol_name", ["consumer", "share"])
def test_a_member_that_just_fits_is_accepted(protocol_name):
    def enter(driver):
        if protocol_name == "consumer":
            driver.enter("m", topic_names=frozenset())
        else:
            heartbeat = Heartbeat(group_id="g", member_id="m", member_epoch=0, topics=[])
            with suppress(ShareGroupError):
                driver.coordinator.share.heartbeat(heartbeat, lambda _: None, 0)
        group = driver.coordinator.registry.get("g")
        return None if group is None or not group.members else group.memory.count

    needed = enter(ConsumerDriver(SETTINGS))
    for missing_bytes, is_let_in in ((0, True), (1, False)):
        driver = ConsumerDriver(SETTINGS)
        driver.coordinator.memory.bytes_held = SETTINGS.pipeline_group_bytes - needed + missing_bytes
        assert (enter(driver) is not None) is is_let_in


@pytest.mark.parametrize("protocol_name", ["consumer", "share"])
def test_a_refused_first_member_creates_no_group(protocol_name):
    driver = ConsumerDriver(SETTINGS)
    driver.coordinator.memory.bytes_held = SETTINGS.pipeline_group_bytes
    if protocol_name == "consumer":
        assert driver.enter("m").error is ErrorCode.GROUP_MAX_SIZE_REACHED
    else:
        heartbeat = Heartbeat(group_id="g", member_id="m", member_epoch=0, topics=[])
        with pytest.raises(ShareGroupError):
            driver.coordinator.share.heartbeat(heartbeat, lambda _: None, 0)
    assert driver.coordinator.registry.get("g") is None
    assert held(driver) == SETTINGS.pipeline_group_bytes


def test_the_bound_covers_all_groups_and_keeps_existing_members():
    driver = Driver(SETTINGS)
    ids = []
    for number in range(7):
        driver.join(f"j{number}", group_id=f"g{number}", protocols=protocol(MEMBER_MAX - 4_000))
        driver.tick(0)
        ids.append(driver.answers[f"j{number}"].member_id)
    refused = driver.join("one too many", group_id="more", protocols=protocol(MEMBER_MAX - 4_000))
    assert refused.error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert driver.coordinator.registry.get("more") is None
    driver.join("again", ids[0], group_id="g0", protocols=protocol(MEMBER_MAX - 4_000))
    driver.tick(0)
    assert driver.answers["again"].error is ErrorCode.NONE
    driver.tick(60_000)  # the sessions of all are over
    assert held(driver) < 8 * 3_000
    driver.join("later", group_id="more", protocols=protocol(50_000))
    driver.tick(0)
    assert driver.answers["later"].error is ErrorCode.NONE


def test_an_assignment_that_exceeds_the_memory_is_refused():
    driver = Driver(SETTINGS)
    driver.join("join")
    driver.tick(0)
    member_id = driver.answers["join"].member_id
    before = held(driver)
    driver.sync("huge", member_id, 1, assignments={member_id: bytes(8 * MEMBER_MAX), "nobody": bytes(10)})
    assert driver.answers["huge"].error is ErrorCode.GROUP_MAX_SIZE_REACHED
    driver.sync("large", member_id, 1, assignments={member_id: bytes(300_000)})
    assert driver.answers["large"].error is ErrorCode.NONE
    assert held(driver) == before + 300_000
    driver.leave(LeavingMember(member_id))
    assert held(driver) < before


def test_a_leader_without_an_accepted_assignment_is_dropped():
    """Otherwise its heartbeats would block the whole group."""
    driver = Driver(SETTINGS)
    driver.join("join")
    driver.tick(0)
    member_id = driver.answers["join"].member_id
    driver.sync("huge", member_id, 1, assignments={member_id: bytes(8 * MEMBER_MAX)})
    for _ in range(5):
        assert driver.heartbeat(member_id, 1) is ErrorCode.NONE
        driver.tick(6_000)
    assert driver.heartbeat(member_id, 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_pending_ids_count_until_they_are_used_or_expire():
    driver = Driver(SETTINGS)
    before = held(driver)
    for number in range(3):
        driver.join(f"j{number}", client_id="c" * 900, member_id_required=True)
    assert held(driver) > before + 3 * 2_900
    driver.tick(60_000)
    assert held(driver) < before + 3_000  # the group itself is left


def test_a_consumer_with_too_much_metadata_is_refused_before_anything_changes():
    driver = ConsumerDriver(SETTINGS)
    driver.create("t")
    epoch = driver.enter("m", topic_names=frozenset({"t"})).member_epoch
    before = held(driver)
    many = frozenset(f"topic-{number}" for number in range(1_000))
    answer = driver.beat("m", topic_names=many, member_epoch=epoch)
    assert answer.error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert "more memory than groups may hold: 800000 bytes" in answer.message
    assert driver.enter("n", topic_names=many).error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert held(driver) == before
    assert driver.beat("m", member_epoch=epoch).error is ErrorCode.NONE
    driver.beat("m", member_epoch=-1)
    assert held(driver) < 3_000


def test_the_memory_of_a_consumer_group_depends_only_on_its_state():
    """Not on its history of expressions, targets, moves and ids of static members, nor on restarts."""
    driver = ConsumerDriver(BrokerConfig(group_initial_rebalance_delay_ms=0, group_consumer_assignment_interval_ms=0))
    for name in ("ta", "tb"):
        driver.create(name)
    driver.enter("a", topic_names=None, topic_regex="t.*", instance_id="i")
    driver.enter("b", topic_names=frozenset({"ta"}))
    driver.beat("a", member_epoch=-2, instance_id="i")
    driver.enter("c", topic_names=None, topic_regex="t.*", instance_id="i")
    driver.beat("b", member_epoch=driver.group().members["b"].current.member_epoch, topic_names=frozenset({"tb"}))
    before = held(driver)
    driver.restart()
    assert held(driver) == before
    for member_id in "bc":
        driver.beat(member_id, member_epoch=-1, instance_id="i" if member_id == "c" else None)
    empty = held(driver)
    assert driver.delete() is ErrorCode.NONE
    assert empty > held(driver) == 0


def test_an_expression_counts_with_its_matches():
    group, counts = ConsumerGroup("g"), []
    for count in (0, 1, 2, 1):
        group.apply(Update(Subject.REGEX, "t.*", ResolvedRegex(frozenset("abc"[:count]), 0, 0)))
        counts.append(group.memory.count)
    assert counts == [sizes_of(("t.*",)) + ENTRY_BYTES * (1 + count) for count in (0, 1, 2, 1)]
    group.apply(Update(Subject.REGEX, "t.*", None))
    assert group.memory.count == 0


def test_pending_and_durable_state_both_count():
    group = ConsumerGroup("g")
    group.apply(Update(Subject.TARGET, "m", {bytes(16): frozenset({0, 1, 2})}))
    assert group.memory.count == 2 * 3 * ENTRY_BYTES
    texts = sizes_of(("m", "r", "client", "/host"))
    member = ShareMember("m", "r", "client", "/host", ("t", "u"))
    assert member.size_bytes == 2 * (MEMBER_BYTES + texts + size_of_names(("t", "u")))
    classic = ClassicMetadata(1, (("range", b"data"),))
    names = {"instance_id": "m", "rack_id": "r", "client_id": "client", "client_host": "/host"}
    said = MemberMetadata(**names, topic_names=frozenset("tu"), topic_regex="t.*", classic=classic)
    texts += sizes_of(("t.*", "range", b"data"))
    assert said.size_bytes == 2 * (MEMBER_BYTES + texts + size_of_names(("t", "u")))


def test_a_share_consumer_with_too_much_metadata_is_refused_and_frees_its_memory():
    driver = ConsumerDriver(SETTINGS)
    share = driver.coordinator.share

    def beat(topics, epoch=0):
        heartbeat = Heartbeat(
            group_id="s", member_id="m", member_epoch=epoch, topics=topics, client_id="c", client_host="/h"
        )
        return share.heartbeat(heartbeat, lambda name: None, 0)

    with pytest.raises(ShareGroupError) as refused:
        beat([f"topic-{number}" for number in range(1_000)])
    assert refused.value.code is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert held(driver) == 0
    beat(["a", "b"])
    assert held(driver) > 4_000
    with pytest.raises(ShareGroupError):
        beat([f"topic-{number}" for number in range(1_000)])
    beat(None, epoch=-1)
    assert held(driver) < 3_000


def test_share_states_count_and_wait_for_free_memory():
    driver = ConsumerDriver(BrokerConfig(pipeline_group_bytes=80_000, group_share_assignment_interval_ms=0))
    share = driver.coordinator.share
    topics = {"a": FoundTopic(b"a" * 16, 40), "b": FoundTopic(b"b" * 16, 40)}

    def beat(group, topic, epoch=0):
        heartbeat = Heartbeat(
            group_id=group, member_id="m", member_epoch=epoch, topics=[topic], client_id="c", client_host="/h"
        )
        return share.heartbeat(heartbeat, topics.get, 0)

    assert len(beat("one", "a").begins) == 40
    assert held(driver) > 40 * SHARE_STATE_BYTES
    begun = beat("two", "b")
    assert 0 < len(begun.begins) < 40
    assert beat("two", "b", begun.member_epoch).begins == []
    with pytest.raises(ShareGroupError) as refused:
        share.create("three", 40)
    assert refused.value.code is ErrorCode.GROUP_MAX_SIZE_REACHED

    share.forget(share.existing("one"), {topics["a"].topic_id})
    again = beat("two", "b", begun.member_epoch)
    assert len(begun.begins) + len(again.begins) == 40


def test_replayed_share_states_count():
    group, again = ShareGroup("g"), ShareGroup("g")
    group.begin(b"a" * 16, "a", range(7))
    group.begin(b"a" * 16, "a", range(5, 9))
    for _ in range(2):  # the second record says the same
        again.restore(group.initialized)
    assert again.initialized == group.initialized
    assert again.memory.count == group.memory.count == 9 * SHARE_STATE_BYTES
    again.forget(b"a" * 16)
    assert again.memory.count == 0


def commit(driver, group_id, metadata=""):
    parts = [PartitionCommit(topic="t", partition=number, offset=5, metadata=metadata) for number in range(100)]
    result = driver.coordinator.commit(CommitRequest(group_id=group_id, partitions=parts), driver.now_ms)
    if result.write is not None:
        driver.pending.append(result.write)
        driver.settle()
    return result.errors[0]


def test_committed_offsets_count_and_are_refused_without_memory():
    driver = Driver(BrokerConfig(pipeline_group_bytes=130_000))
    assert commit(driver, "a") is ErrorCode.NONE
    assert commit(driver, "b") is ErrorCode.NONE
    assert commit(driver, "c") is ErrorCode.INVALID_COMMIT_OFFSET_SIZE
    assert commit(driver, "a") is ErrorCode.NONE  # as large as before
    assert commit(driver, "a", "x" * 100) is ErrorCode.INVALID_COMMIT_OFFSET_SIZE
    driver.restart()
    assert held(driver) > 100_000
    errors, outcome = driver.coordinator.delete(["a", "b"], driver.now_ms)
    assert set(errors.values()) == {ErrorCode.NONE}
    driver.pending += outcome.writes
    driver.settle()
    assert held(driver) == 0


def test_a_commit_creates_no_group_without_memory():
    driver = Driver(BrokerConfig(pipeline_group_bytes=1_000))
    assert commit(driver, "g") is ErrorCode.INVALID_COMMIT_OFFSET_SIZE
    assert driver.coordinator.list_groups() == []


def test_a_commit_of_an_existing_group_needs_no_memory_for_a_group():
    driver = Driver()
    assert commit(driver, "g") is ErrorCode.NONE
    memory = driver.coordinator.memory
    memory.bytes_max = memory.bytes_held
    assert commit(driver, "g") is ErrorCode.NONE
    assert commit(driver, "other") is ErrorCode.INVALID_COMMIT_OFFSET_SIZE


@pytest.mark.parametrize(
    ("member_id", "instance_id", "grows_by"),
    [("", None, None), ("stranger", None, None), ("", "j", None), ("a", None, 10), ("", "i", 10), ("s", "i", 10)],
)
def test_a_rejoin_needs_memory_only_for_its_growth(member_id, instance_id, grows_by) -> None:
    """Its assignment has been revoked by then. A new member needs memory for everything."""
    memory, group = GroupMemory(1 << 20), ClassicGroup(group_id="g")
    for name, instance in (("a", None), ("s", "i")):
        group.add(member(name, instance, metadata=b"."))
        group.assign(group.members[name], b"assigned" * 10)
    request = JoinRequest(
        group_id="g",
        member_id=member_id,
        group_instance_id=instance_id,
        client_id="client",
        client_host="/127.0.0.1",
        session_timeout_ms=1,
        rebalance_timeout_ms=1,
        protocol_type="consumer",
        protocols=(MemberProtocol("range", b"." * 11),),
        fresh_id="x",
    )
    if grows_by is None:
        grows_by = member(member_id, instance_id, metadata=b"." * 11).size_bytes
    for room, has_room in ((grows_by, True), (grows_by - 1, False)):
        memory.bytes_held = memory.bytes_max - room
        assert has_memory(memory, group, request) is has_room
        memory.bytes_held = memory.bytes_max - member(member_id, instance_id, metadata=b"." * 11).size_bytes
        assert has_memory(memory, None, request)


@pytest.mark.parametrize("partitions", [[(0, 1), (2,)], [(0,)], [], [(0, 1, 2)]])
def test_a_share_group_counts_only_its_current_target(partitions) -> None:
    group = ShareGroup("g")
    group.memory.add(7)
    for target in ([(0, 1), (2, 3)], partitions, partitions):
        group.target = {str(number): {b"t" * 16: frozenset(each)} for number, each in enumerate(target)}
        group.count_target()
        assert group.memory.count == 7 + 2 * ENTRY_BYTES * sum(map(len, target))
