"""The experiment with real brokers: its raw rows have the trace format, and no process or file remains."""

import json
import re
import shlex
import socket
import subprocess
import time
from collections import Counter
from pathlib import Path

import attrs
import pytest
from click.testing import CliRunner

from pipeline_broker.cli import main
from pipeline_broker.commands.compare import compare
from pipeline_broker.files.file_system import SystemFileSystem
from pipeline_broker.measure.experiment import compare as compare_module
from pipeline_broker.measure.experiment.broker_process import (
    BrokerSettings,
    ExperimentError,
    python_environment,
    python_module,
    running,
)
from pipeline_broker.measure.experiment.compare import CompareOptions, alone_in, run_compare
from pipeline_broker.measure.experiment.fleet import BrokerDefaults
from pipeline_broker.measure.experiment.plan import PROFILES, Profile, Request
from pipeline_broker.measure.experiment.raw import RawFolder
from pipeline_broker.measure.experiment.traced_spans import REQUESTS_OF_RUN_MAX
from pipeline_broker.traces.client_rows import read_client

RUN_COLUMNS = {
    "run", "round", "traced", "mode", "side", "client", "in_flight", "connections", "commit_delay_ms", "flush",
    "settings", "machine", "client_cpu_share", "lost_rows", "variant", "factors", "offered_of", "offered_share",
    "offered_per_s",
}  # fmt: skip
TURNS = PROFILES["quick"].turns
AXES = ("queues", "in_flight_max", "commit")


def planned(out):
    """Return the command and the runs in their order."""
    described = [json.loads((folder / "run.json").read_text()) for folder in sorted((out / "raw").iterdir())]
    (command,) = {run["machine"]["command"] for run in described}
    names = ("run", "round", "traced", "mode", "side", "client", "in_flight", "connections", "variant", "flush")
    return command, [tuple(run[name] for name in names) for run in described]


@pytest.mark.usefixtures("forked_brokers")
def test_the_recorded_command_makes_the_same_runs_in_the_same_order_again(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    short = attrs.evolve(PROFILES["quick"], turns=1, run_s=0.1, warmup_s=0.02, open_s=0.1)
    monkeypatch.setitem(PROFILES, "quick", short)
    options = [
        "--out",
        str(tmp_path / "one"),  # forks do not share the folder of this process
        "--in-flight",
        "1,5",
        "--connections",
        "1",
        "--rounds",
        "1",
        "--flush",
        "os",
        "--no-report",
    ]
    assert CliRunner().invoke(compare, options, prog_name="compare").exit_code == 0
    command, runs = planned(tmp_path / "one")
    assert re.fullmatch(re.escape(f"pipeline-broker compare {' '.join(options)} --seed ") + r"\d+", command)
    assert CliRunner().invoke(compare, shlex.split(command)[2:], prog_name="compare").exit_code == 0
    assert planned(tmp_path / "one") == (command, runs)


def test_a_small_experiment_leaves_complete_raw_rows(tmp_path, capsys):
    out = tmp_path / "out"
    (out / "raw" / "run-00099").mkdir(parents=True)
    (out / "summary.json").write_text("of an earlier experiment")
    request = Request(in_flight=(5,), connections=(2,), delays_ms=(1.0,), rounds=1)
    results = run_compare(CompareOptions(out, request, BrokerDefaults("os"), seed=5))
    assert sorted(path.name for path in out.iterdir()) == ["raw"]
    folders = sorted((out / "raw").iterdir())
    assert [folder.name for folder in folders] == [f"run-{number:05}" for number in range(1, 15)]
    described = [json.loads((folder / "run.json").read_text()) for folder in folders]
    assert all(run.keys() >= RUN_COLUMNS for run in described)
    axes = {(run["mode"], *(run["factors"][name] for name in AXES)) for run in described}
    assert axes == {("classic", 0, 1, "request"), ("pipelined", 8, 64, "group")}
    assert Counter(
        (run["experiment"], run["variant"], run["traced"], run["mode"], run["side"]) for run in described
    ) == {
        ("grid", "", False, "classic", 0): TURNS,
        ("grid", "", False, "pipelined", 1): TURNS,
        ("grid", "", True, "classic", 0): 1,
        ("grid", "", True, "pipelined", 1): 1,
        ("self", "self", False, "pipelined", 0): TURNS,
        ("self", "self", False, "pipelined", 1): TURNS,
    }
    processes = {(run["traced"], run["mode"], run["side"]): run["settings"]["process"] for run in described}
    assert len(set(processes.values())) == len(processes) == 5, (
        "the pipelined broker of the grid is also one beside itself"
    )
    assert {run["settings"]["seed"] for run in described} == {5}
    around = ("others_share", "steal_share")
    assert all(run["machine"].keys() >= {*around, "cpu"} for run in described)
    for folder, run in zip(folders, described, strict=True):
        rows = read_client(folder / "client-0.ring")
        assert {row.connection for row in rows} == {0, 1}
        assert any(row.measured for row in rows)
        assert all(run["started_ns"] <= row.sent_ns <= row.answered_ns <= run["ended_ns"] for row in rows)
        assert (folder / "requests.ring").exists() is run["traced"]
    assert results.order_violations == 0
    output = capsys.readouterr()
    assert "2 x 5" in output.out
    announced, *progress = output.err.splitlines()
    assert re.fullmatch(r"14 runs, seed 5, about \d+ s, then the report", announced)
    assert all(re.match(r"\d+/14 runs, ", line) for line in progress), "and no log line"


def test_a_grid_varies_the_brokers_of_a_side_and_traces_single_ones_only(tmp_path, monkeypatch):
    monkeypatch.setitem(PROFILES, "quick", attrs.evolve(PROFILES["quick"], turns=1))
    out = tmp_path / "out"
    request = Request(in_flight=(4,), connections=(2,), brokers=(1, 2), rounds=1)
    run_compare(CompareOptions(out, request, BrokerDefaults("os"), seed=5))
    described = [json.loads(path.read_text()) for path in sorted(out.glob("raw/*/run.json"))]
    assert Counter((run["variant"], run["factors"]["brokers"], run["traced"]) for run in described) == {
        ("", 1, False): 2,
        ("", 1, True): 2,
        ("brokers=2", 2, False): 2,
        ("self", 1, False): 2,
    }
    assert all(run["lost_rows"] == 0 for run in described)


def test_several_brokers_need_the_disk(tmp_path):
    options = ["--out", str(tmp_path), "--brokers", "1,2", "--store", "memory://"]
    found = CliRunner().invoke(compare, options)
    assert found.exit_code == 2
    assert "leave --brokers out" in found.output


TINY = Profile(
    rounds=2,
    turns=1,
    producers=(2,),
    readers=(2,),
    pairs=(2,),
    replay_whole_year=False,
    loads=((4, 2, 0.0), (4, 1, 1.0)),
    traced_loads=((4, 1, 1.0),),
    self_loads=((4, 2, 0.0),),
    ladder_loads=((4, 2, 0.0),),
    ladder_steps=((0.2, 0), (0.8, 1)),
    page_cache_loads=(),
    ablation_modes=("mute-off",),
    ablation_loads=((4, 2, 0.0),),
    run_s=0.1,
    warmup_s=0.02,
    open_s=0.1,
)


@pytest.mark.clients
@pytest.mark.usefixtures("forked_brokers")
def test_a_whole_experiment_has_every_part_in_every_round(tmp_path, monkeypatch, capsys):
    """Runs all of `quick` except the replay, which takes as long as its events."""
    pytest.importorskip("confluent_kafka", reason="confluent-kafka (extra `compare`) is not installed")
    monkeypatch.setitem(PROFILES, "quick", TINY)
    results = run_compare(CompareOptions(tmp_path, Request(with_replay=False), BrokerDefaults("os")))
    described = [json.loads(path.read_text()) for path in (tmp_path / "raw").glob("*/run.json")]
    parts = Counter((run["experiment"], run["round"], run["traced"]) for run in described)
    of_round = {
        ("grid", False): 4,
        ("grid", True): 2,
        ("self", False): 2,
        ("clients", False): 4,
        ("ablation", False): 1,
        ("consumers", False): 4,
    }
    expected = {(name, number, traced): count for (name, traced), count in of_round.items() for number in (1, 2)}
    assert parts == {**expected, ("ladder", 1, False): 4, ("ladder", 2, False): 4}
    by_process = {}
    for run in described:
        by_process.setdefault(run["settings"]["process"], set()).add(
            (run["round"], run["mode"], run["experiment"] == "ladder")
        )
    assert all(len(shared) == 1 for shared in by_process.values()), "no process outlives a round"
    for run in described:
        is_ladder = run["experiment"] == "ladder"
        assert (run["offered_per_s"] is not None) is (is_ladder or run["client"] == "publish-to-consume")
        if is_ladder:
            (cell,) = [cell for cell in results.compared() if cell.variant == run["variant"]]
            capacity = results.capacity(cell, run["offered_of"])
            assert run["offered_per_s"] == pytest.approx(run["offered_share"] * capacity, abs=0.1)
    assert "equal load, an open loop" in capsys.readouterr().out


@pytest.mark.usefixtures("forked_brokers")
def test_an_existing_broker_is_driven_beside_both_and_left_running(tmp_path, capsys):
    out = tmp_path / "out"
    with running([BrokerSettings("pipelined", tmp_path / "data", flush="os")]) as (other,):
        address = f"{other.host}:{other.port}"
        arguments = ["--out", str(out), "--in-flight", "5", "--connections", "1", "--rounds", "1", "--flush", "os"]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("pipeline_broker.measure.experiment.drive.OTHER_WARM_S", 0.1)
            spans = tmp_path / "spans.json"
            result = CliRunner().invoke(
                compare, [*arguments, "--against", address, "--otlp", str(spans), "--no-report"]
            )
        assert result.exit_code == 0, result.output
        socket.create_connection((other.host, other.port)).close()
    names = Counter(
        span["name"]
        for service in json.loads(spans.read_text())["resourceSpans"]
        for span in service["scopeSpans"][0]["spans"]
    )
    assert names["Produce client"] == names["Produce broker"] == names["commit"]
    assert 0 < names["commit"] <= 2 * REQUESTS_OF_RUN_MAX
    described = [json.loads(path.read_text()) for path in sorted((out / "raw").glob("*/run.json"))]
    driven = Counter(
        (run["side"], run["mode"]) for run in described if not run["traced"] and run["experiment"] == "grid"
    )
    assert driven == dict.fromkeys([(0, "classic"), (1, "pipelined"), (2, "other")], TURNS)


def test_a_terminated_experiment_stops_its_brokers(tmp_path):
    out = tmp_path / "out"
    arguments = ["--in-flight", "1", "--connections", "1", "--rounds", "1000", "--no-report", "--out", str(out)]
    experiment = subprocess.Popen(
        python_module("pipeline_broker", "compare", *arguments),
        env=python_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    stop_s = time.monotonic() + 60
    while not (out / "raw" / "run-00001" / "run.json").exists() and time.monotonic() < stop_s:
        assert experiment.poll() is None
        time.sleep(0.02)
    children = Path(f"/proc/{experiment.pid}/task/{experiment.pid}/children").read_text().split()
    assert len(children) in (2, 3), "a traced pair, or with a third one of which a pipelined one is beside itself"
    experiment.terminate()
    output, _ = experiment.communicate(timeout=60)
    announced, *progress, ended = output.decode().strip().splitlines()
    assert re.match(r"12006 runs, seed \d+, about ", announced)
    assert all(re.match(r"\d+/12006 runs, |$", line) for line in progress)
    assert (experiment.returncode, ended) == (1, "Aborted!")
    assert not any(Path(f"/proc/{child}").exists() for child in children)
    assert sorted(path.name for path in out.iterdir()) == [".lock", "raw"]


@pytest.mark.parametrize(("profile", "runs"), [("quick", 257), ("full", 1254)])
def test_a_comparison_prints_its_runs_seed_and_time_before_it_starts(profile, runs, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(compare_module, "run_groups", lambda *_: None)
    monkeypatch.setattr(compare_module, "DEFAULT_DATA", tmp_path / "none.csv.gz")
    monkeypatch.setattr(compare_module, "has_confluent", lambda: True)
    run_compare(CompareOptions(tmp_path / "out", Request(profile=profile)))
    missing, announced = capsys.readouterr().err.splitlines()
    assert missing == "the replay of departures is skipped: its events are in the repository, not in the package"
    assert re.fullmatch(rf"{runs} runs, seed \d+, about \d+ min, then the report", announced)
    run_compare(CompareOptions(tmp_path / "out", Request(profile=profile), seed=77), with_report=False)
    assert re.fullmatch(rf"{runs} runs, seed 77, about \d+ min", capsys.readouterr().err.splitlines()[1])


def test_each_comparison_draws_a_seed_unless_one_is_given(tmp_path, monkeypatch):
    planned = []
    monkeypatch.setattr(compare_module, "run_groups", lambda setting, groups, _: planned.append((setting.seed, groups)))
    request = Request(in_flight=(1, 5, 64), connections=(1, 16))
    for seed in (None, None, 5, 5):
        run_compare(CompareOptions(tmp_path, request, seed=seed))
    (first, order), (second, another), *given = planned
    assert first != second
    assert order != another
    assert given[0] == given[1]
    assert given[0][0] == 5


def test_a_comparison_replaces_a_sweep(tmp_path, monkeypatch):
    monkeypatch.setattr(compare_module, "run_groups", lambda *_: None)
    (tmp_path / "sweep.json").write_text("{}")
    (tmp_path / "raw" / "run-00001").mkdir(parents=True)
    run_compare(CompareOptions(tmp_path, Request(in_flight=(1,))))
    assert [path.name for path in tmp_path.iterdir()] == ["raw"]
    assert not any((tmp_path / "raw").iterdir())


def test_a_broker_that_does_not_start_is_reported_with_its_error(tmp_path):
    with (
        pytest.raises(ExperimentError, match=r"did not start|ended with exit code 2"),
        running([BrokerSettings("classic", tmp_path / "data", flush="sometimes")]),
    ):
        pass


def test_a_folder_with_foreign_files_is_not_removed(tmp_path):
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw" / "thesis.txt").write_text("years of work")
    with pytest.raises(ExperimentError, match=r"thesis\.txt"):
        RawFolder(tmp_path / "raw").clear()
    assert (tmp_path / "raw" / "thesis.txt").exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ["--in-flight", "0"],
        ["--in-flight", "1,x"],
        ["--connections", ""],
        ["--commit-delay", "2 weeks"],
        ["--modes", "classic"],
        ["--modes", "classic,modern"],
        ["--rounds", "0"],
        ["--profile", "slow"],
    ],
)
def test_a_wrong_value_is_a_usage_error(arguments, tmp_path):
    result = CliRunner().invoke(compare, ["--out", str(tmp_path / "out"), *arguments])
    assert result.exit_code == 2
    assert "Error: Invalid value" in result.output


def test_a_comparison_without_the_packages_of_its_report_fails_before_it_runs(tmp_path, monkeypatch):
    monkeypatch.setattr(compare_module, "ANALYSIS_PACKAGES", ("no_such_spark", "pyarrow"))
    result = CliRunner().invoke(compare, ["--out", str(tmp_path / "out")])
    assert (result.exit_code, result.stderr) == (
        1,
        "Error: the report needs no_such_spark. Run pip install 'pipeline-broker[spark]', or pass --no-report\n",
    )
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("out", ["file/x", "/proc/x"])
def test_a_folder_that_cannot_be_created_gives_a_one_line_error(tmp_path, monkeypatch, out):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    result = CliRunner().invoke(main, ["compare", "--out", out, "--no-report", "--in-flight", "1"])
    assert result.exit_code == 1
    assert result.stderr.startswith(f"Error: cannot use {out}: ")
    assert result.stderr.count("\n") == 1


def test_two_experiments_cannot_run_in_one_folder(tmp_path):
    kept = tmp_path / "raw" / "run-00001"
    kept.mkdir(parents=True)
    arguments = ["--out", str(tmp_path), "--no-report", "--in-flight", "1"]
    with alone_in(tmp_path):
        result = CliRunner().invoke(compare, arguments)
    assert (result.exit_code, result.stderr) == (
        1,
        f"Error: another experiment is running in {tmp_path}: choose another --out\n",
    )
    assert kept.exists()
    holder = SystemFileSystem().lock(tmp_path / ".lock")  # `alone_in` takes the same lock
    with pytest.raises(ExperimentError, match="another experiment is running in "), alone_in(tmp_path):
        pass
    holder.release()
    with alone_in(tmp_path):
        pass  # the lock was released
