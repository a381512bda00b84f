from hypothesis import given
from hypothesis import strategies as st

from stages.loop_turns import COMMIT, LONG_TURN_SECONDS, NAMES_MAX, OTHERS, LoopTurns

TURNS = st.lists(st.tuples(st.integers(0, 5) | st.sampled_from([COMMIT, "a task"]), st.floats(0, 1)))


@given(TURNS)
def test_of_each_name_the_longest_is_kept_and_the_long_ones_are_counted(noted):
    turns = LoopTurns()
    for name, seconds in noted:
        turns.note(name, seconds)
    found = {it.name: (it.longest_seconds, it.long_count) for it in turns.statistics()}
    expected = {COMMIT: (0.0, 0)}
    for name in {name for name, _ in noted}:
        mine = [seconds for other, seconds in noted if other == name]
        expected[name] = max(mine), sum(seconds > LONG_TURN_SECONDS for seconds in mine)
    assert found == expected


def test_the_longest_turn_is_first():
    turns = LoopTurns()
    for name, seconds in ((1, 0.002), (2, 0.009), (3, 0.004)):
        turns.note(name, seconds)
    assert [it.name for it in turns.statistics()] == [2, 3, 1, COMMIT]


def test_names_are_bounded_and_the_rest_is_noted_together():
    turns = LoopTurns()
    for name in range(NAMES_MAX + 50):
        turns.note(name, 0.01)
    found = {it.name: it.long_count for it in turns.statistics()}
    assert len(found) == NAMES_MAX + 1
    assert found[OTHERS] == 51
