"""Rules that are begun in Python: what they are about is known, and the effect that is named next makes them.

Rules of this file: as of `names.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from pipeline_broker.faults import effects
from pipeline_broker.faults.effects import (
    CorruptCrc,
    Crash,
    Delay,
    DiskError,
    Effect,
    Outage,
    Pause,
    StoreError,
    Unsure,
    When,
)
from pipeline_broker.faults.rule import Choice, Condition, DiskCondition, Rule, StoreCondition

if TYPE_CHECKING:
    from pipeline_broker.faults.subject import Subject

__all__ = ["DiskRuleMaker", "RuleKeeper", "RuleMaker", "StoreRuleMaker"]


class RuleKeeper(Protocol):
    """Who makes rules of their parts."""

    def add(self, condition: Condition, choice: Choice, effect: Effect) -> Rule: ...


class RuleMaker:
    """A rule about requests that lacks its effect; each method makes it, and says with which effect."""

    def __init__(self, faults: RuleKeeper, condition: Condition, choice: Choice) -> None:
        self._faults = faults
        self._condition = condition
        self._choice = choice

    def _with(self, effect: Effect) -> Rule:
        return self._faults.add(self._condition, self._choice, effect)

    def error(self, code: str, when: When = effects.BEFORE) -> Rule:
        return self._with(effects.Error(code, when))

    def delay(self, seconds: float) -> Rule:
        return self._with(Delay(seconds))

    def drop(self) -> Rule:
        return self._with(effects.Drop())

    def disconnect(self, when: When = effects.AFTER) -> Rule:
        return self._with(effects.Disconnect(when))

    def partial_write(self, size_bytes: int) -> Rule:
        return self._with(effects.PartialWrite(size_bytes))

    def corrupt_crc(self) -> Rule:
        return self._with(CorruptCrc())

    def throttle(self, throttle_ms: int) -> Rule:
        return self._with(effects.Throttle(throttle_ms))

    def pause(self, stage: str = effects.QUEUE) -> Rule:
        return self._with(Pause(stage))

    def call(self, function: Callable[[Subject], Any]) -> Rule:
        """Ask a function what becomes of the request, on the event loop, before it is handled.

        Args:
            function: given the request (see Subject). Returns None to have it handled, an effect (see
                `pipeline_broker.faults.effects`), or the response: a message of the API. It must not block; when it
                raises, the request is answered with UNKNOWN_SERVER_ERROR.
        """
        return self._with(effects.Call(function))


class DiskRuleMaker:
    """The same of a rule about files."""

    def __init__(self, faults: RuleKeeper, condition: DiskCondition, choice: Choice) -> None:
        self._faults = faults
        self._condition = condition
        self._choice = choice

    def error(self, name: str = "EIO") -> Rule:
        return self._faults.add(self._condition, self._choice, DiskError(name))

    def delay(self, seconds: float) -> Rule:
        return self._faults.add(self._condition, self._choice, Delay(seconds))

    def pause(self) -> Rule:
        """Hold the operation until the rule is released."""
        return self._faults.add(self._condition, self._choice, Pause(effects.COMMIT))

    def crash(self) -> Rule:
        return self._faults.add(self._condition, self._choice, Crash())


class StoreRuleMaker:
    """The same of a rule about the store of objects."""

    def __init__(self, faults: RuleKeeper, condition: StoreCondition, choice: Choice) -> None:
        self._faults = faults
        self._condition = condition
        self._choice = choice

    def _with(self, effect: Effect) -> Rule:
        return self._faults.add(self._condition, self._choice, effect)

    def error(self, name: str = "unavailable") -> Rule:
        return self._with(StoreError(name))

    def unsure(self, when: When = effects.AFTER) -> Rule:
        """Lose the answer: "before" the store has done it, or "after"."""
        return self._with(Unsure(when))

    def outage(self, seconds: float) -> Rule:
        """Have the store answer nothing for so long, from the request on that is struck."""
        return self._with(Outage(seconds))

    def delay(self, seconds: float) -> Rule:
        return self._with(Delay(seconds))

    def pause(self) -> Rule:
        """Hold the request until the rule is released."""
        return self._with(Pause(effects.COMMIT))
