"""Fault rules about file operations: errors, delays, pauses and crashes."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

import attrs

from pipeline_broker.base.buffer import Buffer
from pipeline_broker.faults.effects import Crash, DiskError
from pipeline_broker.faults.rule import DiskCondition
from pipeline_broker.faults.thread_rules import ThreadRules
from pipeline_broker.files.errors import SyncError
from pipeline_broker.files.file_system import File, write_all

__all__ = ["DiskFaults"]

JOURNAL_WRITES = DiskCondition(disk="write")


@attrs.frozen
class _Unsynced:
    """A write that was not synced yet, with the bytes that it replaced and the previous size of the file."""

    file: File
    position: int
    before: bytes
    size_bytes: int


class DiskFaults(ThreadRules[DiskCondition]):
    """The rules about files.

    While a crash rule exists, each write first reads the bytes that it replaces, so that a crash can undo unsynced
    writes.

    Args:
        crash: ends the process; None if the process is not the broker's own.
        set_active: receives whether files must call these rules.
    """

    def __init__(self, crash: Callable[[], None] | None, set_active: Callable[[bool], None]) -> None:
        super().__init__(DiskCondition, set_active)
        self._end_process = crash
        self._held_commits: set[int] = set()  # numbers of the rules that hold journal writes
        self._unsynced: dict[str, list[_Unsynced]] = {}
        self._has_crash = False

    @property
    def can_crash(self) -> bool:
        return self._end_process is not None

    def holds_commits(self, number: int) -> bool:
        with self._lock:
            return number in self._held_commits

    def hold_commits(self, number: int) -> None:
        """Hold journal writes until the rule with this number is released or removed."""
        with self._lock:
            self._held_commits.add(number)
            self._update_active()

    def _followed(self, numbers: set[int]) -> None:
        self._has_crash = any(type(rule.effect) is Crash for _, rule in self._rules)
        if not self._has_crash:
            self._unsynced.clear()
        self._held_commits &= numbers

    def _released(self, number: int) -> None:
        self._held_commits.discard(number)

    def _also_held_by(self, operation: str, name: str) -> Sequence[int]:
        return sorted(self._held_commits) if JOURNAL_WRITES.matches(operation, name) else ()

    def _is_wanted(self) -> bool:
        return bool(self._rules or self._held_commits)

    def before(self, operation: str, path: str) -> None:
        """Apply the rules to an operation; return once the operation may start. A rule may end the process.

        Args:
            operation: "write" or "sync".

        Raises:
            SyncError: a rule fails a sync.
            OSError: a rule fails another operation.
        """
        for rule in self._strike(operation, path):
            if type(rule.effect) is DiskError:
                number = rule.effect.number
                raise (SyncError if operation == "sync" else OSError)(number, os.strerror(number), path)
            if type(rule.effect) is Crash:
                self._crash()

    def _crash(self) -> None:
        with self._lock:
            for writes in self._unsynced.values():
                for write in reversed(writes):
                    write_all(write.file, [write.before], write.position)
                    # The write has extended the file.
                    if write.file.size_bytes() > write.size_bytes:
                        write.file.truncate(write.size_bytes)
            assert self._end_process is not None, "`Faults.check` rejects crashes otherwise"
            self._end_process()

    # Called by files

    def write(self, file: File, path: str, parts: Sequence[Buffer], position: int) -> int:
        self.before("write", path)
        if not self._has_crash:
            return file.write(parts, position)
        size_bytes = file.size_bytes()
        before = bytes(file.read(sum(map(len, parts)), position))
        written = file.write(parts, position)
        with self._lock:
            # A short write has replaced only its first bytes.
            self._unsynced.setdefault(path, []).append(_Unsynced(file, position, before[:written], size_bytes))
        return written

    def sync(self, file: File, path: str) -> None:
        self.before("sync", path)
        with self._lock:
            # Writes that start during the sync may not be covered by it, so only earlier ones count as synced.
            written = len(self._unsynced.get(path, ()))
        file.sync_data()
        with self._lock:
            if path in self._unsynced:
                del self._unsynced[path][:written]
