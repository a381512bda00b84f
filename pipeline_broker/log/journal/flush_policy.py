"""Kafka's flush policy: which commits are synced before their acknowledgement, and how soon the others."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Literal

from pipeline_broker.log.journal.entry import JournalEntry
from pipeline_broker.log.segments.policies import NEVER, FlushRules

__all__ = ["Flush", "FlushPolicy"]

Flush = Literal["always", "os"]
"""The default durability of commits: once synced, or once the operating system has the bytes."""

RULES: Mapping[Flush, FlushRules] = MappingProxyType({"always": FlushRules(messages=1), "os": FlushRules()})
"""Flush rules of logs whose topic has none."""


class FlushPolicy:
    """The rules for syncing: which commits of a journal must be durable before their acknowledgement.

    The rules are those of Kafka's `UnifiedLog.append` and `LogManager.flushDirtyLogs`. But all partitions share one
    journal, so a sync for one partition makes the unsynced records of all partitions durable. The journal calls the
    policy with its write lock held.

    Args:
        flush: default for logs without rules.
        notify: called in the writing thread when `sync_within_ms` was set or became shorter.

    Attributes:
        may_sync: whether any commit may need a sync; once True it stays True.
        sync_within_ms: deadline for syncing the written commits, in milliseconds; None without a deadline.
        weaker: rules of topics that promise less than `flush`.
    """

    def __init__(self, flush: Flush, notify: Callable[[], None]) -> None:
        self._default = RULES[flush]
        self._notify = notify
        # Records by entry key, of logs with a limit of records: those that no sync covers, and those of each running
        # sync by its end LSN. A running sync has made nothing durable yet.
        self._unsynced: dict[bytes, int] = {}
        self._syncing: dict[int, dict[bytes, int]] = {}
        self._counts = False  # whether any topic needs counts or a deadline; once True it stays True
        self.may_sync = flush == "always"
        self.sync_within_ms: int | None = None
        self.weaker: dict[str, FlushRules] = {}

    @property
    def must_sync_recovered(self) -> bool:
        """True if a startup must make all records durable, because deadlines and counts end with their process."""
        return self.may_sync or self._counts

    def topic_changed(self, topic: str, rules: FlushRules | None) -> None:
        """Update the rules of a topic; `rules` is None if the topic was deleted or has none."""
        self.weaker.pop(topic, None)
        if rules is None:
            return
        self.may_sync |= rules.messages < NEVER
        self._counts |= 1 < rules.messages < NEVER or rules.ms < NEVER
        if rules.is_weaker_than(self._default):
            self.weaker[topic] = rules

    def must_sync(self, entries: Sequence[JournalEntry]) -> bool:
        """Return whether a commit must be synced before its acknowledgement. Call `written` or `sync_begins` next."""
        # The usual case with flush=os, on the hot path.
        if not self.may_sync:
            return False
        # Separate from `_unsynced`, because the write may be refused and tried again. `written` updates that.
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
        return counts[key] + sum(syncing.get(key, 0) for syncing in self._syncing.values())

    def written(self, entries: Sequence[JournalEntry]) -> None:
        """Record a commit that is acknowledged without a sync. May shorten `sync_within_ms` and call `notify`."""
        # The usual case, on the hot path: no topic needs counts.
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
            self._notify()

    def sync_begins(self, end_lsn: int) -> None:
        """Record that a sync of all commits below `end_lsn` begins. Call `synced` after it."""
        self.sync_within_ms = None
        if self._unsynced:
            self._syncing[end_lsn] = self._unsynced
            self._unsynced = {}

    def synced(self, end_lsn: int) -> None:
        if self._syncing:  # syncs may end in any order
            self._syncing = {end: counts for end, counts in self._syncing.items() if end > end_lsn}
