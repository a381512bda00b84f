"""Objects in a directory that processes of one machine share.

Rules of this file: an object is a file whose content is followed by the tag of this writing, 16 random bytes. It is
written and synced under a name of its own; `create` then links it, which fails where the name is taken, and `replace`
compares and renames under a lock of the object's own directory. A name is durable when its directory was synced.
Between link and sync other processes can see an object that a power cut may take back, so a store that shows one to its
caller syncs the directory first, once for each tag. What is being deleted is gone for others at once, for good when
`delete` has returned.

A sync of a directory that failed is never tried again: nothing in that directory is known to be durable from then on,
and this store does not use it any more. What killed processes left half written goes when the next one opens the store.

    <dir>/+lock      held while an object of this directory is replaced
    +writing/<id>/   a process writes here; the lock in it is held as long as it lives
    <name>           the objects; no part of a name begins with '+'
"""

import contextlib
import errno
import itertools
import os
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from pipeline_broker.files.errors import DirectoryLocked, SyncError, UnfitFileError, with_remedy
from pipeline_broker.files.file_system import Buffer, File, FileSystem, Lock, write_all
from pipeline_broker.objects.store import (
    DELETE_MAX,
    LIST_MAX,
    Changed,
    Exists,
    Listed,
    Missing,
    NotAnObject,
    Part,
    Unavailable,
    Unsure,
    checked_name,
    checked_prefix,
    is_object_name,
)

__all__ = ["DirectoryStore"]

TAG_BYTES = 16
TAGS_DURABLE_MAX = 65_536  # remembered, so that a file that is read often costs no sync of its directory
LOCK_WAIT_SECONDS_MAX = 0.5
LOCK_PAUSE_SECONDS = 0.005
LOCK, WRITING = "+lock", "+writing"
_WRITTEN = re.compile("[0-9]{1,18}")  # an object that is being written
_OWN = re.compile("[0-9a-f]{16}")  # a directory that a process writes in


class DirectoryStore:
    """See ObjectStore.

    Args:
        files: the file system.
        directory: where the objects are; made when it is not there.
        pause: waits so many seconds for another process that replaces an object.
        read_only: nothing will be written, nor made durable before it is shown; the directory is there.

    Raises:
        OSError: the directory cannot be made or written to, or is not there.
    """

    def __init__(
        self,
        files: FileSystem,
        directory: Path,
        pause: Callable[[float], None] = time.sleep,
        *,
        read_only: bool = False,
    ) -> None:
        files.confine(directory)
        self._files = files
        self._directory = directory
        self._pause = pause
        self._numbers = itertools.count()
        self._state = threading.Lock()
        self._known_directories = {directory}
        self._failed_directories: set[Path] = set()
        self._durable: OrderedDict[bytes, None] = OrderedDict()
        self._is_read_only = read_only
        if read_only:
            files.list_directory(directory)
            return
        files.make_directory(directory)
        files.sync_directory(directory.parent)
        files.make_directory(directory / WRITING)
        self._remove_leftovers()
        self._own, self._own_lock = self._take_own()

    def create(self, name: str, parts: Sequence[Buffer]) -> str:
        with self._written(name, parts) as (written, target, tag):
            try:
                self._files.link(written, target)
            except FileExistsError:
                self._sync_seen(target)
                raise Exists(name) from None
            self._sync_names(target.parent, Unsure)
        return self._remember(tag)

    def replace(self, name: str, parts: Sequence[Buffer], tag: str) -> str:
        with self._written(name, parts) as (written, target, new_tag):
            with self._locked(target.parent):  # short: a process that is stopped in it keeps all others out
                try:
                    is_as_read = _tag(self._open(name)).hex() == tag
                except FileNotFoundError:
                    raise Changed(name) from None
                if is_as_read:
                    self._files.rename(written, target)
            if not is_as_read:
                self._sync_seen(target)
                raise Changed(name)
            self._sync_names(target.parent, Unsure)
        return self._remember(new_tag)

    def read(self, name: str, start: int, size_bytes: int) -> Part:
        return self._read(name, lambda size: (min(start, size), size_bytes))

    def read_end(self, name: str, size_bytes: int) -> Part:
        return self._read(name, lambda size: (max(0, size - size_bytes), size_bytes))

    def list(self, prefix: str, after: str = "") -> Sequence[Listed]:
        with _passing():
            page: list[Listed] = []
            unsynced: dict[Path, list[bytes]] = {}
            for name in self._walk(checked_prefix(prefix), after):
                # One that was deleted meanwhile is left out, and so is a stranger's file. A reader misses one of ours.
                with contextlib.suppress(FileNotFoundError, PermissionError, UnfitFileError):
                    file = self._open(name)
                    page.append(Listed(name, file.size_bytes() - TAG_BYTES))
                    if (tag := _tag(file)) not in self._durable:
                        unsynced.setdefault(self._path(name).parent, []).append(tag)
                if len(page) == LIST_MAX:
                    break
            for directory, tags in unsynced.items():
                self._sync_names(directory, Unavailable)
                for tag in tags:
                    self._remember(tag)
            return page

    def delete(self, names: Sequence[str]) -> None:
        assert len(names) <= DELETE_MAX
        with _passing():
            paths = [self._path(name) for name in names]
            for path in paths:
                with contextlib.suppress(FileNotFoundError):
                    self._files.unlink(path)
            for directory in sorted({path.parent for path in paths}):
                self._sync_names(directory, Unavailable)

    def upload(self, name: str, parts: Sequence[Buffer]) -> None:
        with self._written(name, parts) as (written, target, tag):
            self._files.rename(written, target)
            self._sync_names(target.parent, Unavailable)
        self._remember(tag)

    def _take_own(self) -> tuple[Path, Lock]:
        """Make and lock a directory to write in; one that was made but not locked yet is a leftover to others."""
        while True:
            own = self._directory / WRITING / os.urandom(8).hex()
            self._files.make_directory(own)
            with contextlib.suppress(DirectoryLocked, FileNotFoundError):
                lock = self._files.lock(own / LOCK)
                if lock.is_in_place():
                    return own, lock

    def _remove_leftovers(self) -> None:
        """Remove what processes that are gone were writing: their lock can be had."""
        writing = self._directory / WRITING
        for name in filter(_OWN.fullmatch, self._files.list_directories(writing)):
            with contextlib.suppress(DirectoryLocked, OSError):  # what cannot be removed is in nobody's way
                lock = self._files.lock(writing / name / LOCK)
                for left in self._files.list_directory(writing / name):
                    if left == LOCK or _WRITTEN.fullmatch(left):
                        self._files.unlink(writing / name / left)
                lock.release()
                self._files.remove_directory(writing / name)

    @contextlib.contextmanager
    def _written(self, name: str, parts: Sequence[Buffer]) -> Iterator[tuple[Path, Path, bytes]]:
        """A durable file with this content, which has no name of an object, and is gone with the block.

        An OSError in the block is one of a call that has changed nothing.
        """
        target = self._path(name)
        written = self._own / str(next(self._numbers))
        tag = os.urandom(TAG_BYTES)
        with _passing():
            self._make_directories(target.parent)
            try:
                file = self._files.open(written, create=True)
                write_all(file, [*parts, tag], 0)
                file.sync_data()
                yield written, target, tag
            finally:
                with contextlib.suppress(OSError):
                    self._files.unlink(written)

    def _make_directories(self, directory: Path) -> None:
        """Make a directory and those between it and the store's, durably; also those that others made just now."""
        if directory in self._known_directories:
            return
        self._make_directories(directory.parent)
        self._files.make_directory(directory)
        self._sync_names(directory.parent, Unavailable)
        with self._state:
            self._known_directories.add(directory)

    @contextlib.contextmanager
    def _locked(self, directory: Path) -> Iterator[Lock]:
        """Have others replace nothing in a directory: what a stopped process was replacing keeps none from the rest."""
        waited = 0.0
        while True:
            try:
                lock = self._files.lock(directory / LOCK)
                break
            except DirectoryLocked:
                if waited >= LOCK_WAIT_SECONDS_MAX:
                    raise Unavailable("another process is replacing an object for too long") from None
            self._pause(LOCK_PAUSE_SECONDS)
            waited += LOCK_PAUSE_SECONDS
        try:
            yield lock
        finally:
            lock.release()

    def _read(self, name: str, place: Callable[[int], tuple[int, int]]) -> Part:
        with _passing():
            try:
                file = self._open(name)
            except FileNotFoundError:
                raise Missing(name) from None
            self._see(name, _tag(file))
            size = file.size_bytes() - TAG_BYTES
            start, size_bytes = place(size)
            return Part(file.read(min(size_bytes, size - start), start), start, size, _tag(file).hex())

    def _open(self, name: str) -> File:
        """An object; raises UnfitFileError for a stranger's file that is too short for one, or something else."""
        path = self._path(name)
        file = self._files.open(path)
        if file.size_bytes() < TAG_BYTES:
            raise UnfitFileError(errno.EINVAL, "it is too short for an object", str(path))
        return file

    def _see(self, name: str, tag: bytes) -> None:
        """Have the name of an object survive a power cut, before it is shown."""
        if tag not in self._durable:
            self._sync_names(self._path(name).parent, Unavailable)
            self._remember(tag)

    def _sync_seen(self, path: Path) -> None:
        """Make durable that a name is taken, before a caller acts on it."""
        self._sync_names(path.parent, Unavailable)

    def _sync_names(self, directory: Path, error: type[Unavailable | Unsure]) -> None:
        if self._is_read_only:
            return
        if directory in self._failed_directories:
            raise error(f"a sync of {directory} has failed: it is not used any more")
        try:
            self._files.sync_directory(directory)
        except FileNotFoundError:
            return  # where there is no directory, there is no name in it
        except SyncError as failure:
            with self._state:
                self._failed_directories.add(directory)
            raise error(f"{directory}: {failure}") from failure
        except OSError as failure:
            raise error(f"{directory}: {failure}") from failure

    def _remember(self, tag: bytes) -> str:
        with self._state:
            self._durable[tag] = None
            if len(self._durable) > TAGS_DURABLE_MAX:
                self._durable.popitem(last=False)
        return tag.hex()

    def _walk(self, prefix: str, after: str) -> Iterator[str]:
        """The names below a prefix behind one, in order."""
        directory = self._directory / prefix
        try:
            inner = set(self._files.list_directories(directory))
            found = self._files.list_directory(directory)
        except FileNotFoundError:
            return
        # As text: what is in `a/` comes behind `a-` and `a.`. What no object is called is a stranger's.
        paths = (f"{prefix}{name}/" if name in inner else prefix + name for name in found)
        wanted = (path for path in paths if path > after or (path.endswith("/") and after.startswith(path)))
        for path in sorted(path for path in wanted if is_object_name(path.rstrip("/"))):
            if path.endswith("/"):
                yield from self._walk(path, after)
            else:
                yield path

    def _path(self, name: str) -> Path:
        return self._directory / checked_name(name)


def _tag(file: File) -> bytes:
    return bytes(file.read(TAG_BYTES, file.size_bytes() - TAG_BYTES))


@contextlib.contextmanager
def _passing() -> Iterator[None]:
    """What the system refuses has changed nothing, and may be tried again."""
    try:
        yield
    except UnfitFileError as error:
        raise NotAnObject(with_remedy(error)) from error
    except OSError as error:
        raise Unavailable(str(error)) from error
