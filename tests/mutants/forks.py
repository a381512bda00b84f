"""Works in forks of this process, several at a time, each with what everything imported so far made.

Rules: a fork has a process group and a folder of its own, prints nothing, and runs no exit handler of this process;
what it leaves behind is ended with it. Its result comes through a pipe; one that takes longer than its time has none.
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


@attrs.frozen
class Job:
    """`work` is called in the fork with a folder; its result is None where it takes longer than that.

    Attributes:
        seconds_max: by the clock.
        processor_seconds_max: of the processor, rounded up, which others on the machine do not make less.
    """

    name: Any
    work: Callable[[Path], Any]
    seconds_max: float
    processor_seconds_max: float = math.inf


@attrs.define
class _Fork:
    job: Job
    pid: int
    descriptor: int
    folder: Path
    deadline: float
    started: float
    said: bytes = b""


def run_forked(jobs: Iterable[Job], workers: int) -> Iterator[tuple[Job, Any, float]]:
    """Each job with its result and its seconds, in the order in which they end."""
    waiting, at_work = iter(jobs), {}
    with selectors.DefaultSelector() as selector:
        while True:
            while len(at_work) < workers and (job := next(waiting, None)) is not None:
                fork = _start(job)
                at_work[fork.descriptor] = fork
                selector.register(fork.descriptor, selectors.EVENT_READ)
            if not at_work:
                return
            ended = []
            for key, _ in selector.select(0.2):
                fork = at_work[key.fd]
                if said := os.read(key.fd, 1 << 16):
                    fork.said += said
                else:
                    ended.append(fork)
            ended += [it for it in at_work.values() if it not in ended and time.monotonic() > it.deadline]
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
            if job.processor_seconds_max < math.inf:
                most = math.ceil(job.processor_seconds_max)
                resource.setrlimit(resource.RLIMIT_CPU, (most, most))
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
