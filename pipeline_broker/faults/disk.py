"""What rules do to operations on files: fail them, begin them later, hold them, end the process.

Rules of this file: as of `names.py`, but that its methods are called by the threads that commit and archive: what they
share is behind one lock, and nobody waits while he holds it. A pause and a delay end when their rule goes, whatever
time they had left.
"""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Callable, Sequence

import attrs

from pipeline_broker.faults.effects import Crash, Delay, DiskError, Pause
from pipeline_broker.faults.rule import DiskCondition, Rule
from pipeline_broker.files.errors import SyncError
from pipeline_broker.files.file_system import File, write_all
from pipeline_broker.log.entry import Buffer

__all__ = ["DiskFaults"]

PAUSE_SECONDS_MAX = 3600.0
"""The longest that an operation is held, should nobody release it."""
JOURNAL_WRITES = DiskCondition(disk="write")


@attrs.frozen
class _Unsynced:
    """A write that was not synced yet: what stood there before."""

    file: File
    position: int
    before: bytes
    size_bytes: int


class DiskFaults:
    """The rules about files, and who waits because of them.

    Args:
        crash: ends the process; None where that would take more with it than a broker.
        set_active: called with whether there is something to ask; files ask only then.
    """

    def __init__(self, crash: Callable[[], None] | None, set_active: Callable[[bool], None]) -> None:
        self._end_process = crash
        self._set_active = set_active
        self._lock = threading.Lock()
        self._rules: tuple[tuple[DiskCondition, Rule], ...] = ()
        self._gates: dict[int, threading.Event] = {}  # of pauses and delays, by the number of their rule
        self._waiting: Counter[int] = Counter()
        self._held_commits: set[int] = set()  # rules that hold what is written to the journal
        self._unsynced: dict[str, list[_Unsynced]] = {}
        self._has_crash = False

    @property
    def can_crash(self) -> bool:
        """Whether the process may be ended."""
        return self._end_process is not None

    def follow(self, rules: Sequence[Rule]) -> None:
        """Act on these rules from now on; who was held by another one goes on."""
        with self._lock:
            self._rules = tuple(
                (condition, rule) for rule in rules if isinstance(condition := rule.condition, DiskCondition)
            )
            self._has_crash = any(type(rule.effect) is Crash for _, rule in self._rules)
            if not self._has_crash:
                self._unsynced.clear()
            numbers = {rule.number for rule in rules}
            self._held_commits &= numbers
            gone = [self._gates.pop(number) for number in set(self._gates) - numbers]
            self._look()
        for gate in gone:
            gate.set()

    def count(self, number: int) -> int:
        """How many operations a rule holds."""
        with self._lock:
            return self._waiting[number]

    def holds_commits(self, number: int) -> bool:
        """Whether a rule holds what is written to the journal."""
        with self._lock:
            return number in self._held_commits

    def hold_commits(self, number: int) -> None:
        """Hold what is written to the journal from now on, until a rule is released."""
        with self._lock:
            self._held_commits.add(number)
            self._look()

    def release(self, number: int) -> bool:
        """Let go what a rule holds; whether it held anything."""
        with self._lock:
            gate = self._gates.pop(number, None)
            is_held = self._waiting[number] > 0
            self._held_commits.discard(number)
            self._look()
        if gate is not None:
            gate.set()
        return is_held

    def _look(self) -> None:
        self._set_active(bool(self._rules or self._held_commits))

    def before(self, operation: str, path: str) -> None:
        """Do to an operation what the rules say; returns when it may begin.

        Raises:
            OSError: it fails, a sync with SyncError.
        """
        with self._lock:
            struck = [rule for about, rule in self._rules if about.matches(operation, path) and rule.strikes()]
            waits = [
                (rule.number, rule.effect.seconds if type(rule.effect) is Delay else PAUSE_SECONDS_MAX)
                for rule in struck
                if isinstance(rule.effect, Delay | Pause)
            ]
            if JOURNAL_WRITES.matches(operation, path):
                waits += [(number, PAUSE_SECONDS_MAX) for number in sorted(self._held_commits)]
            gates = [self._gates.setdefault(number, threading.Event()) for number, _ in waits]
            self._waiting.update(number for number, _ in waits)
        for gate, (number, seconds) in zip(gates, waits, strict=True):
            gate.wait(seconds)
            with self._lock:
                self._waiting[number] -= 1
        for rule in struck:
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
