"""Subscriptions by regular expression in a consumer group."""

from __future__ import annotations

import pytest

from pipeline_broker.state.groups.consumer import subscribing
from pipeline_broker.state.groups.consumer.member import MemberMetadata
from pipeline_broker.state.groups.consumer.records import record_of
from pipeline_broker.state.groups.consumer.updates import ResolvedRegex, Subject, Update
from pipeline_broker.wire.error import ErrorCode
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


def test_what_matches_is_assigned_at_once(driver):
    assert names(driver, enter(driver, "m", "orders\\..*")) == ["orders.eu", "orders.us"]


def test_only_what_the_client_may_know_of(driver):
    answer = enter(driver, "m", "orders\\..*", may_describe=lambda name: name != "orders.us")
    assert names(driver, answer) == ["orders.eu"]


def test_a_topic_that_comes_later_is_found(driver):
    enter(driver, "m", "orders\\..*")
    driver.create("orders.jp", 1)
    driver.tick(2_000)
    assert "orders.jp" in names(driver, driver.beat("m", member_epoch=2))


def test_of_many_expressions_some_are_looked_at_in_a_heartbeat_the_oldest_first_and_all_by_and_by(driver, monkeypatch):
    """All clients wait while names are matched."""
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
    looked_at = [driver.group().regexes[f"orders\\..{{{number},9}}"].timestamp_ms for number in range(5)]
    assert looked_at == sorted(looked_at)
    assert len(set(looked_at)) == 3


def test_one_expression_is_looked_at_however_many_topics_there_are_and_no_other(driver, monkeypatch):
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


def test_an_expression_that_nobody_has_any_more_is_forgotten(driver):
    enter(driver, "a", "orders\\..*")
    enter(driver, "b", "orders\\..*")
    driver.beat("a", member_epoch=-1)
    assert set(driver.group().regexes) == {"orders\\..*"}
    driver.beat("b", member_epoch=2, topic_regex="logs")
    assert set(driver.group().regexes) == {"logs"}
    driver.beat("b", member_epoch=-1)
    assert driver.group().regexes == {}


def test_who_gives_up_an_expression_that_others_have_changes_nothing_of_what_they_read(driver):
    enter(driver, "a", "orders\\..*")
    enter(driver, "b", "orders\\..*", may_describe=lambda _: False)
    before = driver.group().regexes["orders\\..*"]
    driver.beat("b", member_epoch=2, topic_regex="logs", may_describe=lambda _: False)
    assert driver.group().regexes["orders\\..*"] == before
    assert before.topics == {"orders.eu", "orders.us"}


def test_an_expression_that_is_none_is_refused_and_changes_nothing(driver):
    answer = enter(driver, "m", "(")
    assert answer.error is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert "is not a valid regular expression: missing )" in answer.message
    assert driver.journal == []
    enter(driver, "m", "logs")
    length = len(driver.journal)
    assert driver.beat("m", member_epoch=2, topic_regex="a**").error is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert len(driver.journal) == length


def test_what_another_expression_does_not_match_is_given_back_at_once(driver):
    """Whatever the target says, which is made anew once in a while."""
    enter(driver, "m", "orders\\..*")
    told = driver.beat("m", member_epoch=2, topic_regex="logs")
    assert (names(driver, told), driver.group().assignment_epoch) == ([], 2)


def test_another_expression_gives_back_what_matched_before(driver):
    enter(driver, "m", "orders\\..*")
    driver.tick(1_000)
    told = driver.beat("m", member_epoch=2, topic_regex="logs")
    assert names(driver, told) == []
    told = driver.beat("m", member_epoch=2, owned={})
    assert names(driver, told) == ["logs"]


@pytest.mark.parametrize("also_resolved", [False, True])
def test_an_expression_of_a_record_that_is_none_matches_nothing_and_stops_only_who_sends_it(driver, also_resolved):
    enter(driver, "m", "orders\\..*")
    records = [Update(Subject.MEMBER, "stranger", MemberMetadata(topic_regex="(", rebalance_timeout_ms=60_000))]
    if also_resolved:
        records.append(Update(Subject.REGEX, "(", ResolvedRegex(frozenset({"logs"}), 0, 0)))
    driver.journal += [record_of("g", update) for update in records]
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


def looked_at(driver, regex="orders\\..*"):
    """When an expression was looked at last, after its member's next heartbeat."""
    driver.beat("m", member_epoch=driver.group().members["m"].current.member_epoch)
    return driver.group().regexes[regex].timestamp_ms - START_MS


def test_topics_that_come_are_looked_for_once_and_not_within_a_second_of_the_last_time(driver):
    enter(driver, "m", "orders\\..*")
    driver.create("orders.jp", 1)
    driver.tick(999)
    assert looked_at(driver) == 0
    driver.tick(1)
    assert looked_at(driver) == 1_000
    for _ in range(20):
        driver.tick(20_000)
        assert looked_at(driver) == 1_000, "no topic came"


def test_after_ten_minutes_rights_are_looked_at_again(driver):
    hidden = {"orders.us"}
    rights = {"may_describe": lambda name: name not in hidden}
    epoch = enter(driver, "m", "orders\\..*", **rights).member_epoch
    hidden.clear()
    for _ in range(30):
        driver.tick(20_000)
        assert driver.beat("m", member_epoch=epoch, **rights).assignment is None
    driver.tick(1)
    assert names(driver, driver.beat("m", member_epoch=epoch, **rights)) == ["orders.eu", "orders.us"]


def test_a_group_moves_on_when_something_else_matches_and_only_then(driver):
    enter(driver, "m", "orders\\..*")
    epoch = driver.group().epoch
    driver.create("invoices", 1)
    driver.tick(1_000)
    assert looked_at(driver) == 1_000
    assert driver.group().epoch == epoch
    driver.drop("orders.us")
    driver.tick(1_000)
    assert looked_at(driver) == 2_000
    assert driver.group().epoch == epoch + 1
    assert driver.group().regexes["orders\\..*"].topics == {"orders.eu"}


def test_of_expressions_that_match_anew_one_that_does_is_enough(driver):
    enter(driver, "m", "orders\\..*")
    enter(driver, "n", "[l]ogs")
    driver.tick(1_000)
    driver.create("orders.jp", 1)
    epoch = driver.group().epoch
    assert looked_at(driver) == 1_000
    assert driver.group().epoch == epoch + 1


@pytest.mark.parametrize("other", ["[l]ogs", "p?logs"])
def test_a_group_moves_on_when_one_expression_matches_a_topic_that_others_have_already(driver, other):
    """Whether it is the first that is looked at or the last; its topics are the same then."""
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


def test_partitions_that_come_are_assigned_though_the_topic_is_only_matched(driver):
    epoch = enter(driver, "m", "orders\\..*").member_epoch
    driver.grow("orders.us", 3)
    driver.tick(1_000)
    assigned = driver.beat("m", member_epoch=epoch).assignment
    assert sorted(map(len, assigned.values())) == [1, 3]
    assert driver.group().subscribed_topics == {"orders.eu", "orders.us"}


def test_an_expression_that_matches_nothing_moves_nobody_but_giving_one_up_does(driver):
    """As in Kafka also where that one matched nothing either."""

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


def test_who_comes_to_an_expression_that_was_looked_at_looks_no_more(driver):
    enter(driver, "m", "orders\\..*")
    driver.tick(1_500)
    enter(driver, "n", "orders\\..*", may_describe=lambda name: name != "orders.us")
    assert driver.group().regexes["orders\\..*"].timestamp_ms == START_MS
    assert driver.group().regexes["orders\\..*"].topics == {"orders.eu", "orders.us"}
