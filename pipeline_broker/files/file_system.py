"""The file system calls of journal and archive: an interface, and its implementation with the operating system.

Each method is one system call. Nothing is retried: a write may be short (`write_all` continues it), a read may be short
at the end of the file. Failures are OSError, failed syncs `SyncError`.

`memory_files.MemoryFiles` and the tests' `MemoryFileSystem` implement the interface, too; one contract test runs on
all. The calls are those of Linux. macOS has substitutes for missing ones, Windows keeps no directories. Missing calls
are looked up when they are used, so the module can be imported everywhere.
"""

import contextlib
import errno
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Protocol

from pipeline_broker.base.buffer import Buffer
from pipeline_broker.base.owner_only import DIRECTORY_MODE, FILE_MODE
from pipeline_broker.files.bounded_file import open_regular
from pipeline_broker.files.confined import ConfinedDirectories
from pipeline_broker.files.errors import DirectoryLocked, SyncError

fcntl: ModuleType | None
try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

BLOCK_BYTES = 4096
"""Alignment of reads and writes that bypass the page cache (O_DIRECT); no disk has larger sectors."""
PARTS_MAX = 1024
"""Limit of the parts in one write: IOV_MAX of Linux."""
# EAGAIN: not in the page cache. The others: the file system does not support RWF_NOWAIT.
_NOT_IN_PAGE_CACHE = frozenset({errno.EAGAIN, errno.EOPNOTSUPP, errno.EINVAL})
_NO_DIRECT_IO = frozenset({errno.EINVAL, errno.EOPNOTSUPP})


class ReadableFile(Protocol):
    def read(self, size_bytes: int, position: int) -> Buffer:
        """Return up to `size_bytes` bytes; fewer only at the end of the file."""

    def size_bytes(self) -> int: ...

    def data_from(self, position: int) -> int:
        """Return the position of the first data at or after a position, skipping a hole, which reads as zeros.

        Returns the size of the file if only a hole follows, and `position` if the system cannot tell.
        """


class File(ReadableFile, Protocol):
    """An open file, closed when it is garbage collected, so no reader uses a descriptor that was closed and reused."""

    def write(self, parts: Sequence[Buffer], position: int) -> int:
        """Write up to `PARTS_MAX` parts, concatenated; return the number of bytes written."""

    def write_blocks(self, blocks: memoryview, position: int) -> int | None:
        """Write past the page cache; return the number of bytes written, or None if that is not possible.

        The memory and the position are aligned to `BLOCK_BYTES`, and the size is a multiple of it.
        """

    def read_blocks(self, blocks: memoryview, position: int) -> int | None:
        """Read past the page cache into `blocks`, aligned as in `write_blocks`; return the number of bytes, or None."""

    def read_cached(self, size_bytes: int, position: int) -> Buffer | None:
        """Like `read`, without waiting for the disk; None if that is not possible, or the file has fewer bytes."""

    def read_ahead(self, size_bytes: int, position: int) -> None:
        """Hint that these bytes will be read soon."""

    def descriptor(self) -> int | None:
        """Return the system's descriptor, for use while this object exists; None for a file in memory."""

    def sync_data(self) -> None:
        """Return once all data written so far, and the length of the file, survive a power cut."""

    def truncate(self, size_bytes: int) -> None: ...


class Lock(Protocol):
    """An exclusive lock, held until `release`, the end of the process, or garbage collection."""

    def release(self) -> None: ...

    def is_in_place(self) -> bool:
        """Return whether the lock file still exists; False if it, or its directory, was removed or replaced."""


class FileSystem(Protocol):
    def confine(self, directory: Path) -> None:
        """Refuse, from now, links that lead out of a directory; the directory itself may be a link."""

    def make_directory(self, path: Path) -> None:
        """Create a directory and its parents, if missing; durable on return."""

    def list_directory(self, path: Path) -> list[str]:
        """Return the names in a directory, unordered; raises FileNotFoundError if it is missing."""

    def list_directories(self, path: Path) -> list[str]: ...

    def open(self, path: Path, *, create: bool = False) -> File:
        """Open a file for reading and writing. With `create`, make a new, empty file.

        Raises:
            FileExistsError: the name exists, with `create`.
            FileNotFoundError: the file is missing, without `create`.
        """

    def rename(self, source: Path, target: Path) -> None:
        """Rename a file atomically, replacing a file that has the target name."""

    def link(self, source: Path, target: Path) -> None:
        """Give a file an additional name atomically; raises FileExistsError if the name exists."""

    def unlink(self, path: Path) -> None: ...

    def remove_directory(self, path: Path) -> None: ...

    def sync_directory(self, path: Path) -> None:
        """Return once the names in the directory survive a power cut."""

    def free_bytes(self, path: Path) -> int: ...

    def total_bytes(self, path: Path) -> int: ...

    def lock(self, path: Path) -> Lock:
        """Lock the file at `path`, creating it if missing; raises DirectoryLocked if another process holds the lock."""


def write_all(file: File, parts: Sequence[Buffer], position: int) -> None:
    """Write all bytes: continue short writes, and split long lists of parts."""
    pending = list(parts)
    while pending:
        written = file.write(pending[:PARTS_MAX], position)
        position += written
        done = 0
        while done < len(pending) and written >= len(pending[done]):
            written -= len(pending[done])
            done += 1
        del pending[:done]
        if pending and written:
            pending[0] = memoryview(pending[0])[written:]


def _sync(descriptor: int, sync: Callable[[int], None]) -> None:
    in_full = getattr(fcntl, "F_FULLFSYNC", None)
    if fcntl is not None and in_full is not None:  # macOS: fsync(2) leaves the data in the drive's cache
        fcntl.fcntl(descriptor, in_full)
    else:
        sync(descriptor)


class _SystemFile:
    __slots__ = ("_descriptor",)

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def __del__(self) -> None:
        os.close(self._descriptor)

    def write(self, parts: Sequence[Buffer], position: int) -> int:
        if not hasattr(os, "pwritev"):  # macOS before 11
            return os.pwrite(self._descriptor, b"".join(parts), position)
        return os.pwritev(self._descriptor, parts, position)

    def write_blocks(self, blocks: memoryview, position: int) -> int | None:
        return self._past_cache(getattr(os, "pwritev", None), blocks, position)

    def read_blocks(self, blocks: memoryview, position: int) -> int | None:
        return self._past_cache(getattr(os, "preadv", None), blocks, position)

    def _past_cache(
        self, call: Callable[[int, Sequence[memoryview], int], int] | None, blocks: memoryview, position: int
    ) -> int | None:
        direct = getattr(os, "O_DIRECT", None)
        if fcntl is None or direct is None or call is None:
            return None  # macOS and Windows have no O_DIRECT
        # O_DIRECT is set for this call only, because the other calls for the file are not aligned.
        flags = fcntl.fcntl(self._descriptor, fcntl.F_GETFL)
        try:
            fcntl.fcntl(self._descriptor, fcntl.F_SETFL, flags | direct)
            return call(self._descriptor, [blocks], position)
        except OSError as error:
            if error.errno in _NO_DIRECT_IO:
                return None
            raise
        finally:
            fcntl.fcntl(self._descriptor, fcntl.F_SETFL, flags)

    def read(self, size_bytes: int, position: int) -> Buffer:
        return os.pread(self._descriptor, size_bytes, position)

    def read_cached(self, size_bytes: int, position: int) -> Buffer | None:
        if not hasattr(os, "RWF_NOWAIT"):
            return None  # the caller then reads in a thread
        target = bytearray(size_bytes)
        try:
            count = os.preadv(self._descriptor, [target], position, os.RWF_NOWAIT)
        except OSError as error:
            if error.errno in _NOT_IN_PAGE_CACHE:
                return None
            raise
        return target if count == size_bytes else None

    def read_ahead(self, size_bytes: int, position: int) -> None:
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(self._descriptor, position, size_bytes, os.POSIX_FADV_WILLNEED)

    def descriptor(self) -> int | None:
        return self._descriptor

    def sync_data(self) -> None:
        try:
            _sync(self._descriptor, getattr(os, "fdatasync", os.fsync))
        except OSError as error:
            # Every error counts: after a failed fsync(2), written data may be lost, whatever the reason.
            raise SyncError(error.errno, error.strerror) from None

    def truncate(self, size_bytes: int) -> None:
        os.ftruncate(self._descriptor, size_bytes)

    def size_bytes(self) -> int:
        return os.fstat(self._descriptor).st_size

    def data_from(self, position: int) -> int:
        if not hasattr(os, "SEEK_DATA"):
            return position
        try:
            # Moves the file offset, which no read or write of this class uses.
            return os.lseek(self._descriptor, position, os.SEEK_DATA)
        except OSError as error:
            return max(position, self.size_bytes()) if error.errno == errno.ENXIO else position


class _SystemLock:
    __slots__ = ("_descriptor", "_path")

    def __init__(self, descriptor: int, path: Path) -> None:
        self._descriptor: int | None = descriptor
        self._path = path

    def __del__(self) -> None:
        self.release()

    def release(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def is_in_place(self) -> bool:
        if self._descriptor is None:
            return False
        try:
            return os.path.samestat(self._path.stat(), os.fstat(self._descriptor))
        except FileNotFoundError:
            return False


def _sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0))
    try:
        _sync(descriptor, os.fsync)
    except OSError as error:
        raise SyncError(error.errno, error.strerror, str(path)) from None
    finally:
        os.close(descriptor)


class SystemFileSystem:
    def __init__(self) -> None:
        self._confined = ConfinedDirectories()

    def confine(self, directory: Path) -> None:
        self._confined.add(directory)

    def make_directory(self, path: Path) -> None:
        if fcntl is None:  # checked before anything is created
            raise OSError(errno.ENOSYS, "directories are kept on Linux and macOS only")
        self._confined.resolve(path)
        missing = 0
        lineage = (path, *path.parents)
        while not lineage[missing].exists():
            missing += 1
        # The deepest existing directory may not be durable yet: a startup that was killed may have created it.
        for directory in reversed(lineage[: missing + 1]):
            directory.mkdir(DIRECTORY_MODE, exist_ok=True)
            with contextlib.suppress(PermissionError):  # an unreadable parent was not created by the broker
                _sync_directory(directory.parent)

    def list_directory(self, path: Path) -> list[str]:
        return os.listdir(self._confined.resolve(path))  # noqa: PTH208 - 100,000 names as Path objects are slow

    def list_directories(self, path: Path) -> list[str]:
        with os.scandir(self._confined.resolve(path)) as entries:
            return [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]

    def open(self, path: Path, *, create: bool = False) -> File:
        if create:
            return _SystemFile(
                os.open(self._confined.resolve(path.parent) / path.name, os.O_RDWR | os.O_CREAT | os.O_EXCL, FILE_MODE)
            )
        return _SystemFile(open_regular(self._confined.resolve(path), os.O_RDWR))

    def rename(self, source: Path, target: Path) -> None:
        source.replace(target)

    def link(self, source: Path, target: Path) -> None:
        target.hardlink_to(source)

    def unlink(self, path: Path) -> None:
        path.unlink()

    def remove_directory(self, path: Path) -> None:
        path.rmdir()

    def sync_directory(self, path: Path) -> None:
        _sync_directory(path)

    def free_bytes(self, path: Path) -> int:
        found = os.statvfs(path)
        return found.f_bavail * found.f_frsize

    def total_bytes(self, path: Path) -> int:
        found = os.statvfs(path)
        return found.f_blocks * found.f_frsize

    def lock(self, path: Path) -> Lock:
        if fcntl is None:
            raise OSError(errno.ENOSYS, "this system has no locks that end with their process")
        descriptor = open_regular(self._confined.resolve(path), os.O_RDWR | os.O_CREAT)
        try:
            # flock(2), because the kernel releases the lock of a killed process.
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = ""
            with contextlib.suppress(OSError):
                holder = os.pread(descriptor, 32, 0).decode(errors="replace").strip()
            os.close(descriptor)
            by_whom = f" by process {holder}" if holder else ""
            raise DirectoryLocked(f"the data directory {path.parent} is in use{by_whom}") from None
        except OSError:
            os.close(descriptor)
            raise
        # The process id is information for the operator. The lock holds without it, on a full disk.
        with contextlib.suppress(OSError):
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        return _SystemLock(descriptor, path)


class ReadOnlyFileSystem(SystemFileSystem):
    """The file system for readers of other programs' files, or of a running broker's: all changes raise OSError."""

    def make_directory(self, path: Path) -> None:
        raise _refusal(path)

    def open(self, path: Path, *, create: bool = False) -> File:
        if create:
            raise _refusal(path)
        return _SystemFile(open_regular(self._confined.resolve(path)))

    def rename(self, source: Path, target: Path) -> None:
        raise _refusal(source, target)

    def link(self, source: Path, target: Path) -> None:
        raise _refusal(source, target)

    def unlink(self, path: Path) -> None:
        raise _refusal(path)

    def remove_directory(self, path: Path) -> None:
        raise _refusal(path)

    def sync_directory(self, path: Path) -> None:
        raise _refusal(path)

    def lock(self, path: Path) -> Lock:
        # `SystemFileSystem.lock` writes the process id to the file.
        raise _refusal(path)


def _refusal(*paths: Path) -> OSError:
    return OSError(errno.EROFS, os.strerror(errno.EROFS), " and ".join(map(str, paths)))
