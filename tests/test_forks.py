"""A fork behaves like a new process, and is found if it is leaked."""

import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.belongings import belongings
from tests.conftest import ROOT, read_line
from tests.forks import PARENT, Fork, start_python

SECONDS_MAX = 30.0
SERVE = ("serve", "--port", "0", "--data")


@pytest.fixture
def started(tmp_path):
    """Starts a program of the package; kills it at the end if it still runs."""
    processes = []

    def start(*arguments, **options):
        with (tmp_path / f"stderr-{len(processes)}").open("wb") as stderr:
            processes.append(start_python(arguments, stderr, **options))
        return processes[-1]

    yield start
    for process in processes:
        process.kill()
        process.wait()
        process.stdout.close()


def open_files(process):
    return {path.name: str(path.readlink()) for path in Path(f"/proc/{process}/fd").iterdir()}


def test_it_has_its_arguments_its_variables_its_group_and_nothing_open(started, tmp_path):
    broker = started(*SERVE, tmp_path / "data", environment={"OF_THIS_TEST": "1"}, process_group=0)
    assert isinstance(broker, Fork)
    assert str(tmp_path / "data") in read_line(broker, SECONDS_MAX)
    assert os.getpgid(broker.pid) == broker.pid != os.getpgid(PARENT.pid)
    files, of_parent = open_files(broker.pid), open_files(PARENT.pid)
    assert (files["0"], files["2"]) == (os.devnull, str(tmp_path / "stderr-0"))
    assert not {of_parent["0"], of_parent["1"]} & {*files.values()}
    assert b"OF_THIS_TEST" not in Path(f"/proc/{PARENT.pid}/environ").read_bytes()


def test_it_may_run_a_file(started, tmp_path):
    (tmp_path / "program.py").write_text("import sys; from tests.conftest import ROOT; print(sys.argv, __name__, ROOT)")
    program = started("more", program=(str(tmp_path / "program.py"), "first"))
    assert isinstance(program, Fork)
    assert read_line(program, SECONDS_MAX) == f"{[str(tmp_path / 'program.py'), 'first', 'more']} __main__ {ROOT}"
    assert program.wait(SECONDS_MAX) == 0


def test_it_ends_like_any_process(started, tmp_path):
    broker = started(*SERVE, tmp_path / "data")
    read_line(broker, SECONDS_MAX)
    with pytest.raises(subprocess.TimeoutExpired):
        broker.wait(0.01)
    assert broker.poll() is None
    broker.send_signal(signal.SIGTERM)
    assert broker.wait(SECONDS_MAX) == broker.poll() == 0
    assert broker.stdout.read() == b""
    killed, refused = started(*SERVE, tmp_path / "data"), started("no-such-command")
    killed.kill()
    assert killed.wait(SECONDS_MAX) == -signal.SIGKILL
    assert refused.wait(SECONDS_MAX) == 2
    assert "no-such-command" in (tmp_path / "stderr-2").read_text(encoding="utf-8")


def test_a_fork_reads_the_standard_input_that_it_is_given(started, tmp_path):
    echo, given = tmp_path / "echo.py", tmp_path / "given"
    echo.write_text("print(input())")
    given.write_text("hello\n")
    with given.open("rb") as stdin:
        process = started(program=(str(echo),), stdin=stdin)
    assert isinstance(process, Fork)
    assert process.stdout.read() == b"hello\n"
    assert process.wait(SECONDS_MAX) == 0


@pytest.mark.parametrize(
    "options",
    [{"prefix": ("env",)}, {"program": ("-P", "-m", "pipeline_broker")}, {"environment": {"PYTHONHASHSEED": "1"}}],
)
def test_variables_that_python_reads_at_startup_need_a_new_interpreter(options, started):
    process = started("--version", **options)
    assert isinstance(process, subprocess.Popen)
    assert process.wait(SECONDS_MAX) == 0


def test_a_leaked_fork_is_found(started, tmp_path):
    before = belongings()
    broker = started(*SERVE, tmp_path / "data")
    assert f"process {broker.pid}:" in str(belongings().others(before))
    assert PARENT.pid not in belongings().children
    broker.kill()
    broker.wait()
    assert not belongings().others(before).children
