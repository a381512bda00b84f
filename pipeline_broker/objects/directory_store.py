"""An object store in a directory that processes of one machine share.

An object is a file: the content, then the tag of this write, 16 random bytes. A process writes and syncs it under a
name of its own. `create` then links it to the object's name. `replace` compares the tag and renames the file, under a
lock of the object's directory.

A name is durable once its directory is synced. Between link and sync, other processes see an object that a power cut
may take back. So a store syncs the directory before it returns such an object to its caller, once per tag. Deleted
objects disappear for other processes at once, and for good once `delete` has returned.

    <dir>/+lock      held while an object of this directory is replaced
    +writing/<id>/   files that one process writes; it holds the lock in it until it ends
    <name>           the objects; no part of a name begins with '+'

When a store is opened, it removes unfinished files of killed processes.
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

from pipeline_broker.base.buffer import Buffer
from pipeline_broker.files.errors import DirectoryLocked, SyncError, UnfitFileError, with_remedy
from pipeline_broker.files.file_system import File, FileSystem, Lock, write_all
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
TAGS_DURABLE_MAX = 65_536  # remembered tags of durable objects; reading one of these costs no sync
LOCK_WAIT_SECONDS_MAX = 0.5
LOCK_PAUSE_SECONDS = 0.005
LOCK, WRITING = "+lock", "+writing"
_WRITTEN = re.compile("[0-9]{1,18}")  # files being written
_OWN = re.compile("[0-9a-f]{16}")  # directories of writing processes


class DirectoryStore:
    """A store in a directory. A directory whose sync failed is not used again (see `_sync_names`).

    Args:
        directory: holds the objects; created if it is missing.
        pause: blocks for a number of seconds while another process replaces an object.
        read_only: write and sync nothing; the directory must exist.

    Raises:
        OSError: the directory is missing, or cannot be created or written to.
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
            # Raises if the directory is missing.
            files.list_directory(directory)
            return
        files.make_directory(directory)
        files.sync_directory(directory.parent)
        files.make_directory(directory / WRITING)
        self._remove_leftovers()
        self._own_directory, self._own_directory_lock = self._lock_own_directory()

    def create(self, name: str, parts: Sequence[Buffer]) -> str:
        with self._written(name, parts) as (written, target, tag):
            # link(2) fails if the name is taken; rename(2) would overwrite another process's object.
            try:
                self._files.link(written, target)
            except FileExistsError:
                # The caller acts on `Exists`, so the other process's link must survive a power cut first.
                self._sync_seen(target)
                raise Exists(name) from None
            self._sync_names(target.parent, Unsure)
        return self._remember(tag)

    def replace(self, name: str, parts: Sequence[Buffer], tag: str) -> str:
        with self._written(name, parts) as (written, target, new_tag):
            # A process that is stopped while it holds this lock blocks all others. So the content is written and
            # synced before it, and the directory is synced after it.
            with self._locked(target.parent):
                try:
                    # Tags are random. So an equal tag means the same write, not only the same content.
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
        with _translated_errors():
            page: list[Listed] = []
            unsynced: dict[Path, list[bytes]] = {}
            for name in self._walk(checked_prefix(prefix), after):
                # Files deleted since the listing, and files that are not objects, are left out.
                with contextlib.suppress(FileNotFoundError, PermissionError, UnfitFileError):
                    file = self._open(name)
                    page.append(Listed(name, file.size_bytes() - TAG_BYTES))
                    if (tag := _tag(file)) not in self._durable:
                        unsynced.setdefault(self._path(name).parent, []).append(tag)
                if len(page) == LIST_MAX:
                    break
            # One sync per directory makes all listed names durable, instead of one per name.
            for directory, tags in unsynced.items():
                self._sync_names(directory, Unavailable)
                for tag in tags:
                    self._remember(tag)
            return page

    def delete(self, names: Sequence[str]) -> None:
        assert len(names) <= DELETE_MAX
        with _translated_errors():
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

    def copy(self, source: str, name: str) -> None:
        target = self._path(name)
        with _translated_errors():
            self._make_directories(target.parent)
            try:
                # Files are never changed, only replaced: so both names can share one.
                self._files.link(self._path(source), target)
            except FileNotFoundError:
                raise Missing(source) from None
            except FileExistsError:
                pass  # an earlier call made it
            self._sync_names(target.parent, Unavailable)

    def _lock_own_directory(self) -> tuple[Path, Lock]:
        # Another process may remove the directory between its creation and its lock: then try the next name.
        while True:
            own = self._directory / WRITING / os.urandom(8).hex()
            self._files.make_directory(own)
            with contextlib.suppress(DirectoryLocked, FileNotFoundError):
                lock = self._files.lock(own / LOCK)
                # Locked, but perhaps after another process has removed the directory.
                if lock.is_in_place():
                    return own, lock

    def _remove_leftovers(self) -> None:
        writing = self._directory / WRITING
        for name in filter(_OWN.fullmatch, self._files.list_directories(writing)):
            with contextlib.suppress(DirectoryLocked, OSError):  # leftovers do no harm, so errors are ignored
                lock = self._files.lock(writing / name / LOCK)
                for left in self._files.list_directory(writing / name):
                    if left == LOCK or _WRITTEN.fullmatch(left):
                        self._files.unlink(writing / name / left)
                lock.release()
                self._files.remove_directory(writing / name)

    @contextlib.contextmanager
    def _written(self, name: str, parts: Sequence[Buffer]) -> Iterator[tuple[Path, Path, bytes]]:
        """Write the content to a durable file, yield its path, and remove that name at the end.

        The block must not raise OSError after it has changed something: it becomes `Unavailable`.
        """
        target = self._path(name)
        written = self._own_directory / str(next(self._numbers))
        tag = os.urandom(TAG_BYTES)
        with _translated_errors():
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
        if directory in self._known_directories:
            return
        self._make_directories(directory.parent)
        # Sync also if the directory existed: another process may have created it and not synced the parent yet.
        self._files.make_directory(directory)
        self._sync_names(directory.parent, Unavailable)
        with self._state:
            self._known_directories.add(directory)

    @contextlib.contextmanager
    def _locked(self, directory: Path) -> Iterator[Lock]:
        waited = 0.0
        while True:
            try:
                # Polled: waiting in flock(2) could not be limited.
                lock = self._files.lock(directory / LOCK)
                break
            except DirectoryLocked:
                if waited >= LOCK_WAIT_SECONDS_MAX:
                    raise Unavailable(
                        f"another process has held the lock of {directory} for {LOCK_WAIT_SECONDS_MAX:g} s"
                    ) from None
            self._pause(LOCK_PAUSE_SECONDS)
            waited += LOCK_PAUSE_SECONDS
        try:
            yield lock
        finally:
            lock.release()

    def _read(self, name: str, to_range: Callable[[int], tuple[int, int]]) -> Part:
        with _translated_errors():
            try:
                file = self._open(name)
            except FileNotFoundError:
                raise Missing(name) from None
            self._make_durable(name, _tag(file))
            size = file.size_bytes() - TAG_BYTES
            start, size_bytes = to_range(size)
            return Part(file.read(min(size_bytes, size - start), start), start, size, _tag(file).hex())

    def _open(self, name: str) -> File:
        path = self._path(name)
        file = self._files.open(path)
        if file.size_bytes() < TAG_BYTES:
            raise UnfitFileError(errno.EINVAL, "it is too short for an object", str(path))
        return file

    def _make_durable(self, name: str, tag: bytes) -> None:
        if tag not in self._durable:
            self._sync_names(self._path(name).parent, Unavailable)
            self._remember(tag)

    def _sync_seen(self, path: Path) -> None:
        self._sync_names(path.parent, Unavailable)

    def _sync_names(self, directory: Path, error: type[Unavailable | Unsure]) -> None:
        if self._is_read_only:
            return
        # After a failed fsync(2) the kernel may have dropped the dirty pages, and a later success proves nothing.
        if directory in self._failed_directories:
            raise error(f"{directory} cannot be used any more, because a sync of it failed. Restart the broker")
        try:
            self._files.sync_directory(directory)
        except FileNotFoundError:
            return  # a missing directory has no names to sync
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
        directory = self._directory / prefix
        try:
            inner = set(self._files.list_directories(directory))
            found = self._files.list_directory(directory)
        except FileNotFoundError:
            return
        # Directories are sorted with their `/`, because names sort as text: `a/x` sorts after `a-` and `a.`.
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
def _translated_errors() -> Iterator[None]:
    """Turn an OSError of a call that changed nothing into an error of the store."""
    try:
        yield
    except UnfitFileError as error:
        raise NotAnObject(with_remedy(error)) from error
    except OSError as error:
        raise Unavailable(str(error)) from error
