"""Which commits are synced before they are acknowledged, and how long the others may stay unsynced.

Rules of this file: pure; the journal asks it where it writes, one commit at a time. The rules are Kafka's
(`UnifiedLog.append`, `LogManager.flushDirtyLogs`), but a sync makes all partitions durable: they share one journal.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Literal

from pipeline_broker.log.journal.entry import JournalEntry
from pipeline_broker.log.segments.policies import NEVER, FlushRules

__all__ = ["Flush", "FlushPolicy"]

Flush = Literal["always", "os"]
"""Whether a commit is durable when it is synced, or when it is written, where no setting says anything."""

RULES: Mapping[Flush, FlushRules] = MappingProxyType({"always": FlushRules(messages=1), "os": FlushRules()})
"""What counts for a log whose topic says nothing."""


class FlushPolicy:
    """See the rules of the file.

    Args:
        flush: what counts for logs without rules of their own.
        due: called in the writing thread when `sync_within_ms` was set, or became shorter.

    Attributes:
        may_sync: whether any commit may wait for a disk; once True it stays so.
        sync_within_ms: within how many milliseconds what was written must be synced; None where nothing is to be.
        weaker: the rules of topics that promise less than `flush`.
    """

    def __init__(self, flush: Flush, due: Callable[[], None]) -> None:
        self._default = RULES[flush]
        self._due = due
        self._unsynced: dict[bytes, int] = {}  # records that no sync has covered, of logs that count them, by entry key
        self._counts = False  # some rules look at more than one commit; once True it stays so
        self.may_sync = flush == "always"
        self.sync_within_ms: int | None = None
        self.weaker: dict[str, FlushRules] = {}

    def topic_changed(self, topic: str, rules: FlushRules | None) -> None:
        """Take note of the rules of a topic; None where it is gone, or has none."""
        self.weaker.pop(topic, None)
        if rules is None:
            return
        self.may_sync |= rules.messages < NEVER
        self._counts |= 1 < rules.messages < NEVER or rules.ms < NEVER
        if rules.is_weaker_than(self._default):
            self.weaker[topic] = rules

    def must_sync(self, entries: Sequence[JournalEntry]) -> bool:
        """Decide whether a commit must be synced before it is acknowledged; `written` comes next."""
        if not self.may_sync:
            return False
        counts: dict[bytes, int] = {}
        for entry in entries:
            messages = (entry.log.policies.flush or self._default).messages
            if messages == 1:
                return True
            if messages < NEVER and self._count(entry, counts) >= messages:
                return True
        return False

    def _count(self, entry: JournalEntry, counts: dict[bytes, int]) -> int:
        key = entry.log.entry_key
        before = counts[key] if key in counts else self._unsynced.get(key, 0)
        counts[key] = before + entry.last_offset - entry.base_offset + 1
        return counts[key]

    def written(self, entries: Sequence[JournalEntry], *, is_synced: bool) -> None:
        """Take note of a commit that was written, and whether its sync comes next."""
        if is_synced:
            self.all_synced()
            return
        if not self._counts:
            return
        sync_within_ms = self.sync_within_ms
        for entry in entries:
            rules = entry.log.policies.flush or self._default
            if rules.messages < NEVER:
                self._count(entry, self._unsynced)
            if rules.ms < NEVER and (sync_within_ms is None or rules.ms < sync_within_ms):
                sync_within_ms = rules.ms
        if sync_within_ms != self.sync_within_ms:
            self.sync_within_ms = sync_within_ms
            self._due()

    def all_synced(self) -> None:
        """Take note that all that was written until now is being synced."""
        self._unsynced.clear()
        self.sync_within_ms = None
