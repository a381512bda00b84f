"""The operating system calls that journal and archive need, behind a small interface.

Rules of this file: one call of the system per method, nothing retried and nothing hidden; a write may be short (only
`write_all` goes on), a read may be short at the end of the file; errors are OSError, those of syncs SyncError.
`memory_files.MemoryFiles` and `testing.MemoryFileSystem` are the other implementations: the same contract test runs on
all. The calls are Linux's. What other systems lack is looked for when it is called, so that this can be imported
everywhere: macOS has others that do as well, and Windows keeps nothing in directories.
"""

import contextlib
import errno
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Protocol

from pipeline_broker.files.bounded_file import open_regular
from pipeline_broker.files.confined import ConfinedDirectories
from pipeline_broker.files.errors import DirectoryLocked, SyncError
from pipeline_broker.owner_only import DIRECTORY_MODE, FILE_MODE

Buffer = bytes | bytearray | memoryview

fcntl: ModuleType | None
try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

BLOCK_BYTES = 4096
"""What goes past the page cache begins and ends at multiples of it; no disk has larger sectors."""
PARTS_MAX = 1024  # IOV_MAX of Linux: more parts in one call are refused
_NOT_IN_PAGE_CACHE = frozenset({errno.EAGAIN, errno.EOPNOTSUPP, errno.EINVAL})  # or a file system that cannot tell

_NOT_PAST_PAGE_CACHE = frozenset({errno.EINVAL, errno.EOPNOTSUPP})


class ReadableFile(Protocol):
    """The reading of an open file."""

    def read(self, size_bytes: int, position: int) -> Buffer:
        """Return up to `size` bytes; fewer only at the end of the file."""

    def size_bytes(self) -> int:
        """The length of the file."""

    def data_from(self, position: int) -> int:
        """Return where data begins at or after a position: what lies between is a hole, which reads as zeros.

        The size of the file where nothing but a hole follows; the position itself where the system cannot tell.
        """


class File(ReadableFile, Protocol):
    """An open file; closed when nobody refers to it any more, so that no reader reads from a reused descriptor."""

    def write(self, parts: Sequence[Buffer], position: int) -> int:
        """Write at most `PARTS_MAX` parts one behind the other; returns how many bytes were written."""

    def write_blocks(self, blocks: memoryview, position: int) -> int | None:
        """Write past the page cache; returns how many bytes were written, None when that is not possible.

        In memory and in the file it is whole blocks of `BLOCK_BYTES` that begin at a multiple of that.
        """

    def read_cached(self, size_bytes: int, position: int) -> Buffer | None:
        """The same without waiting for the disk; None when that is not possible."""

    def read_ahead(self, size_bytes: int, position: int) -> None:
        """Say that these bytes will be read soon: a hint, whatever comes of it."""

    def sync_data(self) -> None:
        """Return when everything written to the file so far survives a power cut, its length included."""

    def truncate(self, size_bytes: int) -> None:
        """Cut the file."""


class Lock(Protocol):
    """An exclusive lock that ends with the process, with `release`, or when nobody refers to it any more."""

    def release(self) -> None:
        """Give the lock up."""

    def is_in_place(self) -> bool:
        """Whether the lock file still has its name: else its directory was removed, or another has taken its place."""


class FileSystem(Protocol):
    """Names and files."""

    def confine(self, directory: Path) -> None:
        """From now on refuse every link that leads out of a directory; the directory itself may be a link."""

    def make_directory(self, path: Path) -> None:
        """Create the directory and its parents unless they exist; durable when this returns."""

    def list_directory(self, path: Path) -> list[str]:
        """The names in it, in no order; FileNotFoundError when there is no such directory."""

    def list_directories(self, path: Path) -> list[str]:
        """Those of the names in it that are directories."""

    def open(self, path: Path, *, create: bool = False) -> File:
        """Open for reading and writing; `create` makes a new, empty file and fails when there is one."""

    def rename(self, source: Path, target: Path) -> None:
        """Give a file another name, in one step; a file that had that name has none any more."""

    def link(self, source: Path, target: Path) -> None:
        """Give a file a further name, in one step; FileExistsError when something has it."""

    def unlink(self, path: Path) -> None:
        """Remove the name of a file."""

    def remove_directory(self, path: Path) -> None:
        """Remove an empty directory."""

    def sync_directory(self, path: Path) -> None:
        """Return when the names in the directory survive a power cut, of files and of directories."""

    def free_bytes(self, path: Path) -> int:
        """How many more bytes the files of a directory can take."""

    def total_bytes(self, path: Path) -> int:
        """The size of the disk that a directory is on."""

    def lock(self, path: Path) -> Lock:
        """Take the lock file at `path`; raises DirectoryLocked when another process holds it."""


def write_all(file: File, parts: Sequence[Buffer], position: int) -> None:
    """Write every byte: short writes are continued, long lists of parts are split."""
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
    """Have the content of a file survive a power cut."""
    in_full = getattr(fcntl, "F_FULLFSYNC", None)
    if fcntl is not None and in_full is not None:  # macOS: its fsync(2) leaves data in the cache of the drive
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
        direct = getattr(os, "O_DIRECT", None)
        if fcntl is None or direct is None or not hasattr(os, "pwritev"):
            return None  # macOS and Windows have other ways
        flags = fcntl.fcntl(self._descriptor, fcntl.F_GETFL)
        try:
            fcntl.fcntl(self._descriptor, fcntl.F_SETFL, flags | direct)
            return os.pwritev(self._descriptor, [blocks], position)
        except OSError as error:
            if error.errno in _NOT_PAST_PAGE_CACHE:
                return None
            raise
        finally:
            fcntl.fcntl(self._descriptor, fcntl.F_SETFL, flags)

    def read(self, size_bytes: int, position: int) -> Buffer:
        return os.pread(self._descriptor, size_bytes, position)

    def read_cached(self, size_bytes: int, position: int) -> Buffer | None:
        if not hasattr(os, "RWF_NOWAIT"):
            return None  # whoever asks reads in a thread
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

    def sync_data(self) -> None:
        try:
            _sync(self._descriptor, getattr(os, "fdatasync", os.fsync))
        except OSError as error:
            raise SyncError(error.errno, error.strerror) from None

    def truncate(self, size_bytes: int) -> None:
        os.ftruncate(self._descriptor, size_bytes)

    def size_bytes(self) -> int:
        return os.fstat(self._descriptor).st_size

    def data_from(self, position: int) -> int:
        if not hasattr(os, "SEEK_DATA"):
            return position
        try:
            return os.lseek(self._descriptor, position, os.SEEK_DATA)  # nothing reads or writes at a file's offset
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
    """The real one."""

    def __init__(self) -> None:
        self._confined = ConfinedDirectories()

    def confine(self, directory: Path) -> None:
        self._confined.add(directory)

    def make_directory(self, path: Path) -> None:
        if fcntl is None:  # said before anything is made
            raise OSError(errno.ENOSYS, "directories are kept on Linux and macOS only")
        self._confined.resolve(path)
        missing = 0
        lineage = (path, *path.parents)
        while not lineage[missing].exists():
            missing += 1
        # The last one that exists may have been made by a start that was killed before it made the next and synced it.
        for directory in reversed(lineage[: missing + 1]):
            directory.mkdir(DIRECTORY_MODE, exist_ok=True)
            with contextlib.suppress(PermissionError):  # a parent that we may not read is not one that we made
                _sync_directory(directory.parent)

    def list_directory(self, path: Path) -> list[str]:
        return os.listdir(self._confined.resolve(path))  # noqa: PTH208 - a hundred thousand names need not become paths

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
        """See FileSystem. The kernel drops the lock of a killed process; the number in the file is for people."""
        if fcntl is None:
            raise OSError(errno.ENOSYS, "this system has no locks that end with their process")
        descriptor = open_regular(self._confined.resolve(path), os.O_RDWR | os.O_CREAT)
        try:
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
        with contextlib.suppress(OSError):  # on a full disk it is locked all the same
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        return _SystemLock(descriptor, path)


class ReadOnlyFileSystem(SystemFileSystem):
    """The real one for who may change nothing: files of others, or of a broker that is running."""

    def make_directory(self, path: Path) -> None:
        """Refused."""
        raise _refusal(path)

    def open(self, path: Path, *, create: bool = False) -> File:
        """Open for reading only; the system refuses to write to the file."""
        if create:
            raise _refusal(path)
        return _SystemFile(open_regular(self._confined.resolve(path)))

    def rename(self, source: Path, target: Path) -> None:  # noqa: ARG002 - it does not come to that
        """Refused."""
        raise _refusal(source)

    def link(self, source: Path, target: Path) -> None:  # noqa: ARG002 - it does not come to that
        """Refused."""
        raise _refusal(source)

    def unlink(self, path: Path) -> None:
        """Refused."""
        raise _refusal(path)

    def remove_directory(self, path: Path) -> None:
        """Refused."""
        raise _refusal(path)

    def sync_directory(self, path: Path) -> None:
        """Refused: there is nothing of ours to sync."""
        raise _refusal(path)

    def lock(self, path: Path) -> Lock:
        """Refused: it would be written to the lock file."""
        raise _refusal(path)


def _refusal(path: Path) -> OSError:
    return OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))
