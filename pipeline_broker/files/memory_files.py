"""A file system in the memory of this process, for brokers without persistence.

It knows no power cuts; the tests' `MemoryFileSystem` simulates those.
"""

import errno
import os
import threading
from collections.abc import Sequence
from pathlib import Path

from pipeline_broker.base.buffer import Buffer
from pipeline_broker.files.errors import DirectoryLocked
from pipeline_broker.files.file_system import PARTS_MAX, File, Lock

__all__ = ["NO_FILE", "MemoryFiles", "MemoryLock"]

SIZE_BYTES = 1 << 40  # reported as the size of the disk; only the machine's memory is a limit


class _MemoryFile:
    """An open file. Like on a disk, it stays usable after its name is removed."""

    __slots__ = ("_changing", "data")

    def __init__(self, changing: threading.Lock, data: bytearray) -> None:
        self._changing = changing
        self.data = data

    def write(self, parts: Sequence[Buffer], position: int) -> int:
        assert len(parts) <= PARTS_MAX
        written = b"".join(parts)
        with self._changing:
            missing = position - len(self.data)
            if missing > 0:
                self.data.extend(bytes(missing))
            self.data[position : position + len(written)] = written
        return len(written)

    # Memory has no page cache to bypass.
    def write_blocks(self, blocks: memoryview, position: int) -> int | None: ...

    def read_blocks(self, blocks: memoryview, position: int) -> int | None: ...

    def read(self, size_bytes: int, position: int) -> Buffer:
        return self.data[position : position + size_bytes]  # a copy: a bytearray with an open view cannot grow

    def read_cached(self, size_bytes: int, position: int) -> Buffer | None:
        data = self.data[position : position + size_bytes]
        return data if len(data) == size_bytes else None

    def read_ahead(self, size_bytes: int, position: int) -> None: ...

    def descriptor(self) -> None:
        return None

    def sync_data(self) -> None: ...

    def truncate(self, size_bytes: int) -> None:
        with self._changing:
            del self.data[size_bytes:]
            self.data.extend(bytes(size_bytes - len(self.data)))

    def size_bytes(self) -> int:
        return len(self.data)

    def data_from(self, position: int) -> int:
        return position


NO_FILE: File = _MemoryFile(threading.Lock(), bytearray())
"""An empty file, to read instead of a missing one."""


class MemoryLock:
    def __init__(self, held: set[Path], path: Path) -> None:
        self._held = held
        self._path = path

    def release(self) -> None:
        self._held.discard(self._path)

    def is_in_place(self) -> bool:
        return self._path in self._held


class MemoryFiles:
    """A file system in memory. All changes are made under one lock, so `copy` is a consistent snapshot."""

    def __init__(self) -> None:
        self._changing = threading.Lock()
        self._directories: dict[Path, dict[str, bytearray | None]] = {}  # None stands for a directory
        self._locks: set[Path] = set()

    @property
    def used_bytes(self) -> int:
        with self._changing:
            return sum(len(data) for names in self._directories.values() for data in names.values() if data is not None)

    def copy(self) -> "MemoryFiles":
        """Return a file system with the same files and no locks, like the disk of a killed broker."""
        copied = MemoryFiles()
        with self._changing:
            # Under the lock of all changes: otherwise the copy could have a later write without an earlier one.
            copied._directories = {
                path: {name: None if data is None else bytearray(data) for name, data in names.items()}
                for path, names in self._directories.items()
            }
        return copied

    def confine(self, directory: Path) -> None: ...

    def make_directory(self, path: Path) -> None:
        with self._changing:
            for directory in reversed((path, *path.parents)):
                if directory not in self._directories:
                    self._directories[directory] = {}
                    if directory.name:  # the root has no parent
                        self._directories.setdefault(directory.parent, {}).setdefault(directory.name, None)

    def list_directory(self, path: Path) -> list[str]:
        with self._changing:
            return list(self._names(path))

    def list_directories(self, path: Path) -> list[str]:
        with self._changing:
            return [name for name, data in self._names(path).items() if data is None]

    def open(self, path: Path, *, create: bool = False) -> File:
        with self._changing:
            if create:
                names = self._directories.setdefault(path.parent, {})
                if path.name in names:
                    raise _existing(path)
                names[path.name] = bytearray()
            return _MemoryFile(self._changing, self._data(path))

    def rename(self, source: Path, target: Path) -> None:
        with self._changing:
            data = self._data(source)
            self._directories.setdefault(target.parent, {})[target.name] = data
            del self._directories[source.parent][source.name]

    def link(self, source: Path, target: Path) -> None:
        with self._changing:
            names = self._directories.setdefault(target.parent, {})
            if target.name in names:
                raise _existing(target)
            names[target.name] = self._data(source)

    def unlink(self, path: Path) -> None:
        with self._changing:
            self._data(path)
            del self._directories[path.parent][path.name]

    def remove_directory(self, path: Path) -> None:
        with self._changing:
            if self._names(path):
                raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), str(path))
            del self._directories[path]
            self._directories[path.parent].pop(path.name, None)

    def sync_directory(self, path: Path) -> None: ...

    def free_bytes(self, path: Path) -> int:  # noqa: ARG002 - one size for all directories
        return SIZE_BYTES // 2

    def total_bytes(self, path: Path) -> int:  # noqa: ARG002 - one size for all directories
        return SIZE_BYTES

    def lock(self, path: Path) -> Lock:
        with self._changing:
            if path in self._locks:
                raise DirectoryLocked(f"the data directory {path.parent} is in use")
            self._locks.add(path)
        return MemoryLock(self._locks, path)

    def _names(self, path: Path) -> dict[str, bytearray | None]:
        try:
            return self._directories[path]
        except KeyError:
            raise _missing(path) from None

    def _data(self, path: Path) -> bytearray:
        data = self._directories.get(path.parent, {}).get(path.name)
        if data is None:
            raise _missing(path)
        return data


def _existing(path: Path) -> FileExistsError:
    return FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))


def _missing(path: Path) -> FileNotFoundError:
    return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
