"""A file system in memory that can lose power, for tests of everything built on `file_system.FileSystem`.

It guarantees exactly what Linux guarantees:

* Writes are visible at once. They survive a power cut only after a sync of their file.
* Names, also those of directories, survive only after a sync of their directory.
* Data that was not synced may survive in any combination, torn at sector boundaries.
* The directory in which a test begins is durable at once.
* After a failed sync its data is lost, although it can still be read. Every file that was open gets the error once,
  however many syncs succeed afterwards.
"""

import errno
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from pipeline_broker.base.buffer import Buffer
from pipeline_broker.files.errors import DirectoryLocked, SyncError
from pipeline_broker.files.file_system import BLOCK_BYTES, PARTS_MAX, File, Lock
from pipeline_broker.files.memory_files import MemoryLock

SECTOR_SIZES = (512, 4096)

#: choose(n) gives a number from 0 to n: the dice of a power cut, so that a test draws, and shrinks, them.
Choose = Callable[[int], int]


class _Content:
    """The content of one file: as processes see it, as it is on the disk, and the writes between the two."""

    def __init__(self, data: bytes = b"") -> None:
        self.seen = bytearray(data)
        self.durable = bytearray(data)
        self.pending: list[tuple[int, bytes | None]] = []  # (position, data), or (length, None) for a truncation
        self.errors = 0

    def settle(self) -> None:
        for position, data in self.pending:
            _apply(self.durable, position, data)
        self.pending.clear()


class _Directory(_Content):
    pass


def _apply(target: bytearray, position: int, data: bytes | None) -> None:
    if data is None:
        del target[position:]
        target.extend(bytes(position - len(target)))
        return
    target.extend(bytes(max(0, position - len(target))))
    target[position : position + len(data)] = data


class _MemoryFile:
    def __init__(self, owner: "MemoryFileSystem", path: Path, content: _Content) -> None:
        self._owner = owner
        self._path = path
        self._content = content
        self._errors_told = content.errors

    def write(self, parts: Sequence[Buffer], position: int) -> int:
        assert len(parts) <= PARTS_MAX
        self._owner.before("write", self._path)
        data = b"".join(parts)
        data = data[: self._owner.write_limit(len(data))]
        _apply(self._content.seen, position, data)
        self._content.pending.append((position, data))
        return len(data)

    def write_blocks(self, blocks: memoryview, position: int) -> int | None:
        assert blocks
        assert len(blocks) % BLOCK_BYTES == position % BLOCK_BYTES == 0
        self._owner.before("write blocks", self._path)
        return self.write([blocks], position) if self._owner.is_direct_possible else None

    def read_blocks(self, blocks: memoryview, position: int) -> int | None:
        assert len(blocks) % BLOCK_BYTES == position % BLOCK_BYTES == 0
        if not self._owner.is_direct_possible:
            return None
        data = self.read(len(blocks), position)
        blocks[: len(data)] = data
        return len(data)

    def read(self, size_bytes: int, position: int) -> Buffer:
        self._owner.before("read", self._path)
        return bytes(self._content.seen[position : position + size_bytes])

    def read_cached(self, size_bytes: int, position: int) -> Buffer | None:
        if self._owner.is_cold:
            return None
        data = self.read(size_bytes, position)
        return data if len(data) == size_bytes else None

    def read_ahead(self, size_bytes: int, position: int) -> None:
        self._owner.before("read ahead", self._path)

    def descriptor(self) -> None:
        return None

    def sync_data(self) -> None:
        content = self._content
        try:
            self._owner.before("sync", self._path)
        except OSError:
            content.pending.clear()
            content.errors += 1
        if self._errors_told != content.errors:
            self._errors_told = content.errors
            raise SyncError(errno.EIO, os.strerror(errno.EIO))
        self._owner.settle(content)

    def truncate(self, size_bytes: int) -> None:
        self._owner.before("truncate", self._path)
        _apply(self._content.seen, size_bytes, None)
        self._content.pending.append((size_bytes, None))

    def size_bytes(self) -> int:
        return len(self._content.seen)

    def data_from(self, position: int) -> int:
        return position


class MemoryFileSystem:
    """A file system with fault injection, through its attributes."""

    def __init__(self) -> None:
        #: Called before every operation with its name and path; an OSError it raises is the operation's.
        self.before: Callable[[str, Path], None] = lambda _operation, _path: None
        #: Returns how many bytes of a write are written.
        self.write_limit: Callable[[int], int] = lambda size_bytes: size_bytes
        #: Whether nothing is in the page cache.
        self.is_cold = False
        #: Whether whole blocks can be written past the page cache.
        self.is_direct_possible = True
        #: The reported free space; writes do not change it. `before` simulates a full disk.
        self.free = 1 << 40
        #: The reported size of the disk.
        self.total = 2 << 40
        self._names: dict[Path, _Content] = {}
        self._durable_names: dict[Path, _Content] = {}
        self._pending_names: list[tuple[Path | None, Path | None, _Content]] = []  # (name gone, name new, file)
        self._locks: set[Path] = set()

    def confine(self, directory: Path) -> None: ...

    def make_directory(self, path: Path) -> None:
        if path in self._names:
            return
        self.before("make directory", path)
        self._change(None, path, _Directory())
        if path.parent not in self._names:
            self._durable_names[path] = self._names[path]

    def list_directory(self, path: Path) -> list[str]:
        """List a directory. One that was never made exists as soon as it holds something."""
        names = [name.name for name in self._names if name.parent == path]
        if not names:
            self._content(path)
        return names

    def list_directories(self, path: Path) -> list[str]:
        return [name for name in self.list_directory(path) if isinstance(self._names[path / name], _Directory)]

    def open(self, path: Path, *, create: bool = False) -> File:
        self.before("create" if create else "open", path)
        if create:
            if path in self._names:
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
            self._change(None, path, _Content())
        return _MemoryFile(self, path, self._content(path))

    def rename(self, source: Path, target: Path) -> None:
        self.before("rename", source)
        self._change(source, target, self._content(source))

    def link(self, source: Path, target: Path) -> None:
        self.before("link", source)
        if target in self._names:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target))
        self._change(None, target, self._content(source))

    def unlink(self, path: Path) -> None:
        self.before("unlink", path)
        self._change(path, None, self._content(path))

    def remove_directory(self, path: Path) -> None:
        self.before("remove directory", path)
        if self.list_directory(path):
            raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), str(path))
        self._change(path, None, self._content(path))

    def sync_directory(self, path: Path) -> None:
        self.before("sync directory", path)
        self.settle_names(path)

    def free_bytes(self, path: Path) -> int:
        return self.free

    def total_bytes(self, path: Path) -> int:
        self.before("total bytes", path)
        return self.total

    def lock(self, path: Path) -> Lock:
        if path in self._locks:
            raise DirectoryLocked(f"the data directory {path.parent} is in use")
        self._locks.add(path)
        return MemoryLock(self._locks, path)

    def settle(self, content: _Content) -> None:
        """Make a file's writes durable; sabotages leave this out."""
        content.settle()

    def settle_names(self, directory: Path) -> None:
        """Make the names in a directory durable; sabotages leave this out."""
        pending, self._pending_names = self._pending_names, []
        for change in pending:
            gone, new, _ = change
            if directory in {path.parent for path in (gone, new) if path is not None}:
                _rename(self._durable_names, *change)
            else:
                self._pending_names.append(change)

    def power_cut(self, choose: Choose) -> None:
        """Drop unsynced data, except for the parts that the dice let survive. Open files and locks become invalid."""
        names = dict(self._durable_names)
        for change in self._pending_names:
            if choose(1):
                _rename(names, *change)
        known = (*self._names.items(), *self._durable_names.items())
        lost = {path for path, content in known if isinstance(content, _Directory)} - set(names)
        images = {
            path: _Directory() if isinstance(content, _Directory) else _Content(_image(content, choose))
            for path, content in sorted(names.items())
            if lost.isdisjoint(path.parents)
        }
        self._names, self._durable_names = images, dict(images)
        self._pending_names = []
        self._locks = set()

    def kill(self) -> None:
        """End the process, not the machine: locks are released, and written data can be read."""
        self._locks = set()

    def _content(self, path: Path) -> _Content:
        try:
            return self._names[path]
        except KeyError:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path)) from None

    def _change(self, gone: Path | None, new: Path | None, content: _Content) -> None:
        _rename(self._names, gone, new, content)
        self._pending_names.append((gone, new, content))


def _rename(names: dict[Path, _Content], gone: Path | None, new: Path | None, content: _Content) -> None:
    if gone is not None:
        names.pop(gone, None)
    if new is not None:
        names[new] = content


def _image(content: _Content, choose: Choose) -> bytes:
    image = bytearray(content.durable)
    for position, data in content.pending:
        fate = choose(2)
        if fate == 1 or (fate == 2 and data is None):
            _apply(image, position, data)
        elif fate == 2 and data:
            _tear(image, position, data, choose)
    return bytes(image)


def _tear(image: bytearray, position: int, data: bytes, choose: Choose) -> None:
    """Let some sectors of a range survive; their boundaries are those of the disk, not of the write."""
    sector = SECTOR_SIZES[choose(1)]
    first, last = position // sector, (position + len(data) - 1) // sector
    start = first + choose(last - first)
    end = start + choose(last + 1 - start)
    begin, stop = max(position, start * sector), min(position + len(data), end * sector)
    if begin < stop:
        _apply(image, begin, data[begin - position : stop - position])
