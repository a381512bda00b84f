"""Fault rules of an embedded broker, managed from any thread."""

from __future__ import annotations

import contextlib
import functools
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Protocol, TypeVar

import attrs

from pipeline_broker.embedded.arguments import checked_name
from pipeline_broker.faults.effects import Effect
from pipeline_broker.faults.faults import RULES_MAX, Faults
from pipeline_broker.faults.names import FaultError
from pipeline_broker.faults.rule import Choice, Condition, RequestCondition, Rule
from pipeline_broker.faults.rule_makers import Kind, RuleFactory
from pipeline_broker.faults.values import whole_number

__all__ = ["BegunRule", "EmbeddedFaults"]

__tracebackhide__ = True  # pytest shows the caller's line instead of this module
Result = TypeVar("Result")


class OnFaults(Protocol):
    """A call of a function with the rules of the broker, or of each running broker of a cluster, on their event loop.

    It does not wait for other calls in progress: they may wait for a request that a rule holds.
    """

    def __call__(self, function: Callable[[Sequence[Faults]], Result]) -> Result: ...


@attrs.define(eq=False)
class BegunRule:
    """A rule that `when` began.

    Attributes:
        condition: the requests or operations that the rule is about.
        choice: which of them it strikes.
        rule: the complete rule; None if no effect was named.
    """

    condition: Condition
    choice: Choice
    rule: Rule | None = None

    def __str__(self) -> str:
        numbers = attrs.asdict(self.choice).items()
        return " ".join([str(self.condition), *(f"{name}={value}" for name, value in numbers if value is not None)])


class EmbeddedFaults(RuleFactory):
    """The fault rules of an embedded broker; `restore` and `reset` remove them.

    Begin a rule with `when`, `disk_when` or `when_store`, and name its effect::

        rule = broker.faults.when("Produce", topic="orders", nth=1).disconnect("after")
        ...
        assert rule.hits == 1

    Args:
        on_faults: runs a function on the event loop.
        check_coordinator: raises RefusedError if the coordinator of a group is stopped, given the call and the group.
        parts: the rules of each broker of a cluster alone.
    """

    def __init__(
        self,
        on_faults: OnFaults,
        check_coordinator: Callable[[str, str], None] | None = None,
        parts: Sequence[EmbeddedFaults] = (),
    ) -> None:
        self._parts = parts
        self._on_faults = on_faults
        self._check_coordinator = check_coordinator
        self._begun: deque[BegunRule] = deque(maxlen=RULES_MAX)

    def record(self) -> list[Collection[BegunRule]]:
        """Start and return live collections of new rules, each bounded to the newest RULES_MAX."""
        self._begun = deque(maxlen=RULES_MAX)
        return [self._begun, *(begun for part in self._parts for begun in part.record())]

    # Making rules

    def _begin(self, kind: type[Kind], subject: str, conditions: Mapping[str, Any]) -> tuple[Kind, Choice]:
        condition, choice = super()._begin(kind, subject, conditions)
        self._begun.append(BegunRule(condition, choice))
        return condition, choice

    def add(self, condition: Condition, choice: Choice, effect: Effect) -> Rule:
        """Make a rule of its parts, add it, and return it.

        Raises:
            FaultError: the effect does not apply to the condition, or the broker has too many rules.
        """
        begun = next((each for each in self._begun if each.condition is condition and each.rule is None), None)
        if begun is not None:  # it has an effect, even if `Faults.add` rejects it below
            self._begun.remove(begun)
        rule = self._on_faults(functools.partial(_add, condition, choice, effect))
        self._begun.append(BegunRule(condition, choice, rule))
        return rule

    # Managing rules

    @property
    def rules(self) -> list[Rule]:
        """The current rules, each with the number of requests or operations that it matched and struck."""
        return self._on_faults(lambda every: list(dict.fromkeys(rule for faults in every for rule in faults.rules)))

    def remove(self, number: int | Rule) -> None:
        """Remove a rule by its number, or the `Rule` itself, and let held requests continue.

        Raises:
            FaultError: no rule has this number.
        """

        def remove(every: Sequence[Faults]) -> None:
            for faults, rule in _found(every, number):
                faults.remove(rule.number)

        self._on_faults(remove)

    def remove_all(self, rules: Collection[Rule]) -> None:
        """Remove these rules, except those that were removed before."""

        def remove(every: Sequence[Faults]) -> None:
            for faults in every:
                # By identity: after a `restore`, other rules have the same numbers.
                for rule in [each for each in faults.rules if any(each is rule for rule in rules)]:
                    faults.remove(rule.number)

        if rules:
            self._on_faults(remove)

    def clear(self) -> int:
        """Remove all rules, let held requests continue, and return the number of removed rules."""
        return self._on_faults(_clear)

    def release(self, number: int | Rule) -> bool:
        """Let requests that a rule holds continue; the rule stays. Return whether it held any.

        Raises:
            FaultError: no rule has this number.
        """
        return any(self._on_faults(lambda every: [each.release(it.number) for each, it in _found(every, number)]))

    def held_by(self, number: int | Rule) -> int:
        """Return the number of responses, queues, file operations and store requests that a rule holds."""

        def count(every: Sequence[Faults]) -> int:
            of_rule = [each for each in every if not isinstance(number, Rule) or number in each.rules]
            return sum(faults.held_by(_number(number)) for faults in of_rule)

        return self._on_faults(count)

    # Groups

    def expire_member(self, group: str, member: str | None = None) -> None:
        """End the session of a member, or of all members.

        Raises:
            FaultError: the group or the member does not exist.
            RefusedError: the coordinator of the group is stopped.
        """
        self._check_group("expire_member", group)
        self._on_faults(lambda every: _first(every, lambda faults: faults.expire_member(group, member)))

    def force_rebalance(self, group: str) -> None:
        """Make the members of a classic group rejoin, or bump the epoch of a consumer or share group.

        Raises:
            FaultError: the group does not exist or has no members.
            RefusedError: the coordinator of the group is stopped.
        """
        self._check_group("force_rebalance", group)
        self._on_faults(lambda every: _first(every, lambda faults: faults.force_rebalance(group)))

    def _check_group(self, asked: str, group: str) -> None:
        if self._check_coordinator is not None:
            self._check_coordinator(f"{asked}({group!r})", checked_name(f"{asked}: group", group))


def _number(rule: int | Rule) -> int:
    return rule.number if isinstance(rule, Rule) else whole_number("a fault rule", rule)


def _add(condition: Condition, choice: Choice, effect: Effect, every: Sequence[Faults]) -> Rule:
    if len(every) == 1:
        return every[0].add(condition, choice, effect)
    if not isinstance(condition, RequestCondition):  # its counts would belong to the threads of all brokers
        raise FaultError("a rule about files is for one broker of a cluster; use the faults of cluster.brokers[...]")
    for faults in every:  # before the first of them has it
        faults.check(condition, effect)
    rule = Rule(max(faults.next_number for faults in every), condition, choice, effect)
    for faults in every:
        faults.include(rule)
    every[0].note_added(rule)
    return rule


def _found(every: Sequence[Faults], wanted: int | Rule) -> list[tuple[Faults, Rule]]:
    found = [(faults, rule) for faults in every for rule in faults.rules if rule is wanted or rule.number == wanted]
    return found or [(every[0], every[0].rule(_number(wanted)))]


def _clear(every: Sequence[Faults]) -> int:
    count = len({rule for faults in every for rule in faults.rules})
    for faults in every:
        faults.clear()
    return count


def _first(every: Sequence[Faults], function: Callable[[Faults], None]) -> None:
    # The broker that coordinates the group accepts the call; those of others raise FaultError.
    *others, last = every
    for faults in others:
        with contextlib.suppress(FaultError):
            function(faults)
            return
    function(last)
