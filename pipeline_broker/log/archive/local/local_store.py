"""A segment store in a local directory."""

import contextlib
import errno
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from pipeline_broker.base.buffer import Buffer
from pipeline_broker.files.file_system import File, FileSystem
from pipeline_broker.files.large_writes import LargeWriter
from pipeline_broker.files.lent_range import LentRange
from pipeline_broker.log.archive.store import NO_ORIGINS, split_name
from pipeline_broker.log.errors import ShortFile
from pipeline_broker.log.journal.journal_port import StoredObject

FILES_OPEN_MAX = 256  # for reading; with sockets and journal well below the usual limit of 1024 descriptors
RANGES_LENT_MAX = 256
"""Ranges of archived files in unsent responses; each may keep a file open. Further responses copy the bytes."""
FILES_UNSYNCED_MAX = 64  # beyond that the oldest is synced early, which it needs anyway


class _OpenFiles:
    """An LRU cache of open files by name, for any thread."""

    def __init__(self, open_file: Callable[[str], File], files_max: int) -> None:
        self._open_file = open_file
        self._files_max = files_max
        self._files: OrderedDict[str, File] = OrderedDict()
        self._lock = threading.Lock()
        self._changes = 0

    def __len__(self) -> int:
        return len(self._files)

    def find(self, name: str) -> File | None:
        """Return the file if it is open; opening one could wait for the disk."""
        with self._lock:
            file = self._files.get(name)
            if file is not None:
                self._files.move_to_end(name)
            return file

    def take(self, name: str) -> File:
        file = self.find(name)
        if file is not None:
            return file
        changes = self._changes
        file = self._open_file(name)
        with self._lock:
            # If any name changed since, the opened file may be an old one: use it once, and do not cache it.
            if changes == self._changes:
                self._files[name] = file
                if len(self._files) > self._files_max:
                    self._files.popitem(last=False)
        return file

    def clear(self) -> None:
        with self._lock:
            self._files.clear()

    def forget(self, names: Iterable[str]) -> None:
        """Drop names that were deleted or replaced. Call it after the change, so that no old file is cached again."""
        with self._lock:
            self._changes += 1
            for name in names:
                self._files.pop(name, None)


class _LentRanges:
    """The ranges of files that responses refer to, by the name of the file."""

    def __init__(self, open_files: _OpenFiles) -> None:
        self._open = open_files
        self._names: weakref.WeakKeyDictionary[LentRange, str] = weakref.WeakKeyDictionary()
        self._lock = threading.Lock()

    def lend(self, name: str, size_bytes: int, position: int) -> LentRange | None:
        # One step under the lock, so that `forget` finds every range of a file that it drops.
        with self._lock:
            file = self._open.find(name)
            if file is None or len(self._names) >= RANGES_LENT_MAX:
                return None
            lent = LentRange(file, position, size_bytes)
            self._names[lent] = name
            return lent

    def forget(self, names: Iterable[str]) -> None:
        """Drop names that were deleted or replaced from the open files, and take their ranges back."""
        names = set(names)
        with self._lock:
            self._open.forget(names)
            lent = [one for one, name in self._names.items() if name in names]
        for one in lent:
            one.take_back()


class LocalStore:
    """A SegmentStore in which folders are directories.

    A written file stays open until it is synced. The kernel reports a write-back error to descriptors that were open
    when it happened, so closing the file early could lose the error. Large writes bypass the page cache: recently
    archived bytes are read from the disk.

    Args:
        directory: contains the folders.
        files_open_max: files kept open for reading.
        read_only: do not create the directory, because nothing will be written.
    """

    def __init__(
        self, files: FileSystem, directory: Path, files_open_max: int = FILES_OPEN_MAX, *, read_only: bool = False
    ) -> None:
        self._file_system = files
        self._directory = directory
        self._open = _OpenFiles(lambda name: files.open(self._path(name)), files_open_max)
        self._lent = _LentRanges(self._open)
        self._writer = LargeWriter()
        self._unsynced: OrderedDict[str, File] = OrderedDict()
        # Only names that this process has synced: an earlier process may have been killed before it synced its names.
        self._durable_folders: set[str] = set()
        self._folders_with_durable_names: set[str] = set()
        if not read_only:
            files.make_directory(directory)
            files.sync_directory(directory.parent)

    def folders(self) -> list[str]:
        return sorted(self._file_system.list_directories(self._directory))

    def names(self, folder: str) -> list[str]:
        try:
            return sorted(self._file_system.list_directory(self._directory / folder))
        except FileNotFoundError:
            return []

    def size_bytes(self, name: str) -> int:
        return self._open.take(name).size_bytes()

    def write(
        self,
        name: str,
        parts: Sequence[Buffer],
        position: int,
        origins: Mapping[int, StoredObject] = NO_ORIGINS,  # noqa: ARG002 - a directory keeps bytes only
    ) -> None:
        file = self._file_to_write(name)
        end = file.size_bytes()
        if position > end:
            raise ShortFile(f"{name} ends at byte {end}: it cannot be continued at {position}")
        size_bytes = sum(map(len, parts))
        self._writer.write(file, parts, size_bytes, position)
        position += size_bytes
        if position < end:
            file.truncate(position)

    def _file_to_write(self, name: str) -> File:
        file = self._unsynced.get(name)
        if file is not None:
            return file
        # Bounds the open descriptors of a round with thousands of partitions.
        if len(self._unsynced) >= FILES_UNSYNCED_MAX:
            _, oldest = self._unsynced.popitem(last=False)
            oldest.sync_data()
        path = self._path(name)
        try:
            file = self._file_system.open(path)
        except FileNotFoundError:
            folder, _ = split_name(name)
            self._file_system.make_directory(path.parent)
            # The new name needs a sync of its directory.
            self._folders_with_durable_names.discard(folder)
            file = self._file_system.open(path, create=True)
        self._unsynced[name] = file
        return file

    def sync(self, names: Iterable[str]) -> None:
        names = list(names)
        for name in names:
            self._sync_data(name)
        folders = {split_name(name)[0] for name in names}
        # One sync per directory makes all of its new names durable.
        for folder in sorted(folders - self._folders_with_durable_names):
            self._file_system.sync_directory(self._directory / folder)
            self._folders_with_durable_names.add(folder)
        if not folders <= self._durable_folders:
            self._file_system.sync_directory(self._directory)
            self._durable_folders |= folders

    def _sync_data(self, name: str) -> None:
        # Removed before the sync: after an error, a repeated sync of this descriptor would prove nothing.
        file = self._unsynced.pop(name, None)
        if file is None:  # synced early, or written by an earlier process
            file = self._file_system.open(self._path(name))
        file.sync_data()

    def read(self, name: str, size_bytes: int, position: int) -> Buffer:
        return self._open.take(name).read(size_bytes, position)

    def read_cached(self, name: str, size_bytes: int, position: int) -> Buffer | None:
        file = self._open.find(name)
        return None if file is None else file.read_cached(size_bytes, position)

    def lend(self, name: str, size_bytes: int, position: int) -> LentRange | None:
        return self._lent.lend(name, size_bytes, position)

    def read_ahead(self, name: str, size_bytes: int, position: int) -> None:
        self._open.take(name).read_ahead(size_bytes, position)

    def replace(self, source: str, target: str) -> None:
        folder, _ = split_name(target)
        assert folder == split_name(source)[0], "a file stays in its folder"
        # The content must be durable before the rename, or a power cut could leave the target empty.
        self._sync_data(source)
        self._unsynced.pop(target, None)
        self._folders_with_durable_names.discard(folder)
        self._file_system.rename(self._path(source), self._path(target))
        self._lent.forget([source, target])
        self.sync([target])

    def delete(self, names: Iterable[str]) -> None:
        names = list(names)
        self._unlink(names)
        for folder in sorted({split_name(name)[0] for name in names}):
            with contextlib.suppress(FileNotFoundError):
                self._file_system.sync_directory(self._directory / folder)

    def delete_folder(self, folder: str, names: Iterable[str]) -> None:
        self._durable_folders.discard(folder)
        self._unlink(names)
        try:
            self._file_system.remove_directory(self._directory / folder)
        except FileNotFoundError:
            pass
        except OSError as error:
            if error.errno not in {errno.ENOTEMPTY, errno.EEXIST}:
                raise
            self._file_system.sync_directory(self._directory / folder)
        self._file_system.sync_directory(self._directory)

    def _unlink(self, names: Iterable[str]) -> None:
        names = list(names)
        for name in names:
            self._unsynced.pop(name, None)
            path = self._path(name)
            with contextlib.suppress(FileNotFoundError):
                try:
                    self._file_system.unlink(path)
                except OSError:
                    if path.name not in self._file_system.list_directories(path.parent):
                        raise  # otherwise it is a directory that a user put there, which is left alone
        self._lent.forget(names)

    def free_bytes(self) -> int:
        return self._file_system.free_bytes(self._directory)

    def close(self) -> None:
        self._open.clear()
        self._unsynced.clear()

    def _path(self, name: str) -> Path:
        folder, file = split_name(name)
        return self._directory / folder / file
