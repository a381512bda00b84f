"""Pending decisions, compared with a model."""

from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.state.decisions import Decisions


@given(st.lists(st.tuples(st.sampled_from("ab"), st.none() | st.integers(0, 1)), max_size=8), st.data())
def test_the_latest_value_is_that_of_the_last_decision(decided, data):
    """Few values, so that many decisions equal an earlier one."""
    decisions, durable, last = Decisions(), {}, {}
    on_their_way = []
    for key, value in decided:
        decisions.add(key, value)
        on_their_way.append((key, value))
        last[key] = value
        for _ in range(data.draw(st.integers(0, len(on_their_way)))):
            settled, value_then = on_their_way.pop(0)
            durable[settled] = value_then
            decisions.settle(settled)
        for each in "ab":
            assert decisions.latest(each, durable.get(each, "never")) == last.get(each, "never")
            assert (each in decisions) == (each in dict(on_their_way)) == (each in decisions.all_latest({}))
        assert decisions.all_latest(durable) == last


def test_a_replayed_record_settles_no_decision():
    decisions = Decisions()
    decisions.settle("a")
    decisions.add("a", 1)
    assert decisions.latest("a", 0) == 1
    assert "a" in decisions
