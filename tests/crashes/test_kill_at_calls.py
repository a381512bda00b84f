"""A broker that is killed exactly at a system call, while it serves and again while it recovers, loses nothing.

strace kills it as it enters the call, so that what the call would have done is not done. The segments are small: they
are prepared, renamed and filled many times a second, and every start has something to cut off or to go on with.
"""

import contextlib
import itertools
import os
import signal
import time

import pytest

from pipeline_broker.log.journal.clean_shutdown import MARK_NAME, WRITING_NAME
from tests.crashes.broker_under_test import StartFailed
from tests.crashes.ledger import CYCLES
from tests.crashes.lengths import drawn
from tests.crashes.scene import Scene
from tests.required import require_tool

pytestmark = [pytest.mark.faults, pytest.mark.kill]
ROUNDS = max(1, CYCLES // 20)
SERVING_SECONDS_MAX = 30.0
RECOVERING_SECONDS_MAX = 1.0  # not every recovery makes every call
WRITES = "pwritev,pwritev2"
ACKNOWLEDGED_MIN = 50
POLL_SECONDS = 0.01


def killing_at(strace, calls, number, path=None):
    """A prefix that kills a program when one of its threads enters its nth such call, on a path if one is given.

    (Without --seccomp-bpf, with which strace injects errors but no signals.)
    """
    inject = f"inject={calls}:signal=KILL:when={number}"
    on_path = () if path is None else ("-P", str(path))
    return (strace, "-f", "-qq", "-o", os.devnull, *on_path, "-e", f"trace={calls}", "-e", inject)


@pytest.mark.parametrize(
    ("serving", "recovering"),
    drawn(("rename", "fdatasync"), (WRITES, "unlink"), ("fdatasync", "ftruncate"), ("fsync", WRITES)),
)
def test_killed_at_a_call_and_again_in_recovery_it_loses_nothing(tmp_path, serving, recovering):
    """Cases 2, 3, 4 and 9."""
    strace = require_tool("strace")
    modes = itertools.cycle(["classic", "pipelined"])
    with Scene(serving, tmp_path, variant="rolling") as scene:
        scene.start()
        scene.prepare()
        for _ in range(ROUNDS):
            assert scene.broker.stop() == 0
            mode = next(modes)
            scene.broker.prefix = killing_at(strace, serving, scene.random.randint(3, 12))
            with contextlib.suppress(StartFailed):  # the nth such call may be one of the start
                scene.start(mode)
                load = scene.load()
                assert scene.broker.kill_after_end(SERVING_SECONDS_MAX), f"{serving} was not called"
                load.join()
            scene.broker.prefix = killing_at(strace, recovering, scene.random.randint(1, 2))
            scene.broker.launch(mode, "always")
            scene.broker.kill_after_end(RECOVERING_SECONDS_MAX)
            scene.broker.prefix = ()
            scene.start(mode)
            scene.verify()


@pytest.mark.parametrize(
    ("calls", "name"),
    [("openat", WRITING_NAME), (WRITES, WRITING_NAME), ("fdatasync", WRITING_NAME), ("rename", WRITING_NAME)],
)
def test_killed_while_it_marks_its_clean_shutdown_it_loses_nothing(tmp_path, calls, name):
    strace = require_tool("strace")
    with Scene(name + calls, tmp_path, variant="rolling") as scene:
        scene.start()
        scene.prepare()
        assert scene.broker.stop() == 0
        mark = scene.broker.data.resolve() / MARK_NAME
        assert mark.exists()
        scene.broker.prefix = killing_at(strace, calls, 1, mark.with_name(name))
        scene.start()
        assert not mark.exists(), "a crash from here on is none that was prepared for"
        load = scene.load()
        deadline = time.monotonic() + SERVING_SECONDS_MAX
        while scene.history.acknowledged_count < ACKNOWLEDGED_MIN:
            assert time.monotonic() < deadline, "nothing is acknowledged"
            time.sleep(POLL_SECONDS)
        os.killpg(scene.broker.process.pid, signal.SIGTERM)  # strace itself does not mind it
        assert scene.broker.kill_after_end(SERVING_SECONDS_MAX), f"{calls} was not called"
        load.join()
        assert not mark.exists()
        scene.broker.prefix = ()
        scene.start()
        scene.verify()
