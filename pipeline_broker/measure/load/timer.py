"""Waits for a moment more precisely than an event loop does.

Rules of this file: Trio's poll rounds up to whole milliseconds, which an open loop at 1,400 requests/s would count as
latency of the broker; a Linux timer descriptor wakes within some 0.05 ms without spinning. Elsewhere Trio's own sleep.
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
    """`struct itimerspec`: interval (none here) and the moment."""

    _fields_ = (
        ("interval_s", ctypes.c_long),
        ("interval_ns", ctypes.c_long),
        ("moment_s", ctypes.c_long),
        ("moment_ns", ctypes.c_long),
    )


class Timer(Protocol):
    """Waits for one moment at a time."""

    async def wait_until(self, moment_ns: int) -> None:
        """Wait until a moment of `time.monotonic_ns`, or until the one that `hurry` names meanwhile."""

    def hurry(self, moment_ns: int) -> None:
        """Let who waits for a later moment wait for this one instead."""


class _TimerDescriptor:
    """A Linux timer descriptor."""

    def __init__(self, libc: ctypes.CDLL, descriptor: int) -> None:
        self._libc = libc
        self._descriptor = descriptor
        self._moment_ns = 0

    async def wait_until(self, moment_ns: int) -> None:
        self._set(moment_ns)
        await trio.lowlevel.wait_readable(self._descriptor)
        with contextlib.suppress(BlockingIOError):
            os.read(self._descriptor, 8)

    def hurry(self, moment_ns: int) -> None:
        if moment_ns < self._moment_ns:
            self._set(moment_ns)

    def _set(self, moment_ns: int) -> None:
        self._moment_ns = moment_ns
        moments = _Moments(0, 0, *divmod(max(1, moment_ns), _NS_PER_S))
        self._libc.timerfd_settime(self._descriptor, _ABSOLUTE, ctypes.byref(moments), None)


class _TrioTimer:
    """Trio's own sleep, which is rounded up to milliseconds."""

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
    """A timer; one wait at a time."""
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
