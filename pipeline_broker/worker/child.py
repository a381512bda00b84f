"""The worker process: reads pickled calls from standard input and writes their outcomes to standard output.

Its memory, its files and its core dump are limited. The broker limits its time: it kills a process that takes too
long. The process ends at the end of its input, or when the broker ends, even in the middle of a call.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import os
import pickle
import resource
import signal
import sys
from pathlib import Path
from typing import Any, Literal, TypeAlias

from pipeline_broker.worker.work import OUTCOME_BYTES_MAX, WORK_BYTES_MAX, Refusal, Work

__all__ = ["HEAD_BYTES", "MEMORY_BYTES_MAX", "READY", "Outcome", "main"]

READY = b"."
HEAD_BYTES = 4
"""Bytes of the size that precedes each call and each outcome."""
MEMORY_BYTES_MAX = 192 << 20
"""Memory of a worker process. Allocations beyond it fail."""
# The Protobuf compiler writes files, its errors included.
FILE_BYTES_MAX = 32 << 20
"""Files that a worker process writes."""
NICENESS = 5  # the broker serves its clients first if processors are scarce
# The process must hold a call, its arguments, and a result with its pickle at the same time.
assert 2 * (WORK_BYTES_MAX + OUTCOME_BYTES_MAX) < MEMORY_BYTES_MAX
FAILURE_CHARACTERS_MAX = 200
PR_SET_PDEATHSIG = 1
OOM_FIRST = "1000"  # the kernel kills this process before the broker

Outcome: TypeAlias = tuple[Literal["returned", "raised", "failed"], Any]
"""A result, a Refusal, or one line with the reason of the failure."""


def main() -> None:
    """Serve calls until the input ends. Arguments: the broker's process id, and modules to import in advance.

    The first byte of output is READY.
    """
    _end_with(int(sys.argv[1]))
    _limit()
    for module in sys.argv[2:]:
        with contextlib.suppress(ImportError):  # a call that needs the module reports it
            importlib.import_module(module)
    source, sink = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1):  # keep the output of libraries out of the outcomes
        os.dup2(nothing, standard)
    _write(sink, READY)
    while head := _read(source, HEAD_BYTES):
        size = int.from_bytes(head)
        if size > WORK_BYTES_MAX:
            return
        outcome = _outcome_of(_read(source, size))
        _write(sink, len(outcome).to_bytes(HEAD_BYTES) + outcome)


def _end_with(parent: int) -> None:
    # A broker that is killed closes nothing, so the kernel must end this process.
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    # The broker may have ended before prctl; then no signal arrives.
    if os.getppid() != parent:
        sys.exit()


def _limit() -> None:
    for kind, limit in (
        (resource.RLIMIT_DATA, MEMORY_BYTES_MAX),
        (resource.RLIMIT_FSIZE, FILE_BYTES_MAX),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(kind, (limit, limit))
    os.nice(NICENESS)
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(OOM_FIRST, encoding="ascii")


def _outcome_of(frame: bytes) -> bytes:
    try:
        outcome = pickle.dumps(_called(frame))
    # Serializing the result can run out of memory, too.
    except MemoryError:
        gc.collect()  # else the garbage of the failed call can make the next one fail
        return pickle.dumps(("failed", f"it takes more than {MEMORY_BYTES_MAX >> 20} MiB of memory"))
    if len(outcome) > OUTCOME_BYTES_MAX:
        return pickle.dumps(("failed", f"its result is larger than {OUTCOME_BYTES_MAX >> 20} MiB"))
    return outcome


def _called(frame: bytes) -> Outcome:
    try:
        work: Work = pickle.loads(frame)  # noqa: S301 - the broker writes this pipe
        return "returned", work()
    except Refusal as refusal:
        return "raised", refusal
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001 - libraries raise anything, and the caller decides about it
        return "failed", f"{type(error).__name__}: {str(error)[:FAILURE_CHARACTERS_MAX]}"


def _read(source: int, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        part = os.read(source, size - len(data))
        if not part:
            return b""
        data += part
    return bytes(data)


def _write(sink: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(sink, view) :]


if __name__ == "__main__":
    main()
