"""ConsumerGroupHeartbeat, rule by rule, compared with Apache Kafka (see tests/differential)."""

from __future__ import annotations

import pytest

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.config.broker_config import BrokerConfig
from pipeline_broker.state.groups.modern.member import MemberState
from tests.state.groups.consumer.consumer_driver import JOIN, ConsumerDriver, numbers


@pytest.fixture
def driver() -> ConsumerDriver:
    driver = ConsumerDriver()
    driver.create("t")
    return driver


def stable(driver: ConsumerDriver, *member_ids: str) -> int:
    """Add members and send heartbeats until the group is stable; return the epoch."""
    for member_id in member_ids:
        driver.enter(member_id)
    for _ in range(4):
        driver.tick(1_000)
        for member_id in member_ids:
            member = driver.group().members[member_id].current
            owned = {topic_id: frozenset(epochs) for topic_id, epochs in member.assigned.items()}
            driver.beat(member_id, member_epoch=member.member_epoch, owned=owned)
    assert driver.group().state_name == "Stable"
    return driver.group().epoch


def test_the_first_member_gets_everything_at_once(driver):
    answer = driver.enter("m")
    assert (answer.error, answer.member_id, answer.member_epoch) == (ErrorCode.NONE, "m", 2)
    assert answer.heartbeat_interval_ms == 5_000
    assert numbers(answer.assignment) == [0, 1, 2, 3]


def test_an_assignment_is_sent_to_joins_and_full_requests_and_after_changes(driver):
    driver.enter("m")
    assert driver.beat("m", member_epoch=2).assignment is None
    full = driver.beat("m", **{**JOIN, "member_epoch": 2, "owned": {}})
    assert numbers(full.assignment) == [0, 1, 2, 3]


@pytest.mark.parametrize("missing", ["rebalance_timeout_ms", "owned", "topic_names"])
def test_a_request_with_missing_fields_is_not_full(driver, missing):
    driver.enter("m")
    said = {**JOIN, "member_epoch": 2}
    del said[missing]
    assert driver.beat("m", **said).assignment is None


def test_partitions_move_only_after_their_revocation(driver):
    topic_id = driver.topics.get("t").topic_id
    driver.enter("a")
    driver.tick(1_000)
    assert numbers(driver.enter("b").assignment) == []
    assert driver.group().members["b"].current.state is MemberState.UNRELEASED_PARTITIONS
    told = driver.beat("a", member_epoch=2)
    assert (told.member_epoch, len(numbers(told.assignment))) == (2, 2)
    assert driver.group().members["a"].current.state is MemberState.UNREVOKED_PARTITIONS
    assert driver.beat("a", member_epoch=2).assignment is None, "already sent"
    assert driver.beat("b", member_epoch=3).assignment is None, "a has not revoked anything"
    driver.beat("a", member_epoch=2, owned={topic_id: told.assignment[topic_id]})
    after = driver.beat("b", member_epoch=3)
    assert set(numbers(after.assignment)) == {0, 1, 2, 3} - set(numbers(told.assignment))
    assert driver.group().state_name == "Stable"


def test_the_target_is_computed_at_most_once_per_interval(driver):
    driver.enter("a")
    answer = driver.enter("b")
    assert (answer.member_epoch, driver.group().epoch, driver.group().assignment_epoch) == (2, 3, 2)
    assert driver.group().state_name == "Assigning"
    driver.tick(999)
    driver.beat("b", member_epoch=2)
    assert driver.group().assignment_epoch == 2
    driver.tick(1)
    assert driver.beat("b", member_epoch=2).member_epoch == 3


@pytest.mark.parametrize(
    ("epoch", "owned", "error"),
    [
        (3, None, ErrorCode.NONE),
        (2, {}, ErrorCode.NONE),
        (2, None, ErrorCode.FENCED_MEMBER_EPOCH),
        (2, "too much", ErrorCode.FENCED_MEMBER_EPOCH),
        (2, {b"?" * 16: frozenset({0})}, ErrorCode.FENCED_MEMBER_EPOCH),
        (1, {}, ErrorCode.FENCED_MEMBER_EPOCH),
        (4, {}, ErrorCode.FENCED_MEMBER_EPOCH),
    ],
)
def test_the_previous_epoch_is_accepted_only_without_extra_partitions(driver, epoch, owned, error):
    topic_id = driver.topics.get("t").topic_id
    driver.enter("a")
    driver.enter("b")
    driver.tick(1_000)
    driver.beat("b", member_epoch=2)
    kept = driver.beat("a", member_epoch=2).assignment
    driver.beat("a", member_epoch=2, owned=kept)
    assert driver.group().members["a"].current.member_epoch == 3
    if owned == "too much":
        owned = {topic_id: frozenset(range(4))}
    answer = driver.beat("a", member_epoch=epoch, owned=owned)
    assert answer.error is error
    if error is not ErrorCode.NONE:
        assert f"a {'greater' if epoch > 3 else 'smaller'} member epoch ({epoch})" in answer.message


def test_unknown_members_and_missing_groups_are_refused(driver):
    assert driver.beat("m", member_epoch=1).error is ErrorCode.GROUP_ID_NOT_FOUND
    assert driver.beat("m", member_epoch=-1).error is ErrorCode.GROUP_ID_NOT_FOUND
    driver.enter("m")
    for epoch in (1, -1):
        assert driver.beat("other", member_epoch=epoch).error is ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"member_id": ""}, "MemberId can't be empty."),
        ({"group_id": " "}, "GroupId can't be empty."),
        ({"instance_id": ""}, "InstanceId can't be empty."),
        ({"rack_id": ""}, "RackId can't be empty."),
        ({"rebalance_timeout_ms": -1}, "RebalanceTimeoutMs must be provided in first request."),
        ({"owned": None}, "TopicPartitions must be empty when (re-)joining."),
        ({"owned": {bytes(16): frozenset({0})}}, "TopicPartitions must be empty when (re-)joining."),
        ({"topic_names": None}, "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null"),
        ({"member_epoch": -2}, "InstanceId can't be null."),
        ({"member_epoch": -3}, "MemberEpoch is invalid."),
    ],
)
def test_invalid_requests_are_refused(driver, change, message):
    answer = driver.enter(change.pop("member_id", "m"), **change)
    assert (answer.error, answer.message.startswith(message)) == (ErrorCode.INVALID_REQUEST, True)
    assert driver.journal == []


@pytest.mark.parametrize(
    ("epoch", "error"),
    [(1, ErrorCode.INVALID_REQUEST), (-1, ErrorCode.INVALID_REQUEST), (-2, ErrorCode.FENCED_INSTANCE_ID)],
)
def test_an_epoch_or_a_leave_requires_a_member_id_in_every_version(driver, epoch, error):
    """Except for a temporary leave, which the instance id identifies."""
    driver.enter("m", instance_id="i")
    answer = driver.beat("", member_epoch=epoch, instance_id="i", id_required=False)
    assert answer.error is error


def test_clients_of_version_0_get_a_member_id(driver):
    assert driver.enter("", id_required=False).member_id.startswith("fresh-")


def test_unknown_assignors_are_refused(driver):
    assert driver.enter("m", server_assignor="sticky").error is ErrorCode.UNSUPPORTED_ASSIGNOR
    driver.enter("m", server_assignor="range")
    assert driver.coordinator.consumer.describe("g").assignor == "range"


def test_the_assignor_is_the_most_requested_one_or_the_default(driver):
    def assignor():
        return driver.coordinator.consumer.describe("g").assignor

    driver.enter("a")
    assert assignor() == "uniform"
    driver.enter("b", server_assignor="range")
    assert assignor() == "range"
    driver.enter("c", server_assignor="uniform")
    driver.enter("d", server_assignor="uniform")
    assert assignor() == "uniform"


def test_a_preference_that_changes_the_assignor_bumps_the_epoch(driver):
    epoch = stable(driver, "a", "b")
    assert driver.beat("a", member_epoch=epoch, server_assignor="uniform").member_epoch == epoch, "it is the default"
    assert driver.beat("a", member_epoch=epoch, server_assignor="range").member_epoch == epoch + 1
    assert driver.beat("a", member_epoch=epoch + 1, server_assignor="range").member_epoch == epoch + 1


def test_a_full_group_refuses_new_members():
    driver = ConsumerDriver(BrokerConfig(group_consumer_max_size=1))
    driver.enter("a")
    assert driver.enter("b").error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert driver.enter("a").error is ErrorCode.NONE, "a member may join again"


def test_an_expired_session_frees_its_partitions(driver):
    epoch = stable(driver, "a", "b")
    driver.tick(30_000)
    driver.beat("b", member_epoch=epoch)
    driver.tick(15_001)
    assert list(driver.group().members) == ["b"]
    assert driver.beat("a", member_epoch=epoch).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert numbers(driver.beat("b", member_epoch=epoch).assignment) == [0, 1, 2, 3]


def test_a_late_revocation_removes_the_member_despite_heartbeats(driver):
    driver.enter("a", rebalance_timeout_ms=10_000)
    driver.tick(1_000)
    driver.enter("b")
    driver.beat("a", member_epoch=2)
    for _ in range(9):
        driver.tick(1_000)
        assert driver.beat("a", member_epoch=2).error is ErrorCode.NONE
    driver.tick(1_000)
    assert driver.beat("a", member_epoch=2).error is ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("must_revoke", [True, False])
def test_after_a_restart_only_revoking_members_have_a_rebalance_timeout(driver, must_revoke):
    """They get the whole timeout. All other members have only a session."""
    driver.enter("a", rebalance_timeout_ms=10_000)
    driver.tick(1_000)
    if must_revoke:
        driver.enter("b")
        driver.beat("a", member_epoch=2)
        driver.tick(9_000)
    driver.restart()
    driver.tick(9_999)
    assert driver.beat("a", member_epoch=2).error is ErrorCode.NONE
    driver.tick(1)
    expected = ErrorCode.UNKNOWN_MEMBER_ID if must_revoke else ErrorCode.NONE
    assert driver.beat("a", member_epoch=2).error is expected


def test_a_temporarily_absent_member_has_no_rebalance_timeout(driver):
    driver.enter("a", instance_id="i", rebalance_timeout_ms=10_000)
    driver.enter("b")
    driver.tick(1_000)
    driver.beat("b", member_epoch=2)
    driver.beat("a", member_epoch=2, instance_id="i")
    assert driver.group().members["a"].current.state is MemberState.UNREVOKED_PARTITIONS
    driver.beat("a", member_epoch=-2, instance_id="i")
    driver.tick(20_000)
    assert set(driver.group().members) == {"a", "b"}


def test_a_temporarily_absent_member_has_no_rebalance_timeout_after_a_restart(driver):
    driver.enter("a", instance_id="i", rebalance_timeout_ms=10_000)
    driver.tick(1_000)
    driver.enter("b")
    driver.beat("a", member_epoch=2)  # must revoke partitions
    driver.beat("a", member_epoch=-2, instance_id="i")
    driver.restart()
    driver.tick(10_001)
    assert "a" in driver.group().members, "it may return within its session"


def test_a_timely_revocation_keeps_the_member(driver):
    topic_id = driver.topics.get("t").topic_id
    driver.enter("a", rebalance_timeout_ms=10_000)
    driver.tick(1_000)
    driver.enter("b")
    told = driver.beat("a", member_epoch=2).assignment
    driver.tick(9_999)
    driver.beat("a", member_epoch=2, owned={topic_id: told[topic_id]})
    driver.tick(20_000)
    assert driver.beat("a", member_epoch=3).error is ErrorCode.NONE


def test_assignments_are_described_by_the_names_of_their_topics(driver):
    for name in ("u", "a"):  # the id of "u" sorts before that of "a", and it has fewer partitions
        driver.create(name, 1 if name == "u" else 3)
    driver.enter("m", topic_names=frozenset("tua"))
    (member,) = driver.coordinator.consumer.describe("g").members
    for told in (member.assignment, member.target):
        assert [(name, partitions) for _, name, partitions in told] == [
            ("a", (0, 1, 2)),
            ("t", (0, 1, 2, 3)),
            ("u", (0,)),
        ]


def test_leaving_makes_an_empty_group_that_keeps_its_epochs(driver):
    driver.enter("m")
    answer = driver.beat("m", member_epoch=-1)
    assert (answer.error, answer.member_epoch) == (ErrorCode.NONE, -1)
    described = driver.coordinator.consumer.describe("g")
    assert (described.state, described.epoch, described.assignment_epoch) == ("Empty", 3, 3)


def test_static_members(driver):
    """An instance is one member at a time. It may leave temporarily and return with another id to its old
    assignment.
    """
    me = {"instance_id": "i"}
    driver.enter("a", **me)
    assert driver.enter("b", **me).error is ErrorCode.UNRELEASED_INSTANCE_ID
    assert driver.beat("b", member_epoch=2, **me).error is ErrorCode.FENCED_INSTANCE_ID
    assert driver.beat("a", member_epoch=2, instance_id="j").error is ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.beat("a", member_epoch=-2, **me).member_epoch == -2
    assert driver.beat("a", member_epoch=2, **me).error is ErrorCode.FENCED_MEMBER_EPOCH
    back = driver.enter("b", **me)
    assert (back.member_epoch, numbers(back.assignment)) == (2, [0, 1, 2, 3]), "nothing had to move"
    assert list(driver.group().members) == ["b"]
    assert driver.beat("a", member_epoch=-1, **me).error is ErrorCode.FENCED_INSTANCE_ID


def test_a_returning_static_member_may_commit_with_any_earlier_epoch(driver):
    """It may commit the records that it read before it left (KIP-1251). As in Kafka, old assignment epochs become 0."""
    driver.enter("a", instance_id="i")
    driver.grow("t", 6)
    driver.tick(1_000)
    driver.beat("a", member_epoch=2)
    driver.beat("a", member_epoch=-2, instance_id="i")
    driver.grow("t", 7)
    driver.tick(1_000)
    driver.enter("b", instance_id="i")
    (since,) = driver.group().members["b"].current.assigned.values()
    assert since == {**dict.fromkeys(range(6), 0), 6: 4}


def test_a_static_member_that_does_not_return_is_removed(driver):
    driver.enter("a", instance_id="i")
    driver.beat("a", member_epoch=-2, instance_id="i")
    driver.tick(45_001)
    assert driver.group().is_empty


def test_changed_topics_bump_the_epoch(driver):
    driver.enter("m", topic_names=frozenset({"t", "later"}))
    driver.grow("t", 6)
    driver.tick(1_000)
    told = driver.beat("m", member_epoch=2)
    assert (told.member_epoch, numbers(told.assignment)) == (3, list(range(6)))
    driver.create("later", 1)
    driver.tick(1_000)
    assert len(driver.beat("m", member_epoch=3).assignment) == 2
    driver.drop("later")
    driver.tick(1_000)
    assert len(driver.beat("m", member_epoch=4).assignment) == 1
    driver.create("others", 1)
    driver.tick(1_000)
    assert driver.beat("m", member_epoch=4).assignment is None


def test_a_response_waits_for_the_records_it_depends_on(driver):
    """Even if its own request writes none, it may depend on pending records of other requests."""
    driver.hold = True
    assert driver.enter("m") is None
    assert driver.beat("m", member_epoch=2) is None
    assert driver.coordinator.consumer.describe("g").not_found is not None
    assert driver.coordinator.list_groups() == []
    driver.settle()
    assert [answer.member_epoch for answer in driver.answers.values()] == [2, 2]
    assert driver.coordinator.consumer.describe("g").state == "Stable"


def test_unload_answers_waiting_heartbeats_once_with_not_coordinator(driver):
    """The later result of the pending records is ignored."""
    driver.hold = True
    assert driver.enter("m") is None
    driver.take(driver.coordinator.unload(driver.now_ms))
    (told,) = driver.answers.values()
    assert told.error is ErrorCode.NOT_COORDINATOR
    driver.settle()
    assert len(driver.answers) == 1


def test_configs_override_settings_of_one_group(driver):
    configs = {"consumer.session.timeout.ms": "50000", "consumer.heartbeat.interval.ms": "99999999"}
    driver.coordinator._configs_of = None
    driver.coordinator.consumer._configs_of = lambda group_id: configs if group_id == "g" else {}
    assert driver.enter("m").heartbeat_interval_ms == 15_000, "no more than the broker allows now"
    driver.tick(49_999)
    assert not driver.group().is_empty
    driver.tick(1)
    assert driver.group().is_empty


def test_heartbeats_while_nothing_changes_write_nothing(driver):
    """Changes of topics outside the group's subscriptions and elapsed time do not matter."""
    epoch = stable(driver, "a", "b")
    length = len(driver.journal)
    for number in range(5):
        driver.tick(20_000)
        driver.create(f"other-{number}")
        for member_id in "ab":
            answer = driver.beat(member_id, member_epoch=epoch)
            assert (answer.error, answer.member_epoch, answer.assignment) == (ErrorCode.NONE, epoch, None)
    assert len(driver.journal) == length


def test_a_group_without_subscriptions_starts_in_epoch_1(driver):
    """As in Apache Kafka. The first subscription bumps it to epoch 2."""
    answer = driver.enter("m", topic_names=frozenset())
    assert (answer.member_epoch, answer.assignment) == (1, {})
    driver.tick(1_000)
    assert driver.beat("m", member_epoch=1, topic_names=frozenset({"t"})).member_epoch == 2


def test_an_unsubscribed_topic_is_revoked_before_the_next_target(driver):
    kept = driver.create("u")
    driver.enter("m", topic_names=frozenset({"t", "u"}))
    told = driver.beat("m", member_epoch=2, topic_names=frozenset({"u"}))
    assert driver.group().assignment_epoch == 2
    assert list(told.assignment) == [kept]
    assert driver.group().members["m"].current.state is MemberState.UNREVOKED_PARTITIONS
