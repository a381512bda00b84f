"""Files that do what rules say: a file system around another one.

Rules of this file: while no rule is about files each write and sync pays one test of a flag, everything else nothing;
what rules do is in `disk.py`, which is loaded with the first rule.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline_broker.files.file_system import File, FileSystem, Lock
from pipeline_broker.log.journal.entry import Buffer

if TYPE_CHECKING:
    from pipeline_broker.faults.disk import DiskFaults

__all__ = ["FaultyFiles"]


class _FaultyFile:
    __slots__ = (
        "_file",
        "_files",
        "_path",
        "data_from",
        "read",
        "read_ahead",
        "read_cached",
        "size_bytes",
        "truncate",
    )

    def __init__(self, files: FaultyFiles, file: File, path: str) -> None:
        self._files = files
        self._file = file
        self._path = path
        self.data_from = file.data_from
        self.read = file.read  # as they are: no rule is about them
        self.read_ahead = file.read_ahead
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
    """A file system whose files do what rules say; see `pipeline_broker.files.file_system.FileSystem`.

    Args:
        files: the real one.
        crash: ends the process; None where that would take more with it than a broker.

    Attributes:
        is_active: there is a rule about files, or somebody is held.
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
        """The rules about files."""
        from pipeline_broker.faults.disk import DiskFaults  # noqa: PLC0415 - see the rules of the file

        return DiskFaults(self._crash, self._set_active)

    @property
    def can_crash(self) -> bool:
        """Whether the process may be ended."""
        return self._crash is not None

    def _set_active(self, is_active: bool) -> None:
        self.is_active = is_active

    def open(self, path: Path, *, create: bool = False) -> File:
        return _FaultyFile(self, self._files.open(path, create=create), str(path))

    def lock(self, path: Path) -> Lock:
        return self._files.lock(path)
