"""Commands as processes: closed pipes, Ctrl-C, terminals, shell completion, and the cost of imports."""

import contextlib
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SECONDS_MAX = 30
PROGRAM = [sys.executable, "-m", "pipeline_broker"]


@pytest.fixture
def environment(one_broker):
    return {
        **os.environ,
        "PIPELINE_BROKER_BOOTSTRAP_SERVER": one_broker.bootstrap_servers,
        "PYTHONPATH": str(ROOT),
        "TERM": "xterm",
    }


@contextlib.contextmanager
def started(environment, *arguments, **streams):
    process = subprocess.Popen(
        ["env", "--default-signal=INT", *PROGRAM, *arguments],  # the parent of the tests may ignore it
        env=environment,
        stderr=subprocess.PIPE,
        **{"stdout": subprocess.PIPE, "stdin": subprocess.DEVNULL, **streams},
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def test_a_closed_pipe_ends_it_silently(call, environment, name):
    call("produce", name, data=b"x" * 100 + b"\n" + b"line\n" * 100_000)
    with started(environment, "consume", name, "--follow") as process:
        assert process.stdout.readline()
        process.stdout.close()
        assert process.wait(SECONDS_MAX) == 0
        assert process.stderr.read() == b""


@pytest.mark.parametrize(
    ("number", "group"),
    [(signal.SIGINT, []), (signal.SIGINT, ["-g", "interrupted"]), (signal.SIGTERM, ["-g", "interrupted"])],
)
def test_a_signal_ends_a_group_member_after_its_commit(call, one_broker, environment, name, group, number):
    group = [it.replace("interrupted", name) for it in group]
    call("produce", name, "-p", 0, data=b"one\n")
    with started(environment, "consume", name, "--follow", *group) as process:
        assert process.stdout.readline() == b"one\n"
        process.send_signal(number)
        assert process.wait(SECONDS_MAX) == 128 + number
        assert process.stderr.read() == b""
    if group:
        assert one_broker.offsets(name) == {(name, 0): 1}
        assert [it.members for it in one_broker.groups() if it.group_id == name] in ([()], [[]])


def test_ctrl_c_ends_a_writer_that_waits_for_input(one_broker, environment, name):
    with started(environment, "produce", name, stdin=subprocess.PIPE) as process:
        process.stdin.write(b"one\n")
        process.stdin.flush()
        one_broker.wait_records(name)
        process.send_signal(signal.SIGINT)
        assert process.wait(SECONDS_MAX) == 130
        assert process.stderr.read() == b""


def test_lines_are_written_as_they_arrive(one_broker, environment, name):
    with started(environment, "produce", name, "--offsets", "-p", "0", stdin=subprocess.PIPE) as process:
        for number in range(3):
            process.stdin.write(b"line\n")
            process.stdin.flush()
            assert process.stdout.readline() == b"%d\t0\t%d\n" % (number + 1, number)
        process.communicate(timeout=SECONDS_MAX)
        assert process.returncode == 0


def on_terminal(environment, *arguments):
    """Return a command's output on a terminal, its exit code, and its standard output in a file."""
    ours, theirs = pty.openpty()
    with started(environment, *arguments, stdout=theirs, stdin=theirs) as process:
        os.close(theirs)
        shown = b""
        with contextlib.suppress(OSError):  # the other side is closed
            while data := os.read(ours, 65536):
                shown += data
        os.close(ours)
        return shown, process.wait(SECONDS_MAX)


def test_a_terminal_gets_no_control_characters(call, environment, name):
    call("produce", name, data=b"\x1b[31mred\xff\n")
    shown, code = on_terminal(environment, "consume", name)
    assert (shown, code) == (b"\\x1b[31mred\\xff\r\n", 0)


def test_headings_are_bold_on_a_terminal_unless_no_color_is_set(call, environment, name):
    call("topics", "create", name)
    shown, _ = on_terminal(environment, "topics", "list", name, "--long")
    assert shown.startswith(b"\x1b[1mTOPIC")
    shown, _ = on_terminal({**environment, "NO_COLOR": "1"}, "topics", "list", name, "--long")
    assert shown.startswith(b"TOPIC")


@pytest.mark.parametrize("no_color", [{}, {"NO_COLOR": "1"}])
def test_a_long_write_of_a_file_shows_progress_on_a_terminal(call, environment, name, tmp_path, no_color):
    (tmp_path / "lines").write_bytes(b"line\n" * 20_000)
    ours, theirs = pty.openpty()
    process = subprocess.run(
        [*PROGRAM, "produce", name, str(tmp_path / "lines")],
        env={**environment, **no_color},
        stderr=theirs,
        check=True,
        timeout=SECONDS_MAX,
    )
    os.close(theirs)
    shown = os.read(ours, 1 << 16)
    os.close(ours)
    assert process.returncode == 0
    assert b"/100.0 kB" in shown
    assert (b"\x1b[3" in shown) == (not no_color)


def test_a_long_write_is_silent_without_a_terminal(environment, name, tmp_path):
    (tmp_path / "lines").write_bytes(b"line\n" * 20_000)
    command = [*PROGRAM, "produce", name, str(tmp_path / "lines")]
    silent = subprocess.run(command, env=environment, capture_output=True, check=True, timeout=SECONDS_MAX)
    assert (silent.stdout, silent.stderr) == (b"", b"")


@pytest.fixture
def program(environment, tmp_path):
    """Put `pipeline-broker` on the PATH of a shell."""
    file = tmp_path / "pipeline-broker"
    file.write_text(f'#!/bin/sh\nexec {sys.executable} -m pipeline_broker "$@"\n')
    file.chmod(0o755)
    script = subprocess.run([*PROGRAM, "completion", "bash"], capture_output=True, check=True, env=environment)
    (tmp_path / "script").write_bytes(script.stdout)
    return file


def completed(program, environment, words):
    """Return bash's completions of the last word."""
    script = (
        'source "$SCRIPT"\n'
        'COMP_WORDS=(pipeline-broker "$@")\nCOMP_CWORD=$#\n'
        '_pipeline_broker_completion pipeline-broker\nprintf "%s\\n" "${COMPREPLY[@]}"\n'
    )
    found = subprocess.run(
        ["bash", "--norc", "-c", script, "bash", *words],
        env={**environment, "PATH": f"{program.parent}:{os.environ['PATH']}", "SCRIPT": str(program.parent / "script")},
        capture_output=True,
        text=True,
        check=True,
        timeout=SECONDS_MAX,
    )
    assert found.stderr == ""
    return found.stdout.split()


def test_bash_completes_commands_options_choices_topics_and_groups(call, environment, name, program):
    call("produce", name, data=b"x\n")
    call("consume", name, "-g", name)
    assert completed(program, environment, ["con"]) == ["consume", "config"]
    assert completed(program, environment, ["consume", name, "--iso"]) == ["--isolation"]
    assert completed(program, environment, ["topics", "describe", name]) == [name]
    assert completed(program, environment, ["groups", "describe", name]) == [name]
    assert completed(program, environment, ["topics", "describe", "-b", "127.0.0.1:1", name]) == []


@pytest.mark.parametrize(
    "arguments",
    [["--help"], ["topics", "--help"], ["consume", "--help"], ["produce", "--help"], ["config", "get", "-h"]],
)
def test_help_has_examples_and_loads_no_broker(environment, arguments):
    program = (
        "import sys\nfrom pipeline_broker.cli import main\n"
        "try: main(sys.argv[1:])\nexcept SystemExit as ended: assert not ended.code\n"
        "print(*sorted(sys.modules), file=sys.stderr)"
    )
    found = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=SECONDS_MAX,
    )
    loaded = found.stderr.split()
    assert {"rich", "confluent_kafka", "pipeline_broker.broker.broker"}.isdisjoint(loaded)
    if arguments == ["--help"]:
        assert {"trio", "pipeline_broker.client.cluster_client"}.isdisjoint(loaded)
    else:
        assert "pipeline-broker " in found.stdout.split("Examples:")[1]
