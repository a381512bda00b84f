"""The check for leaked resources finds leaks, and only leaks."""

import gc
import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import trio

from tests.belongings import belongings, left_behind
from tests.conftest import GIVE_BACK_SECONDS_MAX, ROOT

SOON = 0.1
CONFTEST = f"""
from tests import conftest
from tests.conftest import _leaves_nothing_behind, pytest_runtest_teardown

conftest.GIVE_BACK_SECONDS_MAX = {SOON}
"""
LEAKS = """
import pytest, socket, subprocess, sys, threading
kept = []

@pytest.fixture(scope="module")
def of_all():
    kept.append(socket.socket())

@pytest.mark.parametrize("take", [
    socket.socket,
    lambda: subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE),
    lambda: threading.Thread(target=threading.Event().wait, daemon=True).start(),
], ids=["descriptor", "process", "thread"])
def test_leaves(take, of_all):
    kept.append(take())
    # the fixtures of a module stay
def test_leaves_nothing(of_all):
    pass
"""


KEEPS_A_BROKER = """
def test_takes_the_broker_of_the_session(kafka_broker):
    pass
"""


def test_a_test_that_leaks_a_resource_fails_and_names_it(tmp_path):
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_session_broker.py").write_text(KEEPS_A_BROKER)
    (tmp_path / "test_leaks.py").write_text(LEAKS)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--rootdir={tmp_path}"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path, env=environment)
    assert "5 passed, 4 errors" in done.stdout, done.stdout
    assert "ERROR test_session_broker.py" in done.stdout
    for kind, words in (("descriptor", "socket:"), ("process", "process "), ("thread", "thread Thread-1")):
        assert f"ERROR test_leaks.py::test_leaves[{kind}]" in done.stdout
        assert words in done.stdout


@pytest.fixture
def before():
    return belongings()


def test_a_closed_descriptor_is_not_leaked(before):
    first, second = socket.socketpair()
    first.close()
    left = left_behind(before, SOON)
    assert left.descriptors == {"socket:": 1}
    assert str(left) == "descriptor of socket:"
    second.close()
    assert not left_behind(before, SOON)


def test_an_object_in_a_reference_cycle_is_not_leaked(before):
    cycle = [Path("/dev/zero").open("rb")]  # noqa: SIM115 - left open on purpose
    cycle.append(cycle)
    gc.disable()
    try:
        del cycle
        with pytest.warns(ResourceWarning, match="unclosed file"):
            assert not left_behind(before, SOON)
    finally:
        gc.enable()


def test_a_reference_cycle_of_an_ending_thread_is_not_leaked(before):
    def run():
        cycle = [Path("/dev/zero").open("rb")]  # noqa: SIM115 - left open on purpose
        cycle.append(cycle)
        time.sleep(SOON)

    threading.Thread(target=run).start()
    with pytest.warns(ResourceWarning, match="unclosed file"):
        assert not left_behind(before, GIVE_BACK_SECONDS_MAX)


def test_a_process_is_leaked_until_it_is_awaited(before):
    process = subprocess.Popen([sys.executable, "-c", ""])
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert str(left_behind(before, SOON)) == f"process {process.pid}: is a zombie: its exit was not awaited"
    process.wait()
    assert not left_behind(before, SOON)


def test_resources_have_a_grace_period_and_idle_threads_of_trio_are_not_leaked(before):
    threading.Timer(SOON / 2, bool).start()
    trio.run(trio.to_thread.run_sync, bool)
    assert not left_behind(before, GIVE_BACK_SECONDS_MAX)
