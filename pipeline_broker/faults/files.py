"""A file system that applies fault rules to another one."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline_broker.base.buffer import Buffer
from pipeline_broker.files.file_system import File, FileSystem, Lock

if TYPE_CHECKING:
    from pipeline_broker.faults.disk import DiskFaults

__all__ = ["FaultyFiles"]


class _FaultyFile:
    __slots__ = (
        "_file",
        "_files",
        "_path",
        "data_from",
        "descriptor",
        "read",
        "read_ahead",
        "read_blocks",
        "read_cached",
        "size_bytes",
        "truncate",
    )

    def __init__(self, files: FaultyFiles, file: File, path: str) -> None:
        self._files = files
        self._file = file
        self._path = path
        self.data_from = file.data_from
        self.descriptor = file.descriptor
        self.read = file.read  # rules are about writes and syncs only
        self.read_ahead = file.read_ahead
        self.read_blocks = file.read_blocks
        self.read_cached = file.read_cached
        self.size_bytes = file.size_bytes
        self.truncate = file.truncate

    def write(self, parts: Sequence[Buffer], position: int) -> int:
        if self._files.is_active:
            return self._files.disk.write(self._file, self._path, parts, position)
        return self._file.write(parts, position)

    def write_blocks(self, blocks: memoryview, position: int) -> int | None:
        if self._files.is_active:
            return self._files.disk.write(self._file, self._path, [blocks], position)
        return self._file.write_blocks(blocks, position)

    def sync_data(self) -> None:
        if self._files.is_active:
            self._files.disk.sync(self._file, self._path)
        else:
            self._file.sync_data()


class FaultyFiles:
    """A wrapper of a `FileSystem` that applies fault rules; without them, a write or sync costs one flag test.

    Args:
        crash: ends the process; None if the process is not the broker's own.

    Attributes:
        is_active: whether a rule about files exists, or journal writes are held.
    """

    def __init__(self, files: FileSystem, crash: Callable[[], None] | None = None) -> None:
        self.is_active = False
        self._crash = crash
        self._files = files
        self.confine = files.confine
        self.make_directory = files.make_directory
        self.list_directory = files.list_directory
        self.list_directories = files.list_directories
        self.rename = files.rename
        self.link = files.link
        self.unlink = files.unlink
        self.remove_directory = files.remove_directory
        self.sync_directory = files.sync_directory
        self.free_bytes = files.free_bytes
        self.total_bytes = files.total_bytes

    @functools.cached_property
    def disk(self) -> DiskFaults:
        from pipeline_broker.faults.disk import DiskFaults  # noqa: PLC0415 - imported with the first rule

        return DiskFaults(self._crash, self._set_active)

    @property
    def can_crash(self) -> bool:
        return self._crash is not None

    def _set_active(self, is_active: bool) -> None:
        self.is_active = is_active

    def open(self, path: Path, *, create: bool = False) -> File:
        return _FaultyFile(self, self._files.open(path, create=create), str(path))

    def lock(self, path: Path) -> Lock:
        return self._files.lock(path)
