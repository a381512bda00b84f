"""The plan has the numbers of the profiles, and compares only runs of the same rounds."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.measure.experiment.budget import Costs
from pipeline_broker.measure.experiment.factors import Offer
from pipeline_broker.measure.experiment.modes import AXIS_MODES
from pipeline_broker.measure.experiment.plan import PROFILES, Request, grid, plan, reading_order
from pipeline_broker.measure.experiment.rounds import pairs
from pipeline_broker.measure.experiment.runs import PAIRS, RAW, READER, REPLAY, Cell
from tests.drawn import drawn, measured

QUICK_REPLAY_S = 5.0
YEAR_OF_REPLAY_S = 53 * 5.0
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
    brokers=st.lists(st.integers(1, 3), unique=True, max_size=2).map(tuple),
    rounds=st.none() | st.integers(1, 9),
    with_confluent=st.booleans(),
    with_replay=st.booleans(),
)
seeds = st.integers(0, 1 << 32)


def runs_of(request, seed=1):
    return [run for group in plan(request, seed) for run in group.runs]


@given(requests, seeds)
def test_every_round_of_a_load_has_both_sides(request, seed):
    compared = [run for run in runs_of(request, seed) if run.experiment not in ("ablation", "self")]
    by_round = {}
    for run in compared:
        by_round.setdefault((run.cell, run.round, run.traced), Counter())[run.side.mode, run.side.number] += 1
    for found in by_round.values():
        assert set(found) == set(zip(request.modes, (0, 1), strict=True))
        assert len(set(found.values())) == 1


@given(requests, seeds)
def test_untraced_parts_except_the_replay_have_as_many_rounds_as_the_grid(request, seed):
    rounds = Counter((run.experiment, run.cell, run.side, run.traced) for run in runs_of(request, seed))
    for (experiment, cell, _, traced), count in rounds.items():
        if traced:
            assert count == min(3, request.rounds_wanted)
        elif experiment == "replay":
            assert count == min(7, request.rounds_wanted)
        elif experiment in ("grid", "self", "page-cache") or cell.client == READER:
            assert count == request.rounds_wanted * request.sizes.turns
        else:
            assert count == request.rounds_wanted


@measured(own_grid=0.2)
@given(requests, seeds)
def test_a_chosen_grid_is_the_full_product_and_side_b_with_itself(request, seed):
    runs = runs_of(request, seed)
    if not drawn("own_grid", request.chosen_grid):
        return
    assert {run.cell.client for run in runs} == {RAW}
    expected = {
        (brokers, in_flight, connections, delay)
        for brokers in request.brokers or (1,)
        for in_flight in request.in_flight or (1, 5, 64)
        for connections in request.connections or (1, 16)
        for delay in request.delays_ms or (0.0,)
    }
    own = [run for run in runs if run.experiment == "grid"]
    cells = {run.cell for run in own}
    assert {(it.broker.brokers, it.in_flight, it.connections, it.commit_delay_ms) for it in cells} == expected
    assert {run.cell for run in own if run.traced} == {cell for cell in cells if cell.broker.brokers == 1}
    itself = [run for run in runs if run.experiment != "grid"]
    assert {run.experiment for run in itself} <= {"self"}
    assert bool(itself) is (request.modes[0] != request.modes[1])


@measured(two_modes=0.2)
@given(requests, seeds)
def test_a_self_comparison_is_side_b_on_two_brokers_under_a_load_of_the_grid(request, seed):
    runs = [run for run in runs_of(request, seed) if run.experiment == "self"]
    if not drawn("two_modes", request.modes[0] != request.modes[1]):
        assert not runs, "the whole experiment is one"
        return
    assert {(run.side.mode, run.side.number) for run in runs} == {(request.modes[1], number) for number in (0, 1)}
    assert all(run.cell.is_self and run.cell.variant.startswith("self") for run in runs)
    loads = {(cell.in_flight, cell.connections, cell.commit_delay_ms) for cell in grid(request)}
    assert {(run.cell.in_flight, run.cell.connections, run.cell.commit_delay_ms) for run in runs} <= loads


@pytest.mark.parametrize("profile", list(PROFILES))
def test_on_a_store_runs_are_long_and_no_pace_exceeds_classics_capacity(profile):
    request = Request(profile=profile, on_store=True, with_replay=False)
    runs = [run for group in plan(request, 1) for run in group.runs]
    assert {run.experiment for run in runs} == {"grid", "clients", "ablation", "self"}
    assert {(1, 1), (1, 64), (16, 64)} <= {(run.cell.connections, run.cell.in_flight) for run in runs}
    assert all(run.cell.offer is None and not run.cell.commit_delay_ms for run in runs)
    assert request.sizes.run_s >= 2


@pytest.mark.parametrize("profile", list(PROFILES))
def test_the_ladder_comes_after_the_closed_loops_that_measure_capacity(profile):
    runs = runs_of(Request(profile=profile))
    ladder = [run for run in runs if run.experiment == "ladder"]
    for run in ladder:
        closed = Cell(RAW, run.cell.in_flight, run.cell.connections)
        told = [it for it in runs if it.cell == closed and it.experiment == "grid" and not it.traced]
        assert {it.side.mode for it in told} == {"classic", "pipelined"}
        assert max(it.number for it in told) < run.number
    shares = [(share, ("classic", "pipelined")[side]) for share, side in PROFILES[profile].ladder_steps]
    assert {(0.35, "classic"), (0.65, "classic"), (0.8, "pipelined")} <= set(shares)
    for load in PROFILES[profile].ladder_loads:
        offers = dict.fromkeys(run.cell.offer for run in ladder if run.cell.in_flight == load[0])
        assert {(offer.share, offer.of) for offer in offers} == set(shares)
    assert len({run.cell for run in ladder}) == len(shares) * len(PROFILES[profile].ladder_loads)


def test_the_ladder_of_a_mode_with_itself_has_distinct_steps():
    offers = {run.cell.offer for run in runs_of(Request(modes=("classic", "classic"))) if run.experiment == "ladder"}
    assert offers == {Offer(share=share, of="classic") for share in (0.35, 0.65, 0.8)}


@given(requests, seeds)
def test_closed_loops_are_listed_in_the_same_order_for_every_seed(request, seed):
    told = reading_order(plan(request, seed))
    assert told == reading_order(plan(request, 0))
    native = [cell for cell in told if cell.client == RAW and not cell.variant]
    ordinary = [cell for cell in grid(request) if not cell.variant]
    assert (
        told[: len(native)]
        == native
        == sorted(ordinary, key=lambda cell: (cell.commit_delay_ms, cell.connections, cell.in_flight))
    )


def count(runs, **wanted):
    return sum(1 for run in runs if all(getattr(run, name) == value for name, value in wanted.items()))


def test_quick_has_the_promised_numbers():
    runs = runs_of(Request())
    loads = {(cell.in_flight, cell.connections, cell.commit_delay_ms) for cell in grid(Request())}
    assert loads == {(1, 1, 0.0), (64, 1, 0.0), (64, 16, 0.0)}
    assert count(runs, experiment="grid", traced=False) == 3 * 5 * 2 * 3
    assert count(runs, experiment="grid", traced=True) == 2 * 3 * 2
    assert count(runs, experiment="clients") == 4 * 5 * 2
    assert count(runs, experiment="ablation") == 3 * 5
    assert count(runs, experiment="replay") == 5 * 2
    assert count(runs, experiment="self") == 5 * 2 * 3
    assert count(runs, experiment="ladder") == 3 * 5 * 2
    assert count(runs, experiment="consumers") == 5 * 2 * 3 + 5 * 2
    clients = {(run.cell.client, run.cell.connections) for run in runs if run.experiment == "clients"}
    assert clients == {(f"confluent-kafka linger={linger}", count) for linger in (0, 5) for count in (1, 16)}
    assert {run.cell.in_flight for run in runs if run.experiment == "clients"} == {5}


@pytest.mark.parametrize("profile", list(PROFILES))
def test_consumers_read_at_full_speed_and_are_timed_at_a_given_pace(profile):
    request = Request(profile=profile, others=("kafka",))
    runs = [run for run in runs_of(request) if run.experiment == "consumers"]
    assert {run.cell.client for run in runs} == {READER, PAIRS}
    assert {run.side.mode for run in runs} == {"classic", "pipelined", "kafka"}
    assert {run.cell.offer for run in runs if run.cell.client == PAIRS} == {Offer(1_000.0)}
    without = runs_of(Request(profile=profile, with_confluent=False))
    assert {run.cell.client for run in without if run.experiment == "consumers"} == {READER}


def test_full_repeats_two_loads_without_the_disk():
    runs = [run for run in runs_of(Request(profile="full")) if run.experiment == "page-cache"]
    assert {run.cell.variant for run in runs} == {"flush=os"}
    assert {(run.cell.in_flight, run.cell.connections) for run in runs} == {(1, 1), (64, 1)}
    assert {run.side.mode for run in runs} == {"classic", "pipelined"}
    assert count(runs_of(Request()), experiment="page-cache") == 0


def test_full_has_seven_rounds_of_two_turns_of_every_delay_and_window():
    runs = runs_of(Request(profile="full"))
    rounds = Counter((run.cell, run.side) for run in runs if run.experiment == "grid" and not run.traced)
    assert set(rounds.values()) == {7 * 2}
    loads = {(cell.connections, cell.in_flight, cell.commit_delay_ms) for cell, _ in rounds}
    for delay in (0.0, 0.3, 2.0, 10.0):
        assert {(1, 1, delay), (1, 5, delay), (1, 64, delay), (16, 16, delay)} <= loads
    assert {run.cell.connections for run in runs if run.experiment == "clients"} == {1, 4, 16}


def test_the_ablation_of_full_has_every_axis_beside_both_modes_in_its_own_rounds():
    groups = plan(Request(profile="full"), 1)
    modes = {"classic", *AXIS_MODES, "pipelined"}
    driven = [pair for group in groups for pair in pairs(group) if pair[0].experiment == "ablation"]
    assert len(driven) == 3 * 7
    assert all({run.side.mode for run in pair} == modes for pair in driven)


def test_quick_takes_little_more_than_two_minutes():
    costs = Costs(PROFILES["quick"].run_s, PROFILES["quick"].open_s, QUICK_REPLAY_S / 5)
    assert costs.of(plan(Request(), 1)) <= 140


@pytest.mark.parametrize("others", [(), ("kafka-synced", "kafka")])
def test_full_takes_less_than_half_an_hour_without_the_report(others):
    costs = Costs(PROFILES["full"].run_s, PROFILES["full"].open_s, YEAR_OF_REPLAY_S / 7)
    assert costs.of(plan(Request(profile="full", others=others), 1)) < 30 * 60


@pytest.mark.parametrize(
    ("option", "client"), [("with_confluent", "confluent-kafka linger=0"), ("with_replay", REPLAY)]
)
def test_parts_that_cannot_run_are_left_out(option, client):
    assert client in {run.cell.client for run in runs_of(Request())}
    assert client not in {run.cell.client for run in runs_of(Request(**{option: False}))}


def test_a_mode_compared_with_itself_has_no_ablation():
    runs = runs_of(Request(modes=("classic", "classic")))
    assert count(runs, experiment="ablation") == 0
    assert {(run.side.mode, run.side.number) for run in runs} == {("classic", 0), ("classic", 1)}


def test_other_brokers_are_driven_in_every_round_of_ordinary_commits_and_never_traced():
    groups = plan(Request(others=("kafka-synced", "kafka"), rounds=4), 1)
    driven = [pair for group in groups for pair in pairs(group) if {run.side.number for run in pair} & {2, 3}]
    for pair in driven:
        assert {(run.side.mode, run.side.number) for run in pair} == {
            ("classic", 0), ("pipelined", 1), ("kafka-synced", 2), ("kafka", 3),
        }  # fmt: skip
        assert not any(run.traced or run.cell.commit_delay_ms for run in pair)
    assert {pair[0].experiment for pair in driven} == {"grid", "clients", "consumers", "ladder"}
    plain = [pair for group in groups for pair in pairs(group) if pair[0].experiment in ("grid", "clients", "ladder")]
    assert all(pair in driven or pair[0].traced or pair[0].cell.commit_delay_ms for pair in plain)
