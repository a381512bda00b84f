"""The fault rules of an embedded broker, made and looked after from any thread.

Rules of this file: it decides nothing; the rules are those of `pipeline_broker.faults`, on the loop of the broker. It
never waits for its turn among those who ask the broker for something: what they wait for may be held by a rule.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Mapping
from typing import Any, Protocol, TypeVar

import attrs

from pipeline_broker.embedded.life import Running
from pipeline_broker.faults.effects import Effect
from pipeline_broker.faults.faults import RULES_MAX, Faults
from pipeline_broker.faults.rule import Choice, Condition, Rule
from pipeline_broker.faults.rule_makers import Kind, RuleBeginner

__all__ = ["BegunRule", "EmbeddedFaults"]

__tracebackhide__ = True  # see lifecycle.py
Result = TypeVar("Result")


class OnLoop(Protocol):
    """Calls a function with the parts of the running broker, on its event loop, at once."""

    def __call__(self, function: Callable[[Running], Result]) -> Result:
        """What the function returned; what it raised is raised."""


@attrs.define(eq=False)
class BegunRule:
    """A rule that `when` began.

    Attributes:
        rule: as its effect made it; None without an effect.
    """

    condition: Condition
    choice: Choice
    rule: Rule | None = None

    def __str__(self) -> str:
        numbers = attrs.asdict(self.choice).items()
        return " ".join([str(self.condition), *(f"{name}={value}" for name, value in numbers if value is not None)])


class EmbeddedFaults(RuleBeginner):
    """See the rules of the file; a `restore` or `reset` of the broker takes its fault rules away.

    Args:
        on_loop: see OnLoop.
    """

    def __init__(self, on_loop: OnLoop) -> None:
        self._on_loop = on_loop
        self._begun: deque[BegunRule] = deque(maxlen=RULES_MAX)

    def record(self) -> Collection[BegunRule]:
        """What is begun from now on, as it grows: the newest, as many as there may be rules."""
        self._begun = deque(maxlen=RULES_MAX)
        return self._begun

    def _ask(self, function: Callable[[Faults], Result]) -> Result:
        return self._on_loop(lambda running: function(running.broker.faults))

    # Making rules

    def _begin(self, kind: type[Kind], subject: str, conditions: Mapping[str, Any]) -> tuple[Kind, Choice]:
        """Remember a rule that lacks its effect."""
        condition, choice = super()._begin(kind, subject, conditions)
        self._begun.append(BegunRule(condition, choice))
        return condition, choice

    def add(self, condition: Condition, choice: Choice, effect: Effect) -> Rule:
        """Make a rule of its parts; see `Faults.add`."""
        begun = next((each for each in self._begun if each.condition is condition and each.rule is None), None)
        if begun is not None:  # one that is refused below has got an effect too
            self._begun.remove(begun)
        rule = self._ask(lambda faults: faults.add(condition, choice, effect))
        self._begun.append(BegunRule(condition, choice, rule))
        return rule

    # Looking after them

    @property
    def rules(self) -> list[Rule]:
        """Those that there are, with what they did so far."""
        return self._ask(lambda faults: list(faults.rules))

    def remove(self, number: int) -> None:
        """Take a rule away by its number; what it holds goes on. Raises FaultError where there is none."""
        self._ask(lambda faults: faults.remove(number))

    def remove_all(self, rules: Collection[Rule]) -> None:
        """Take away those of some rules that there are still."""

        def remove(faults: Faults) -> None:
            for rule in rules:
                if any(rule is each for each in faults.rules):  # numbers begin anew with a `restore`
                    faults.remove(rule.number)

        if rules:
            self._ask(remove)

    def clear(self) -> int:
        """Take all rules away, and return how many there were; what they hold goes on."""
        return self._ask(Faults.clear)

    def release(self, number: int) -> bool:
        """Let go what a rule holds; whether it held anything. Raises FaultError where there is no such rule."""
        return self._ask(lambda faults: faults.release(number))

    def held_by(self, number: int) -> int:
        """How many answers, queues and operations on files a rule holds."""
        return self._ask(lambda faults: faults.held_by(number))

    # Groups

    def expire_member(self, group: str, member: str | None = None) -> None:
        """Take a member out of its group as if its session were over; without a member, all of them.

        Raises:
            FaultError: there is no such group or member.
        """
        self._ask(lambda faults: faults.expire_member(group, member))

    def force_rebalance(self, group: str) -> None:
        """Have the members of a group join again; of a consumer or share group, move to its next epoch.

        Raises:
            FaultError: there is no such group, or it has no members.
        """
        self._ask(lambda faults: faults.force_rebalance(group))
