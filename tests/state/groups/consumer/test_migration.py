"""Online migration between classic and consumer groups, and classic members in consumer groups.

Longer than most files: it covers both directions and mixed groups.
"""

from __future__ import annotations

import struct

import attrs
import pytest

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.config.broker_config import BrokerConfig
from pipeline_broker.state.coordinator_records import record_type
from pipeline_broker.state.groups.classic.messages import LeavingMember, MemberProtocol
from pipeline_broker.state.groups.classic.records import group_tombstone
from pipeline_broker.state.groups.consumer import migration
from pipeline_broker.state.groups.consumer.group import ConsumerGroup
from pipeline_broker.state.groups.consumer.member import ClassicMetadata, Member, MemberMetadata
from pipeline_broker.state.groups.consumer.updates import Subject
from pipeline_broker.state.groups.group import GroupType
from pipeline_broker.state.groups.modern.group_error import GroupError
from pipeline_broker.state.groups.modern.member import MemberState
from pipeline_broker.state.groups.modern.updates import Update
from pipeline_broker.wire.codec import encode
from pipeline_broker.wire.consumer_protocol import read_assignment
from pipeline_broker.wire.messages.groups.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from tests.state.groups.consumer.consumer_driver import ConsumerDriver, numbers

ASSIGNED = ConsumerProtocolAssignment.TopicPartition
OWNED = ConsumerProtocolSubscription.TopicPartition


def subscription(*topics, owned=(), version=1):
    message = ConsumerProtocolSubscription(list(topics), None, [OWNED("t", list(owned))] if owned else [])
    return struct.pack(">h", version) + b"".join(map(bytes, encode(message, version)))


def assignment(*partitions, user_data=None):
    message = ConsumerProtocolAssignment([ASSIGNED("t", list(partitions))], user_data)
    return struct.pack(">h", 1) + b"".join(map(bytes, encode(message, 1)))


def protocols(*topics, owned=()):
    return (MemberProtocol("range", subscription(*topics, owned=owned)),)


@pytest.fixture
def driver() -> ConsumerDriver:
    driver = ConsumerDriver(BrokerConfig(group_initial_rebalance_delay_ms=0))
    driver.create("t")
    return driver


def classic(driver, *, given=None, **more):
    """Create a stable classic group of one member; return the member's id."""
    joined = driver.join(f"join-{next(driver.fresh)}", protocols=protocols("t"), **more)
    if joined is None:
        driver.tick(0)
        joined = [answer for answer in driver.answers.values() if getattr(answer, "leader", "")][-1]
    given = assignment(0, 1, 2, 3) if given is None else given
    driver.sync(
        f"sync-{next(driver.fresh)}", joined.member_id, joined.generation_id, assignments={joined.member_id: given}
    )
    return joined.member_id


def rejoin(driver, member_id, owned=()):
    return driver.join(f"rejoin-{next(driver.fresh)}", member_id, protocols=protocols("t", owned=owned))


def sync(driver, member_id, generation_id):
    return driver.sync(f"sync-{next(driver.fresh)}", member_id, generation_id)


def named(answer):
    return [(each.topic, each.partitions) for each in read_assignment(answer.assignment).assigned_partitions]


def kind(driver):
    return driver.coordinator.registry.get("g").group_type


def test_upgrade_keeps_assignments_of_classic_members(driver):
    member_id = classic(driver)
    answer = driver.enter("new")
    assert answer.error is ErrorCode.NONE
    group = driver.group()
    assert set(group.members) == {member_id, "new"}
    assert numbers(group.members[member_id].current.assigned) == [0, 1, 2, 3]
    assert [listed.group_type for listed in driver.coordinator.list_groups()] == ["consumer"]
    assert driver.coordinator.describe("g").not_found == "Group g is not a classic group."


def test_a_revoking_classic_member_must_rejoin_until_it_has_revoked(driver):
    member_id = classic(driver)
    driver.enter("new")
    driver.tick(1_000)
    epoch = driver.group().members["new"].current.member_epoch
    driver.beat("new", member_epoch=epoch)
    assert driver.heartbeat(member_id, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    joined = rejoin(driver, member_id, [0, 1, 2, 3])
    assert (joined.protocol_type, joined.protocol_name, joined.members) == ("consumer", "range", ())
    kept = sync(driver, member_id, joined.generation_id)
    ((_, partitions),) = named(kept)
    assert len(partitions) == 2
    assert driver.heartbeat(member_id, joined.generation_id) is ErrorCode.REBALANCE_IN_PROGRESS
    joined = rejoin(driver, member_id, partitions)
    assert named(sync(driver, member_id, joined.generation_id)) == [("t", partitions)]
    assert driver.heartbeat(member_id, joined.generation_id) is ErrorCode.NONE
    driver.beat("new", member_epoch=driver.group().members["new"].current.member_epoch)
    assert driver.group().state_name == "Stable"
    described = driver.coordinator.consumer.describe("g")
    assert {member.member_id: member.is_classic for member in described.members} == {member_id: True, "new": False}


def test_upgrade_continues_from_the_generation(driver):
    """Also after a restart from records only: committed offsets refer to the generation as well as to the epoch."""
    member_id = classic(driver)
    for generation in (2, 3):
        assert rejoin(driver, member_id).generation_id == generation
        given = {member_id: assignment(0, 1, 2, 3)}
        driver.sync(f"again-{generation}", member_id, generation, assignments=given)
    driver.enter("new")
    for _ in range(2):
        group = driver.group()
        assert (group.epoch, group.members[member_id].current.member_epoch) == (4, 3)
        driver.restart()


def test_downgrade_answers_the_leaving_member_when_durable(driver):
    classic(driver)
    driver.enter("new")
    driver.hold = True
    assert driver.beat("new", member_epoch=-1) is None
    driver.settle()
    assert list(driver.answers.values())[-1].member_epoch == -1


def test_downgrade_when_the_last_consumer_member_leaves(driver):
    member_id = classic(driver)
    driver.enter("new")
    driver.beat("new", member_epoch=-1)
    assert kind(driver) is GroupType.CLASSIC
    assert driver.state == "PreparingRebalance"
    assert driver.coordinator.registry.get("g").topics == {"t"}
    joined = rejoin(driver, member_id)
    assert (joined.error, joined.leader) == (ErrorCode.NONE, member_id)


def test_upgrade_starts_sessions_of_classic_members(driver):
    """A member that sends nothing after the upgrade expires."""
    member_id = classic(driver)
    driver.tick(5_000)
    driver.enter("new")
    driver.tick(9_999)
    assert set(driver.group().members) == {member_id, "new"}
    driver.tick(1)
    assert set(driver.group().members) == {"new"}


def test_downgrade_restarts_sessions(driver):
    classic(driver)
    driver.enter("new")
    driver.beat("new", member_epoch=-1)
    driver.tick(9_999)
    assert driver.state != "Empty"
    driver.tick(1)
    assert driver.state == "Empty"


def test_downgrade_leaves_no_records_of_the_consumer_group(driver):
    classic(driver)
    driver.enter("new", instance_id="i", topic_names=None, topic_regex="t.*")
    driver.beat("new", member_epoch=-1)
    assert kind(driver) is GroupType.CLASSIC
    latest = {record.key: record.value for record in driver.journal}
    left = {record_type(key) for key, value in latest.items() if value is not None}
    assert left == {record_type(group_tombstone("g").key)}


@pytest.mark.parametrize(("size_max", "becomes"), [(2, GroupType.CLASSIC), (1, GroupType.CONSUMER)])
def test_downgrade_respects_the_classic_group_size(size_max, becomes):
    driver = ConsumerDriver(BrokerConfig(group_initial_rebalance_delay_ms=0, group_max_size=size_max))
    driver.create("t")
    classic(driver)
    driver.enter("new")
    driver.join("second", protocols=protocols("t"))
    assert len(driver.group().members) == 3
    driver.beat("new", member_epoch=-1)
    assert kind(driver) is becomes


@pytest.mark.parametrize(
    ("members", "may_be"),
    [
        ([(None, ["range"]), (None, ["sticky", "range"])], True),
        ([("i", ["range"]), ("j", ["range"])], True),
        ([("i", ["range"]), ("i", ["range"])], False),
        ([(None, ["range"]), (None, ["sticky"])], False),
        ([(None, ["range"]), (None, None)], False),
    ],
)
def test_downgrade_needs_a_common_protocol_and_distinct_instance_ids(members, may_be):
    found = [
        Member(
            str(number),
            MemberMetadata(
                instance_id=instance_id,
                rebalance_timeout_ms=1,
                classic=None if names is None else ClassicMetadata(1, tuple((name, b"") for name in names)),
            ),
        )
        for number, (instance_id, names) in enumerate(members)
    ]
    assert migration._can_be_classic(found) is may_be


def test_a_sync_of_a_classic_member_restarts_its_session(driver):
    member_id = classic(driver)
    driver.enter("new", topic_names=frozenset())
    joined = rejoin(driver, member_id, [0, 1, 2, 3])
    driver.tick(9_000)
    assert sync(driver, member_id, joined.generation_id).error is ErrorCode.NONE
    driver.tick(9_999)
    assert set(driver.group().members) == {member_id, "new"}
    driver.tick(1)
    assert set(driver.group().members) == {"new"}


def test_no_downgrade_when_a_classic_member_returns_to_a_group_of_classic_members(driver):
    """The group stayed a consumer group when the last consumer member left, and no member is replaced now."""
    settings = BrokerConfig(group_initial_rebalance_delay_ms=0)
    driver.coordinator.change_config(attrs.evolve(settings, group_consumer_migration_policy="upgrade"))
    member_id = classic(driver)
    driver.enter("new")
    driver.beat("new", member_epoch=-1)
    assert kind(driver) is GroupType.CONSUMER
    driver.coordinator.change_config(settings)
    assert rejoin(driver, member_id).error is ErrorCode.NONE
    assert kind(driver) is GroupType.CONSUMER


def test_upgrade_respects_the_consumer_group_size(driver):
    classic(driver)
    group = driver.coordinator.registry.get("g")
    migration.check_upgrade(group, BrokerConfig(group_consumer_max_size=1))
    with pytest.raises(GroupError, match="exceeds the consumer group maximum size"):
        migration.check_upgrade(group, BrokerConfig(group_consumer_max_size=0))


def test_a_classic_member_without_protocols_is_refused(driver):
    driver.enter("m")
    for unsupported in ({"protocols": ()}, {"protocols": protocols("t"), "protocol_type": "connect"}):
        joined = driver.join(f"join-{next(driver.fresh)}", **unsupported)
        assert joined.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_a_pending_id_of_an_empty_group_ends_with_its_conversion(driver):
    driver.join("id", member_id_required=True)
    assert driver.coordinator.classic.next_deadline_ms() is not None
    driver.enter("m")
    assert driver.coordinator.classic.next_deadline_ms() is None


@pytest.mark.parametrize("is_deleted", [False, True])
def test_a_classic_group_has_no_member_epochs(driver, is_deleted):
    driver.leave(LeavingMember(classic(driver)))
    if is_deleted:
        driver.hold = True
        assert driver.delete() is ErrorCode.NONE
    answer = driver.beat("m", member_epoch=1)
    if is_deleted:
        assert answer.error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    else:
        assert (answer.error, answer.message) == (
            ErrorCode.GROUP_ID_NOT_FOUND,
            "Group g is not a consumer group.",
        )


def test_a_revoking_classic_member_must_rejoin_in_any_epoch(driver):
    member_id = classic(driver)
    driver.enter("new", topic_names=frozenset())
    driver.tick(1_000)
    driver.beat("new", member_epoch=driver.group().members["new"].current.member_epoch)
    joined = rejoin(driver, member_id, [0, 1, 2, 3])
    sync(driver, member_id, joined.generation_id)
    assert driver.heartbeat(member_id, joined.generation_id) is ErrorCode.NONE
    current = driver.group().members[member_id].current
    owes = attrs.evolve(current, state=MemberState.UNREVOKED_PARTITIONS)
    driver.group().apply(Update(Subject.CURRENT, member_id, owes))
    assert driver.heartbeat(member_id, joined.generation_id) is ErrorCode.REBALANCE_IN_PROGRESS


def test_assignments_of_classic_members_are_sorted_by_topic(driver):
    """Clients compare assignments byte by byte."""
    for name in ("z", "b", "a"):
        driver.create(name, 1)
    driver.enter("new", topic_names=frozenset())
    joined = driver.join("join", protocols=protocols("z", "b", "t", "a"))
    driver.tick(1_000)
    joined = driver.join("again", joined.member_id, protocols=protocols("z", "b", "t", "a"))
    told = named(sync(driver, joined.member_id, joined.generation_id))
    assert [topic for topic, _ in told] == ["a", "b", "t", "z"]


def test_downgrade_when_the_last_consumer_session_expires(driver):
    member_id = classic(driver, session_timeout_ms=1_000_000)
    driver.enter("new")
    driver.tick(45_000)
    assert kind(driver) is GroupType.CLASSIC
    assert [member.member_id for member in driver.coordinator.describe("g").members] == [member_id]


def test_downgrade_when_a_static_member_returns_with_the_classic_protocol(driver):
    classic(driver)
    driver.enter("new", instance_id="i")
    joined = driver.join("back", protocols=protocols("t"), group_instance_id="i")
    assert joined.error is ErrorCode.NONE
    assert kind(driver) is GroupType.CLASSIC


def numbers_given(driver, answer):
    """Rejoin and sync; return the assigned partitions of topic t."""
    asked = driver.sync(
        f"sync-{next(driver.fresh)}",
        answer.member_id,
        answer.generation_id,
        group_instance_id="i" if answer.member_id.startswith("back") else None,
    )
    assert asked.error is ErrorCode.NONE
    return dict(named(asked))["t"]


def settled(driver):
    """Create a group of a classic and a static consumer member, which share the partitions; return the former's
    join.
    """
    member_id = classic(driver)
    driver.enter("new", instance_id="i")
    driver.tick(1_000)
    driver.beat("new", member_epoch=1, instance_id="i")
    joined = rejoin(driver, member_id, [0, 1, 2, 3])
    joined = rejoin(driver, member_id, numbers_given(driver, joined))
    owned = {topic_id: frozenset(it) for topic_id, it in driver.group().members["new"].current.assigned.items()}
    driver.beat("new", member_epoch=driver.group().members["new"].current.member_epoch, instance_id="i", owned=owned)
    assert driver.group().state_name == "Stable"
    return joined


def test_downgrade_by_a_returning_static_member_needs_no_rejoin(driver):
    """KAFKA-19546: all members keep their assignments, so that no records are processed twice."""
    other = settled(driver)
    before = numbers_given(driver, other)
    back = driver.join("back", protocols=protocols("t"), group_instance_id="i")
    group = driver.coordinator.registry.get("g")
    assert (group.group_type, group.state.value) == (GroupType.CLASSIC, "Stable")
    assert driver.heartbeat(other.member_id, other.generation_id) is ErrorCode.NONE
    mine = numbers_given(driver, back)
    assert numbers_given(driver, other) == before
    assert sorted([*before, *mine]) == [0, 1, 2, 3]


def test_downgrade_gives_a_static_member_its_full_target(driver):
    """The other member has not revoked its partitions yet. It must join again, because its generation is over."""
    member_id = classic(driver)
    driver.enter("new", instance_id="i")
    driver.tick(1_000)
    driver.beat("new", member_epoch=1, instance_id="i")
    back = driver.join("back", protocols=protocols("t"), group_instance_id="i")
    assert driver.heartbeat(member_id, 1) is ErrorCode.ILLEGAL_GENERATION
    mine = numbers_given(driver, back)
    assert len(mine) == 2


def test_downgrade_by_a_static_member_with_a_new_subscription_rebalances(driver):
    driver.create("u")
    other = settled(driver)
    back = driver.join("back", protocols=protocols("t", "u"), group_instance_id="i")
    group = driver.coordinator.registry.get("g")
    assert (group.group_type, group.state.value) == (GroupType.CLASSIC, "PreparingRebalance")
    assert driver.heartbeat(other.member_id, other.generation_id) is ErrorCode.REBALANCE_IN_PROGRESS
    asked = driver.sync("early", back.member_id, back.generation_id, group_instance_id="i")
    assert asked.error is ErrorCode.ILLEGAL_GENERATION


@pytest.mark.parametrize("when", ["up", "down"])
def test_a_crash_leaves_either_kind_of_group(driver, when):
    """The tombstones of one kind and the records of the other are in one batch."""
    member_id = classic(driver)
    if when == "down":
        driver.enter("new")
    driver.hold = True
    driver.enter("new") if when == "up" else driver.beat("new", member_epoch=-1)
    (write,) = driver.pending
    before = len(driver.journal)
    assert len(write.records) > 3
    driver.restart()
    assert (len(driver.journal), kind(driver)) == (before, GroupType.CLASSIC if when == "up" else GroupType.CONSUMER)
    driver.journal += write.records
    driver.restart()
    assert kind(driver) is (GroupType.CONSUMER if when == "up" else GroupType.CLASSIC)
    members = driver.coordinator.registry.get("g").members
    assert member_id in members


def test_the_shown_kind_changes_when_durable(driver):
    classic(driver)
    driver.hold = True
    driver.enter("new")
    assert [listed.group_type for listed in driver.coordinator.list_groups()] == ["classic"]
    driver.settle()
    assert [listed.group_type for listed in driver.coordinator.list_groups()] == ["consumer"]
    driver.beat("new", member_epoch=-1)
    assert [listed.group_type for listed in driver.coordinator.list_groups()] == ["consumer"]
    driver.settle()
    assert [listed.group_type for listed in driver.coordinator.list_groups()] == ["classic"]


def test_upgrade_answers_parked_joins(driver):
    driver.settings = BrokerConfig()
    driver.restart()
    driver.join("parked", protocols=protocols("t"))
    assert "parked" not in driver.answers
    driver.enter("new")
    assert driver.answers["parked"].error is ErrorCode.REBALANCE_IN_PROGRESS


def test_upgrade_answers_parked_syncs(driver):
    """Timers and pending ids of the classic group are removed."""
    member_id = classic(driver)
    driver.join("second", protocols=protocols("t"))
    rejoin(driver, member_id)
    second_id = driver.answers["second"].member_id
    assert driver.sync("parked", second_id, 2) is None
    driver.join("given", protocols=protocols("t"), member_id_required=True)
    driver.enter("new")
    assert driver.answers["parked"].error is ErrorCode.REBALANCE_IN_PROGRESS
    assert driver.coordinator.classic.next_deadline_ms() is None
    assert set(driver.group().members) == {member_id, second_id, "new"}


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"group_consumer_migration_policy": "downgrade"}, "online upgrade is disabled"),
        ({"group_consumer_max_size": 0}, "the group size exceeds the consumer group maximum size"),
    ],
)
def test_upgrade_is_refused_by_configuration(settings, reason):
    driver = ConsumerDriver(BrokerConfig(group_initial_rebalance_delay_ms=0, **settings))
    driver.create("t")
    classic(driver)
    answer = driver.enter("new")
    assert (answer.error, reason in answer.message) == (ErrorCode.GROUP_ID_NOT_FOUND, True)
    assert kind(driver) is GroupType.CLASSIC


def test_groups_that_cannot_be_upgraded_stay_unchanged(driver):
    classic(driver, given=assignment(0, user_data=b"sticky"))
    answer = driver.enter("new")
    assert (answer.error, "custom assignor" in answer.message) == (ErrorCode.GROUP_ID_NOT_FOUND, True)
    assert kind(driver) is GroupType.CLASSIC
    driver.join("malformed", group_id="h", protocols=(MemberProtocol("range", b"\0"),))
    driver.tick(0)
    answer = driver.enter("new", group_id="h")
    assert (answer.error, "malformed" in answer.message) == (ErrorCode.GROUP_ID_NOT_FOUND, True)
    driver.join("connect", group_id="c", protocol_type="connect")
    assert driver.enter("new", group_id="c").error is ErrorCode.GROUP_ID_NOT_FOUND


def test_no_downgrade_if_it_is_disabled(driver):
    driver.settings = BrokerConfig(group_initial_rebalance_delay_ms=0, group_consumer_migration_policy="upgrade")
    driver.restart()
    classic(driver)
    driver.enter("new")
    driver.beat("new", member_epoch=-1)
    assert kind(driver) is GroupType.CONSUMER


def test_an_empty_group_of_either_kind_converts_with_its_offsets(driver):
    member_id = classic(driver)
    driver.leave(LeavingMember(member_id))
    driver.enter("new")
    assert kind(driver) is GroupType.CONSUMER
    driver.beat("new", member_epoch=-1)
    classic(driver)
    assert kind(driver) is GroupType.CLASSIC
    assert driver.state == "Stable"
    driver.restart()
    assert kind(driver) is GroupType.CLASSIC


def test_a_classic_member_joins_a_consumer_group(driver):
    driver.enter("new")
    first = driver.join("first", protocols=protocols("t"), member_id_required=True)
    assert first.error is ErrorCode.MEMBER_ID_REQUIRED
    driver.tick(1_000)
    joined = rejoin(driver, first.member_id)
    assert (joined.error, joined.generation_id) == (ErrorCode.NONE, 3)
    assert named(sync(driver, joined.member_id, 3)) == []
    assert driver.sync("odd", joined.member_id, 3, protocol_name="x").error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert sync(driver, joined.member_id, 2).error is ErrorCode.ILLEGAL_GENERATION
    assert sync(driver, "new", 2).error is ErrorCode.UNKNOWN_MEMBER_ID, "it is of the other protocol"
    assert driver.heartbeat("new", 2) is ErrorCode.UNKNOWN_MEMBER_ID
    other = driver.join("other", protocols=(MemberProtocol("sticky", subscription("t")),))
    assert other.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    wrong = driver.join("wrong", protocols=protocols("t"), protocol_type="connect")
    assert wrong.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    bad = driver.join("bad", protocols=(MemberProtocol("range", b"?"),))
    assert bad.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_a_member_may_switch_its_protocol(driver):
    """x have to rejoin, and has a consumer's session."""
    member_id = classic(driver)
    driver.enter("new")
    driver.tick(1_000)
    driver.beat("new", member_epoch=1)
    assert driver.heartbeat(member_id, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    joined = rejoin(driver, member_id, [0, 1, 2, 3])
    back = driver.enter(member_id)
    assert (back.error, back.member_epoch) == (ErrorCode.NONE, 2), "it has nothing to revoke"
    assert driver.heartbeat(member_id, joined.generation_id) is ErrorCode.UNKNOWN_MEMBER_ID
    for _ in range(4):
        driver.tick(10_000)
        for each in (member_id, "new"):
            member = driver.group().members[each].current
            owned = {topic_id: frozenset(epochs) for topic_id, epochs in member.assigned.items()}
            assert driver.beat(each, member_epoch=member.member_epoch, owned=owned).error is ErrorCode.NONE
    assert set(driver.group().members) == {member_id, "new"}
    assert driver.group().state_name == "Stable"


def test_switching_to_the_classic_protocol_revokes_regex_topics(driver):
    driver.create("u")
    driver.enter("other")
    driver.enter("new", instance_id="i", topic_regex="u.*")
    driver.tick(1_000)
    driver.beat("new", member_epoch=driver.group().members["new"].current.member_epoch, instance_id="i")
    assert driver.topics.get("u").topic_id in driver.group().members["new"].current.assigned
    epoch = driver.group().epoch
    joined = driver.join("back", protocols=protocols("t"), group_instance_id="i")
    assert driver.group().epoch == epoch + 1
    assert driver.topics.get("u").topic_id not in driver.group().members[joined.member_id].current.assigned


def test_a_classic_member_must_rejoin_when_a_new_target_is_needed(driver):
    driver.enter("new")
    driver.tick(1_000)
    joined = driver.join("join", protocols=protocols("t"))
    driver.grow("t", 6)
    driver.beat("new", member_epoch=2)
    assert driver.heartbeat(joined.member_id, joined.generation_id) is ErrorCode.NONE, "within the assignment interval"
    driver.tick(1_000)
    assert driver.heartbeat(joined.member_id, joined.generation_id) is ErrorCode.REBALANCE_IN_PROGRESS


def test_removed_members_have_no_timers(driver):
    driver.enter("new")
    driver.join("classic", protocols=protocols("t"))
    driver.tick(1_000)
    driver.beat("new", member_epoch=driver.group().members["new"].current.member_epoch)
    for member_id in list(driver.group().members):
        driver.leave(LeavingMember(member_id))
    assert driver.coordinator.consumer.next_deadline_ms() is None


def test_a_static_member_returning_with_the_other_protocol_replaces_the_old_one(driver):
    member_id = classic(driver, group_instance_id="i")
    driver.enter("other")
    assert driver.enter("new", instance_id="i").error is ErrorCode.NONE
    assert set(driver.group().members) == {"other", "new"}
    assert driver.heartbeat(member_id, 1, group_instance_id="i") is ErrorCode.FENCED_INSTANCE_ID
    assert driver.enter("third", instance_id="i").error is ErrorCode.UNRELEASED_INSTANCE_ID


def test_switching_to_the_classic_protocol_deletes_an_unused_regex(driver):
    driver.enter("other")
    driver.enter("new", instance_id="i", topic_names=frozenset(), topic_regex="t.*")
    assert set(driver.group().regexes) == {"t.*"}
    joined = driver.join("back", protocols=protocols("t"), group_instance_id="i")
    assert joined.error is ErrorCode.NONE
    assert (set(driver.group().regexes), set(driver.group().members)) == (set(), {"other", joined.member_id})
    driver.restart()
    assert driver.group().regexes == {}


def test_a_regex_stays_while_other_members_subscribe_to_it(driver):
    for member_id in ("other", "new"):
        driver.enter(member_id, instance_id=member_id, topic_names=frozenset(), topic_regex="t.*")
    driver.join("back", protocols=protocols("t"), group_instance_id="new")
    assert set(driver.group().regexes) == {"t.*"}
    length = len(driver.journal)
    driver.join("again", protocols=protocols("t"), group_instance_id="third")
    assert {record.key[:2] for record in driver.journal[length:]}.isdisjoint({Subject.REGEX.to_bytes(2)})


def test_a_static_classic_member_is_found_by_its_instance_id(driver):
    driver.enter("new")
    joined = driver.join("first", protocols=protocols("t"), group_instance_id="i", member_id_required=True)
    assert joined.error is ErrorCode.NONE
    member_id, before = joined.member_id, driver.group().epoch

    def again(member_id, instance_id="i"):
        token = f"again-{next(driver.fresh)}"
        return driver.join(token, member_id, protocols=protocols("t"), group_instance_id=instance_id)

    assert again(member_id).member_id == member_id
    assert driver.heartbeat(member_id, again(member_id).generation_id, group_instance_id="i") is ErrorCode.NONE
    assert driver.group().epoch == before, "its subscription is unchanged"
    assert again("stranger").error is ErrorCode.FENCED_INSTANCE_ID
    assert again(member_id, "j").error is ErrorCode.UNKNOWN_MEMBER_ID
    epoch = again(member_id).generation_id
    assert driver.heartbeat("stranger", epoch, group_instance_id="i") is ErrorCode.FENCED_INSTANCE_ID
    assert driver.heartbeat(member_id, epoch, group_instance_id="j") is ErrorCode.UNKNOWN_MEMBER_ID
    new = again("")
    assert new.member_id not in {"", member_id}
    assert set(driver.group().members) == {"new", new.member_id}
    assert driver.heartbeat(member_id, epoch, group_instance_id="i") is ErrorCode.FENCED_INSTANCE_ID
    driver.tick(31_000)  # the sync timer of the old id no longer applies
    driver.beat("new", member_epoch=driver.group().members["new"].current.member_epoch)
    assert member_id not in driver.group().members


def test_a_classic_member_must_rejoin_when_awaited_partitions_are_free(driver):
    driver.enter("new")
    driver.tick(1_000)
    joined = driver.join("join", protocols=protocols("t"))
    member_id, epoch = joined.member_id, joined.generation_id
    assert named(sync(driver, member_id, epoch)) == []
    assert driver.heartbeat(member_id, epoch) is ErrorCode.NONE, "another member owns all partitions"
    told = driver.beat("new", member_epoch=2)
    assert driver.heartbeat(member_id, epoch) is ErrorCode.NONE, "and has not revoked any"
    driver.beat("new", member_epoch=2, owned=told.assignment)
    assert driver.heartbeat(member_id, epoch) is ErrorCode.REBALANCE_IN_PROGRESS
    joined = rejoin(driver, member_id)
    ((_, partitions),) = named(sync(driver, member_id, joined.generation_id))
    assert len(partitions) == 2
    assert driver.heartbeat(member_id, joined.generation_id) is ErrorCode.NONE


def test_an_outdated_sync_of_a_classic_member_starts_its_rejoin_timeout(driver):
    driver.enter("new")
    driver.tick(1_000)
    joined = driver.join("join", protocols=protocols("t"), session_timeout_ms=1_000_000)
    driver.enter("third")
    driver.tick(1_000)
    driver.beat("third", member_epoch=driver.group().members["third"].current.member_epoch)
    refused = sync(driver, joined.member_id, joined.generation_id)
    assert refused.error is ErrorCode.REBALANCE_IN_PROGRESS
    driver.tick(29_999)
    assert joined.member_id not in driver.group().members, "its sync timer kept running"


def test_a_classic_member_expires_by_its_own_session_timeout(driver):
    driver.enter("new")
    joined = driver.join("join", protocols=protocols("t"), session_timeout_ms=10_000)
    driver.tick(9_999)
    assert joined.member_id in driver.group().members
    driver.tick(1)
    assert joined.member_id not in driver.group().members


def test_a_classic_member_that_never_syncs_is_removed(driver):
    driver.enter("new")
    joined = driver.join("join", protocols=protocols("t"), session_timeout_ms=1_000_000)
    driver.tick(30_000)
    assert joined.member_id not in driver.group().members


def test_a_classic_member_that_does_not_rejoin_is_removed(driver):
    member_id = classic(driver)
    driver.enter("new")
    driver.tick(1_000)
    driver.beat("new", member_epoch=1)
    for _ in range(31):
        if driver.heartbeat(member_id, 1) is ErrorCode.UNKNOWN_MEMBER_ID:
            break
        driver.tick(1_000)
        driver.beat("new", member_epoch=driver.group().members["new"].current.member_epoch)
    else:
        raise AssertionError("it is a member for ever")


def test_leave_group_removes_members_of_both_protocols(driver):
    member_id = classic(driver)
    driver.enter("new", instance_id="i")
    result = driver.leave(
        LeavingMember("nobody"), LeavingMember("other", "i"), LeavingMember("", "i"), LeavingMember(member_id)
    )
    assert [member.error for member in result.members] == [
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.NONE,
        ErrorCode.NONE,
    ]
    group = driver.coordinator.registry.get("g")
    assert isinstance(group, ConsumerGroup)
    assert group.is_empty


def test_switching_to_the_consumer_protocol_ends_the_rejoin_timeout(driver):
    member_id = classic(driver, rebalance_timeout_ms=20_000)
    driver.enter("new")
    driver.tick(1_000)
    driver.beat("new", member_epoch=driver.group().members["new"].current.member_epoch)
    assert driver.heartbeat(member_id, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    assert driver.enter(member_id).error is ErrorCode.NONE
    for _ in range(3):
        driver.tick(10_000)
        for each in (member_id, "new"):
            current = driver.group().members[each].current
            owned = {topic_id: frozenset(epochs) for topic_id, epochs in current.assigned.items()}
            driver.beat(each, member_epoch=current.member_epoch, owned=owned)
    assert set(driver.group().members) == {member_id, "new"}


def test_an_empty_rack_of_a_classic_member_means_none(driver):
    for rack_id, expected in (("", None), ("r", "r"), (None, None)):
        driver.enter("new")
        message = ConsumerProtocolSubscription(["t"], None, [], -1, rack_id)
        metadata = struct.pack(">h", 3) + b"".join(map(bytes, encode(message, 3)))
        joined = driver.join(f"join-{rack_id}", protocols=(MemberProtocol("range", metadata),))
        assert driver.group().members[joined.member_id].metadata.rack_id == expected
