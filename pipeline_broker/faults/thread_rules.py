"""Fault rules about operations of threads: the choice of operations, pauses and delays."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Generic, Protocol, TypeVar

from pipeline_broker.faults.effects import Delay, Pause
from pipeline_broker.faults.rule import Rule

__all__ = ["PAUSE_SECONDS_MAX", "ThreadRules"]

PAUSE_SECONDS_MAX = 3600.0
"""The longest time that an operation is held without a release."""


class _Condition(Protocol):
    def matches(self, operation: str, name: str) -> bool: ...


Kind = TypeVar("Kind", bound=_Condition)


class ThreadRules(Generic[Kind]):
    """The rules about one kind of operation, called by the threads that write, read and archive.

    One lock protects the shared state, and no thread waits while it holds the lock. Pauses and delays end when their
    rule is removed.

    Args:
        kind: the class of the conditions.
        set_active: receives whether threads must call these rules. Otherwise they skip the call.
    """

    def __init__(self, kind: type[Kind], set_active: Callable[[bool], None]) -> None:
        self._kind = kind
        self._set_active = set_active
        self._lock = threading.Lock()
        self._rules: tuple[tuple[Kind, Rule], ...] = ()
        self._gates: dict[int, threading.Event] = {}  # of pauses and delays, by the number of their rule
        self._waiting: Counter[int] = Counter()

    def follow(self, rules: Sequence[Rule]) -> None:
        """Replace the rules; operations that a removed rule holds continue."""
        numbers = {rule.number for rule in rules}
        with self._lock:
            self._rules = tuple(
                (condition, rule) for rule in rules if isinstance(condition := rule.condition, self._kind)
            )
            self._followed(numbers)
            removed = [self._gates.pop(number) for number in set(self._gates) - numbers]
            self._update_active()
        for gate in removed:  # a delay also ends with its rule
            gate.set()

    def count(self, number: int) -> int:
        with self._lock:
            return self._waiting[number]

    def release(self, number: int) -> bool:
        """Let operations that a rule holds continue; return whether the rule held any."""
        with self._lock:
            gate = self._gates.pop(number, None)
            is_held = self._waiting[number] > 0
            self._released(number)
            self._update_active()
        # Open the gate without the lock, which the waiting thread takes next.
        if gate is not None:
            gate.set()
        return is_held

    def _update_active(self) -> None:
        self._set_active(self._is_wanted())

    def _strike(self, operation: str, name: str) -> list[Rule]:
        """Count an operation, wait for its pauses and delays, and return the rules that strike it."""
        with self._lock:
            struck = [rule for about, rule in self._rules if about.matches(operation, name) and rule.strikes()]
            waits = [
                (rule.number, rule.effect.seconds if type(rule.effect) is Delay else PAUSE_SECONDS_MAX)
                for rule in struck
                if isinstance(rule.effect, Delay | Pause)
            ]
            waits += [(number, PAUSE_SECONDS_MAX) for number in self._also_held_by(operation, name)]
            gates = [self._gates.setdefault(number, threading.Event()) for number, _ in waits]
            self._waiting.update(number for number, _ in waits)
        # Wait without the lock: `release` needs it to open a gate.
        for gate, (number, seconds) in zip(gates, waits, strict=True):
            gate.wait(seconds)
            with self._lock:
                self._waiting[number] -= 1
        return struck

    # Hooks for subclasses, called with the lock held

    def _followed(self, numbers: set[int]) -> None:
        """React to a change of the rules.

        Args:
            numbers: the numbers of all rules of the broker, of every kind.
        """

    def _released(self, number: int) -> None: ...

    def _also_held_by(self, _operation: str, _name: str) -> Sequence[int]:
        return ()

    def _is_wanted(self) -> bool:
        return bool(self._rules)
