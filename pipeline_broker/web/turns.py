"""Turns of the event loop for everything that is not a request of Kafka's protocol.

A page of metrics, a list of schemas or a view of the dashboard takes as long as clients have made it long. Such work is
a generator of small steps, and `in_turns` runs it. All such work of one event loop shares one turn: however many
viewers wait, at most TURN_SECONDS of it run between two polls of the network.
"""

from __future__ import annotations

import time
from typing import TypeVar

import trio

from pipeline_broker.base.steps import Steps

__all__ = ["TURN_SECONDS", "Steps", "in_turns"]

Result = TypeVar("Result")

TURN_SECONDS = 0.004

_turn: trio.lowlevel.RunVar[trio.Lock] = trio.lowlevel.RunVar("pipeline_broker.web.turns")


def _lock() -> trio.Lock:
    try:
        return _turn.get()
    except LookupError:
        lock = trio.Lock()
        _turn.set(lock)
        return lock


async def in_turns(steps: Steps[Result]) -> Result:
    """Run steps to their end and return their result.

    The steps are closed where the caller is cancelled.
    """
    lock = _lock()
    try:
        while True:
            async with lock:  # fair, and a checkpoint: requests are served before the turn begins
                end = time.perf_counter() + TURN_SECONDS
                while time.perf_counter() < end:
                    next(steps)
    except StopIteration as ended:
        result: Result = ended.value
        return result
    finally:
        steps.close()
