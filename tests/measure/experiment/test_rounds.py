"""A round has each load once on each side, back to back, on new brokers, in an order that its seed repeats."""

from collections import Counter
from itertools import pairwise

import attrs
from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.measure.experiment.factors import BrokerFactors
from pipeline_broker.measure.experiment.rounds import Part, pairs, plan_rounds, remaining
from pipeline_broker.measure.experiment.runs import READER, Cell, Side

MODES = ("classic", "pipelined", "kafka-synced", "kafka")
sides = st.integers(1, 4).map(lambda count: tuple(Side(mode, number) for number, mode in enumerate(MODES[:count])))
cells = st.builds(
    Cell,
    client=st.sampled_from(["raw", READER]),
    in_flight=st.integers(1, 4),
    connections=st.integers(1, 2),
    commit_delay_ms=st.sampled_from([0.0, 2.0]),
    broker=st.sampled_from([BrokerFactors(), BrokerFactors(flush="os")]),
    is_self=st.booleans(),
)
parts = st.builds(
    Part,
    experiment=st.sampled_from(["grid", "ablation"]),
    cell=cells,
    sides=sides,
    rounds=st.integers(1, 5),
    traced=st.booleans(),
    turns=st.integers(1, 3),
)
phases = st.lists(
    st.lists(parts, max_size=8, unique_by=lambda part: (part.experiment, part.cell, part.traced)), max_size=2
)
seeds = st.integers(0, 1 << 32)


def runs_of(groups):
    return [run for group in groups for run in group.runs]


@given(phases, seeds)
def test_every_part_is_run_in_each_round_on_all_its_sides_in_turn_back_to_back(phases, seed):
    groups = plan_rounds(phases, seed)
    assert [run.number for run in runs_of(groups)] == list(range(1, len(runs_of(groups)) + 1))
    found = Counter()
    for pair in (pair for group in groups for pair in pairs(group)):
        assert len({(run.experiment, run.cell, run.round, run.traced) for run in pair}) == 1
        first = pair[0]
        told = frozenset(run.side for run in pair)
        turns, rest = divmod(len(pair), len(told))
        assert not rest
        order = [run.side for run in pair]
        for turn in range(turns):
            mine = order[turn * len(told) : (turn + 1) * len(told)]
            assert set(mine) == told
            assert mine == order[: len(told)][:: -1 if turn % 2 else 1]
        found[first.experiment, first.cell, told, first.traced, first.round, turns] += 1
    assert found == Counter(
        (part.experiment, part.cell, frozenset(part.sides), part.traced, number, part.turns)
        for phase in phases
        for part in phase
        for number in range(1, part.rounds + 1)
    )


@given(phases, seeds)
def test_brokers_are_shared_by_equal_settings_within_a_round_and_traced_ones_are_not_shared(phases, seed):
    """Self-comparisons and readers have their own brokers, whose state depends on no load that writes."""
    for group in plan_rounds(phases, seed):
        cells = [run.cell for run in group.runs]
        assert len({(cell.commit_delay_ms, cell.broker, cell.is_self, cell.client) for cell in cells}) == 1
        assert len({(run.round, run.traced) for run in group.runs}) == 1
        assert set(group.sides) == {run.side for run in group.runs}
        if group.traced:
            assert len({run.cell for run in group.runs}) == 1


@given(phases, seeds)
def test_a_round_is_over_before_the_next_one_begins_and_a_phase_before_the_next_phase(phases, seed):
    expected = [
        (place, number) for place, phase in enumerate(phases) for part in phase for number in range(part.rounds)
    ]
    groups = iter(plan_rounds(phases, seed))
    for place, number in sorted(set(expected)):
        due = sum(len(part.sides) * part.turns for part in phases[place] if number < part.rounds)
        while due:
            group = next(groups)
            assert {run.round for run in group.runs} == {number + 1}
            due -= len(group.runs)
        assert due == 0
    assert not list(groups)


@given(phases, seeds)
def test_a_seed_gives_one_order(phases, seed):
    assert plan_rounds(phases, seed) == plan_rounds(phases, seed)


def loads(count):
    return [
        Part("grid", Cell("raw", number, 1), (Side("classic", 0), Side("pipelined", 1)), 4) for number in range(count)
    ]


def test_the_order_of_the_loads_differs_between_rounds_and_between_seeds():
    groups = [group for seed in range(3) for group in plan_rounds([loads(8)], seed)]
    assert len({tuple(pair[0].cell for pair in pairs(group)) for group in groups}) == 12


def test_blocks_of_brokers_are_in_random_order_too():
    delayed = [attrs.evolve(part, cell=attrs.evolve(part.cell, commit_delay_ms=2.0)) for part in loads(1)]
    groups = plan_rounds([[*loads(1), *delayed, *(attrs.evolve(part, traced=True) for part in loads(1))]], 1)
    assert len({tuple(group.commit_delay_ms for group in groups[start : start + 3]) for start in range(0, 12, 3)}) > 1


@given(phases, seeds)
def test_the_first_of_two_sides_alternates_between_rounds(phases, seed):
    firsts = {}
    for place, group in enumerate(plan_rounds(phases, seed)):
        for pair in pairs(group):
            if len({run.side for run in pair}) == 2:
                name = (pair[0].experiment, pair[0].cell, pair[0].traced)
                firsts.setdefault(name, []).append((pair[0].round, place, pair[0].side))
    for begun in firsts.values():
        for before, after in pairwise(begun):
            assert (after[0] == 1) or before[2] != after[2]


def test_about_half_of_the_loads_begin_with_each_side():
    begun = Counter(
        pair[0].side.number for group in plan_rounds([loads(200)], 1) for pair in pairs(group) if pair[0].round == 1
    )
    assert min(begun[0], begun[1]) > 70


def test_each_of_several_sides_is_first_in_turn():
    all_sides = tuple(Side(mode, number) for number, mode in enumerate(MODES))
    groups = plan_rounds([[Part("grid", Cell("raw", 5, 1), all_sides, 8)]], 3)
    assert {group.runs[0].side for group in groups} == set(all_sides)


@given(phases, seeds, st.data())
def test_complete_pairs_are_not_repeated_and_incomplete_ones_are(phases, seed, data):
    groups = plan_rounds(phases, seed)
    numbers = [run.number for run in runs_of(groups)]
    done = data.draw(st.sets(st.sampled_from(numbers))) if numbers else set()
    left = {run.number for run in runs_of(remaining(groups, lambda run: run.number in done))}
    for pair in (pair for group in groups for pair in pairs(group)):
        mine = {run.number for run in pair}
        assert mine & left == (set() if mine <= done else mine)
