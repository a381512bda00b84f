"""A timer that is more precise than the event loop's.

Trio's poll rounds up to whole milliseconds, which an open loop at 1,400 requests/s would count as latency of the
broker. A Linux timer descriptor (timerfd) wakes within about 0.05 ms without spinning. Other systems use `trio.sleep`.
"""

import contextlib
import ctypes
import os
import sys
import time
from collections.abc import Iterator
from typing import Protocol

import trio

_CLOCK_MONOTONIC = 1
_ABSOLUTE = 1
_NS_PER_S = 1_000_000_000
_NON_BLOCKING = os.O_NONBLOCK | getattr(os, "O_CLOEXEC", 0)


class _Moments(ctypes.Structure):
    # `struct itimerspec`; an interval of 0 means no repetition.
    _fields_ = (
        ("interval_s", ctypes.c_long),
        ("interval_ns", ctypes.c_long),
        ("moment_s", ctypes.c_long),
        ("moment_ns", ctypes.c_long),
    )


class Timer(Protocol):
    async def wait_until(self, moment_ns: int) -> None:
        """Wait until a time of `time.monotonic_ns`, or an earlier one that `hurry` sets during the wait."""

    def hurry(self, moment_ns: int) -> None:
        """Shorten the current wait to end at `moment_ns`; never prolong it."""


class _TimerDescriptor:
    def __init__(self, libc: ctypes.CDLL, descriptor: int) -> None:
        self._libc = libc
        self._descriptor = descriptor
        self._moment_ns = 0

    async def wait_until(self, moment_ns: int) -> None:
        self._set(moment_ns)
        await trio.lowlevel.wait_readable(self._descriptor)
        # The read resets the descriptor. It has nothing to read if `hurry` set the timer again after it fired.
        with contextlib.suppress(BlockingIOError):
            os.read(self._descriptor, 8)

    def hurry(self, moment_ns: int) -> None:
        if moment_ns < self._moment_ns:
            self._set(moment_ns)

    def _set(self, moment_ns: int) -> None:
        self._moment_ns = moment_ns
        # A time of 0 would disarm the timer.
        moments = _Moments(0, 0, *divmod(max(1, moment_ns), _NS_PER_S))
        self._libc.timerfd_settime(self._descriptor, _ABSOLUTE, ctypes.byref(moments), None)


class _TrioTimer:
    def __init__(self) -> None:
        self._scope = trio.CancelScope()

    async def wait_until(self, moment_ns: int) -> None:
        self._scope = trio.CancelScope(deadline=_trio_time(moment_ns))
        with self._scope:
            await trio.sleep_forever()

    def hurry(self, moment_ns: int) -> None:
        self._scope.deadline = min(self._scope.deadline, _trio_time(moment_ns))


def _trio_time(moment_ns: int) -> float:
    return trio.current_time() + (moment_ns - time.monotonic_ns()) / _NS_PER_S


@contextlib.contextmanager
def precise_timer() -> Iterator[Timer]:
    if sys.platform != "linux":
        yield _TrioTimer()
        return
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor = libc.timerfd_create(_CLOCK_MONOTONIC, _NON_BLOCKING)
    if descriptor < 0:
        yield _TrioTimer()
        return
    try:
        yield _TimerDescriptor(libc, descriptor)
    finally:
        os.close(descriptor)
