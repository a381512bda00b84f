"""ConsumerGroupHeartbeat, rule by rule, as Apache Kafka 4.3.1 answers (asked, see tests/differential)."""

from __future__ import annotations

import pytest

from pipeline_broker.state.groups.consumer.member import MemberState
from pipeline_broker.state.groups.settings import GroupSettings
from pipeline_broker.wire.error import ErrorCode
from tests.state.groups.consumer.consumer_driver import JOIN, ConsumerDriver, numbers


@pytest.fixture
def driver() -> ConsumerDriver:
    driver = ConsumerDriver()
    driver.create("t")
    return driver


def stable(driver: ConsumerDriver, *member_ids: str) -> int:
    """Let members in and beat until nothing moves; returns the epoch."""
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


def test_an_assignment_is_told_on_joining_in_a_full_request_and_when_it_changes(driver):
    driver.enter("m")
    assert driver.beat("m", member_epoch=2).assignment is None
    full = driver.beat("m", **{**JOIN, "member_epoch": 2, "owned": {}})
    assert numbers(full.assignment) == [0, 1, 2, 3]


@pytest.mark.parametrize("missing", ["rebalance_timeout_ms", "owned", "topic_names"])
def test_a_request_that_leaves_something_out_is_not_a_full_one(driver, missing):
    driver.enter("m")
    said = {**JOIN, "member_epoch": 2}
    del said[missing]
    assert driver.beat("m", **said).assignment is None


def test_partitions_change_hands_only_when_they_were_given_back(driver):
    topic_id = driver.topics.get("t").topic_id
    driver.enter("a")
    driver.tick(1_000)
    assert numbers(driver.enter("b").assignment) == []
    assert driver.group().members["b"].current.state is MemberState.UNRELEASED_PARTITIONS
    told = driver.beat("a", member_epoch=2)
    assert (told.member_epoch, len(numbers(told.assignment))) == (2, 2)
    assert driver.group().members["a"].current.state is MemberState.UNREVOKED_PARTITIONS
    assert driver.beat("a", member_epoch=2).assignment is None, "it was told already"
    assert driver.beat("b", member_epoch=3).assignment is None, "a has not given anything back"
    driver.beat("a", member_epoch=2, owned={topic_id: told.assignment[topic_id]})
    after = driver.beat("b", member_epoch=3)
    assert set(numbers(after.assignment)) == {0, 1, 2, 3} - set(numbers(told.assignment))
    assert driver.group().state_name == "Stable"


def test_the_target_is_made_at_most_once_in_an_interval(driver):
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
def test_epochs_the_last_one_is_accepted_of_whom_owns_no_more_than_it_should(driver, epoch, owned, error):
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


def test_strangers_and_groups_that_are_not_there(driver):
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
def test_requests_that_make_no_sense(driver, change, message):
    answer = driver.enter(change.pop("member_id", "m"), **change)
    assert (answer.error, answer.message.startswith(message)) == (ErrorCode.INVALID_REQUEST, True)
    assert driver.journal == []


@pytest.mark.parametrize(
    ("epoch", "error"),
    [(1, ErrorCode.INVALID_REQUEST), (-1, ErrorCode.INVALID_REQUEST), (-2, ErrorCode.FENCED_INSTANCE_ID)],
)
def test_who_has_an_epoch_or_leaves_names_itself_in_every_version(driver, epoch, error):
    """Who leaves for a while is known by its instance id."""
    driver.enter("m", instance_id="i")
    answer = driver.beat("", member_epoch=epoch, instance_id="i", id_required=False)
    assert answer.error is error


def test_an_id_is_made_for_clients_of_version_0(driver):
    assert driver.enter("", id_required=False).member_id.startswith("fresh-")


def test_only_known_assignors(driver):
    assert driver.enter("m", server_assignor="sticky").error is ErrorCode.UNSUPPORTED_ASSIGNOR
    driver.enter("m", server_assignor="range")
    assert driver.coordinator.consumer.describe("g").assignor == "range"


def test_the_assignor_is_the_one_that_most_members_ask_for_or_the_first_of_the_broker(driver):
    def assignor():
        return driver.coordinator.consumer.describe("g").assignor

    driver.enter("a")
    assert assignor() == "uniform"
    driver.enter("b", server_assignor="range")
    assert assignor() == "range"
    driver.enter("c", server_assignor="uniform")
    driver.enter("d", server_assignor="uniform")
    assert assignor() == "uniform"


def test_a_full_group_takes_nobody_else():
    driver = ConsumerDriver(GroupSettings(consumer_group_size_max=1))
    driver.enter("a")
    assert driver.enter("b").error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert driver.enter("a").error is ErrorCode.NONE, "a member may join again"


def test_silence_ends_a_session_and_frees_what_it_had(driver):
    epoch = stable(driver, "a", "b")
    driver.tick(30_000)
    driver.beat("b", member_epoch=epoch)
    driver.tick(15_001)
    assert list(driver.group().members) == ["b"]
    assert driver.beat("a", member_epoch=epoch).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert numbers(driver.beat("b", member_epoch=epoch).assignment) == [0, 1, 2, 3]


def test_who_does_not_give_back_in_time_is_out_though_it_sends_heartbeats(driver):
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
def test_after_a_restart_only_who_was_asked_to_give_something_back_has_a_time_for_that(driver, must_revoke):
    """And it is the whole time; whoever has nothing to give back only has to be heard of."""
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


def test_who_left_for_a_while_has_no_time_to_give_something_back(driver):
    """Only its session ends."""
    driver.enter("a", instance_id="i", rebalance_timeout_ms=10_000)
    driver.enter("b")
    driver.tick(1_000)
    driver.beat("b", member_epoch=2)
    driver.beat("a", member_epoch=2, instance_id="i")
    assert driver.group().members["a"].current.state is MemberState.UNREVOKED_PARTITIONS
    driver.beat("a", member_epoch=-2, instance_id="i")
    driver.tick(20_000)
    assert set(driver.group().members) == {"a", "b"}


def test_who_left_for_a_while_has_nothing_to_give_back_after_a_restart_either(driver):
    driver.enter("a", instance_id="i", rebalance_timeout_ms=10_000)
    driver.tick(1_000)
    driver.enter("b")
    driver.beat("a", member_epoch=2)  # asked to give something back
    driver.beat("a", member_epoch=-2, instance_id="i")
    driver.restart()
    driver.tick(10_001)
    assert "a" in driver.group().members, "it has its session to come back"


def test_who_gives_back_in_time_stays(driver):
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
    for name in ("u", "a"):  # "u" has the id in front of that of "a", and fewer partitions
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
    assert (described.state, described.epoch, described.assignment_epoch) == ("Empty", 3, 2)


def test_static_members(driver):
    """An instance is one member at a time; it may leave for a while and come back under another id to what it had."""
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


def test_a_static_member_that_comes_back_under_another_id_has_what_it_had_since_then(driver):
    """So it may commit what it has read before it was away (KIP-1251)."""
    driver.enter("a", instance_id="i")
    kept = driver.group().members["a"].current.assigned
    driver.grow("t", 6)
    driver.tick(1_000)
    driver.beat("a", member_epoch=2)
    driver.beat("a", member_epoch=-2, instance_id="i")
    driver.enter("b", instance_id="i")
    (since,) = driver.group().members["b"].current.assigned.values()
    assert since == {**next(iter(kept.values())), 4: 3, 5: 3}


def test_a_static_member_that_does_not_come_back_is_out(driver):
    driver.enter("a", instance_id="i")
    driver.beat("a", member_epoch=-2, instance_id="i")
    driver.tick(45_001)
    assert driver.group().is_empty


def test_topics_that_come_grow_and_go_move_the_group(driver):
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


def test_an_answer_waits_for_the_records_that_it_tells_of(driver):
    """Also one that writes nothing itself, when it speaks of what is on its way."""
    driver.hold = True
    assert driver.enter("m") is None
    assert driver.beat("m", member_epoch=2) is None
    assert driver.coordinator.consumer.describe("g").not_found is not None
    assert driver.coordinator.list_groups() == []
    driver.settle()
    assert [answer.member_epoch for answer in driver.answers.values()] == [2, 2]
    assert driver.coordinator.consumer.describe("g").state == "Stable"


def test_who_waits_is_told_to_look_elsewhere_when_the_topic_of_groups_goes_and_only_once(driver):
    """Whatever becomes of the records that are on their way."""
    driver.hold = True
    assert driver.enter("m") is None
    driver.take(driver.coordinator.unload(driver.now_ms))
    (told,) = driver.answers.values()
    assert told.error is ErrorCode.NOT_COORDINATOR
    driver.settle()
    assert len(driver.answers) == 1


def test_settings_of_one_group(driver):
    configs = {"consumer.session.timeout.ms": "50000", "consumer.heartbeat.interval.ms": "99999999"}
    driver.coordinator._configs_of = None
    driver.coordinator.consumer._configs_of = lambda group_id: configs if group_id == "g" else {}
    assert driver.enter("m").heartbeat_interval_ms == 15_000, "no more than the broker allows now"
    driver.tick(49_999)
    assert not driver.group().is_empty
    driver.tick(1)
    assert driver.group().is_empty


def test_heartbeats_while_nothing_changes_write_nothing(driver):
    """Whatever comes and goes that the group does not read, and however long it takes."""
    epoch = stable(driver, "a", "b")
    length = len(driver.journal)
    for number in range(5):
        driver.tick(20_000)
        driver.create(f"other-{number}")
        for member_id in "ab":
            answer = driver.beat(member_id, member_epoch=epoch)
            assert (answer.error, answer.member_epoch, answer.assignment) == (ErrorCode.NONE, epoch, None)
    assert len(driver.journal) == length


def test_a_group_whose_first_member_subscribes_to_nothing_begins_in_epoch_1(driver):
    """As Apache Kafka's; it is in the next one when the member subscribes to something."""
    answer = driver.enter("m", topic_names=frozenset())
    assert (answer.member_epoch, answer.assignment) == (1, {})
    driver.tick(1_000)
    assert driver.beat("m", member_epoch=1, topic_names=frozenset({"t"})).member_epoch == 2


def test_what_a_member_unsubscribes_from_it_gives_back_at_once_though_the_target_is_not_made_anew_yet(driver):
    kept = driver.create("u")
    driver.enter("m", topic_names=frozenset({"t", "u"}))
    told = driver.beat("m", member_epoch=2, topic_names=frozenset({"u"}))
    assert driver.group().assignment_epoch == 2
    assert list(told.assignment) == [kept]
    assert driver.group().members["m"].current.state is MemberState.UNREVOKED_PARTITIONS
