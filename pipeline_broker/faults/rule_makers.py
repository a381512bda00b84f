"""Rules that are begun in Python: what they are about is known, and the effect that is named next makes them.

Rules of this file: as of `names.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import attrs

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
from pipeline_broker.faults.rule import Choice, Condition, DiskCondition, RequestCondition, Rule, StoreCondition

if TYPE_CHECKING:
    from pipeline_broker.faults.subject import Subject

__all__ = ["DiskRuleMaker", "RuleBeginner", "RuleMaker", "StoreRuleMaker"]

__tracebackhide__ = True  # pytest shows the line that asked, not ours

CHOICES = frozenset(field.name for field in attrs.fields(Choice))
"""Conditions that say how often a rule strikes; the others say what it is about."""

Kind = TypeVar("Kind", RequestCondition, DiskCondition, StoreCondition)


class RuleKeeper(Protocol):
    """Who makes rules of their parts."""

    def add(self, condition: Condition, choice: Choice, effect: Effect) -> Rule: ...


class _Maker:
    def __init__(self, faults: RuleKeeper, condition: Condition, choice: Choice) -> None:
        self._faults = faults
        self._condition = condition
        self._choice = choice

    def _with(self, effect: Effect) -> Rule:
        return self._faults.add(self._condition, self._choice, effect)

    def delay(self, seconds: float) -> Rule:
        return self._with(Delay(seconds))


class RuleMaker(_Maker):
    """A rule about requests that lacks its effect; each method makes it, and says with which effect."""

    def error(self, code: str, when: When = effects.BEFORE) -> Rule:
        return self._with(effects.Error(code, when))

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


class DiskRuleMaker(_Maker):
    """The same of a rule about files."""

    def error(self, name: str = "EIO") -> Rule:
        return self._with(DiskError(name))

    def pause(self) -> Rule:
        """Hold the operation until the rule is released."""
        return self._with(Pause(effects.COMMIT))

    def crash(self) -> Rule:
        return self._with(Crash())


class StoreRuleMaker(_Maker):
    """The same of a rule about the store of objects."""

    def error(self, name: str = "unavailable") -> Rule:
        return self._with(StoreError(name))

    def unsure(self, when: When = effects.AFTER) -> Rule:
        """Lose the answer: "before" the store has done it, or "after"."""
        return self._with(Unsure(when))

    def outage(self, seconds: float) -> Rule:
        """Have the store answer nothing for so long, from the request on that is struck."""
        return self._with(Outage(seconds))

    def pause(self) -> Rule:
        """Hold the request until the rule is released."""
        return self._with(Pause(effects.COMMIT))


class RuleBeginner(RuleKeeper):
    """Begins rules in Python; whoever keeps rules can."""

    def when(self, api: str, **conditions: Any) -> RuleMaker:
        """Begin a rule about requests; the effect that is named next makes it.

        Args:
            api: Kafka's name of the request, "GroupCoordinator" or "TransactionCoordinator".
            conditions: `topic`, `partition`, `client_id`, `group`, see RequestCondition; `nth`, `times`, `every`, `p`,
                `seed`, see Choice.

        Raises:
            FaultError: there is no such API, or numbers make no sense.
            TypeError: there is no such condition.
        """
        return RuleMaker(self, *self._begin(RequestCondition, api, conditions))

    def disk_when(self, operation: str, **conditions: Any) -> DiskRuleMaker:
        """Begin a rule about operations on files, "sync" or "write"; `path` and the numbers of `when` are conditions.

        Raises:
            FaultError: there is no such operation, or numbers make no sense.
            TypeError: there is no such condition.
        """
        return DiskRuleMaker(self, *self._begin(DiskCondition, operation, conditions))

    def when_store(self, operation: str, **conditions: Any) -> StoreRuleMaker:
        """Begin a rule about requests to the store: "put", "get", "list", "delete", or a kind of a put.

        Args:
            operation: see `pipeline_broker.faults.rule.STORE_OPERATIONS`.
            conditions: `name`, a pattern of names of objects, and the numbers of `when`.

        Raises:
            FaultError: there is no such request, or numbers make no sense.
            TypeError: there is no such condition.
        """
        return StoreRuleMaker(self, *self._begin(StoreCondition, operation, conditions))

    def _begin(self, kind: type[Kind], subject: str, conditions: Mapping[str, Any]) -> tuple[Kind, Choice]:
        """What a rule is about that lacks its effect, and how often it strikes."""
        about_what, *others = (field.name for field in attrs.fields(kind) if field.init)
        known = {*others, *CHOICES}
        for name in sorted(conditions.keys() - known):
            raise TypeError(f"there is no condition {name!r}; there are {', '.join(sorted(known))}")
        condition = kind(**{about_what: subject, **{name: conditions[name] for name in others if name in conditions}})
        return condition, Choice(**{name: conditions[name] for name in CHOICES if name in conditions})
