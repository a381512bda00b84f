"""Subscriptions by regular expression in a consumer group."""

from __future__ import annotations

import attrs
import pytest

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.base.patterns import InvalidPatternError, Pattern
from pipeline_broker.base.steps import THINGS_PER_STEP, finished
from pipeline_broker.state.groups.consumer import subscribing
from pipeline_broker.state.groups.consumer.member import MemberMetadata
from pipeline_broker.state.groups.consumer.messages import Matches, MatchesNeeded
from pipeline_broker.state.groups.consumer.records import LAYOUTS
from pipeline_broker.state.groups.consumer.updates import ResolvedRegex, Subject
from pipeline_broker.state.groups.modern.layouts import record_of
from pipeline_broker.state.groups.modern.updates import Update
from tests.state.group_driver import START_MS
from tests.state.groups.consumer.consumer_driver import ConsumerDriver


@pytest.fixture
def driver() -> ConsumerDriver:
    driver = ConsumerDriver()
    for name in ("orders.eu", "orders.us", "logs"):
        driver.create(name, 1)
    return driver


def enter(driver, member_id, regex, **more):
    return driver.enter(member_id, topic_names=None, topic_regex=regex, **more)


def names(driver, answer):
    return sorted(driver.topics.by_id(topic_id).name for topic_id in answer.assignment)


def test_matching_topics_are_assigned_at_once(driver):
    assert names(driver, enter(driver, "m", "orders\\..*")) == ["orders.eu", "orders.us"]


def test_only_topics_that_the_client_may_describe_match(driver):
    answer = enter(driver, "m", "orders\\..*", may_describe=lambda name: name != "orders.us")
    assert names(driver, answer) == ["orders.eu"]


def test_a_new_topic_is_found(driver):
    enter(driver, "m", "orders\\..*")
    driver.create("orders.jp", 1)
    driver.tick(2_000)
    assert "orders.jp" in names(driver, driver.beat("m", member_epoch=2))


def test_a_heartbeat_refreshes_some_expressions_oldest_first(driver, monkeypatch):
    """All clients wait while names are matched, so one heartbeat matches only some."""
    monkeypatch.setattr(subscribing, "NAMES_MATCHED_MAX", 8)  # two expressions, of four topics
    for number in range(5):
        driver.tick(1)
        enter(driver, f"m{number}", f"orders\\..{{{number},9}}")
    driver.create("orders.jp", 1)
    driver.tick(2_000)
    heartbeats = []
    for _ in range(4):
        driver.tick(1)
        driver.beat("m0", member_epoch=driver.group().members["m0"].current.member_epoch)
        found = [regex for regex, resolved in driver.group().regexes.items() if "orders.jp" in resolved.topics]
        heartbeats.append(len(found))
    assert heartbeats == [2, 3, 3, 3]
    time_of_match = [driver.group().regexes[f"orders\\..{{{number},9}}"].timestamp_ms for number in range(5)]
    assert time_of_match == sorted(time_of_match)
    assert len(set(time_of_match)) == 3


def test_a_heartbeat_refreshes_one_expression_for_any_number_of_topics(driver, monkeypatch):
    monkeypatch.setattr(subscribing, "NAMES_MATCHED_MAX", 1)
    enter(driver, "m", "orders\\..*")
    driver.tick(1)
    enter(driver, "n", "[o]rders\\..*")
    driver.create("orders.jp", 1)
    driver.tick(2_000)
    driver.beat("m", member_epoch=driver.group().members["m"].current.member_epoch)
    assert {regex: "orders.jp" in found.topics for regex, found in driver.group().regexes.items()} == {
        "orders\\..*": True,
        "[o]rders\\..*": False,
    }


def test_names_and_an_expression_together(driver):
    answer = driver.enter("m", topic_names=frozenset({"logs"}), topic_regex="orders\\.e.")
    assert names(driver, answer) == ["logs", "orders.eu"]


def test_an_unused_expression_is_deleted(driver):
    enter(driver, "a", "orders\\..*")
    enter(driver, "b", "orders\\..*")
    driver.beat("a", member_epoch=-1)
    assert set(driver.group().regexes) == {"orders\\..*"}
    driver.beat("b", member_epoch=2, topic_regex="logs")
    assert set(driver.group().regexes) == {"logs"}
    driver.beat("b", member_epoch=-1)
    assert driver.group().regexes == {}


def test_dropping_a_shared_expression_does_not_affect_others(driver):
    enter(driver, "a", "orders\\..*")
    enter(driver, "b", "orders\\..*", may_describe=lambda _: False)
    before = driver.group().regexes["orders\\..*"]
    driver.beat("b", member_epoch=2, topic_regex="logs", may_describe=lambda _: False)
    assert driver.group().regexes["orders\\..*"] == before
    assert before.topics == {"orders.eu", "orders.us"}


def test_an_invalid_expression_is_refused_and_changes_nothing(driver):
    answer = enter(driver, "m", "(")
    assert answer.error is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert "is not a valid regular expression: missing )" in answer.message
    assert driver.journal == []
    enter(driver, "m", "logs")
    length = len(driver.journal)
    assert driver.beat("m", member_epoch=2, topic_regex="a**").error is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert len(driver.journal) == length


def test_a_new_expression_revokes_unmatched_topics_at_once(driver):
    """The target assignment may still contain them."""
    enter(driver, "m", "orders\\..*")
    told = driver.beat("m", member_epoch=2, topic_regex="logs")
    assert (names(driver, told), driver.group().assignment_epoch) == ([], 2)


def test_a_new_expression_revokes_topics_of_the_old_one(driver):
    enter(driver, "m", "orders\\..*")
    driver.tick(1_000)
    told = driver.beat("m", member_epoch=2, topic_regex="logs")
    assert names(driver, told) == []
    told = driver.beat("m", member_epoch=2, owned={})
    assert names(driver, told) == ["logs"]


@pytest.mark.parametrize("also_resolved", [False, True])
def test_an_invalid_replayed_expression_matches_nothing_and_fails_only_its_members(driver, also_resolved):
    enter(driver, "m", "orders\\..*")
    records = [Update(Subject.MEMBER, "stranger", MemberMetadata(topic_regex="(", rebalance_timeout_ms=60_000))]
    if also_resolved:
        records.append(Update(Subject.REGEX, "(", ResolvedRegex(frozenset({"logs"}), 0, 0)))
    driver.journal += [record_of(LAYOUTS, "g", update) for update in records]
    driver.restart()
    driver.create("orders.jp", 1)
    driver.tick(2_000)
    epoch = driver.group().members["m"].current.member_epoch
    assert driver.beat("m", member_epoch=epoch).error is ErrorCode.NONE
    assert driver.group().regexes["("].topics == frozenset()
    assert "orders.jp" in driver.group().regexes["orders\\..*"].topics
    assert enter(driver, "stranger", "(").error is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert enter(driver, "stranger", "logs").error is ErrorCode.NONE
    assert "(" not in driver.group().regexes


def time_of_match(driver, regex="orders\\..*"):
    """Return the time of the last match after the member's next heartbeat."""
    driver.beat("m", member_epoch=driver.group().members["m"].current.member_epoch)
    return driver.group().regexes[regex].timestamp_ms - START_MS


def test_new_topics_are_matched_once_and_at_most_every_second(driver):
    enter(driver, "m", "orders\\..*")
    driver.create("orders.jp", 1)
    driver.tick(999)
    assert time_of_match(driver) == 0
    driver.tick(1)
    assert time_of_match(driver) == 1_000
    for _ in range(20):
        driver.tick(20_000)
        assert time_of_match(driver) == 1_000, "no topic came"


def test_expressions_are_refreshed_after_ten_minutes(driver):
    hidden = {"orders.us"}
    rights = {"may_describe": lambda name: name not in hidden}
    epoch = enter(driver, "m", "orders\\..*", **rights).member_epoch
    hidden.clear()
    for _ in range(30):
        driver.tick(20_000)
        assert driver.beat("m", member_epoch=epoch, **rights).assignment is None
    driver.tick(1)
    assert names(driver, driver.beat("m", member_epoch=epoch, **rights)) == ["orders.eu", "orders.us"]


def test_a_changed_match_bumps_the_epoch(driver):
    enter(driver, "m", "orders\\..*")
    epoch = driver.group().epoch
    driver.create("invoices", 1)
    driver.tick(1_000)
    assert time_of_match(driver) == 1_000
    assert driver.group().epoch == epoch
    driver.drop("orders.us")
    driver.tick(1_000)
    assert time_of_match(driver) == 2_000
    assert driver.group().epoch == epoch + 1
    assert driver.group().regexes["orders\\..*"].topics == {"orders.eu"}


def test_one_changed_expression_bumps_the_epoch(driver):
    enter(driver, "m", "orders\\..*")
    enter(driver, "n", "[l]ogs")
    driver.tick(1_000)
    driver.create("orders.jp", 1)
    epoch = driver.group().epoch
    assert time_of_match(driver) == 1_000
    assert driver.group().epoch == epoch + 1


@pytest.mark.parametrize("other", ["[l]ogs", "p?logs"])
def test_a_changed_match_bumps_the_epoch_even_for_a_known_topic(driver, other):
    """The order of the expressions does not matter. The set of subscribed topics stays the same."""
    hidden = {"orders.us"}
    enter(driver, "m", "orders\\..*", may_describe=lambda name: name not in hidden)
    enter(driver, "k", other)
    driver.enter("n", topic_names=frozenset({"orders.us"}))

    def beat(member_id):
        epoch = driver.group().members[member_id].current.member_epoch
        driver.beat(member_id, member_epoch=epoch, may_describe=lambda name: name not in hidden)

    for _ in range(30):
        driver.tick(20_000)
        for member_id in "mkn":
            beat(member_id)
    hidden.clear()
    epoch = driver.group().epoch
    driver.tick(1)
    beat("m")
    assert driver.group().epoch == epoch + 1


def test_new_partitions_of_a_matched_topic_are_assigned(driver):
    epoch = enter(driver, "m", "orders\\..*").member_epoch
    driver.grow("orders.us", 3)
    driver.tick(1_000)
    assigned = driver.beat("m", member_epoch=epoch).assignment
    assert sorted(map(len, assigned.values())) == [1, 3]
    assert driver.group().subscribed_topics == {"orders.eu", "orders.us"}


def test_dropping_an_expression_bumps_the_epoch_even_without_matches(driver):
    """As in Kafka."""

    def change(regex):
        driver.beat("n", member_epoch=driver.group().members["n"].current.member_epoch, topic_regex=regex)
        return driver.group().epoch - epoch, set(driver.group().regexes) - {"orders\\..*"}

    enter(driver, "m", "orders\\..*")
    driver.enter("n", topic_names=frozenset())
    epoch = driver.group().epoch
    assert change("none.*") == (0, {"none.*"})
    assert change("none.*") == (0, {"none.*"})
    assert change("no.*") == (1, {"no.*"})
    assert change("") == (2, set())
    assert change("l.*") == (3, {"l.*"}), "it matches something"


def test_a_joining_member_reuses_a_resolved_expression(driver):
    enter(driver, "m", "orders\\..*")
    driver.tick(1_500)
    enter(driver, "n", "orders\\..*", may_describe=lambda name: name != "orders.us")
    assert driver.group().regexes["orders\\..*"].timestamp_ms == START_MS
    assert driver.group().regexes["orders\\..*"].topics == {"orders.eu", "orders.us"}


def test_a_new_expression_that_may_not_be_matched_in_the_heartbeat_changes_nothing(driver):
    with pytest.raises(MatchesNeeded):
        enter(driver, "m", "orders\\..*", may_match=False)
    assert driver.coordinator.registry.get("g") is None
    enter(driver, "m", "orders\\..*")
    before = attrs.asdict(driver.group(), recurse=False)
    with pytest.raises(MatchesNeeded):
        driver.beat("m", member_epoch=2, topic_regex="logs", may_match=False)
    assert attrs.asdict(driver.group(), recurse=False) == before
    assert names(driver, enter(driver, "n", "orders\\..*", may_match=False)) == [], "known; the first has both"


def test_a_refused_heartbeat_needs_no_matches(driver):
    enter(driver, "m", "orders\\..*")
    refused = driver.beat("m", member_epoch=7, topic_regex="logs", may_match=False)
    assert refused.error == ErrorCode.FENCED_MEMBER_EPOCH
    assert enter(driver, "n", "(", may_match=False).error == ErrorCode.INVALID_REGULAR_EXPRESSION


def test_topics_that_came_after_the_matching_are_found_by_the_next_refresh(driver):
    matches = finished(driver.coordinator.consumer.find_matches("orders\\..*"))
    driver.create("orders.jp", 1)
    answer = enter(driver, "m", "orders\\..*", matches=matches, may_match=False)
    assert names(driver, answer) == ["orders.eu", "orders.us"]
    driver.tick(subscribing.REFRESH_INTERVAL_MS_MIN)
    assert names(driver, driver.beat("m", member_epoch=answer.member_epoch)) == ["orders.eu", "orders.jp", "orders.us"]


def test_an_expression_that_is_too_slow_for_some_names_matches_none_in_steps_either(driver, monkeypatch):
    calls = iter(range(2))

    def matching(_pattern, names):
        if next(calls):
            raise InvalidPatternError("it takes too long to match")
        return list(names)

    monkeypatch.setattr(Pattern, "matching", matching)
    names = [f"orders.{number}" for number in range(2 * THINGS_PER_STEP)]
    assert finished(subscribing.find_matches("orders.*", names, 7)) == Matches((), 7)
