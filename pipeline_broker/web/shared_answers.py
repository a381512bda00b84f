"""Answers that many clients request at the same time, built once for all of them."""

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
    """A cache of the answers of one server, by key.

    The first request for an answer builds it. Requests at the same time, or within SHARED_SECONDS, get the same object.
    So all of them cost the time and memory of one.

    Args:
        edges: is charged for the cached answers.
    """

    def __init__(self, edges: ByteBudget) -> None:
        self._edges = edges
        self._kept: dict[Hashable, tuple[float, Answer, Kept]] = {}  # oldest first
        self._making: dict[Hashable, trio.Lock] = {}
        self._changes = 0

    async def get(self, key: Hashable, make: Callable[[], Steps[Answer]]) -> Answer:
        """Return the answer for a key, at most SHARED_SECONDS old.

        Args:
            key: everything that the answer depends on.
            make: returns the steps that build the answer. If they raise, so does this method, and the next client tries
                again.
        """
        lock = self._making.setdefault(key, trio.Lock())
        try:
            async with lock:
                self._forget_until(trio.current_time() - SHARED_SECONDS)
                if key in self._kept:
                    return self._kept[key][1]
                changes = self._changes
                answer = await in_turns(make())
                # An answer that was being built when `forget` was called may be outdated.
                if changes == self._changes:
                    self._keep(key, answer)
                return answer
        finally:
            if not lock.locked():  # no other client waits for this key
                self._making.pop(key, None)

    def forget(self) -> None:
        self._changes += 1
        self._forget_until(float("inf"))

    def _keep(self, key: Hashable, answer: Answer) -> None:
        try:
            kept = self._edges.keep(self, len(answer.body), functools.partial(self._drop, key))
        # The answer is sent, but not shared.
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
