"""A new connection gets a slot unless all others stream, and it evicts the oldest one of the lowest stage."""

from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.web.slots import Slots, Stage

SLOTS_MAX = 4


@given(st.lists(st.tuples(st.booleans(), st.integers(0, SLOTS_MAX - 1), st.sampled_from(Stage)), max_size=60))
def test_the_one_that_is_closed_is_the_oldest_of_the_earliest_stage_and_no_stream(steps):
    """The model is a list in order of arrival. Each step changes one connection or adds one."""
    slots, model, closed = Slots(SLOTS_MAX), [], []
    for number, (is_new, place, stage) in enumerate(steps):
        if not is_new and place < len(model):
            model[place][1].stage = stage
            continue
        expected = None
        if len(model) == SLOTS_MAX:
            expected = min(model, key=lambda each: each[1].stage)
        closed.clear()
        slot = slots.take(lambda number=number: closed.append(number))
        if expected is not None and expected[1].stage is Stage.STREAMING:
            assert (slot, closed) == (None, [])
            continue
        assert closed == ([] if expected is None else [expected[0]])
        assert len(slots) <= SLOTS_MAX, "also before the task of the one that was closed has ended"
        if expected is not None:
            model.remove(expected)
            slots.release(expected[1])  # like its task at its end
        model.append((number, slot))
        assert len(slots) == len(model) <= SLOTS_MAX
