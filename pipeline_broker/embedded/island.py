"""The fault rules of one test on a shared embedded broker."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain

from pipeline_broker.embedded.fault_rules import BegunRule, EmbeddedFaults
from pipeline_broker.faults.rule import Rule

__all__ = ["Island"]


class Island:
    """The fault rules that were made during `EmbeddedBroker.island`.

    Args:
        faults: the broker's rules. Earlier ones are not part of the island.
    """

    def __init__(self, faults: EmbeddedFaults) -> None:
        self._begun = faults.record()

    def _all(self) -> Iterable[BegunRule]:
        return chain.from_iterable(self._begun)

    @property
    def rules(self) -> list[Rule]:
        """The complete fault rules, including removed ones."""
        return [begun.rule for begun in self._all() if begun.rule is not None]

    @property
    def rules_without_effect(self) -> list[BegunRule]:
        return [begun for begun in self._all() if begun.rule is None]

    @property
    def rules_never_struck(self) -> list[Rule]:
        """The fault rules that struck nothing, except those whose `p` left that to chance."""
        return [rule for rule in self.rules if not rule.hits and not (rule.matched and rule.choice.p is not None)]
