"""An invalid sweep gives a one-line error; the plan of a valid one is complete, random, and the same for a seed."""

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.measure.experiment.broker_process import ExperimentError
from pipeline_broker.measure.experiment.factors import Offer
from pipeline_broker.measure.experiment.rounds import pairs
from pipeline_broker.measure.experiment.sweep import FACTORS, parse_sweep, read_sweep
from pipeline_broker.measure.experiment.sweep_plan import plan_sweep, sweep_cells

EXAMPLE = Path(__file__).parents[3] / "docs/guides/sweep.toml"
LEVELS = {
    "in_flight": st.lists(st.integers(1, 64), unique=True, min_size=1, max_size=3),
    "connections": st.lists(st.integers(1, 16), unique=True, min_size=1, max_size=2),
    "commit_delay": st.lists(st.sampled_from([0, "2ms", 10]), unique=True, min_size=1, max_size=2),
    "flush": st.lists(st.sampled_from(["always", "os"]), unique=True, min_size=1, max_size=2),
    "record_size": st.lists(st.integers(0, 2000), unique=True, min_size=1, max_size=2),
    "rate": st.lists(st.sampled_from(["closed", 100, 2000.5]), unique=True, min_size=1, max_size=2),
    "pipeline.queues": st.lists(st.integers(0, 8), unique=True, min_size=1, max_size=2),
}
factors = st.fixed_dictionaries({}, optional=LEVELS).filter(bool)
modes = st.lists(st.sampled_from(["classic", "pipelined"]), min_size=2, max_size=2)
sweeps = st.builds(
    lambda chosen, both, rounds, traced: parse_sweep(
        {"rounds": rounds, "traced": traced, "factors": {**chosen, "mode": both}}
    ),
    factors,
    modes,
    st.integers(1, 4),
    st.integers(0, 2),
)
seeds = st.integers(0, 1 << 32)


def runs_of(groups):
    return [run for group in groups for run in group.runs]


@given(sweeps, seeds)
def test_every_combination_is_run_in_every_round_on_both_sides_and_some_rounds_are_traced(sweep, seed):
    found = Counter()
    for pair in (pair for group in plan_sweep(sweep, seed) for pair in pairs(group)):
        if pair[0].experiment == "sweep":
            assert sorted((run.side.number, run.side.mode) for run in pair) == list(enumerate(sweep.modes))
            found[pair[0].cell, pair[0].traced] += 1
    cells = sweep_cells(sweep)
    assert len(set(cells)) == len(cells) == sweep.cells
    expected = Counter({(cell, False): sweep.rounds for cell in cells})
    expected.update({(cell, True): min(sweep.traced, sweep.rounds) for cell in cells if sweep.traced})
    assert found == expected


@given(sweeps, seeds)
def test_side_b_is_compared_with_itself_under_one_of_the_closed_loops(sweep, seed):
    runs = [run for run in runs_of(plan_sweep(sweep, seed)) if run.experiment == "self"]
    assert {run.side.mode for run in runs} <= {sweep.modes[1]}
    closed = [cell for cell in sweep_cells(sweep) if cell.offer is None]
    is_possible = bool(closed) and sweep.modes[0] != sweep.modes[1]
    assert len(runs) == (2 * sweep.rounds if is_possible else 0)
    assert len({run.cell for run in runs}) == is_possible


@given(sweeps, seeds)
def test_a_seed_gives_one_order(sweep, seed):
    assert plan_sweep(sweep, seed) == plan_sweep(sweep, seed)


def test_shares_of_a_capacity_come_after_the_closed_loops_that_it_is_measured_in():
    rates = ["closed", 100, "50% of classic", "120% of pipelined"]
    sweep = parse_sweep({"rounds": 3, "factors": {"rate": rates, "in_flight": [1, 5]}})
    offers = {cell.offer for cell in sweep_cells(sweep)}
    assert offers == {None, Offer(100.0), Offer(share=0.5, of="classic"), Offer(share=1.2, of="pipelined")}
    assert {cell.variant for cell in sweep_cells(sweep)} == {
        "", "rate=100", "rate=50%-of-classic", "rate=120%-of-pipelined",
    }  # fmt: skip
    runs = runs_of(plan_sweep(sweep, 1))
    shares = [run.number for run in runs if run.cell.offer is not None and run.cell.offer.share]
    assert max(run.number for run in runs if run.number not in shares) < min(shares)


def test_the_variant_of_a_cell_names_all_factors_except_its_load():
    sweep = parse_sweep(
        {"factors": {"in_flight": 5, "batch": 10, "flush": "os", "pipeline": {"queues": 2, "commit": "default"}}}
    )
    (cell,) = sweep_cells(sweep)
    assert cell.variant == "batch=10 flush=os pipeline.queues=2"
    assert (cell.in_flight, cell.connections, cell.commit_delay_ms) == (5, 1, 0.0)


def test_the_documented_example_is_a_valid_sweep():
    sweep = read_sweep(EXAMPLE)
    assert sweep.modes == ("classic", "pipelined")
    assert sweep.cells == 32
    assert "pipeline.queues" in sweep.factors


@pytest.mark.parametrize(
    ("text", "refusal"),
    [
        ("", r"\[factors\] is missing: add it, with factors"),
        ("factors = 3", r"\[factors\] is missing"),
        ("[factors\n", r"is not TOML: .*line 1"),
        (
            "[factors]\nin_fligth = [1]",
            r"unknown factor 'in_fligth'; did you mean in_flight\? \(known: mode, .*property",
        ),
        ("[factors]\nnum.io.thread = [1]", r"unknown factor 'num.io.thread'; did you mean num.io.threads\?"),
        ("[factors]\nin_flight = [0]", r"factor in_flight: 0 is not a whole number from 1 to 10000"),
        ("[factors]\nin_flight = [true]", r"factor in_flight: True is not a whole number"),
        ("[factors]\nin_flight = []", r"factor in_flight has no levels"),
        ("[factors]\nin_flight = [1, 1]", r"factor in_flight lists a level twice"),
        ("[factors]\ncommit_delay = ['soon']", r"factor commit_delay: 'soon' is not a time"),
        ("[factors]\nflush = ['never']", r"factor flush: 'never' is not one of always, os"),
        ("[factors]\nmode = ['classic']", r"factor mode: name side A and side B"),
        ("[factors]\nmode = ['classic', 'kafka']", r"factor mode: 'kafka' is not one of classic, pipelined"),
        ("[factors]\nrate = [0]", r"factor rate: 0 is not \"closed\", a number of requests a second, or a share"),
        ("[factors]\nrate = ['50%']", r"factor rate: '50%' is not \"closed\".* such as \"50% of classic\""),
        ("[factors]\nrate = ['0% of classic']", r"factor rate: '0% of classic' is not"),
        ("[factors]\nrate = ['50% of classic']", r'"50% of classic" is a share .*: add the level "closed"'),
        (
            "[factors]\nmode = ['pipelined', 'pipelined']\nrate = ['closed', '50% of classic']",
            r"is a share of a mode that the factor mode does not name",
        ),
        ("traced = true\n[factors]\nin_flight = 1", r"traced True is not a whole number"),
        ("[factors]\nidempotent = [1]", r"factor idempotent: 1 is not true or false"),
        ("[factors]\nread_share = [1.0]", r"factor read_share: 1.0 is not a share .* that read, from 0 to 0.9"),
        ("[factors]\nread_share = [0.5]\ntransaction = [0, 2]", r"factor read_share: a transaction only writes"),
        ("[factors]\n'pipeline.queues' = ['many']", r"factor pipeline.queues: 'many' is not allowed"),
        ("[factors]\n'pipeline.queues' = [[1]]", r"factor pipeline.queues: \[1\] is not a string"),
        ("[factors]\n'leader.imbalance.check.interval.seconds' = [1]", r"the broker ignores this property"),
        ("round = 3\n[factors]\nin_flight = 1", r"unknown setting 'round'; did you mean rounds\?"),
        ("rounds = 0\n[factors]\nin_flight = 1", r"rounds 0 is not a whole number"),
        ("seconds = 0.01\n[factors]\nin_flight = 1", r"seconds 0.01 is too short"),
        ("seconds = 'long'\n[factors]\nin_flight = 1", r"seconds 'long' is not a number of seconds"),
        ("seconds = 1\nwarmup = 1\n[factors]\nin_flight = 1", r"warmup 1 must be less than seconds 1"),
        ("rounds = 1000\n[factors]\nin_flight = [1,2,3,4,5,6,7,8,9,10,11]", r"11 loads in 1000 rounds are 22,066 runs"),
    ],
)
def test_an_invalid_file_gives_a_one_line_error_with_its_path(text, refusal, tmp_path):
    path = tmp_path / "own.toml"
    path.write_text(text)
    with pytest.raises(ExperimentError, match=refusal) as caught:
        read_sweep(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)


def test_a_missing_file_gives_a_one_line_error(tmp_path):
    with pytest.raises(ExperimentError, match="No such file"):
        read_sweep(tmp_path / "none.toml")


def test_every_factor_reaches_a_cell():
    other = {
        "connections": 3, "in_flight": 7, "commit_delay": "2ms", "flush": "os", "commits_in_flight": 2,
        "brokers": 2, "record_size": 5, "batch": 2, "compression": "lz4", "keys": 4, "idempotent": True,
        "transaction": 9, "rate": 50, "read_share": 0.5,
    }  # fmt: skip
    assert {*other, "mode"} == set(FACTORS)
    (ordinary,) = sweep_cells(parse_sweep({"factors": {"mode": ["classic", "pipelined"]}}))
    for name, level in other.items():
        (cell,) = sweep_cells(parse_sweep({"factors": {name: level}}))
        assert cell != ordinary, name
