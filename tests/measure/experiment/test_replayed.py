"""Recorded events are cut into one stretch per round. A user's trace is replayed alone, on both sides."""

import json
from collections import Counter

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.commands.compare import compare
from pipeline_broker.measure.experiment.plan import Request, plan
from pipeline_broker.measure.experiment.replayed import cut, departure_stretches, trace_stretches
from pipeline_broker.measure.experiment.runs import REPLAY
from pipeline_broker.measure.load.departures import WEEK_S
from pipeline_broker.measure.load.replay import DEFAULT_DATA
from pipeline_broker.traces.broker_tables import REQUESTS
from pipeline_broker.traces.client_rows import read_client
from pipeline_broker.traces.ring_file import write

GAP_NS = 2_000_000


def written(path, requests, connections=3):
    """Write a trace with a request every 2 ms on each connection in turn, and Fetch requests between them."""
    rows = []
    for number in range(requests):
        values = dict.fromkeys((name for name, _ in REQUESTS.columns), 0)
        values |= {"connection": 10 + number % connections, "request_bytes": 300, "received_ns": 77 + number * GAP_NS}
        rows += [tuple(values.values()), tuple({**values, "api": 1}.values())]
    write(path, REQUESTS, rows)


@given(st.lists(st.integers(0, 10_000), min_size=1).map(sorted), st.integers(1, 9))
def test_events_are_cut_at_equal_distances_of_time(times, count):
    parts = cut(times, count, int)
    assert [it for part in parts for it in part] == times
    assert 1 <= len(parts) <= count
    assert all(parts)
    span = times[-1] - times[0] + 1
    assert all(len({(it - times[0]) * count // span for it in part}) == 1 for part in parts)


def test_empty_stretches_are_dropped():
    assert cut([], 3, int) == []


def test_a_stretch_of_a_trace_begins_at_once_and_keeps_its_connections(tmp_path):
    written(tmp_path / "requests.ring", 60)
    stretches = trace_stretches(tmp_path / "requests.ring", 4)
    assert [len(stretch.requests) for stretch in stretches] == [15] * 4
    assert {stretch.requests[0].offset_ns for stretch in stretches} == {0}
    assert {stretch.connections for stretch in stretches} == {3}
    assert {stretch.seconds for stretch in stretches} == {14 * GAP_NS / 1e9}


def test_a_stretch_of_departures_takes_five_seconds_per_week():
    stretches = departure_stretches(DEFAULT_DATA, 5, whole_year=False)
    assert len(stretches) == 5
    assert sum(stretch.seconds for stretch in stretches) == pytest.approx(5.0, rel=0.1)
    spans = [it.departures[-1].time_s - it.departures[0].time_s for it in stretches]
    assert [stretch.seconds for stretch in stretches] == [span / WEEK_S * 5.0 for span in spans]


def test_a_trace_is_replayed_alone_on_every_side_and_traced_on_ours(tmp_path):
    request = Request(trace=tmp_path, replay_connections=3, rounds=5, others=("kafka",))
    runs = [run for group in plan(request, 1) for run in group.runs]
    assert {(run.cell.client, run.cell.connections) for run in runs} == {(REPLAY, 3)}
    assert Counter((run.side.mode, run.traced) for run in runs) == {
        ("classic", False): 5, ("pipelined", False): 5, ("kafka", False): 5,
        ("classic", True): 3, ("pipelined", True): 3,
    }  # fmt: skip


@pytest.mark.usefixtures("forked_brokers")
def test_the_requests_of_a_trace_reach_both_sides_in_their_rounds(tmp_path):
    written(tmp_path / "requests.ring", 90)
    out = tmp_path / "out"
    arguments = ["--out", str(out), "--replay", str(tmp_path), "--rounds", "3", "--flush", "os", "--no-report"]
    result = CliRunner().invoke(compare, arguments)
    assert result.exit_code == 0, result.output
    folders = sorted((out / "raw").iterdir())
    described = {folder: json.loads((folder / "run.json").read_text()) for folder in folders}
    sent = Counter()
    for folder, run in described.items():
        rows = read_client(folder / "client-0.ring")
        assert all(row.measured and row.answered_ns is not None for row in rows)
        sent[run["mode"], run["traced"]] += len(rows)
    assert sent == dict.fromkeys([("classic", False), ("pipelined", False), ("classic", True), ("pipelined", True)], 90)
    assert {run["experiment"] for run in described.values()} == {"replay"}


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--in-flight", "5"], "--replay and --client run without a grid"),
        (["--sweep", "docs/guides/sweep.toml"], "leave --replay out"),
    ],
)
def test_a_trace_and_other_loads_are_a_usage_error(more, said, tmp_path):
    arguments = ["--out", str(tmp_path / "out"), "--replay", str(tmp_path), "--no-report", *more]
    result = CliRunner().invoke(compare, arguments)
    assert result.exit_code == 2
    assert said in result.output


def test_a_missing_trace_gives_a_one_line_error(tmp_path):
    result = CliRunner().invoke(compare, ["--out", str(tmp_path / "out"), "--replay", str(tmp_path), "--no-report"])
    assert result.exit_code == 1
    assert "No such file" in result.output
