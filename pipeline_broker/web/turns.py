"""Turns of the event loop for work other than requests of Kafka's protocol.

A page of metrics, a list of schemas or a view of the dashboard may be arbitrarily large. Such work is a generator of
small steps, which `in_turns` runs. All such work of one event loop shares one turn: however many clients wait, it runs
for at most TURN_SECONDS between two polls of the network.
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
    """Run steps to completion, and return their result or raise their exception.

    The steps are closed if the caller is cancelled.
    """
    lock = _lock()
    try:
        while True:
            async with lock:  # fair, and a checkpoint, so requests are served before the turn starts
                end = time.perf_counter() + TURN_SECONDS
                while time.perf_counter() < end:
                    next(steps)
    except StopIteration as ended:
        result: Result = ended.value
        return result
    finally:
        steps.close()
