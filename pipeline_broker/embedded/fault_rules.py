"""Fault rules of an embedded broker, managed from any thread."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Mapping
from typing import Any, Protocol, TypeVar

import attrs

from pipeline_broker.embedded.life import Running
from pipeline_broker.faults.effects import Effect
from pipeline_broker.faults.faults import RULES_MAX, Faults
from pipeline_broker.faults.rule import Choice, Condition, Rule
from pipeline_broker.faults.rule_makers import Kind, RuleFactory
from pipeline_broker.faults.values import whole_number

__all__ = ["BegunRule", "EmbeddedFaults"]

__tracebackhide__ = True  # pytest shows the caller's line instead of this module
Result = TypeVar("Result")


class OnLoop(Protocol):
    """A call of a function with the parts of the running broker, on its event loop.

    It does not wait for other calls in progress: they may wait for a request that a rule holds.
    """

    def __call__(self, function: Callable[[Running], Result]) -> Result: ...


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
        on_loop: runs a function on the broker's event loop.
    """

    def __init__(self, on_loop: OnLoop) -> None:
        self._on_loop = on_loop
        self._begun: deque[BegunRule] = deque(maxlen=RULES_MAX)

    def record(self) -> Collection[BegunRule]:
        """Start and return a live collection of new rules, bounded to the newest RULES_MAX."""
        self._begun = deque(maxlen=RULES_MAX)
        return self._begun

    def _ask(self, function: Callable[[Faults], Result]) -> Result:
        return self._on_loop(lambda running: function(running.broker.faults))

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
        rule = self._ask(lambda faults: faults.add(condition, choice, effect))
        self._begun.append(BegunRule(condition, choice, rule))
        return rule

    # Managing rules

    @property
    def rules(self) -> list[Rule]:
        """The current rules, each with the number of requests or operations that it matched and struck."""
        return self._ask(lambda faults: list(faults.rules))

    def remove(self, number: int | Rule) -> None:
        """Remove a rule by its number, or the `Rule` itself, and let held requests continue.

        Raises:
            FaultError: no rule has this number.
        """
        self._ask(lambda faults: faults.remove(_number(number)))

    def remove_all(self, rules: Collection[Rule]) -> None:
        """Remove these rules, except those that were removed before."""

        def remove(faults: Faults) -> None:
            for rule in rules:
                if any(rule is each for each in faults.rules):  # after a `restore`, other rules have the same numbers
                    faults.remove(rule.number)

        if rules:
            self._ask(remove)

    def clear(self) -> int:
        """Remove all rules, let held requests continue, and return the number of removed rules."""
        return self._ask(Faults.clear)

    def release(self, number: int | Rule) -> bool:
        """Let requests that a rule holds continue; the rule stays. Return whether it held any.

        Raises:
            FaultError: no rule has this number.
        """
        return self._ask(lambda faults: faults.release(_number(number)))

    def held_by(self, number: int | Rule) -> int:
        """Return the number of responses, queues, file operations and store requests that a rule holds."""
        return self._ask(lambda faults: faults.held_by(_number(number)))

    # Groups

    def expire_member(self, group: str, member: str | None = None) -> None:
        """End the session of a member, or of all members.

        Raises:
            FaultError: the group or the member does not exist.
        """
        self._ask(lambda faults: faults.expire_member(group, member))

    def force_rebalance(self, group: str) -> None:
        """Make the members of a classic group rejoin, or bump the epoch of a consumer or share group.

        Raises:
            FaultError: the group does not exist or has no members.
        """
        self._ask(lambda faults: faults.force_rebalance(group))


def _number(rule: int | Rule) -> int:
    return rule.number if isinstance(rule, Rule) else whole_number("a fault rule", rule)
