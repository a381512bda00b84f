"""Worker processes for untrusted input: one for short work, and one for work that turned out to be long.

`worker.child` is their program. A process starts with its first work, and ends after IDLE_SECONDS without any. It does
one piece of work at a time; the clients take turns. Work that takes too long, or whose caller was cancelled, ends with
the process: nothing else stops a C library.
"""

from __future__ import annotations

import contextlib
import math
import os
import pickle
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Hashable, Sequence
from typing import Any

import trio

from pipeline_broker.worker.child import HEAD_BYTES, READY, Outcome
from pipeline_broker.worker.fair_queue import FairQueue
from pipeline_broker.worker.work import (
    OUTCOME_BYTES_MAX,
    WORK_BYTES_MAX,
    BusyError,
    TookTooLongError,
    Work,
    WorkFailedError,
)

__all__ = ["IDLE_SECONDS", "SHORT_SECONDS", "WAITING_MAX", "WORK_SECONDS_MAX", "WorkerProcess", "Workers"]

IDLE_SECONDS = 30.0
"""Idle time after which a process ends."""
SHORT_SECONDS = 0.5
"""CPU time of short work. Longer work starts again in the process for long work, once other work waits."""
WORK_SECONDS_MAX = 10.0
"""Time limit of one piece of work."""
# Time limit for the imports of a process, on a machine that may be busy.
START_SECONDS_MAX = 30.0
# The kernel's CPUCLOCK_SCHED of posix-timers.h: the clock of the CPU time of a process.
CPU_CLOCK = 2
WAITING_MAX = 256
"""Jobs that may wait for one worker process. The HTTP servers have fewer connections."""
PROGRAM = "pipeline_broker.worker.child"


class _PreemptedError(Exception):
    pass


class _Job:
    __slots__ = ("ended", "error", "is_abandoned", "outcome", "work")

    def __init__(self, work: Work) -> None:
        self.work = work
        self.ended = trio.Event()
        self.outcome: Outcome = ("failed", "")
        self.error: Exception | None = None
        self.is_abandoned = False

    def end(self, outcome: Outcome) -> None:
        self.outcome = outcome
        self.ended.set()

    def fail(self, error: Exception) -> None:
        self.error = error
        self.ended.set()

    def result(self) -> Any:
        if self.error is not None:
            raise self.error
        kind, value = self.outcome
        if kind == "returned":
            return value
        raise value if kind == "raised" else WorkFailedError(value)


class _Child:
    """A running process with its pipes, and a temporary directory for libraries.

    Raises:
        OSError: the process cannot be started.
    """

    def __init__(self, modules: Sequence[str]) -> None:
        self._directory = tempfile.mkdtemp(prefix="pipeline-broker-worker-")
        try:
            # In the thread of the event loop: the kernel kills the child when the thread that started it ends.
            self._process = subprocess.Popen(  # noqa: S603 - a program of this package
                # -P: a module in the current directory must not replace one of ours.
                [sys.executable, "-P", "-m", PROGRAM, str(os.getpid()), *modules],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "TMPDIR": self._directory},
                process_group=0,  # so that Ctrl-C signals the broker only
            )
        except BaseException:
            shutil.rmtree(self._directory, ignore_errors=True)
            raise
        assert self._process.stdin is not None, "a pipe"
        assert self._process.stdout is not None, "a pipe"
        # Trio gets duplicates and closes them; the originals are closed here.
        with self._process.stdin as stdin, self._process.stdout as stdout:
            self._work = trio.lowlevel.FdStream(os.dup(stdin.fileno()))
            self._outcomes = trio.lowlevel.FdStream(os.dup(stdout.fileno()))

    async def wait_ready(self) -> None:
        """Return when the process has imported its modules or has ended, or after START_SECONDS_MAX."""
        with trio.move_on_after(START_SECONDS_MAX):
            await self._outcomes.receive_some(len(READY))

    @property
    def cpu_seconds(self) -> float:
        return time.clock_gettime(~self._process.pid << 3 | CPU_CLOCK)

    async def do(self, work: Work) -> Outcome:
        try:
            frame = pickle.dumps(work)
            if len(frame) > WORK_BYTES_MAX:
                return "failed", f"it is larger than {WORK_BYTES_MAX >> 20} MiB"
            await self._work.send_all(len(frame).to_bytes(HEAD_BYTES) + frame)
            size = int.from_bytes(await self._receive(HEAD_BYTES))
            if 0 < size <= OUTCOME_BYTES_MAX:
                outcome: Outcome = pickle.loads(await self._receive(size))  # noqa: S301 - from a process of this broker
                return outcome
        except (trio.BrokenResourceError, EOFError):
            pass
        except Exception as error:  # noqa: BLE001 - pickle raises anything; only this work fails
            return "failed", f"{type(error).__name__}: {error}"
        return "failed", "it ended the process of the worker"

    async def _receive(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            part = await self._outcomes.receive_some(size - len(data))
            if not part:
                raise EOFError
            data += part
        return bytes(data)

    async def aclose(self) -> None:
        self._process.kill()
        with trio.CancelScope(shield=True):
            await trio.aclose_forcefully(self._work)
            await trio.aclose_forcefully(self._outcomes)
            await trio.to_thread.run_sync(self._reap)

    def _reap(self) -> None:
        self._process.wait()
        shutil.rmtree(self._directory, ignore_errors=True)


class WorkerProcess:
    """One worker process. `serve` must run while tasks call `run`.

    Args:
        seconds_max: time limit of one piece of work.
        modules: modules that the process imports before its first work.
        preempted_after_seconds: CPU time after which work is stopped if other work waits; infinite for never.
    """

    def __init__(self, seconds_max: float, modules: Sequence[str], preempted_after_seconds: float = math.inf) -> None:
        self._seconds_max, self._modules = seconds_max, modules
        self._preempted_after_seconds = preempted_after_seconds
        self._queue: FairQueue[_Job] = FairQueue()
        self._child: _Child | None = None
        self._changed = trio.Event()

    async def run(self, work: Work, client: Hashable) -> Any:
        """Do work in the process; see `Workers.run`.

        Raises:
            _PreemptedError: the work exceeded `preempted_after_seconds` while other work waited.
        """
        if len(self._queue) >= WAITING_MAX:
            raise BusyError
        job = _Job(work)
        self._queue.add(client, job)
        self._notify()
        try:
            await job.ended.wait()
        # `_watch` sees an abandoned job and kills the process, since nothing else stops its work.
        except trio.Cancelled:
            job.is_abandoned = True
            self._queue.discard(client, job)
            self._notify()
            raise
        return job.result()

    async def serve(self) -> None:
        try:
            while True:
                with trio.move_on_after(IDLE_SECONDS):
                    await self._wait_for_work()
                if not self._queue:
                    await self._end_child()
                    await self._wait_for_work()
                await self._do(self._queue.take())
        finally:
            await self._end_child()

    async def _wait_for_work(self) -> None:
        while not self._queue:
            await self._changed.wait()

    async def _do(self, job: _Job) -> None:
        try:
            if self._child is None:
                self._child = _Child(self._modules)
                await self._child.wait_ready()
        except OSError as error:
            job.fail(WorkFailedError(f"a worker process cannot be started: {error}"))
            return
        is_preempted = False
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._exchange, self._child, job)
            with trio.move_on_after(self._seconds_max):
                is_preempted = await self._watch(job, self._child)
            nursery.cancel_scope.cancel()
        if job.ended.is_set() and job.outcome[0] != "failed":
            return
        # The state of the process is unknown after a failure, an abandoned job or a timeout.
        await self._end_child()
        if not job.ended.is_set():
            job.fail(_PreemptedError() if is_preempted else TookTooLongError())

    async def _exchange(self, child: _Child, job: _Job) -> None:
        job.end(await child.do(job.work))
        self._notify()

    async def _watch(self, job: _Job, child: _Child) -> bool:
        """Wait until a job ends or is abandoned; return True if it is preempted first."""
        end = child.cpu_seconds + self._preempted_after_seconds
        patience = self._preempted_after_seconds
        while not (job.ended.is_set() or job.is_abandoned):
            # Long work may continue as long as no other work waits.
            if patience <= 0 and self._queue:
                return True
            with trio.move_on_after(patience if patience > 0 else math.inf):
                await self._changed.wait()
            if not job.ended.is_set():
                patience = end - child.cpu_seconds
        return False

    async def _end_child(self) -> None:
        child, self._child = self._child, None
        if child is not None:
            await child.aclose()

    def _notify(self) -> None:
        self._changed.set()
        self._changed = trio.Event()


class Workers:
    """The worker processes of a broker. `serving` must be active while tasks call `run`.

    Args:
        modules: modules that each process imports before its first work.
        seconds_max: time limit of one piece of work.
    """

    def __init__(self, modules: Sequence[str] = (), seconds_max: float = WORK_SECONDS_MAX) -> None:
        self._short = WorkerProcess(seconds_max, modules, SHORT_SECONDS)
        self._long = WorkerProcess(seconds_max, modules)

    async def run(self, work: Work, client: Hashable) -> Any:
        """Do work in a process, and return its result.

        Args:
            client: key of the client; clients take turns.

        Raises:
            Refusal: the work raised it.
            TookTooLongError: the time limit was exceeded.
            WorkFailedError: the work raised another exception, exceeded a limit of size or memory, or ended the
                process, or no process could be started.
            BusyError: too much work waits.
        """
        try:
            return await self._short.run(work, client)
        except _PreemptedError:
            return await self._long.run(work, client)

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        """Do the work of `run` while the body runs. No process is left afterwards."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._short.serve)
            nursery.start_soon(self._long.serve)
            yield
            nursery.cancel_scope.cancel()
