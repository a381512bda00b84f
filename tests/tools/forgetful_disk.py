"""A disk that forgets what was not synced when its power goes: the file system without the kernel's side of it.

Rules of this file: it promises what Linux and POSIX promise and nothing more. Writes are seen at once; after a power
cut there is what was synced, and of the rest whatever the seed lets survive. While the power is off, and for ever on
what was opened before, every operation is an input/output error. An operation that is delayed finds out about a power
cut at its end. Operations are atomic, one at a time; only the waiting of delays and hangs is at once.
"""

import errno
import itertools
import os
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from fnmatch import fnmatchcase
from pathlib import Path

from tests.tools.disk_faults import DiskFaults, Verdict
from tests.tools.forgetful_changes import DataChange, Losses, Survival
from tests.tools.forgetful_tree import ForgetfulDirectory, ForgetfulFile, ForgetfulTree, Node


def failure(number: int, path: str) -> OSError:
    """The error with this number."""
    return OSError(number, os.strerror(number), path)


class Handle:
    """An open file; `life` is that of the power when it was opened."""

    __slots__ = ("appends", "errors_told", "file", "life")

    def __init__(self, file: ForgetfulFile, life: int, *, appends: bool) -> None:
        self.file = file
        self.life = life
        self.appends = appends
        self.errors_told = file.errors


class ForgetfulDisk:
    """See the module."""

    def __init__(self, store: Path) -> None:
        self.faults = DiskFaults()
        self.operations: Counter[str] = Counter()
        #: How many bytes the files may have together, None for as many as come.
        self.capacity_bytes: int | None = None
        #: What the last power cut took, until the power comes back.
        self.losses: Losses | None = None
        self._store = store
        self._lock = threading.RLock()
        self._tree = ForgetfulTree()
        self._unnamed: dict[int, ForgetfulFile] = {}  # open files without a name: they take space
        self._numbers = itertools.count(1)
        self._life = 1
        self._powered = True

    # what a process asks for

    def find(self, path: str) -> Node:
        """What has this name; the caller only looks at it."""
        with self._lock:
            self._require_power(path)
            return self._find(path)

    def list_names(self, path: str) -> list[str]:
        with self._lock:
            self._require_power(path)
            return list(self._directory(path).seen)

    def open(self, path: str, *, appends: bool = False) -> Handle:
        with self._operation("open", path):
            return self._handle(self._file(path), appends=appends)

    def create(self, path: str, mode: int, *, appends: bool = False) -> Handle:
        with self._operation("create", path):
            directory, name = self._place(path)
            if name in directory.seen:
                raise failure(errno.EEXIST, path)
            file = ForgetfulFile(self._store, mode)
            file.path = path
            self._tree.change(next(self._numbers), (directory, name, file))
            return self._handle(file, appends=appends)

    def close(self, handle: Handle) -> None:
        """Never fails."""
        with self._lock:
            handle.file.open_count -= 1
            if not handle.file.open_count:
                self._unnamed.pop(id(handle.file), None)

    def read(self, handle: Handle, size_bytes: int, position: int) -> bytes:
        with self._operation("read", handle.file.path, handle) as verdict:
            return handle.file.seen.read(size_bytes, max(0, position + verdict.shift_bytes))

    def write(self, handle: Handle, data: bytes, position: int) -> int:
        """May take fewer bytes than are given, when the disk is nearly full."""
        file = handle.file
        with self._operation("write", file.path, handle) as verdict:
            if handle.appends:
                position = file.seen.size_bytes
            data = data[: self._room(file, position, len(data))]
            seen = DataChange(next(self._numbers), position, data)
            lands = DataChange(seen.number, max(0, position + verdict.shift_bytes), data)
            file.change(seen, lands)
            return len(data)

    def truncate(self, file: ForgetfulFile, size_bytes: int, handle: Handle | None = None) -> None:
        with self._operation("truncate", file.path, handle):
            grown = size_bytes - file.seen.size_bytes
            if grown > 0 and self._room(file, file.seen.size_bytes, grown) < grown:
                raise failure(errno.ENOSPC, file.path)
            change = DataChange(next(self._numbers), size_bytes, None)
            file.change(change, change)

    def sync(self, handle: Handle) -> None:
        """Data and size, not the name; an error is told once to every handle that was open when it happened."""
        file = handle.file
        try:
            with self._operation("sync", file.path, handle):
                pass
        except OSError:
            with self._lock:
                if self._powered and handle.life == self._life:
                    file.lose_pending()
                    handle.errors_told = file.errors
            raise
        with self._lock:
            self._require_power(file.path, handle)
            if handle.errors_told != file.errors:
                handle.errors_told = file.errors
                raise failure(errno.EIO, file.path)
            file.settle()

    def sync_directory(self, path: str) -> None:
        with self._operation("sync directory", path):
            self._tree.settle(self._directory(path))

    def make_directory(self, path: str, mode: int) -> None:
        with self._operation("make directory", path):
            directory, name = self._place(path)
            if name in directory.seen:
                raise failure(errno.EEXIST, path)
            self._tree.change(next(self._numbers), (directory, name, ForgetfulDirectory(mode)))

    def unlink(self, path: str) -> None:
        with self._operation("unlink", path):
            file = self._file(path)
            directory, name = self._place(path)
            self._tree.change(next(self._numbers), (directory, name, None))
            self._note_unnamed(file)

    def remove_directory(self, path: str) -> None:
        with self._operation("unlink", path):
            if self._directory(path).seen:
                raise failure(errno.ENOTEMPTY, path)
            directory, name = self._place(path)
            self._tree.change(next(self._numbers), (directory, name, None))

    def rename(self, source: str, target: str) -> None:
        """What had the target's name loses it in the same moment."""
        with self._operation("rename", source):
            node = self._find(source)
            directory, name = self._place(source)
            target_directory, target_name = self._place(target)
            replaced = target_directory.seen.get(target_name)
            if replaced is node:
                return
            if isinstance(replaced, ForgetfulDirectory):
                raise failure(errno.ENOTEMPTY if replaced.seen else errno.EISDIR, target)
            self._tree.change(next(self._numbers), (directory, name, None), (target_directory, target_name, node))
            if isinstance(replaced, ForgetfulFile):
                self._note_unnamed(replaced)
            if isinstance(node, ForgetfulFile):
                node.path = target

    def link(self, source: str, target: str) -> None:
        """A second name, which must be free; a file that has several is not renamed."""
        with self._operation("link", source):
            file = self._file(source)
            directory, name = self._place(target)
            if name in directory.seen:
                raise failure(errno.EEXIST, target)
            self._tree.change(next(self._numbers), (directory, name, file))
            file.path = target

    # what befalls the disk

    def power_cut(self, seed: int | str, style: str | None = None) -> Losses:
        """Forget; a second cut before the power is back takes nothing more."""
        with self._lock:
            if self.losses is not None:
                return self.losses
            self._powered = False
            self._life += 1
            files = list(self._tree.all_files())
            changes = [change for file in files for change in file.pending]
            names_at_risk = len(self._tree.pending)
            numbers = [change.number for change in changes] + [change.number for change in self._tree.pending]
            survival = Survival(seed, numbers, style)
            names_kept = self._tree.cut(survival)
            self.losses = Losses(
                style=survival.style,
                bytes_at_risk=sum(change.size_bytes for change in changes),
                names_at_risk=names_at_risk,
                bytes_kept=sum(file.cut(survival) for file in files),
                names_kept=names_kept,
            )
            self._unnamed.clear()
            self.faults.end_waiting()
            return self.losses

    def power_on(self) -> None:
        """What is opened from now on works; the faults stay."""
        with self._lock:
            self._powered = True
            self.losses = None

    def settle_all(self) -> None:
        """Sync everything, as an orderly end of the machine does."""
        with self._lock:
            self._tree.settle_all()
            for file in self._tree.files():
                file.settle()

    def at_risk(self, pattern: str = "*") -> tuple[int, int]:
        """Bytes, of the files with such paths, and names, of all, that a power cut could take now."""
        with self._lock:
            files = (file for file in self._tree.all_files() if fnmatchcase(file.path, pattern))
            return sum(change.size_bytes for file in files for change in file.pending), len(self._tree.pending)

    @property
    def used_bytes(self) -> int:
        with self._lock:
            return sum(file.seen.size_bytes for file in (*self._tree.files(), *self._unnamed.values()))

    # inside

    @contextmanager
    def _operation(self, name: str, path: str, handle: Handle | None = None) -> Iterator[Verdict]:
        """Count, wait, fail; then the body runs alone."""
        with self._lock:
            self._require_power(path, handle)
            self.operations[name] += 1
            life = self._life
        verdict = self.faults.judge(name, path)
        self.faults.wait(verdict)
        with self._lock:
            if verdict.cut_seed is not None:
                self.power_cut(verdict.cut_seed)
            if not self._powered or life != self._life:
                raise failure(errno.EIO, path)
            if verdict.error is not None:
                raise verdict.error
            yield verdict

    def _require_power(self, path: str, handle: Handle | None = None) -> None:
        if not self._powered or (handle is not None and handle.life != self._life):
            raise failure(errno.EIO, path)

    def _room(self, file: ForgetfulFile, position: int, size_bytes: int) -> int:
        """How many of so many bytes can be written; an error when it is none of them."""
        if self.capacity_bytes is None:
            return size_bytes
        free = max(0, self.capacity_bytes - self.used_bytes)
        room = max(0, min(size_bytes, file.seen.size_bytes + free - position))
        if size_bytes and not room:
            raise failure(errno.ENOSPC, file.path)
        return room

    def _handle(self, file: ForgetfulFile, *, appends: bool) -> Handle:
        file.open_count += 1
        return Handle(file, self._life, appends=appends)

    def _note_unnamed(self, file: ForgetfulFile) -> None:
        if file.open_count:
            self._unnamed[id(file)] = file

    def _find(self, path: str) -> Node:
        node: Node = self._tree.root
        for name in path.split("/"):
            if not name:
                continue
            if not isinstance(node, ForgetfulDirectory):
                raise failure(errno.ENOTDIR, path)
            if name not in node.seen:
                raise failure(errno.ENOENT, path)
            node = node.seen[name]
        return node

    def _directory(self, path: str) -> ForgetfulDirectory:
        node = self._find(path)
        if not isinstance(node, ForgetfulDirectory):
            raise failure(errno.ENOTDIR, path)
        return node

    def _file(self, path: str) -> ForgetfulFile:
        node = self._find(path)
        if not isinstance(node, ForgetfulFile):
            raise failure(errno.EISDIR, path)
        return node

    def _place(self, path: str) -> tuple[ForgetfulDirectory, str]:
        parent, _, name = path.rpartition("/")
        return self._directory(parent), name
