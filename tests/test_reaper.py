"""A killed run of tests leaves no process behind."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests import reaper
from tests.reaper import MARK, marked
from tests.waiting import wait_readable

ROOT = Path(__file__).parents[1]
RUN = """
import os, subprocess, sys, time
sys.path.insert(0, {root!r})
from tests import reaper
reaper.start()
child = subprocess.Popen(["sleep", "600"])
print(os.environ[reaper.MARK], flush=True)
time.sleep(600)
"""


def wait_until_none_has(mark):
    deadline = time.monotonic() + 20
    while processes := marked(mark):
        assert time.monotonic() < deadline, f"left behind: {processes}"
        time.sleep(0.05)


def mark_of(process):
    wait_readable(process.stdout, 20)
    return process.stdout.readline().decode().strip()


def test_the_children_of_a_killed_run_end():
    with subprocess.Popen([sys.executable, "-c", RUN.format(root=str(ROOT))], stdout=subprocess.PIPE) as run:
        mark = mark_of(run)
        assert len(marked(mark)) >= 1  # the run itself was started without a mark
        run.kill()
        wait_until_none_has(mark)


def test_a_run_ends_with_the_make_that_started_it(tmp_path):
    program = tmp_path / "run.py"
    program.write_text(RUN.format(root=str(ROOT)), encoding="utf-8")
    (tmp_path / "Makefile").write_text(f"run:\n\t@{sys.executable} {program}\n", encoding="utf-8")
    make = ["make", "-C", str(tmp_path), "--no-print-directory", "run"]
    with subprocess.Popen(make, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as run:
        mark = mark_of(run)
        os.kill(run.pid, signal.SIGKILL)
        wait_until_none_has(mark)


def test_a_run_ends_whose_make_ended_before_its_reaper_looked():
    ended = subprocess.Popen(["true"])
    ended.wait()
    run = subprocess.Popen(["sleep", "600"])
    command = [sys.executable, "-S", reaper.__file__, "a mark of no process", str(run.pid), str(ended.pid)]
    try:
        subprocess.run(command, check=True, timeout=20)
        assert run.wait(5) == -signal.SIGKILL
    finally:
        run.kill()
        run.wait()


def test_this_run_has_a_reaper():
    assert os.environ[MARK]
