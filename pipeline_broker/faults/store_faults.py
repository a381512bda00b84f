"""Fault rules about requests to the object store."""

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
    """The rules about the store: failures, lost answers, delays, pauses and outages.

    Args:
        set_active: receives whether the store must call these rules.
        clock: monotonic seconds.
    """

    def __init__(self, set_active: Callable[[bool], None], clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(StoreCondition, set_active)
        self._clock = clock
        self._outages: dict[int, float] = {}  # end of the outage by rule number

    def ask(self, request: StoreRequest, send: Callable[[], _Answer]) -> _Answer:
        """Apply the rules to a request; send it and return the answer of the store if no rule fails it.

        Raises:
            ObjectStoreError: a rule strikes the request, an outage lasts, or the store fails.
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
    # The error of a bucket's client: without an answer, a conditional write may have succeeded.
    return (store.Unsure if request.operation in _CONFLICTS else store.Unavailable)(_INJECTED)
