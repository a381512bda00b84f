"""A measured test fails if too few examples are relevant, and only then."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.drawn import BlindError, drawn, measured


def measured_test(share_min, divisor, *, leaves_early=False):
    @measured(divisible=share_min)
    @settings(max_examples=100, database=None)
    @given(st.integers(0, 10**6))
    def run(number):
        if leaves_early and number % divisor:
            return
        drawn("divisible", number % divisor == 0)

    return run


def test_a_test_with_enough_relevant_examples_passes():
    measured_test(0.3, 2)()


@pytest.mark.parametrize("leaves_early", [False, True])
def test_a_blind_test_fails_even_if_it_returns_early(leaves_early):
    with pytest.raises(BlindError, match="divisible"):
        measured_test(0.3, 1000, leaves_early=leaves_early)()


def test_one_example_less_than_its_share_is_chance_and_none_is_not():
    def some_of_many(count):
        @measured(first=0.03)
        @settings(max_examples=100, database=None)
        @given(st.integers())
        def run(_number):
            numbers.append(1)
            drawn("first", len(numbers) <= count)

        numbers = []
        run()

    some_of_many(1)
    with pytest.raises(BlindError, match="first 0%"):
        some_of_many(0)


def test_another_failure_takes_precedence_over_the_share():
    @measured(anything=1.0)
    @settings(database=None)
    @given(st.integers())
    def run(number):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run()


def test_few_examples_need_no_share():
    @measured(anything=1.0)
    @settings(max_examples=3, database=None)
    @given(st.integers())
    @example(1)
    def run(number):
        drawn("anything", False)

    run()


def test_each_run_counts_separately_and_every_counted_name_needs_a_share():
    run = measured_test(0.3, 2)
    run()
    run()

    @measured(one=0.0)
    @settings(max_examples=3, database=None)
    @given(st.integers())
    def another(number):
        drawn("another")

    with pytest.raises(AssertionError, match="another"):
        another()


def test_an_example_counts_once():
    @measured(small=0.8)
    @settings(max_examples=100, database=None)
    @given(st.integers(0, 999))
    def run(number):
        drawn("small", number % 2 == 0)
        drawn("small", number % 2 == 0)

    with pytest.raises(BlindError):
        run()


def test_settings_without_effect_are_rejected():
    @settings(max_examples=3, database=None)
    @measured(anything=0.0)
    @given(st.integers())
    def run(number):
        pass

    with pytest.raises(AssertionError, match="above"):
        run()


@measured(even=0.3)
@given(number=st.integers(0, 100))
def test_a_measured_test_takes_fixtures(request, number):
    assert drawn("even", number % 2 == 0) == (number % 2 == 0)
    assert request.node.name == "test_a_measured_test_takes_fixtures"
