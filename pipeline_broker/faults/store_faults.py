"""What rules do to requests to a store of objects: fail them, lose their answers, begin them later, hold them.

Rules of this file: as of `thread_rules.py`. A request that gets no answer is what it is to a client of a bucket: a
writing under a condition is unsure, anything else unavailable.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from pipeline_broker.faults.effects import BEFORE, Outage, StoreError, Unsure
from pipeline_broker.faults.rule import StoreCondition
from pipeline_broker.faults.thread_rules import ThreadRules
from pipeline_broker.objects import store
from pipeline_broker.objects.store_around import Operation, StoreRequest

__all__ = ["StoreFaults"]

_Answer = TypeVar("_Answer")
_CONFLICTS = {Operation.CREATE: store.Exists, Operation.REPLACE: store.Changed}
_INJECTED = "a fault rule"


class StoreFaults(ThreadRules[StoreCondition]):
    """The rules about a store, and who waits because of them.

    Args:
        set_active: called with whether there is something to ask; the store asks only then.
        clock: seconds that never go back.
    """

    def __init__(self, set_active: Callable[[bool], None], clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(StoreCondition, set_active)
        self._clock = clock
        self._outages: dict[int, float] = {}  # of each rule that has begun one, when it ends

    def ask(self, request: StoreRequest, send: Callable[[], _Answer]) -> _Answer:
        """Send a request, or not, as the rules say.

        Raises:
            ObjectStoreError: a rule wants it so, or the store does.
        """
        if self._is_out():
            raise _no_answer(request)
        for rule in self._strike(request.operation, request.name):
            effect = rule.effect
            if type(effect) is Outage:
                with self._lock:
                    self._outages[rule.number] = self._clock() + effect.seconds
                raise _no_answer(request)
            if type(effect) is StoreError:
                if effect.name == "conflict" and request.operation in _CONFLICTS:
                    raise _CONFLICTS[request.operation](_INJECTED)
                raise store.Unavailable(_INJECTED)
            if type(effect) is Unsure:
                if effect.when != BEFORE:
                    with suppress(store.ObjectStoreError):
                        send()
                raise _no_answer(request)
        return send()

    def _is_out(self) -> bool:
        with self._lock:
            return any(self._clock() < end for end in self._outages.values())

    def _followed(self, numbers: set[int]) -> None:
        self._outages = {number: end for number, end in self._outages.items() if number in numbers}


def _no_answer(request: StoreRequest) -> store.ObjectStoreError:
    return (store.Unsure if request.operation in _CONFLICTS else store.Unavailable)(_INJECTED)
