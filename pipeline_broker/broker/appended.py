"""Entries of several coordinators or partitions that are committed together."""

from __future__ import annotations

from collections.abc import Callable

import attrs

from pipeline_broker.log.journal.entry import JournalEntry
from stages.request import Final, Pending

__all__ = ["Appended", "in_one_commit"]


@attrs.define
class Appended:
    """Entries that are appended but not committed, and the functions to call once they are durable.

    These functions wake waiting share fetches. A fetch that resumes earlier could append, and entries must be committed
    in the order in which they were appended.

    Attributes:
        entries: entries to commit, in this order.
        dead_letters: number of records of dead-letter queues in the entries.
    """

    entries: list[JournalEntry] = attrs.Factory(list)
    dead_letters: int = 0
    _steps: list[Callable[[], None]] = attrs.Factory(list)

    def add(self, entry: JournalEntry, on_durable: Callable[[], None]) -> None:
        self.entries.append(entry)
        self._steps.append(on_durable)

    def then(self, step: Callable[[], None]) -> None:
        self._steps.append(step)

    def durable(self) -> None:
        for step in self._steps:
            step()


def in_one_commit(first: Appended, then: Pending | Final, answer: Final) -> Pending | Final:
    """Combine the entries of two coordinators in one commit; answer once it is durable.

    If neither coordinator has entries, their functions are called at once and `answer` is returned.

    Args:
        first: entries that are written first. The later ones are never durable without them.
        then: result of the other coordinator.
        answer: answer to the request.
    """
    # The journal keeps this order: after a crash a later entry never exists without the earlier ones.
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
