"""A disk that fails ends the broker: nothing is acknowledged after it, and a start on what it left has all that was.

The faults are real ones: strace makes the system call fail in the broker. A full disk is another matter: see
`test_full_disk.py`.
"""

import os
import time

import pytest

from tests.crashes.broker_under_test import assert_failed_stop
from tests.crashes.lengths import drawn
from tests.crashes.scene import Scene
from tests.required import require_tool

pytestmark = [pytest.mark.faults]
MODES = pytest.mark.parametrize("mode", drawn("classic", "pipelined"))
CALLS_BEFORE_FAILURE = 40  # of one thread: a start needs fewer


def failing_calls(strace, name):
    """A prefix with which a program's system call fails, from a certain one on, in every thread."""
    inject = f"inject={name}:error=EIO:when={CALLS_BEFORE_FAILURE}+"
    return (strace, "-f", "-qq", "--seccomp-bpf", "-o", os.devnull, "-e", f"trace={name}", "-e", inject)


@pytest.mark.parametrize(
    ("mode", "call"), [("classic", "fdatasync"), ("pipelined", "fdatasync"), ("pipelined", "pwritev,pwritev2")]
)
def test_after_a_failed_call_nothing_is_acknowledged_and_the_process_ends(tmp_path, mode, call):
    """Case 18."""
    with Scene(1, tmp_path, mode=mode) as scene:
        scene.broker.prefix = failing_calls(require_tool("strace"), call)
        scene.start()
        scene.prepare()
        scene.load().join()
        assert_failed_stop(scene.broker, "Input/output error")
        acknowledged = scene.history.acknowledged_count
        assert acknowledged > 0
        scene.broker.prefix = ()
        scene.start()
        scene.verify()
        scene.resolve()
        scene.verify()
        assert scene.broker.stop() == 0


def test_a_slow_sync_delays_the_answer_and_nobody_is_told_before_it(tmp_path):
    delay_seconds = 0.2
    delayed = f"inject=fdatasync:delay_enter={int(delay_seconds * 1e6)}"
    prefix = (require_tool("strace"), "-f", "-qq", "-o", os.devnull, "-e", "trace=fdatasync", "-e", delayed)
    with Scene(3, tmp_path, prefix=prefix) as scene:
        scene.start()
        began = time.monotonic()
        scene.prepare()
        assert time.monotonic() - began > delay_seconds
