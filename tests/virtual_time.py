"""Virtual time for code that uses threads: it stands while a thread works, however long the thread takes."""

import math
from collections.abc import Callable
from typing import Any

import trio
import trio.testing

__all__ = ["run_on_virtual_time", "working_threads"]


def working_threads() -> int:
    return int(trio.to_thread.current_default_thread_limiter().borrowed_tokens)


class _StandsWhileThreadsWork(trio.abc.Instrument):
    def __init__(self, clock: trio.testing.MockClock, working: Callable[[], int]) -> None:
        self._clock = clock
        self._working = working

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        wanted = math.inf if self._working() else 0
        if wanted != self._clock.autojump_threshold:
            self._clock.autojump_threshold = wanted


def run_on_virtual_time(main: Callable[[], Any], working: Callable[[], int] = working_threads) -> Any:
    """Run an async function on a clock that jumps when all tasks wait and no thread works.

    Args:
        working: returns the number of working threads; those of Trio by default.
    """
    clock = trio.testing.MockClock(autojump_threshold=0)
    return trio.run(main, clock=clock, instruments=[_StandsWhileThreadsWork(clock, working)])
