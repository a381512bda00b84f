"""The plan has the numbers of the profiles, pairs every round, and lets the sides take turns in going first."""

from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from pipeline_broker.measure.experiment.budget import Costs
from pipeline_broker.measure.experiment.modes import AXIS_MODES
from pipeline_broker.measure.experiment.plan import PROFILES, RAW, REPLAY, Request, grid, plan

counts = st.lists(st.integers(1, 200), unique=True, max_size=3).map(tuple)
delays = st.lists(st.sampled_from([0.0, 0.5, 2.0, 10.0]), unique=True, max_size=3).map(tuple)
modes = st.tuples(*[st.sampled_from(["classic", "pipelined"])] * 2)
requests = st.builds(
    Request,
    profile=st.sampled_from(["quick", "full"]),
    modes=modes,
    in_flight=counts,
    connections=counts,
    delays_ms=delays,
    rounds=st.none() | st.integers(1, 9),
    with_confluent=st.booleans(),
    with_replay=st.booleans(),
)


def runs_of(request):
    return [run for group in plan(request) for run in group.runs]


@given(requests)
def test_runs_are_numbered_from_one_in_their_order(request):
    runs = runs_of(request)
    assert [run.number for run in runs] == list(range(1, len(runs) + 1))


@given(requests)
def test_every_round_of_a_cell_has_both_sides_next_to_each_other(request):
    runs = [run for run in runs_of(request) if run.experiment != "ablation"]
    for first, second in zip(runs[::2], runs[1::2], strict=True):
        assert (first.cell, first.round, first.traced) == (second.cell, second.round, second.traced)
        assert {first.side.number, second.side.number} == {0, 1}
    for side in (0, 1):
        assert {run.side.mode for run in runs if run.side.number == side} == {request.modes[side]}


@given(requests)
def test_the_sides_take_turns_in_going_first(request):
    firsts = {}
    for run in [run for run in runs_of(request) if run.experiment != "ablation" and not run.traced][::2]:
        firsts.setdefault(run.cell, []).append(run.side.number)
    for sides in firsts.values():
        assert all(before != after for before, after in pairwise(sides))


@given(requests)
def test_a_grid_of_ones_own_is_the_full_product_and_nothing_else(request):
    assume(request.chosen_grid)
    runs = runs_of(request)
    assert {run.cell.client for run in runs} == {RAW}
    expected = {
        (in_flight, connections, delay)
        for in_flight in request.in_flight or (1, 5, 64)
        for connections in request.connections or (1, 16)
        for delay in request.delays_ms or (0.0,)
    }
    assert {(run.cell.in_flight, run.cell.connections, run.cell.commit_delay_ms) for run in runs} == expected
    rounds = request.rounds or PROFILES[request.profile].rounds
    untraced = Counter((run.cell, run.side) for run in runs if not run.traced)
    assert set(untraced.values()) == {rounds}
    traced = Counter((run.cell, run.side) for run in runs if run.traced)
    assert set(traced.values()) == {1}
    assert untraced.keys() == traced.keys()


@given(requests)
def test_brokers_are_shared_within_one_delay_only(request):
    for group in plan(request):
        assert {run.cell.commit_delay_ms for run in group.runs} <= {group.commit_delay_ms}
        assert {run.side for run in group.runs} <= set(group.sides)


def count(runs, **wanted):
    return sum(1 for run in runs if all(getattr(run, name) == value for name, value in wanted.items()))


def test_quick_has_the_promised_numbers():
    runs = runs_of(Request())
    loads = {(cell.in_flight, cell.connections, cell.commit_delay_ms) for cell in grid(Request())}
    assert loads == {
        *((depth, connections, 0.0) for depth in (1, 5, 64) for connections in (1, 16)),
        (64, 1, 2.0),
        (64, 1, 10.0),
    }
    assert count(runs, experiment="grid", traced=False) == 8 * 5 * 2
    assert count(runs, experiment="grid", traced=True) == 8 * 2
    assert count(runs, experiment="clients") == 4 * 3 * 2
    assert count(runs, experiment="ablation") == 3 * 3
    assert count(runs, experiment="replay") == 2
    clients = {(run.cell.client, run.cell.connections) for run in runs if run.experiment == "clients"}
    assert clients == {(f"confluent-kafka linger={linger}", count) for linger in (0, 5) for count in (1, 16)}
    assert {run.cell.in_flight for run in runs if run.experiment == "clients"} == {5}


def test_full_has_seven_rounds_of_every_delay_and_window():
    runs = runs_of(Request(profile="full"))
    rounds = Counter((run.cell, run.side) for run in runs if run.experiment == "grid" and not run.traced)
    assert set(rounds.values()) == {7}
    loads = {(cell.connections, cell.in_flight, cell.commit_delay_ms) for cell, _ in rounds}
    for delay in (0.0, 0.3, 2.0, 10.0):
        assert {(1, 1, delay), (1, 5, delay), (1, 64, delay), (16, 16, delay)} <= loads
    assert {run.cell.connections for run in runs if run.experiment == "clients"} == {1, 4, 16}


def test_the_ablation_of_full_has_every_axis_beside_both_modes_in_its_own_rounds():
    runs = [run for run in runs_of(Request(profile="full")) if run.experiment == "ablation"]
    modes = {"classic", *AXIS_MODES, "pipelined"}
    by_round = {}
    for run in runs:
        by_round.setdefault((run.cell, run.round), []).append(run)
    assert len(by_round) == 3 * 7
    for driven in by_round.values():
        assert {run.side.mode for run in driven} == modes
        numbers = [run.number for run in driven]
        assert max(numbers) - min(numbers) == len(modes) - 1, "back to back"


@pytest.mark.parametrize("others", [(), ("kafka-synced", "kafka")])
def test_full_takes_less_than_half_an_hour_beside_the_report(others):
    year_of_replay_s = 2 * 53 * 5.0
    costs = Costs(PROFILES["full"].run_s, year_of_replay_s / 2)
    assert costs.of(plan(Request(profile="full", others=others))) < 30 * 60


@pytest.mark.parametrize(
    ("option", "client"), [("with_confluent", "confluent-kafka linger=0"), ("with_replay", REPLAY)]
)
def test_what_cannot_be_run_is_left_out(option, client):
    assert client in {run.cell.client for run in runs_of(Request())}
    assert client not in {run.cell.client for run in runs_of(Request(**{option: False}))}


def test_a_mode_compared_with_itself_has_no_ablation():
    runs = runs_of(Request(modes=("classic", "classic")))
    assert count(runs, experiment="ablation") == 0
    assert {(run.side.mode, run.side.number) for run in runs} == {("classic", 0), ("classic", 1)}


def test_other_brokers_are_driven_in_every_round_of_ordinary_commits_and_never_traced():
    request = Request(others=("kafka-synced", "kafka"), rounds=4)
    runs = runs_of(request)
    others = [run for run in runs if run.side.number > 1]
    assert {(run.side.mode, run.side.number) for run in others} == {("kafka-synced", 2), ("kafka", 3)}
    assert not any(run.traced or run.cell.commit_delay_ms for run in others)
    assert {run.experiment for run in others} == {"grid", "clients"}
    for experiment in ("grid", "clients"):
        plain = [
            run for run in runs if run.experiment == experiment and not run.traced and not run.cell.commit_delay_ms
        ]
        counts = Counter(run.side.number for run in plain)
        assert len(set(counts.values())) == 1, "every side has the same rounds of the same loads"
        for start in range(0, len(plain), 4):
            part = plain[start : start + 4]
            assert {run.side.number for run in part} == {0, 1, 2, 3}, "back to back"
            assert len({(run.cell, run.round) for run in part}) == 1


def test_with_several_sides_each_goes_first_in_turn():
    runs = runs_of(Request(others=("kafka-synced", "kafka"), rounds=8, in_flight=(5,), connections=(1,)))
    firsts = [run.side.number for run in runs if not run.traced][::4]
    assert len(set(firsts)) == 4
