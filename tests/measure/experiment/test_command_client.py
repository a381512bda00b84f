"""A user's command is measured by the lines that it prints, or by the requests that the broker received."""

import json
import shlex
import sys
from collections import Counter

import attrs
import pytest
from click.testing import CliRunner

from pipeline_broker.commands.compare import compare
from pipeline_broker.measure.experiment.broker_process import ExperimentError, FoundBroker
from pipeline_broker.measure.experiment.command_client import run_command
from pipeline_broker.measure.experiment.plan import Request, plan
from pipeline_broker.measure.experiment.rounds import pairs
from pipeline_broker.traces.client_rows import read_client

HERE = FoundBroker("127.0.0.1", 9)
SENDS = """
import sys, trio
from pipeline_broker.measure.load.client import run_load
from pipeline_broker.measure.load.options import LoadOptions
host, _, port = sys.argv[1].rpartition(":")
found = run_load(LoadOptions(host, int(port), 1, 1, seconds=0.2, warmup_s=0.0, topic="own"))
print(len(found.rows))
"""


def python(program, *arguments):
    return shlex.join([sys.executable, "-c", program, *arguments])


def test_lines_with_both_times_are_messages_and_others_are_ignored():
    lines = [
        {"sent_ns": 5, "done_ns": 9}, {"sent_ns": 9, "done_ns": 9}, {"sent_ns": 9, "done_ns": 5}, {"sent_ns": 1},
        {"sent_ns": True, "done_ns": 9}, {"sent_ns": 1.5, "done_ns": 9}, {"sent_ns": 1, "done_ns": 1 << 63}, [1, 2], 7,
    ]  # fmt: skip
    text = "\n".join([*map(json.dumps, lines), "done", "[" * 10_000, "\x00"])
    found = run_command(python(f"print({text!r})"), HERE)
    assert [(row.sent_ns, row.answered_ns) for row in found.rows] == [(5, 9), (9, 9)]
    assert all(row.measured and row.error == 0 for row in found.rows)
    assert found.started_ns < found.ended_ns
    assert found.client_cpu_share > 0


def test_the_address_replaces_its_placeholder():
    program = (
        "import sys, json; assert sys.argv[1] == 'at=127.0.0.1:9'; print(json.dumps({'sent_ns': 1, 'done_ns': 2}))"
    )
    assert len(run_command(python(program, "at={bootstrap}"), HERE).rows) == 1


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("/no/such/program {bootstrap}", "/no/such/program: No such file"),
        (python("import sys; sys.exit('it hurts')"), "ended with exit code 1: it hurts"),
        (python("import sys; sys.exit('x' * 200_000 + '\\nat the end')"), "ended with exit code 1: at the end"),
        (python("import sys; sys.exit(3)"), "ended with exit code 3: it wrote no error"),
        (python("pass"), "sent no request, and printed no line with sent_ns and done_ns"),
    ],
)
def test_a_failing_command_gives_a_one_line_error(command, message):
    with pytest.raises(ExperimentError, match=message):
        run_command(command, HERE)


def test_a_command_that_takes_too_long_is_stopped(monkeypatch):
    monkeypatch.setattr("pipeline_broker.measure.experiment.command_client.COMMAND_S_MAX", 0.2)
    with pytest.raises(ExperimentError, match=r"did not end within 0\.2 s"):
        run_command(python("import time; time.sleep(60)"), HERE)


def test_every_run_of_a_command_has_its_own_broker():
    groups = plan(Request(command="x {bootstrap}", rounds=4), 1)
    driven = [pair for group in groups for pair in pairs(group)]
    assert [len(group.runs) for group in groups] == [2] * 7, "a pair of sides, in four rounds and three traced ones"
    assert Counter(pair[0].traced for pair in driven) == {False: 4, True: 3}
    assert {attrs.astuple(pair[0].cell)[:3] for pair in driven} == {("command", 0, 1)}


@pytest.mark.usefixtures("forked_brokers")
def test_a_command_without_lines_is_measured_by_the_brokers_trace(tmp_path):
    out = tmp_path / "out"
    command = f"{python(SENDS)} {{bootstrap}}"
    arguments = ["--out", str(out), "--client", command, "--rounds", "1", "--flush", "os", "--no-report"]
    result = CliRunner().invoke(compare, arguments)
    assert result.exit_code == 0, result.output
    for folder in sorted((out / "raw").iterdir()):
        run = json.loads((folder / "run.json").read_text())
        rows = read_client(folder / "client-0.ring")
        assert rows
        assert all(run["started_ns"] <= row.sent_ns <= row.answered_ns <= run["ended_ns"] for row in rows)
        assert {file.name for file in folder.glob("requests*.ring")} == ({"requests.ring"} if run["traced"] else set())
        assert (run["client"], run["experiment"]) == ("command", "command")


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--client", "produce.py"], "--client has no {bootstrap}: write {bootstrap} in place"),
        (["--client", "x {bootstrap}", "--replay", "trace"], "leave one of them out"),
        (["--client", "x {bootstrap}", "--connections", "5"], "run without a grid"),
        (["--client", "x {bootstrap}", "--sweep", "docs/guides/sweep.toml"], "leave --client out"),
    ],
)
def test_a_command_and_other_loads_are_a_usage_error(more, said, tmp_path):
    result = CliRunner().invoke(compare, ["--out", str(tmp_path / "out"), "--no-report", *more])
    assert result.exit_code == 2
    assert said in " ".join(result.output.split())
