"""Entries that were appended and not committed yet, by more than one coordinator or for more than one partition.

Rules of this file: What is handed over together becomes durable in order, so what
stands behind an entry is never durable without it.
"""

from __future__ import annotations

from collections.abc import Callable

import attrs

from pipeline_broker.log.journal.entry import JournalEntry
from stages.request import Final, Pending

__all__ = ["Appended", "in_one_commit"]


@attrs.define
class Appended:
    """Entries on their way, and what is done when they are durable.

    Whoever waits for a share partition is woken there, not before: a fetch that is woken may append, and entries must
    be handed over in the order in which they were appended.

    Attributes:
        entries: in the order in which they were appended; they must be committed.
    """

    entries: list[JournalEntry] = attrs.Factory(list)
    _steps: list[Callable[[], None]] = attrs.Factory(list)

    def add(self, entry: JournalEntry, on_durable: Callable[[], None]) -> None:
        """One more."""
        self.entries.append(entry)
        self._steps.append(on_durable)

    def then(self, step: Callable[[], None]) -> None:
        """Do something more when all is durable."""
        self._steps.append(step)

    def durable(self) -> None:
        for step in self._steps:
            step()


def in_one_commit(first: Appended, then: Pending | Final, answer: Final) -> Pending | Final:
    """The answer when both are durable, one behind the other.

    Args:
        first: what was appended first, and goes first.
        then: what another coordinator makes of its own records.
        answer: for the case that neither has any.
    """
    entries = [*first.entries, *(then.entries if isinstance(then, Pending) else ())]
    apply = then.on_durable if isinstance(then, Pending) else None

    def durable() -> None:
        first.durable()
        if apply is not None:
            apply()

    if not entries:
        durable()
        return answer
    return Pending(entries, answer, durable)
