"""The response order against a model, and its two rules: slots by identity, one result for each."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stages.response_order import ResponseOrder, SlotCompletedTwiceError


class Slot:
    def __init__(self, number):
        self.number = number
        self.result = None

    def __eq__(self, other):
        return True  # slots must be compared by identity

    __hash__ = None


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 20)), max_size=60))
def test_the_completed_prefix_is_released(steps):
    order, opened, released = ResponseOrder(), [], []
    for is_open, choice in steps:
        waiting = [slot for slot in opened if slot.result is None]
        if is_open or not waiting:
            slot = Slot(len(opened))
            assert order.opened == slot.number
            order.open(slot)
            opened.append(slot)
            continue
        released += order.complete(waiting[choice % len(waiting)], "done")
        first_open = next((slot.number for slot in opened if slot.result is None), len(opened))
        assert [slot.number for slot in released] == list(range(first_open))
        assert len(order) == len(opened) - len(released)
        assert order.head is (opened[first_open] if first_open < len(opened) else None)


def test_a_second_result_is_an_error_even_after_the_release():
    order, slot = ResponseOrder(), Slot(0)
    order.open(slot)
    assert order.complete(slot, "first") == [slot]
    with pytest.raises(SlotCompletedTwiceError):
        order.complete(slot, "second")
    assert slot.result == "first"


def test_abandon_returns_all_slots_in_order():
    order, slots = ResponseOrder(), [Slot(0), Slot(1)]
    for slot in slots:
        order.open(slot)
    assert [slot.number for slot in order.abandon()] == [0, 1]
    assert len(order) == 0
    assert order.head is None
    assert order.opened == 2
