"""`pipeline-broker load` against a broker process, with one and with several processes."""

import json
import time
from collections import Counter
from importlib import import_module

import attrs
import pytest
from click.testing import CliRunner

from pipeline_broker.client.errors import ClientError
from pipeline_broker.commands.load import load
from pipeline_broker.measure.experiment.broker_process import BrokerSettings, running
from pipeline_broker.measure.load.options import LoadOptions
from pipeline_broker.measure.load.processes import run_processes, shared

load_command = import_module("pipeline_broker.commands.load")


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    folder = tmp_path_factory.mktemp("load")
    with running([BrokerSettings("pipelined", folder / "data", flush="os", trace=folder / "trace")]) as (only,):
        yield only, folder / "trace"


def run(address, *arguments, code=0):
    result = CliRunner().invoke(load, [address, "--seconds", "0.3", *arguments])
    assert result.exit_code == code, result.output
    return result.output


def address_of(broker):
    return f"{broker[0].host}:{broker[0].port}"


@pytest.mark.parametrize(
    "arguments",
    [
        ["--connections", "3", "--in-flight", "5"],
        ["--rate", "300", "--arrivals", "poisson", "--connections", "2"],
        ["--think-time", "2ms", "--in-flight", "3"],
        ["--batch", "20", "--compression", "zstd", "--keys", "30", "--key-skew", "1"],
        ["--idempotent", "--connections", "2"],
        ["--read-share", "0.4", "--read-bytes", "2000", "--in-flight", "4"],
        ["--acks", "1", "--partitions", "2"],
    ],
)
def test_every_kind_of_load_is_answered_without_an_error(broker, arguments):
    found = json.loads(run(address_of(broker), "--json", *arguments))
    assert found["requests"] > 0
    assert (found["errors"], found["order_violations"]) == (0, 0)
    assert found["answered"] == found["requests"]


def test_processes_share_the_connections_and_the_rate(broker):
    arguments = ["--processes", "3", "--connections", "4", "--rate", "400", "--seconds", "1.0", "--warmup", "200ms"]
    found = json.loads(run(address_of(broker), "--json", *arguments))
    assert found["processes"] == 3
    assert found["errors"] == 0
    assert abs(found["requests"] - 320) <= 1, "0.8 s of 400 a second"


def test_connections_and_send_times_are_divided_evenly():
    parts = shared(LoadOptions("h", 1, connections=5), 3)
    assert [part.connections for part in parts] == [2, 2, 1]
    places = [part.share + index * part.shares for part in parts for index in range(part.connections)]
    assert sorted(places) == list(range(5))
    assert {part.connections_together for part in parts} == {5}


def test_a_recorded_trace_is_replayed(broker, tmp_path):
    address, trace = address_of(broker), broker[1]
    run(address, "--connections", "2", "--in-flight", "1", "--rate", "50")
    recorded = tmp_path / "requests.ring"
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline and len((trace / "requests.ring").read_bytes()) < 2_000:
        time.sleep(0.05)
    recorded.write_bytes((trace / "requests.ring").read_bytes())
    found = json.loads(run(address, "--json", "--replay", str(recorded), "--speed", "20"))
    assert found["requests"] > 10
    assert found["errors"] == 0


def test_a_histogram_is_written(broker, tmp_path):
    file = tmp_path / "histogram.json"
    run(address_of(broker), "--histogram", str(file))
    curve = json.loads(file.read_text())["produce"]
    assert curve[-1][1] == 1.0
    assert curve == sorted(curve)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--acks", "0"], "give a rate"),
        (["--replay", "/nowhere/requests.ring"], "No such file"),
        (["--replay", "requests.ring", "--processes", "2"], "--replay runs in one process"),
        (["--warmup", "2s"], "the warm-up lasts the whole run"),
        (["--think-time", "soon"], "is not a time"),
    ],
)
def test_an_invalid_option_is_one_line(broker, arguments, message):
    result = CliRunner().invoke(load, [address_of(broker), "--seconds", "0.3", *arguments])
    assert result.exit_code in {1, 2}
    assert message in result.output


@pytest.mark.parametrize("processes", ["1", "2"])
def test_a_port_without_a_broker_is_one_line(processes):
    result = CliRunner().invoke(load, ["127.0.0.1:1", "--connections", "2", "--processes", processes])
    assert result.exit_code == 1
    assert result.output.startswith("Error: cannot connect to 127.0.0.1:1")
    assert result.output.count("\n") == 1


@pytest.mark.parametrize(
    ("wrong", "told"),
    [({"order_violations": 1}, "out of order 1"), ({"errors": Counter({7: 2})}, "errors 2")],
    ids=["order", "errors"],
)
def test_answers_out_of_order_or_with_errors_are_a_failure(broker, monkeypatch, wrong, told):
    monkeypatch.setattr(load_command, "_run", lambda *given, run=load_command._run: attrs.evolve(run(*given), **wrong))
    assert told in run(address_of(broker), code=1)


def test_a_failing_process_ends_the_run():
    with pytest.raises(ClientError, match="cannot connect"):
        run_processes(LoadOptions("127.0.0.1", 1, connections=2, timeout_s=5), 2)
