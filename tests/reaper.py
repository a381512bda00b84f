"""A process that ends all processes of a test run once the run, or the make that started it, is killed.

A killed pytest runs no fixture, so Apache Kafka, brokers and browsers would stay. Every process of a run inherits a
mark in its environment; the reaper, which has no mark, finds them by it.
"""

import contextlib
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

MARK = "PIPELINE_BROKER_TEST_RUN"
ROUNDS_MAX = 50
"""A dying process may have started another one in the meantime."""


def start():
    """Mark this process and start its reaper; call it in the process that controls the run."""
    os.environ[MARK] = mark = f"{os.getpid()}-{time.monotonic_ns()}"
    parent = os.getppid()
    is_make = Path(f"/proc/{parent}/comm").read_text(encoding="utf-8").strip() == "make"
    # Other parents may end first on purpose, such as the shell of a run in the background.
    watched = [os.getpid(), *([parent] if is_make else [])]
    subprocess.Popen(
        [sys.executable, "-S", __file__, mark, *map(str, watched)],
        env={},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # so that Ctrl-C ends the run, and then the reaper what is left
    )


def marked(mark):
    """Return the ids of the processes with a mark."""
    wanted = f"{MARK}={mark}".encode()
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):  # of another user, or gone
            if wanted in path.read_bytes().split(b"\0"):
                found.append(int(path.parent.name))
    return found


def main(mark, run, *others):
    with contextlib.suppress(ProcessLookupError):  # ended already
        # Opened before the others: if the make has ended by now, the run must end too, or it would start processes.
        running = os.pidfd_open(int(run))
        with contextlib.suppress(ProcessLookupError):
            select.select([running, *(os.pidfd_open(int(process)) for process in others)], [], [])
        # The run itself got its mark too late for its own /proc entry.
        signal.pidfd_send_signal(running, signal.SIGKILL)
    for _ in range(ROUNDS_MAX):
        processes = marked(mark)
        if not processes:
            break
        for process in processes:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        time.sleep(0.1)


if __name__ == "__main__":
    main(*sys.argv[1:])
