"""What surrounds a run is told where the system knows it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.measure.experiment.machine import Surroundings, describe_machine, steal_share
from tests.drawn import drawn, measured

ticks = st.lists(st.integers(0, 1000), min_size=8, max_size=10).map(tuple)


@measured(spent=0.3)
@given(ticks, ticks)
def test_the_steal_share_is_that_of_all_time_between_two_readings(before, spent):
    after = tuple(early + late for early, late in zip(before, spent, strict=False))
    share = steal_share(before[: len(after)], after)
    if not drawn("spent", sum(spent[:8])):
        assert share is None
        return
    assert share == pytest.approx(spent[7] / sum(spent[:8]), abs=1e-4)
    assert 0 <= share <= 1


@pytest.mark.parametrize("times", [(), (1, 2, 3)])
def test_a_system_that_does_not_tell_leaves_it_open(times):
    assert steal_share(times, times) is None


def test_a_block_has_load_averages_around_it():
    with Surroundings() as surroundings:
        pass
    told = surroundings.describe()
    assert told.keys() == {"load_average_before", "load_average_after", "steal_share"}
    assert told["load_average_before"] >= 0
    assert told["load_average_after"] >= 0
    assert "cores" in describe_machine()
