"""Rules about what threads do: which of them strike, and who waits because of them.

Rules of this file: as of `names.py`, but that its methods are called by the threads that write, read and archive: what
they share is behind one lock, and nobody waits while he holds it. A pause and a delay end when their rule goes,
whatever time they had left.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Generic, Protocol, TypeVar

from pipeline_broker.faults.effects import Delay, Pause
from pipeline_broker.faults.rule import Rule

__all__ = ["PAUSE_SECONDS_MAX", "ThreadRules"]

PAUSE_SECONDS_MAX = 3600.0
"""The longest that an operation is held, should nobody release it."""


class _Condition(Protocol):
    def matches(self, operation: str, name: str) -> bool: ...


Kind = TypeVar("Kind", bound=_Condition)


class ThreadRules(Generic[Kind]):
    """See the rules of the file.

    Args:
        kind: of the conditions that are meant.
        set_active: called with whether there is something to ask; those who ask do so only then.
    """

    def __init__(self, kind: type[Kind], set_active: Callable[[bool], None]) -> None:
        self._kind = kind
        self._set_active = set_active
        self._lock = threading.Lock()
        self._rules: tuple[tuple[Kind, Rule], ...] = ()
        self._gates: dict[int, threading.Event] = {}  # of pauses and delays, by the number of their rule
        self._waiting: Counter[int] = Counter()

    def follow(self, rules: Sequence[Rule]) -> None:
        """Act on these rules from now on; who was held by another one goes on."""
        numbers = {rule.number for rule in rules}
        with self._lock:
            self._rules = tuple(
                (condition, rule) for rule in rules if isinstance(condition := rule.condition, self._kind)
            )
            self._followed(numbers)
            gone = [self._gates.pop(number) for number in set(self._gates) - numbers]
            self._look()
        for gate in gone:
            gate.set()

    def count(self, number: int) -> int:
        """How many operations a rule holds."""
        with self._lock:
            return self._waiting[number]

    def release(self, number: int) -> bool:
        """Let go what a rule holds; whether it held anything."""
        with self._lock:
            gate = self._gates.pop(number, None)
            is_held = self._waiting[number] > 0
            self._released(number)
            self._look()
        if gate is not None:
            gate.set()
        return is_held

    def _look(self) -> None:
        self._set_active(self._is_wanted())

    def _strike(self, operation: str, name: str) -> list[Rule]:
        """The rules that strike an operation, which is counted; returns when it may begin."""
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
        for gate, (number, seconds) in zip(gates, waits, strict=True):
            gate.wait(seconds)
            with self._lock:
                self._waiting[number] -= 1
        return struck

    # For those who have more; called with the lock held

    def _followed(self, numbers: set[int]) -> None:
        """The rules are others; these are the numbers of all."""

    def _released(self, number: int) -> None:
        """What a rule holds is let go."""

    def _also_held_by(self, operation: str, name: str) -> Sequence[int]:  # noqa: ARG002 - for those who have more
        """Further rules that hold an operation."""
        return ()

    def _is_wanted(self) -> bool:
        return bool(self._rules)
