"""Answers that many clients may ask for at once: made once for all of them.

Rules of this file: the first client that asks has the answer made, in turns; those that ask meanwhile, or within
SHARED_SECONDS, get the same object. All together cost as much as one, in time and in memory.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable

import trio

from pipeline_broker.base.byte_budget import ByteBudget, Kept, OverBudgetError
from pipeline_broker.web.messages import Answer
from pipeline_broker.web.turns import Steps, in_turns

__all__ = ["SHARED_SECONDS", "SharedAnswers"]

SHARED_SECONDS = 1.0


class SharedAnswers:
    """The answers of one server.

    Args:
        edges: charged for those that are kept.
    """

    def __init__(self, edges: ByteBudget) -> None:
        self._edges = edges
        self._kept: dict[Hashable, tuple[float, Answer, Kept]] = {}  # the oldest first
        self._making: dict[Hashable, trio.Lock] = {}
        self._changes = 0

    async def get(self, key: Hashable, make: Callable[[], Steps[Answer]]) -> Answer:
        """The answer for a key, at most SHARED_SECONDS old.

        Args:
            key: everything that the answer depends on.
            make: returns the steps to the answer. If they raise, so does this, and the next client makes it anew.
        """
        lock = self._making.setdefault(key, trio.Lock())
        try:
            async with lock:
                self._forget_until(trio.current_time() - SHARED_SECONDS)
                if key in self._kept:
                    return self._kept[key][1]
                changes = self._changes
                answer = await in_turns(make())
                if changes == self._changes:
                    self._keep(key, answer)
                return answer
        finally:
            if not lock.locked():  # no client waits
                self._making.pop(key, None)

    def forget(self) -> None:
        """Make every answer anew from now on, as after a change."""
        self._changes += 1
        self._forget_until(float("inf"))

    def _keep(self, key: Hashable, answer: Answer) -> None:
        try:
            kept = self._edges.keep(self, len(answer.body), functools.partial(self._drop, key))
        except OverBudgetError:
            return
        self._kept[key] = trio.current_time(), answer, kept

    def _drop(self, key: Hashable) -> None:
        del self._kept[key]

    def _forget_until(self, made: float) -> None:
        for at, _, kept in list(self._kept.values()):
            if at > made:
                return
            kept.drop()
