"""Work in steps has the same result as work at once."""

from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.base.steps import CHECKS_PER_STEP, THINGS_PER_STEP, anything, finished, first_few, selected


@given(st.lists(st.tuples(st.integers(0, 9), st.integers())), st.integers(1, 20))
def test_first_few_equals_a_stable_sort(things, count_max):
    def key(thing):
        return thing[0]

    assert finished(first_few(things, count_max, key)) == sorted(things, key=key)[:count_max]


def test_many_items_are_visited_in_steps():
    looked, longest, before = [], 0, 0
    steps = first_few((looked.append(1) or number for number in range(10 * THINGS_PER_STEP)), 3, lambda number: -number)
    for _ in steps:
        longest, before = max(longest, len(looked) - before), len(looked)
    assert len(looked) == 10 * THINGS_PER_STEP
    assert longest <= THINGS_PER_STEP


def test_selected_items_keep_their_order():
    assert finished(selected(range(200), lambda number: number % 3 == 0)) == list(range(0, 200, 3))
    assert finished(selected("ab", anything)) == ["a", "b"]


def test_checks_are_made_in_steps():
    checked = []
    sizes = [len(checked) for _ in selected(range(3 * CHECKS_PER_STEP), checked.append)]
    assert sizes == [CHECKS_PER_STEP - 1, 2 * CHECKS_PER_STEP - 1, 3 * CHECKS_PER_STEP - 1]
