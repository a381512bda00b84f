"""What rules do to operations on files: fail them, begin them later, hold them, end the process.

Rules of this file: as of `thread_rules.py`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

import attrs

from pipeline_broker.faults.effects import Crash, DiskError
from pipeline_broker.faults.rule import DiskCondition
from pipeline_broker.faults.thread_rules import ThreadRules
from pipeline_broker.files.errors import SyncError
from pipeline_broker.files.file_system import File, write_all
from pipeline_broker.log.journal.entry import Buffer

__all__ = ["DiskFaults"]

JOURNAL_WRITES = DiskCondition(disk="write")


@attrs.frozen
class _Unsynced:
    """A write that was not synced yet: what stood there before."""

    file: File
    position: int
    before: bytes
    size_bytes: int


class DiskFaults(ThreadRules[DiskCondition]):
    """The rules about files, and who waits because of them.

    Args:
        crash: ends the process; None where that would take more with it than a broker.
        set_active: called with whether there is something to ask; files ask only then.
    """

    def __init__(self, crash: Callable[[], None] | None, set_active: Callable[[bool], None]) -> None:
        super().__init__(DiskCondition, set_active)
        self._end_process = crash
        self._held_commits: set[int] = set()  # rules that hold what is written to the journal
        self._unsynced: dict[str, list[_Unsynced]] = {}
        self._has_crash = False

    @property
    def can_crash(self) -> bool:
        """Whether the process may be ended."""
        return self._end_process is not None

    def holds_commits(self, number: int) -> bool:
        """Whether a rule holds what is written to the journal."""
        with self._lock:
            return number in self._held_commits

    def hold_commits(self, number: int) -> None:
        """Hold what is written to the journal from now on, until a rule is released."""
        with self._lock:
            self._held_commits.add(number)
            self._look()

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
        """Do to an operation what the rules say; returns when it may begin.

        Raises:
            OSError: it fails, a sync with SyncError.
        """
        for rule in self._strike(operation, path):
            if type(rule.effect) is DiskError:
                number = rule.effect.number
                raise (SyncError if operation == "sync" else OSError)(number, os.strerror(number), path)
            if type(rule.effect) is Crash:
                self._crash()

    def _crash(self) -> None:
        """Take back what was not synced, newest first, and end."""
        with self._lock:
            for writes in self._unsynced.values():
                for write in reversed(writes):
                    write_all(write.file, [write.before], write.position)
                    if write.file.size_bytes() > write.size_bytes:
                        write.file.truncate(write.size_bytes)
            assert self._end_process is not None, "no rule can be made otherwise"
            self._end_process()

    # What files call

    def write(self, file: File, path: str, parts: Sequence[Buffer], position: int) -> int:
        """See File; remembers what was there where a crash may follow."""
        self.before("write", path)
        if not self._has_crash:
            return file.write(parts, position)
        size_bytes = file.size_bytes()
        before = bytes(file.read(sum(map(len, parts)), position))
        written = file.write(parts, position)
        with self._lock:
            self._unsynced.setdefault(path, []).append(_Unsynced(file, position, before[:written], size_bytes))
        return written

    def sync(self, file: File, path: str) -> None:
        self.before("sync", path)
        with self._lock:
            written = len(self._unsynced.get(path, ()))
        file.sync_data()
        with self._lock:
            if path in self._unsynced:
                del self._unsynced[path][:written]
