"""Works in forks of this process, several at a time, each with what everything imported so far made.

Rules: a fork has a process group and a folder of its own, prints nothing, and runs no exit handler of this process;
what it leaves behind is ended with it. Its result comes through a pipe; one that takes longer than its time has none,
nor has one that waits for what never comes: neither it nor what it started runs, or is ready to.
"""

import math
import os
import pickle
import resource
import selectors
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import attrs

IDLE_SECONDS_MAX = 6.0
"""After so long without work a fork is stuck: no test waits so long for the clock."""
LOOK_SECONDS = 0.2
WORK_SECONDS_MIN = 0.1
"""Less is no work: what looks again and again for what never comes takes a little."""


@attrs.frozen
class Job:
    """`work` is called in the fork with a folder; its result is None where it takes longer than that by the clock."""

    name: Any
    work: Callable[[Path], Any]
    seconds_max: float


@attrs.define
class _Fork:
    job: Job
    pid: int
    descriptor: int
    folder: Path
    deadline: float
    started: float
    said: bytes = b""
    looked_at: float = attrs.field(default=attrs.Factory(lambda self: self.started, takes_self=True))
    worked_seconds: float = 0.0
    idle_seconds: float = 0.0

    def is_over(self, now: float) -> bool:
        """Whether it has had its time, or is stuck."""
        worked_seconds, is_ready = _work(self.pid)
        if abs(worked_seconds - self.worked_seconds) >= WORK_SECONDS_MIN:  # less where a thread has ended
            self.worked_seconds, self.idle_seconds = worked_seconds, 0.0
        elif not is_ready:
            self.idle_seconds += now - self.looked_at
        self.looked_at = now
        return now > self.deadline or self.idle_seconds > IDLE_SECONDS_MAX


def limit_processor(seconds: float) -> None:
    """End this process when it has taken so much more of the processor, rounded up."""
    most = math.ceil(time.process_time() + seconds)
    resource.setrlimit(resource.RLIMIT_CPU, (most, resource.RLIM_INFINITY))


def _work(pid: int) -> tuple[float, bool]:
    """The processor's seconds of a process, its threads and what it started; whether one is ready for more of it."""
    ticks, is_ready, processes = 0, False, [pid]
    while processes:
        with suppress(FileNotFoundError, ProcessLookupError):  # it has ended meanwhile
            for thread in Path(f"/proc/{processes.pop()}/task").iterdir():
                state, *fields = (thread / "stat").read_bytes().rpartition(b") ")[2].split()
                ticks += int(fields[10]) + int(fields[11])  # of its own code and in the system
                is_ready |= state in (b"R", b"D")
                processes += map(int, (thread / "children").read_bytes().split())
    return ticks / os.sysconf("SC_CLK_TCK"), is_ready


def run_forked(jobs: Iterable[Job], workers: int) -> Iterator[tuple[Job, Any, float]]:
    """Each job with its result and its seconds, in the order in which they end."""
    waiting, at_work, look_at = iter(jobs), {}, 0.0
    with selectors.DefaultSelector() as selector:
        while True:
            while len(at_work) < workers and (job := next(waiting, None)) is not None:
                fork = _start(job)
                at_work[fork.descriptor] = fork
                selector.register(fork.descriptor, selectors.EVENT_READ)
            if not at_work:
                return
            ended = []
            for key, _ in selector.select(LOOK_SECONDS):
                fork = at_work[key.fd]
                if said := os.read(key.fd, 1 << 16):
                    fork.said += said
                else:
                    ended.append(fork)
            if (now := time.monotonic()) >= look_at:
                ended += [it for it in at_work.values() if it not in ended and it.is_over(now)]
                look_at = now + LOOK_SECONDS
            for fork in ended:
                del at_work[fork.descriptor]
                selector.unregister(fork.descriptor)
                _end(fork)
                yield fork.job, pickle.loads(fork.said) if fork.said else None, time.monotonic() - fork.started


def _start(job: Job) -> _Fork:
    reading, writing = os.pipe()
    folder = Path(tempfile.mkdtemp(prefix="mutants-"))
    pid = os.fork()
    if not pid:
        try:
            os.close(reading)
            os.setsid()
            nothing = os.open(os.devnull, os.O_RDWR)
            for standard in range(3):
                os.dup2(nothing, standard)
            result = pickle.dumps(job.work(folder))
            while result:
                result = result[os.write(writing, result) :]
        finally:
            os._exit(0)
    os.close(writing)
    now = time.monotonic()
    return _Fork(job, pid, reading, folder, now + job.seconds_max, now)


def _end(fork: _Fork) -> None:
    with suppress(ProcessLookupError):  # it has no group yet, or none is left of it
        os.killpg(fork.pid, signal.SIGKILL)
    with suppress(ProcessLookupError):
        os.kill(fork.pid, signal.SIGKILL)
    os.waitpid(fork.pid, 0)
    os.close(fork.descriptor)
    shutil.rmtree(fork.folder, ignore_errors=True)
