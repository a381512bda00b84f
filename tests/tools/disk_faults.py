"""What a disk does wrong, by the operation and the path.

Rules of this file: a fault is looked for before each operation, and delays it, fails it, sends it elsewhere or takes
the power away. Faults are tried in the order in which they were added; delays add up, the first of the others decides.
Operations are named: read, write, truncate, sync, sync directory, open, create, rename, link, unlink, make directory.
"""

import errno
import os
import threading
from fnmatch import fnmatchcase

import attrs

HANG_SECONDS_MAX = 300.0  # longer than any test waits: the end of a disk that nobody set going again


@attrs.define
class Fault:
    """One thing that goes wrong with operations on paths (a pattern of the shell)."""

    operation: str
    pattern: str = "*"
    error: str | None = None
    delay_seconds: float = 0.0
    shift_bytes: int = 0
    cut_seed: int | None = None
    #: How many such operations go well before.
    skip_count: int = 0
    #: How many are hit, None for all.
    hit_count_max: int | None = None
    hits: int = 0

    def strikes(self, operation: str, path: str) -> bool:
        """Whether this operation is hit; counts."""
        if operation != self.operation or not fnmatchcase(path, self.pattern):
            return False
        if self.skip_count:
            self.skip_count -= 1
            return False
        if self.hit_count_max is not None and self.hits >= self.hit_count_max:
            return False
        self.hits += 1
        return True

    def to_error(self, path: str) -> OSError:
        """The error with the name that was given."""
        assert self.error is not None
        number = getattr(errno, self.error)
        return OSError(number, os.strerror(number), path)


@attrs.frozen
class Verdict:
    """What becomes of one operation."""

    delay_seconds: float = 0.0
    error: OSError | None = None
    shift_bytes: int = 0
    cut_seed: int | None = None


class DiskFaults:
    """All faults of a disk; used by many threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._faults: list[Fault] = []
        self._going = threading.Event()
        self._going.set()
        self._delays_over = threading.Event()  # replaced when it is set

    def add(self, fault: Fault) -> None:
        with self._lock:
            self._faults.append(fault)

    def clear(self) -> None:
        """Everything goes well from now on, and what waits goes on."""
        with self._lock:
            self._faults.clear()
        self.end_waiting()

    def hang(self) -> None:
        """No operation ends any more, until the faults are cleared or the power goes."""
        self._going.clear()

    def end_waiting(self) -> None:
        """What hangs or is delayed goes on now."""
        self._going.set()
        over, self._delays_over = self._delays_over, threading.Event()
        over.set()

    def hits(self) -> list[int]:
        """How often each fault struck, in the order in which they were added."""
        with self._lock:
            return [fault.hits for fault in self._faults]

    def judge(self, operation: str, path: str) -> Verdict:
        """What becomes of an operation; does not wait."""
        with self._lock:
            struck = [fault for fault in self._faults if fault.strikes(operation, path)]
        delay = sum(fault.delay_seconds for fault in struck)
        for fault in struck:
            if fault.error is not None:
                return Verdict(delay, error=fault.to_error(path))
            if fault.cut_seed is not None:
                return Verdict(delay, cut_seed=fault.cut_seed)
            if fault.shift_bytes:
                return Verdict(delay, shift_bytes=fault.shift_bytes)
        return Verdict(delay)

    def wait(self, verdict: Verdict) -> None:
        """Let the operation take its time; the caller holds no lock."""
        self._going.wait(HANG_SECONDS_MAX)
        if verdict.delay_seconds:
            self._delays_over.wait(verdict.delay_seconds)
        self._going.wait(HANG_SECONDS_MAX)
