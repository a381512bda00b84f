"""Worker processes of a broker: one for short work, and one for work that turned out to be long.

On Trio; `worker.child` is the process. A process starts with its first work and ends when it has had none for
IDLE_SECONDS. It does one piece of work at a time, and the clients have their turns one after the other. Nothing but a
kill stops a library in C, so that is how work ends that takes too long, or whose caller is gone.
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
SHORT_SECONDS = 0.5
"""Of a processor. Work that takes more begins anew in the process for long work, as soon as other work waits."""
WORK_SECONDS_MAX = 10.0
"""Of one piece of work."""
START_SECONDS_MAX = 30.0
"""Until a process is ready: it imports libraries, on a machine that may be busy."""
CPU_CLOCK = 2
"""The kind of clock that a process has of the processor (CPUCLOCK_SCHED, in the kernel's posix-timers.h)."""
WAITING_MAX = 256
"""Pieces of work that wait for one process; the HTTP servers have fewer connections."""
PROGRAM = "pipeline_broker.worker.child"


class _MadeRoomError(Exception):
    """The work was ended for other work."""


class _Job:
    """One piece of work, for the caller that waits for it."""

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
    """A running process with its pipes, and a directory for the files of libraries.

    Raises:
        OSError: it cannot be started.
    """

    def __init__(self, modules: Sequence[str]) -> None:
        self._directory = tempfile.mkdtemp(prefix="pipeline-broker-worker-")
        try:
            # Started in the thread of the event loop: the kernel kills a child when the thread ends that started it.
            self._process = subprocess.Popen(  # noqa: S603 - our own program
                [sys.executable, "-P", "-m", PROGRAM, str(os.getpid()), *modules],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "TMPDIR": self._directory},
                process_group=0,  # a Ctrl-C is for the broker
            )
        except BaseException:
            shutil.rmtree(self._directory, ignore_errors=True)
            raise
        assert self._process.stdin is not None, "a pipe"
        assert self._process.stdout is not None, "a pipe"
        with self._process.stdin as stdin, self._process.stdout as stdout:
            self._work = trio.lowlevel.FdStream(os.dup(stdin.fileno()))
            self._outcomes = trio.lowlevel.FdStream(os.dup(stdout.fileno()))

    async def wait_ready(self) -> None:
        """Return when the process has imported its modules, or has ended."""
        with trio.move_on_after(START_SECONDS_MAX):
            await self._outcomes.receive_some(len(READY))

    @property
    def cpu_seconds(self) -> float:
        """The time of a processor that the process took."""
        return time.clock_gettime(~self._process.pid << 3 | CPU_CLOCK)

    async def do(self, work: Work) -> Outcome:
        """Return the outcome of work."""
        try:
            frame = pickle.dumps(work)
            if len(frame) > WORK_BYTES_MAX:
                return "failed", f"it is larger than {WORK_BYTES_MAX >> 20} MiB"
            await self._work.send_all(len(frame).to_bytes(HEAD_BYTES) + frame)
            size = int.from_bytes(await self._receive(HEAD_BYTES))
            if 0 < size <= OUTCOME_BYTES_MAX:
                outcome: Outcome = pickle.loads(await self._receive(size))  # noqa: S301 - of our own process
                return outcome
        except (trio.BrokenResourceError, EOFError):
            pass
        except Exception as error:  # noqa: BLE001 - whatever pickle raises ends this work, and no other
            return "failed", f"{type(error).__name__}: {error}"
        return "failed", "it ended the process that did it"

    async def _receive(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            part = await self._outcomes.receive_some(size - len(data))
            if not part:
                raise EOFError
            data += part
        return bytes(data)

    async def aclose(self) -> None:
        """Kill the process, wait for its end and remove its files."""
        self._process.kill()
        with trio.CancelScope(shield=True):
            await trio.aclose_forcefully(self._work)
            await trio.aclose_forcefully(self._outcomes)
            await trio.to_thread.run_sync(self._bury)

    def _bury(self) -> None:
        self._process.wait()
        shutil.rmtree(self._directory, ignore_errors=True)


class WorkerProcess:
    """One worker process. `serve` must run while others call `run`.

    Args:
        seconds_max: of one piece of work.
        modules: that a process imports before its first work.
        makes_room_after: seconds of a processor after which work is ended for other work that waits; None never.
    """

    def __init__(self, seconds_max: float, modules: Sequence[str], makes_room_after: float = math.inf) -> None:
        self._seconds_max, self._modules, self._makes_room_after = seconds_max, modules, makes_room_after
        self._queue: FairQueue[_Job] = FairQueue()
        self._child: _Child | None = None
        self._stirred = trio.Event()

    async def run(self, work: Work, client: Hashable) -> Any:
        """Do work in the process; see `Workers.run`. Raises also _MadeRoomError."""
        if len(self._queue) >= WAITING_MAX:
            raise BusyError
        job = _Job(work)
        self._queue.add(client, job)
        self._stir()
        try:
            await job.ended.wait()
        except trio.Cancelled:
            job.is_abandoned = True
            self._queue.discard(client, job)
            self._stir()
            raise
        return job.result()

    async def serve(self) -> None:
        """Do the work of `run` until cancelled."""
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
            await self._stirred.wait()

    async def _do(self, job: _Job) -> None:
        try:
            if self._child is None:
                self._child = _Child(self._modules)
                await self._child.wait_ready()
        except OSError as error:
            job.fail(WorkFailedError(f"a worker process cannot be started: {error}"))
            return
        makes_room = False
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._exchange, self._child, job)
            with trio.move_on_after(self._seconds_max):
                makes_room = await self._watch(job, self._child)
            nursery.cancel_scope.cancel()
        if job.ended.is_set() and job.outcome[0] != "failed":
            return
        await self._end_child()
        if not job.ended.is_set():
            job.fail(_MadeRoomError() if makes_room else TookTooLongError())

    async def _exchange(self, child: _Child, job: _Job) -> None:
        job.end(await child.do(job.work))
        self._stir()

    async def _watch(self, job: _Job, child: _Child) -> bool:
        """Wait until a job has ended or its caller is gone; return True where it must make room first."""
        end = child.cpu_seconds + self._makes_room_after
        patience = self._makes_room_after
        while not (job.ended.is_set() or job.is_abandoned):
            if patience <= 0 and self._queue:
                return True
            with trio.move_on_after(patience if patience > 0 else math.inf):
                await self._stirred.wait()
            if not job.ended.is_set():
                patience = end - child.cpu_seconds
        return False

    async def _end_child(self) -> None:
        child, self._child = self._child, None
        if child is not None:
            await child.aclose()

    def _stir(self) -> None:
        """Let tasks look again that wait for a change."""
        self._stirred.set()
        self._stirred = trio.Event()


class Workers:
    """See the module. `run` does its work inside of `serving`.

    Args:
        modules: that a process imports before its first work.
        seconds_max: of one piece of work.
    """

    def __init__(self, modules: Sequence[str] = (), seconds_max: float = WORK_SECONDS_MAX) -> None:
        self._short = WorkerProcess(seconds_max, modules, SHORT_SECONDS)
        self._long = WorkerProcess(seconds_max, modules)

    async def run(self, work: Work, client: Hashable) -> Any:
        """Return what the work returns.

        Args:
            client: for whom; clients have their turns one after the other.

        Raises:
            Refusal: the work did.
            TookTooLongError: it was ended.
            WorkFailedError: it raised another exception, took too much memory or ended the process.
            BusyError: too much work waits.
        """
        try:
            return await self._short.run(work, client)
        except _MadeRoomError:
            return await self._long.run(work, client)

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        """Do the work of `run` while the body runs; no process is left."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._short.serve)
            nursery.start_soon(self._long.serve)
            yield
            nursery.cancel_scope.cancel()
