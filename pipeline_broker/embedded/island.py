"""What one test does to an embedded broker that others use too.

Rules of this file: any thread; it looks at rules and decides nothing. `Core.end_island` puts the broker back.
"""

from __future__ import annotations

from pipeline_broker.embedded.fault_rules import BegunRule, EmbeddedFaults
from pipeline_broker.faults.rule import Rule

__all__ = ["Island"]


class Island:
    """See the file; `EmbeddedBroker.island` gives it.

    Args:
        faults: of the broker; what was begun before is not part of this.
    """

    def __init__(self, faults: EmbeddedFaults) -> None:
        self._begun = faults.record()

    @property
    def rules(self) -> list[Rule]:
        """The fault rules that were made in it, those that are gone by now too."""
        return [begun.rule for begun in self._begun if begun.rule is not None]

    @property
    def rules_without_effect(self) -> list[BegunRule]:
        """What `when` began in it and no effect completed."""
        return [begun for begun in self._begun if begun.rule is None]

    @property
    def rules_never_struck(self) -> list[Rule]:
        """The fault rules of it that struck nothing, where that is no matter of chance."""
        return [rule for rule in self.rules if not rule.hits and not (rule.matched and rule.choice.p is not None)]
