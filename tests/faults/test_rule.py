"""The choice of struck requests: by number, at random, and at most `times`."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.faults.effects import Drop
from pipeline_broker.faults.names import FaultError
from pipeline_broker.faults.rule import Choice, DiskCondition, RequestCondition, Rule

counts = st.none() | st.integers(1, 6)
CONDITION = RequestCondition(api="Produce")


def struck(choice, requests, number=1):
    """Return the numbers of the requests, from 1, that a new rule strikes."""
    rule = Rule(number, CONDITION, choice, Drop())
    found = [place for place in range(1, requests + 1) if rule.strikes()]
    assert (rule.matched, rule.hits) == (requests, len(found))
    return found


@given(st.integers(1, 20), st.integers(0, 30))
def test_nth_strikes_one_request(nth, requests):
    assert struck(Choice(nth=nth), requests) == [nth] * (nth <= requests)


@given(counts, counts, st.integers(0, 40))
def test_every_and_times_together_strike_the_first_multiples(every, times, requests):
    expected = [place for place in range(1, requests + 1) if place % (every or 1) == 0]
    assert struck(Choice(every=every, times=times), requests) == expected[:times]


@given(st.floats(0.01, 1), st.integers(0, 2**32 - 1), counts, counts, st.integers(0, 60))
def test_the_same_seed_strikes_the_same_requests(p, seed, every, times, requests):
    choice = Choice(p=p, seed=seed, every=every, times=times)
    assert choice.is_deterministic
    assert struck(choice, requests) == struck(choice, requests, number=2)


@given(st.floats(0.01, 1), st.integers(0, 2**32 - 1), st.integers(1, 6), st.integers(0, 60))
def test_random_draws_do_not_depend_on_other_choices(p, seed, every, requests):
    """Narrowing a rule must not shift its faults."""
    drawn = struck(Choice(p=p, seed=seed), requests)
    assert struck(Choice(p=p, seed=seed, every=every), requests) == [each for each in drawn if each % every == 0]


def test_a_probability_is_approximately_kept():
    assert 400 < len(struck(Choice(p=0.5, seed=1), 1000)) < 600
    assert len(struck(Choice(p=1), 50)) == 50


def test_a_drawn_seed_is_shown_and_repeats_the_rule():
    rule = Rule(1, CONDITION, Choice(p=0.5), Drop())
    first = [rule.strikes() for _ in range(64)]
    assert not rule.choice.is_deterministic
    assert f"seed={rule.seed} (drawn)" in str(rule)
    again = Rule(2, CONDITION, Choice(p=0.5, seed=rule.seed), Drop())
    assert [again.strikes() for _ in range(64)] == first


def test_a_rule_that_was_removed_strikes_nothing():
    rule = Rule(1, CONDITION, Choice(), Drop())
    assert rule.strikes()
    rule.is_removed = True
    assert not rule.strikes()


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        ({"nth": 0}, "nth must be at least 1, not 0"),
        ({"every": -1}, "every must be at least 1, not -1"),
        ({"times": 0}, "times must be at least 1, not 0"),
        ({"nth": 2, "times": 1}, "nth selects a single request; remove every and times"),
        ({"nth": 2, "every": 2}, "nth selects a single request; remove every and times"),
        ({"p": 0}, "p must be above 0 and at most 1, not 0"),
        ({"p": 1.5}, "p must be above 0 and at most 1, not 1.5"),
        ({"seed": 1}, "seed has an effect only with p; add p or remove seed"),
        ({"p": 0.5, "seed": -1}, "seed must be from 0 to 4294967295"),
    ],
)
def test_an_invalid_choice_is_one_line(fields, line):
    with pytest.raises(FaultError) as raised:
        Choice(**fields)
    assert str(raised.value) == line


@pytest.mark.parametrize(
    ("operation", "path", "meant"),
    [
        ("sync", "/data/journal/00000000000000000001.segment", True),
        ("write", "/data/journal/00000000000000000001.segment", False),
        ("sync", "/data/journal/preparing", False),
        ("sync", "/data/archive/t-0/00000000000000000000.log", False),
    ],
)
def test_a_rule_about_files_is_about_the_journal_by_default(operation, path, meant):
    assert DiskCondition(disk="sync").matches(operation, path) is meant
    assert DiskCondition(disk=operation, path="*").matches(operation, path)


def test_a_rule_as_text():
    condition = RequestCondition(api="produce", topic="t", partition=0, client_id="c")
    assert str(Rule(1, condition, Choice(nth=2), Drop())) == (
        "Produce topic=t partition=0 client_id=c nth=2: drop the answer"
    )
    assert str(Rule(1, DiskCondition(disk="sync", path="*"), Choice(), Drop())) == "disk sync path=*: drop the answer"


def test_a_rule_as_text_is_one_line_of_visible_characters():
    condition = RequestCondition(api="Fetch", topic="two words", client_id="a\nfault rule 9\x1b[2J\u202eb")
    assert str(Rule(1, condition, Choice(), Drop())) == (
        r"Fetch topic=two words client_id='a\nfault rule 9\x1b[2J\u202eb': drop the answer"
    )
