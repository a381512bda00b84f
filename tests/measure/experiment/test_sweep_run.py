"""A sweep with real brokers: complete rows with their factors, and no repeated runs after an interruption."""

import json
from pathlib import Path

import attrs
import pytest
from click.testing import CliRunner

from pipeline_broker.commands.compare import compare
from pipeline_broker.measure.experiment import sweep_run
from pipeline_broker.measure.experiment.broker_process import ExperimentError
from pipeline_broker.measure.experiment.fleet import BrokerDefaults
from pipeline_broker.measure.experiment.sweep import parse_sweep, read_sweep
from pipeline_broker.measure.experiment.sweep_plan import sweep_cells
from pipeline_broker.measure.experiment.sweep_run import SweepOptions, run_sweep
from pipeline_broker.traces.client_rows import read_client

EXAMPLE = Path(__file__).parents[3] / "docs/guides/sweep.toml"
VARIED = ("in_flight", "pipeline.queues")


def small_example():
    """The documented example, with two of its factors, all their levels, and short runs."""
    sweep = read_sweep(EXAMPLE)
    factors = {name: levels if name in ("mode", *VARIED) else levels[:1] for name, levels in sweep.factors.items()}
    return attrs.evolve(sweep, factors=factors, rounds=1, traced=0, seconds=0.15, warmup=0.05)


def described(out):
    return {path: json.loads(path.read_text()) for path in sorted((out / "raw").glob("*/run.json"))}


def interrupt(*_):
    raise KeyboardInterrupt


@pytest.mark.usefixtures("forked_brokers")
def test_an_interrupted_sweep_is_resumed(tmp_path, capsys, monkeypatch):
    sweep, options = small_example(), SweepOptions(tmp_path / "out", BrokerDefaults("os"))
    results = run_sweep(sweep, options)
    runs = described(options.out)
    assert len(runs) == 4 * 2 + 2
    assert sorted(path.name for path in options.out.iterdir()) == ["raw", "sweep.json"]
    first = capsys.readouterr()
    assert "pipeline.queues=1" in first.out
    seed = json.loads((options.out / "sweep.json").read_text())["seed"]
    assert first.err.startswith(f"4 loads, 10 runs, seed {seed}, about "), "and no bar without a terminal"
    assert {run["experiment"] for run in runs.values()} == {"sweep", "self"}
    assert {run["settings"]["seed"] for run in runs.values()} == {seed}
    of_pipelined = [run for run in runs.values() if (run["mode"], run["experiment"]) == ("pipelined", "sweep")]
    assert {(run["variant"], run["factors"]["queues"]) for run in of_pipelined} == {("", 8), ("pipeline.queues=1", 1)}
    assert {run["factors"]["depth"] for run in of_pipelined} == {1, 64}
    assert {run["factors"]["flush"] for run in of_pipelined} == {"os"}

    torn = next(iter(runs))
    torn.unlink()
    before = {path: path.stat().st_mtime_ns for path in described(options.out)}
    with monkeypatch.context() as patch:
        patch.setattr(sweep_run, "run_groups", interrupt)
        with pytest.raises(KeyboardInterrupt):
            run_sweep(sweep, options)
    assert len(described(options.out)) == 8, "no half of the torn pair is left to be paired with one of another time"
    capsys.readouterr()
    again = run_sweep(sweep, options)
    assert "10 runs, 8 of them done" in capsys.readouterr().err
    after = {path: path.stat().st_mtime_ns for path in described(options.out)}
    assert after.keys() == runs.keys()
    assert sum(after[path] == moment for path, moment in before.items()) == 8, "the other half of the torn pair too"
    assert again.compared() == results.compared() == sweep_cells(sweep), "told in the order of the file"
    assert all(again.speedup(cell) is not None for cell in again.compared())

    left = []
    monkeypatch.setattr(sweep_run, "run_groups", lambda _setting, groups, _results: left.extend(groups))
    run_sweep(sweep, options)
    assert left == []
    assert "10 runs, 10 of them done" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("change", "difference"),
    [
        ({"factors": {"in_flight": [1, 5]}}, r"in_flight was \[1\] and is \[1, 5\]"),
        ({"factors": {"in_flight": [1], "batch": [2]}}, r"batch was missing and is \[2\]"),
        ({"factors": {"in_flight": [1]}, "rounds": 9}, "rounds was 5 and is 9"),
        ({"factors": {"in_flight": [1]}, "seed": 8}, "seed was 7 and is 8"),
    ],
)
def test_a_sweep_with_another_plan_is_refused_and_no_file_is_removed(change, difference, tmp_path, monkeypatch):
    monkeypatch.setattr(sweep_run, "run_groups", lambda *_: None)
    options = SweepOptions(tmp_path)
    run_sweep(parse_sweep({"factors": {"in_flight": [1]}, "seed": 7}), options)
    (tmp_path / "raw" / "run-00001").mkdir()
    with pytest.raises(ExperimentError, match=difference) as caught:
        run_sweep(parse_sweep(change), options)
    assert "\n" not in str(caught.value)
    assert (tmp_path / "raw" / "run-00001").exists()


def test_the_flush_setting_is_part_of_the_plan(tmp_path, monkeypatch):
    monkeypatch.setattr(sweep_run, "run_groups", lambda *_: None)
    sweep = parse_sweep({"factors": {"in_flight": [1]}})
    run_sweep(sweep, SweepOptions(tmp_path))
    with pytest.raises(ExperimentError, match='flush was "always" and is "os"'):
        run_sweep(sweep, SweepOptions(tmp_path, BrokerDefaults("os")))


@pytest.mark.parametrize("text", ["", "{}", '{"schema": 1, "seed": "x", "plan": {}}', "[]"])
def test_an_unreadable_plan_gives_a_one_line_error(text, tmp_path):
    (tmp_path / "sweep.json").write_text(text)
    with pytest.raises(ExperimentError, match="cannot be read") as caught:
        run_sweep(parse_sweep({"factors": {"in_flight": [1]}}), SweepOptions(tmp_path))
    assert "\n" not in str(caught.value)


def test_contradicting_levels_are_refused_before_any_broker_starts(tmp_path):
    sweep = parse_sweep({"factors": {"record_size": [1_000_000], "batch": [1, 1000]}})
    with pytest.raises(ExperimentError, match=r"batch=1000 record_size=1000000: brokers refuse batches of more than"):
        run_sweep(sweep, SweepOptions(tmp_path / "out"))
    assert not (tmp_path / "out").exists()


def test_an_interruption_prints_how_to_resume(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sweep_run, "run_groups", interrupt)
    with pytest.raises(KeyboardInterrupt):
        run_sweep(parse_sweep({"factors": {"in_flight": [1]}}), SweepOptions(tmp_path))
    assert "0 of 26 runs are done: repeat the command to resume" in capsys.readouterr().err


@pytest.mark.usefixtures("forked_brokers")
def test_a_share_of_a_capacity_is_offered_to_both_sides(tmp_path):
    factors = {"rate": ["closed", "50% of classic", 1000], "connections": 2}
    sweep = parse_sweep({"rounds": 2, "traced": 0, "seconds": 0.2, "warmup": 0.05, "seed": 1, "factors": factors})
    out = tmp_path / "out"
    results = run_sweep(sweep, SweepOptions(out, BrokerDefaults("os")))
    runs = list(described(out).values())
    closed = [run for run in runs if run["variant"] == ""]
    assert {(run["offered_of"], run["offered_share"], run["offered_per_s"]) for run in closed} == {(None, None, None)}
    (offered,) = {run["offered_per_s"] for run in runs if run["variant"] == "rate=50%-of-classic"}
    (cell,) = [cell for cell in results.compared() if cell.offer is not None and cell.offer.share]
    assert offered == pytest.approx(results.capacity(cell, "classic") / 2, abs=0.1)
    shares = [run for run in runs if run["variant"] == "rate=50%-of-classic"]
    assert {(run["offered_of"], run["offered_share"], run["side"]) for run in shares} == {
        ("classic", 0.5, 0), ("classic", 0.5, 1),
    }  # fmt: skip
    given = [run for run in runs if run["variant"] == "rate=1000"]
    assert {(run["offered_of"], run["offered_share"], run["offered_per_s"]) for run in given} == {(None, None, 1000.0)}
    by_round = {}
    for run in given:
        rows = read_client(out / "raw" / f"run-{run['run']:05}" / "client-0.ring")
        first_ns = min(row.intended_ns for row in rows)
        moments = sorted(row.intended_ns - first_ns for row in rows)
        by_round.setdefault(run["round"], []).append(moments)
    for first, second in by_round.values():
        assert first == pytest.approx(second, abs=3), "ns: the same moments on both sides"
    assert by_round[1][0] != pytest.approx(by_round[2][0], abs=3)


@pytest.mark.parametrize(
    "option", [["--rounds", "3"], ["--seed", "4"], ["--modes", "classic,classic"], ["--with-kafka"]]
)
def test_an_option_that_the_file_sets_is_refused(option, tmp_path):
    result = CliRunner().invoke(compare, ["--out", str(tmp_path), "--sweep", str(EXAMPLE), *option])
    assert result.exit_code == 2
    assert f"determines the runs: leave {option[0]} out" in result.output


def test_an_invalid_file_is_a_usage_error(tmp_path):
    (tmp_path / "own.toml").write_text("[factors]\nin_fligth = [1]\n")
    result = CliRunner().invoke(compare, ["--out", str(tmp_path / "out"), "--sweep", str(tmp_path / "own.toml")])
    assert result.exit_code == 2
    assert "did you mean in_flight?" in result.output
