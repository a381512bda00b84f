"""Deadlines, compared with a dictionary."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.state.deadlines import Deadlines

KEYS = st.integers(0, 5)
TIMES = st.integers(0, 50)
ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("set"), KEYS, TIMES),
        st.tuples(st.just("cancel"), KEYS),
        st.tuples(st.just("pop"), TIMES),
    ),
    max_size=40,
)


def test_pop_due_yields_at_most_count_max_keys() -> None:
    deadlines = Deadlines()
    for key in range(5):
        deadlines.set(key, 10 - key)
    assert list(deadlines.pop_due(10, 2)) == [4, 3]
    assert deadlines.next_ms() == 8
    assert list(deadlines.pop_due(9, 5)) == [2, 1]
    assert list(deadlines.pop_due(10)) == [0]


@given(ACTIONS)
def test_deadlines_agree_with_a_dictionary(actions) -> None:
    deadlines, model = Deadlines(), {}
    for action, *arguments in actions:
        if action == "set":
            deadlines.set(*arguments)
            model[arguments[0]] = arguments[1]
        elif action == "cancel":
            deadlines.cancel(*arguments)
            model.pop(arguments[0], None)
        else:
            due = list(deadlines.pop_due(arguments[0]))
            expected = {key: due_ms for key, due_ms in model.items() if due_ms <= arguments[0]}
            assert sorted(due) == sorted(expected)
            assert [expected[key] for key in due] == sorted(expected.values())
            model = {key: due_ms for key, due_ms in model.items() if key not in expected}
        assert deadlines.next_ms() == min(model.values(), default=None)
        assert len(deadlines) == len(model)
        assert all(key in deadlines for key in model)


def test_a_cancelled_deadline_can_be_set_again() -> None:
    for again_ms in (5, 10, 20):
        deadlines = Deadlines()
        deadlines.set("member", 10)
        deadlines.cancel("member")
        assert deadlines.next_ms() is None
        deadlines.set("member", again_ms)
        assert deadlines.next_ms() == again_ms
        assert list(deadlines.pop_due(again_ms)) == ["member"]
        assert not deadlines._queued_ms, "cancelled keys leave nothing"


def test_heap_stays_small_when_one_deadline_is_moved_again_and_again() -> None:
    """Heartbeats move a deadline back or keep it; its key is queued once."""
    deadlines = Deadlines()
    for beat in range(10_000):
        deadlines.set("member", beat // 2)
    assert len(deadlines._heap) == 1
