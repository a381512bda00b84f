"""The worker process: it reads work from its standard input, calls it, and writes the outcome to its standard output.

Its memory, its files and its core dump are limited. Time is not limited here: the broker kills a process that takes too
long. It ends at the end of its input and with the broker, also in the middle of work.
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
"""Before each work and each outcome: its size."""
MEMORY_BYTES_MAX = 192 << 20
"""Beyond it an allocation fails."""
FILE_BYTES_MAX = 32 << 20
"""A file that the Protobuf compiler writes, its errors included."""
NICENESS = 5
"""Clients of the broker come first where processors are scarce."""
FAILURE_CHARACTERS_MAX = 200
PR_SET_PDEATHSIG = 1
OOM_FIRST = "1000"

Outcome: TypeAlias = tuple[Literal["returned", "raised", "failed"], Any]
"""With a result, a Refusal, or a line that says why there is neither."""


def main() -> None:
    """Work until the input ends. Arguments: the id of the broker's process, and modules to import beforehand.

    The first byte of the output says that the process is ready.
    """
    _end_with(int(sys.argv[1]))
    _limit()
    for module in sys.argv[2:]:
        with contextlib.suppress(ImportError):  # work that needs it says so
            importlib.import_module(module)
    source, sink = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1):  # what libraries print must not get into an outcome
        os.dup2(nothing, standard)
    _write(sink, READY)
    while head := _read(source, HEAD_BYTES):
        size = int.from_bytes(head)
        if size > WORK_BYTES_MAX:
            return
        outcome = _outcome_of(_read(source, size))
        _write(sink, len(outcome).to_bytes(HEAD_BYTES) + outcome)


def _end_with(parent: int) -> None:
    """End when the broker does, which need not come to close anything."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        sys.exit()  # it ended before


def _limit() -> None:
    for what, most in (
        (resource.RLIMIT_DATA, MEMORY_BYTES_MAX),
        (resource.RLIMIT_FSIZE, FILE_BYTES_MAX),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(what, (most, most))
    os.nice(NICENESS)
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(OOM_FIRST, encoding="ascii")


def _outcome_of(frame: bytes) -> bytes:
    try:
        outcome = pickle.dumps(_called(frame))
    except MemoryError:
        gc.collect()
        return pickle.dumps(("failed", f"it takes more than {MEMORY_BYTES_MAX >> 20} MiB of memory"))
    if len(outcome) > OUTCOME_BYTES_MAX:
        return pickle.dumps(("failed", f"its result is larger than {OUTCOME_BYTES_MAX >> 20} MiB"))
    return outcome


def _called(frame: bytes) -> Outcome:
    try:
        work: Work = pickle.loads(frame)  # noqa: S301 - from the broker, by a pipe
        return "returned", work()
    except Refusal as refusal:
        return "raised", refusal
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001 - libraries raise anything, and the caller decides what that means
        return "failed", f"{type(error).__name__}: {str(error)[:FAILURE_CHARACTERS_MAX]}"


def _read(source: int, size: int) -> bytes:
    """All bytes; none at the end of the input."""
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
