"""Fault rules made in Python: `when(...)` begins a rule, and a method with an effect completes it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import attrs

from pipeline_broker.base.duration import Duration
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

__all__ = ["DiskRuleMaker", "RuleFactory", "RuleMaker", "StoreRuleMaker"]

__tracebackhide__ = True  # pytest shows the caller's line instead of this module

CHOICES = frozenset(field.name for field in attrs.fields(Choice))

Kind = TypeVar("Kind", RequestCondition, DiskCondition, StoreCondition)


class RuleKeeper(Protocol):
    def add(self, condition: Condition, choice: Choice, effect: Effect) -> Rule: ...


class _Maker:
    def __init__(self, faults: RuleKeeper, condition: Condition, choice: Choice) -> None:
        self._faults = faults
        self._condition = condition
        self._choice = choice

    def _with(self, effect: Effect) -> Rule:
        return self._faults.add(self._condition, self._choice, effect)

    def delay(self, seconds: Duration) -> Rule:
        """Delay the response, or the start of the operation.

        Args:
            seconds: above 0, at most an hour: a number, a text with a unit such as "250ms", or a timedelta.
        """
        return self._with(Delay(seconds))


class RuleMaker(_Maker):
    """A rule about requests that lacks its effect; each method adds the rule with one effect, and returns it.

    Example::

        rule = faults.when("Produce", topic="orders", nth=1).error("NOT_LEADER_OR_FOLLOWER")

    All methods raise FaultError if an argument is invalid or the effect does not apply to the request.
    """

    def error(self, code: str | int, when: When = effects.BEFORE) -> Rule:
        """Answer with an error of Kafka for everything that the request names.

        Args:
            code: Kafka's name or number of the error: "NOT_LEADER_OR_FOLLOWER", 6 or an `ErrorCode`.
            when: "before" answers instead of handling the request. "after" handles it first and waits until it is
                durable.
        """
        return self._with(effects.Error(code, when))

    def drop(self) -> Rule:
        """Handle the request and never answer it. Releasing or removing the rule closes the request's connection."""
        return self._with(effects.Drop())

    def disconnect(self, when: When = effects.AFTER) -> Rule:
        """Close the connection "before" the request is handled, or "after" its records are durable."""
        return self._with(effects.Disconnect(when))

    def partial_write(self, size_bytes: int) -> Rule:
        """Send the first `size_bytes` bytes of the response, including its length prefix, then close the connection."""
        return self._with(effects.PartialWrite(size_bytes))

    def corrupt_crc(self) -> Rule:
        """Answer a Fetch or ShareFetch with wrong checksums. A fetch without records does not count as a hit."""
        return self._with(CorruptCrc())

    def throttle(self, throttle_ms: Duration) -> Rule:
        """Report a throttle time to the client, and do not read its connection for that time (KIP-219).

        Args:
            throttle_ms: above 0, at most 2**31 - 1: milliseconds, a text with a unit such as "2s", or a timedelta.
        """
        return self._with(effects.Throttle(throttle_ms))

    def pause(self, stage: str = effects.QUEUE) -> Rule:
        """Hold the request at a stage until the rule is released.

        Args:
            stage: "queue" (before its handler), "commit" (before its records are written) or "response_order" (before
                its response).
        """
        return self._with(Pause(stage))

    def call(self, function: Callable[[Subject], Any]) -> Rule:
        """Let a function decide about the request before it is handled.

        Args:
            function: receives the request as a `Subject` on the broker's event loop, and must not block. It returns
                None to handle the request, an effect (see `pipeline_broker.faults.effects`), or a response message of
                the API. If it raises, the client receives UNKNOWN_SERVER_ERROR.
        """
        return self._with(effects.Call(function))


class DiskRuleMaker(_Maker):
    """A rule about file operations that lacks its effect; each method adds the rule with one effect, and returns it.

    Example::

        rule = faults.disk_when("sync", nth=1).error("EIO")

    All methods raise FaultError if an argument is invalid or the broker does not support the effect.
    """

    def error(self, name: str | int = "EIO") -> Rule:
        """Fail the operation with a system error.

        Args:
            name: such as "EIO", or a number of the module `errno`.
        """
        return self._with(DiskError(name))

    def pause(self) -> Rule:
        """Hold the operation until the rule is released or removed, for at most an hour."""
        return self._with(Pause(effects.COMMIT))

    def crash(self) -> Rule:
        """Undo all writes that were not synced, then end the broker's process, like a power failure."""
        return self._with(Crash())


class StoreRuleMaker(_Maker):
    """A rule about the object store that lacks its effect; each method adds the rule with one effect, and returns it.

    Example::

        rule = faults.when_store("put", nth=1).unsure("after")

    All methods raise FaultError if an argument is invalid or the broker has no object store.
    """

    def error(self, name: str = "unavailable") -> Rule:
        """Fail the request.

        Args:
            name: "unavailable", or "conflict", which fails the condition of a conditional write.
        """
        return self._with(StoreError(name))

    def unsure(self, when: When = effects.AFTER) -> Rule:
        """Lose the answer "before" or "after" the store carries out the request."""
        return self._with(Unsure(when))

    def outage(self, seconds: Duration) -> Rule:
        """Fail this and all further requests to the store for some seconds.

        Args:
            seconds: as for `delay`.
        """
        return self._with(Outage(seconds))

    def pause(self) -> Rule:
        """Hold the request until the rule is released or removed, for at most an hour."""
        return self._with(Pause(effects.COMMIT))


class RuleFactory(RuleKeeper):
    """A base class that begins rules in Python and adds them with the subclass's `add`."""

    def when(self, api: str, **conditions: Any) -> RuleMaker:
        """Begin a rule about requests; a method of the result names the effect and adds the rule.

        Args:
            api: Kafka's name of the request, "GroupCoordinator" or "TransactionCoordinator".
            conditions: `topic`, `partition`, `client_id` and `group`, see RequestCondition; `nth`, `times`, `every`,
                `p` and `seed`, see Choice.

        Raises:
            FaultError: the API is unknown, or a choice is invalid.
            TypeError: a condition is unknown.
        """
        return RuleMaker(self, *self._begin(RequestCondition, api, conditions))

    def disk_when(self, operation: str, **conditions: Any) -> DiskRuleMaker:
        """Begin a rule about file operations; a method of the result names the effect and adds the rule.

        Args:
            operation: "sync" or "write".
            conditions: `path`, see DiskCondition; `nth`, `times`, `every`, `p` and `seed`, see Choice.

        Raises:
            FaultError: the operation is unknown, or a choice is invalid.
            TypeError: a condition is unknown.
        """
        return DiskRuleMaker(self, *self._begin(DiskCondition, operation, conditions))

    def when_store(self, operation: str, **conditions: Any) -> StoreRuleMaker:
        """Begin a rule about requests to the object store; a method of the result names the effect and adds the rule.

        Args:
            operation: "put", "get", "create", "replace", "upload", "list" or "delete", see STORE_OPERATIONS.
            conditions: `name`, see StoreCondition; `nth`, `times`, `every`, `p` and `seed`, see Choice.

        Raises:
            FaultError: the request is unknown, or a choice is invalid.
            TypeError: a condition is unknown.
        """
        return StoreRuleMaker(self, *self._begin(StoreCondition, operation, conditions))

    def _begin(self, kind: type[Kind], subject: str, conditions: Mapping[str, Any]) -> tuple[Kind, Choice]:
        about_what, *others = (field.name for field in attrs.fields(kind) if field.init)
        known = {*others, *CHOICES}
        for name in sorted(conditions.keys() - known):
            raise TypeError(f"unknown condition {name!r}; use {', '.join(sorted(known))}")
        condition = kind(**{about_what: subject, **{name: conditions[name] for name in others if name in conditions}})
        return condition, Choice(**{name: conditions[name] for name in CHOICES if name in conditions})
