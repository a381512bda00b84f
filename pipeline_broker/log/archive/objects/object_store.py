"""A segment store in an object store: writes to many files become one bulk object and one commit."""

import errno
import os
import threading
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from itertools import groupby
from typing import NamedTuple, Protocol

from pipeline_broker.base.buffer import Buffer
from pipeline_broker.files.errors import Obstacle
from pipeline_broker.files.parts import cut_parts
from pipeline_broker.log.archive.objects.file_map import GONE, Change, FileMap, Range, mergeable
from pipeline_broker.log.archive.objects.object_file import ObjectFile, Piece, is_pending, written_pieces
from pipeline_broker.log.archive.objects.obstacles import obstacles
from pipeline_broker.log.archive.store import NO_ORIGINS, split_name
from pipeline_broker.log.errors import ShortFile
from pipeline_broker.log.journal.journal_port import StoredObject
from pipeline_broker.objects.block_cache import BlockCache
from pipeline_broker.objects.store import UPLOAD_PART_BYTES, Missing, ObjectStore, ObjectStoreError, delete_all

__all__ = ["FileLog", "ObjectSegmentStore"]

OBJECT_BYTES_MAX = UPLOAD_PART_BYTES
"""Maximum size of a bulk object, which is one request. An upload starts when as many bytes are in memory."""
UPLOADS_AT_ONCE = 8
"""Concurrent uploads, whose 64 MiB stay in memory until they are stored. A further one waits for the oldest."""
# A sync merges the ranges of at most MERGES_MIN files, or of one file in MERGES_SHARE if that is more. This is more
# than become ready for a merge in that time.
MERGES_MIN, MERGES_SHARE = 8, 16
READS_AT_ONCE = 16
COPIED_BYTES_MAX = 16 << 20
"""Bytes that one sync copies out of mostly unused objects."""


class FileLog(Protocol):
    @property
    def files(self) -> FileMap: ...

    def commit_files(self, changes: Sequence[Change], object_sizes: Mapping[str, int]) -> list[str]:
        """Make changes durable, then apply them to `files`; return the objects that no file uses any more.

        Raises:
            OSError: the changes do not count.
        """


class _Upload(NamedTuple):
    """An upload in progress.

    Attributes:
        names: the files with parts in the object; those of a copy grow.
        arrived: completes when the object is stored.
    """

    object_name: str
    size_bytes: int
    names: dict[str, None]
    arrived: "Future[None]"


class ObjectSegmentStore:
    """A SegmentStore whose files are ranges of bulk objects. Several threads may write.

    * Written bytes stay in memory, readable at once, until a sync or until OBJECT_BYTES_MAX have accumulated. Then they
      are uploaded as one object, sorted by file.
    * Several uploads run while more is written. A commit follows only after all of them have succeeded. A failed upload
      leaves its bytes in memory, as if it had not started.
    * An object is deleted once no file uses it. Files are copied out of objects that are mostly unused.
    * Writers exclude each other, also while one waits for the store. Readers never wait for them: a changed file is a
      new ObjectFile, and a reader whose object is missing looks the file up again.

    Args:
        log: the file map, and its commits.
        store: store of the bulk objects.
        cache: reads bulk objects.
        prefix: prefix of the names of new bulk objects; no other owner may use it.
        object_bytes_max: size of a bulk object.
    """

    def __init__(
        self,
        log: FileLog,
        store: ObjectStore,
        cache: BlockCache,
        prefix: str,
        object_bytes_max: int = OBJECT_BYTES_MAX,
    ) -> None:
        self._log = log
        self._store = store
        self._cache = cache
        self._prefix = prefix
        self._object_bytes_max = object_bytes_max
        self._writing = threading.RLock()
        self._files: dict[str, ObjectFile] = {}
        self._folders: dict[str, dict[str, None]] = {}
        self._pending_bytes: int
        self._dirty: dict[str, None] = {}  # files with uncommitted changes
        self._uncommitted: dict[str, int] = {}  # sizes of uploaded objects that no commit names yet
        self._unused: list[str] = []  # objects to delete
        self._objects_made = 0
        self._uploads: deque[_Upload] = deque()  # oldest first
        self._copies: dict[str, str] = {}  # uncommitted copies by the name of their origin
        self._uploaders = ThreadPoolExecutor(UPLOADS_AT_ONCE, thread_name_prefix="upload")
        self._readers = ThreadPoolExecutor(READS_AT_ONCE, thread_name_prefix="merge")

        self.show(log.files)

    def show(self, files: FileMap) -> None:
        """Replace all files by those of a file map, and discard uncommitted writes."""
        folders: dict[str, dict[str, None]] = {}
        for name in files.files:
            folders.setdefault(split_name(name)[0], {})[name] = None
        with self._writing:
            self._files = {name: ObjectFile(ranges) for name, ranges in files.files.items()}
            self._folders = folders
            self._pending_bytes = 0
            self._dirty.clear()

    def folders(self) -> list[str]:
        with self._writing:
            return sorted(self._folders)

    def names(self, folder: str) -> list[str]:
        with self._writing:
            return sorted(split_name(name)[1] for name in self._folders.get(folder, ()))

    def size_bytes(self, name: str) -> int:
        return self._find(name).size_bytes

    def write(
        self, name: str, parts: Sequence[Buffer], position: int, origins: Mapping[int, StoredObject] = NO_ORIGINS
    ) -> None:
        with self._writing:
            for origin in origins.values():
                self._begin_copy(origin)
            before = self._files.get(name) or ObjectFile()
            if position > before.size_bytes:
                raise ShortFile(f"{name} ends at byte {before.size_bytes}: it cannot be continued at {position}")
            self._set(name, ObjectFile([*before.cut_at(position), *self._pieces(name, parts, origins)]))
            while self._pending_bytes >= self._object_bytes_max:
                self._begin_upload()

    def sync(self, names: Iterable[str]) -> None:
        with self._writing:
            for name in names:
                self._find(name)
            if not self._dirty:
                return
            # Merged and copied ranges become pending, so the uploads of this commit contain them.
            self._merge()
            self._copy_from_unused()
            self._commit_dirty()

    def read(self, name: str, size_bytes: int, position: int) -> Buffer:
        while True:
            # No lock: a reader must never wait for a writer, which may wait for the store.
            file = self._find(name)
            try:
                with obstacles(f"{name} cannot be read"):
                    return _joined([self._content(each) for each in file.between(position, position + size_bytes)])
            except FileNotFoundError:
                if self._files.get(name) is file:  # otherwise the bytes were moved or deleted: look again
                    raise

    @property
    def cache(self) -> BlockCache:
        return self._cache

    def lend(self, name: str, size_bytes: int, position: int) -> None: ...

    def read_cached(self, name: str, size_bytes: int, position: int) -> Buffer | None:
        file = self._files.get(name)
        if file is None or position + size_bytes > file.size_bytes:
            return None
        found: list[Buffer] = []
        for each in file.between(position, position + size_bytes):
            part = each.data if isinstance(each, Piece) else self._cache.read_cached(*each)
            if part is None:
                return None
            found.append(part)
        return _joined(found)

    def read_ahead(self, name: str, size_bytes: int, position: int) -> None:
        for each in self._find(name).between(position, position + size_bytes):
            if isinstance(each, Range):
                self._cache.read_ahead(*each)

    def replace(self, source: str, target: str) -> None:
        assert split_name(target)[0] == split_name(source)[0], "a file stays in its folder"
        with self._writing:
            file = self._find(source)
            # A commit can name only ranges of objects, so pieces in memory are uploaded first.
            if len(file.ranges) < len(file.pieces):
                self._upload_all()
                file = self._find(source)
            gone = self._commit([Change(target, 0, file.ranges), Change(source, GONE)])
            self._forget(source)
            self._set(target, file)
            self._dirty.pop(target)
            self._delete_unused(gone)

    def delete(self, names: Iterable[str]) -> None:
        with self._writing:
            deleted = [name for name in dict.fromkeys(names) if name in self._files]
            changes = [Change(name, GONE) for name in deleted if name in self._log.files.files]
            # Committed before the files disappear from memory: after an error, nothing has changed.
            gone = self._commit(changes) if changes else {}
            for name in deleted:
                self._forget(name)
            self._delete_unused(gone)
            with suppress(Obstacle):  # the next sync tries again
                if self._copy_from_unused():
                    self._commit_dirty()

    def delete_folder(self, folder: str, names: Iterable[str]) -> None:  # noqa: ARG002 - a folder needs no deletion
        self.delete(names)

    def free_bytes(self) -> int:
        return 1 << 62

    def close(self) -> None:
        self._uploaders.shutdown()
        self._cache.close()
        self._readers.shutdown()

    def _find(self, name: str) -> ObjectFile:
        try:
            return self._files[name]
        except KeyError:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name) from None

    def _set(self, name: str, file: ObjectFile) -> None:
        self._folders.setdefault(split_name(name)[0], {})[name] = None
        before = self._files.get(name)
        self._pending_bytes += file.pending_bytes - (0 if before is None else before.pending_bytes)
        self._files[name] = file
        self._dirty[name] = None

    def _forget(self, name: str) -> None:
        self._pending_bytes -= self._files.pop(name).pending_bytes
        self._dirty.pop(name, None)
        folder, _ = split_name(name)
        del self._folders[folder][name]
        if not self._folders[folder]:
            del self._folders[folder]

    def _content(self, piece: Range | Piece) -> Buffer:
        return piece.data if isinstance(piece, Piece) else self._cache.read(*piece)

    def _begin_copy(self, origin: StoredObject) -> None:
        if self._is_on_its_way(copy := self._copies.get(origin.name, "")) or copy in self._uncommitted:
            return
        while len(self._uploads) >= UPLOADS_AT_ONCE:
            self._end_upload()
        self._copies[origin.name] = copy = self._new_name()
        arrived = self._uploaders.submit(self._copy, origin, copy)
        self._uploads.append(_Upload(copy, len(origin.content), {}, arrived))

    def _is_on_its_way(self, object_name: str) -> bool:
        return any(each.object_name == object_name for each in self._uploads)

    def _pieces(
        self, name: str, parts: Sequence[Buffer], origins: Mapping[int, StoredObject]
    ) -> Iterator[Range | Piece]:
        uploads = {each.object_name: each for each in self._uploads}
        for origin, run in groupby(enumerate(parts), lambda numbered: origins.get(numbered[0])):
            sent = [part for _, part in run]
            copy = "" if origin is None else self._copies[origin.name]
            if origin is None or (copy not in uploads and copy not in self._uncommitted):
                yield from written_pieces(sent)
                continue
            assert len(sent) == 1, "every part has an origin of its own"
            place = Range(copy, origin.start, len(sent[0]))
            if copy in uploads:
                uploads[copy].names[name] = None
                yield Piece(sent[0], place)
            else:
                yield place

    def _new_name(self) -> str:
        # A unique name, so that no upload can ever overwrite an object that counts.
        self._objects_made += 1
        return f"{self._prefix}{self._objects_made - 1:020d}-{os.urandom(8).hex()}"

    def _upload_all(self) -> None:
        while self._pending_bytes:
            self._begin_upload()
        while self._uploads:
            self._end_upload()

    def _begin_upload(self) -> None:
        while len(self._uploads) >= UPLOADS_AT_ONCE:
            self._end_upload()
        object_name = self._new_name()
        parts: list[Buffer] = []
        placed: dict[str, list[Range | Piece]] = {}
        left = self._object_bytes_max
        for name in sorted(name for name in self._dirty if self._files[name].pending_bytes):
            pieces = placed[name] = []
            for is_leaving, run in groupby(self._files[name].pieces, is_pending):
                if not is_leaving:
                    pieces += run
                    continue
                in_memory = [each.data for each in run if isinstance(each, Piece)]
                in_memory_bytes = sum(map(len, in_memory))
                size = min(left, in_memory_bytes)
                leaving, staying = cut_parts(in_memory, (size, in_memory_bytes - size))
                if size:
                    pieces.append(Range(object_name, self._object_bytes_max - left, size))
                    parts += leaving
                    left -= size
                pieces += map(Piece, staying)
            if not left:
                break
        if not parts:
            return
        content = b"".join(parts)
        # Readers get the bytes from the upload's buffer until the object is stored.
        view = memoryview(content)
        for name, pieces in placed.items():
            on_their_way = [
                Piece(view[each.start : each.start + each.size_bytes], each)
                if isinstance(each, Range) and each.object_name == object_name
                else each
                for each in pieces
            ]
            self._set(name, ObjectFile(on_their_way))
        arrived = self._uploaders.submit(self._upload, object_name, content)
        self._uploads.append(_Upload(object_name, len(content), dict.fromkeys(placed), arrived))

    def _upload(self, object_name: str, content: bytes) -> None:
        self._store.upload(object_name, [content])
        self._cache.fill(object_name, content)  # the next archiving round reads the ends of these index files

    def _copy(self, origin: StoredObject, object_name: str) -> None:
        try:
            self._store.copy(origin.name, object_name)
        except Missing:  # a successor has deleted it; this owner learns that from its next commit
            self._store.upload(object_name, [origin.content])

    def _end_upload(self) -> None:
        """Wait for the oldest upload.

        If it failed, wait for all others too, so that a new attempt starts without them.
        """
        try:
            self._wait_for(self._uploads.popleft())
        except Obstacle:
            while self._uploads:
                with suppress(Obstacle):
                    self._wait_for(self._uploads.popleft())
            raise

    def _wait_for(self, upload: _Upload) -> None:
        has_arrived = False
        try:
            with obstacles("the archive cannot be written"):
                upload.arrived.result()
            has_arrived = True
            self._uncommitted[upload.object_name] = upload.size_bytes
        finally:
            for name in upload.names:
                file = self._files.get(name)
                if file is not None and file.goes_to(upload.object_name):
                    self._set(name, file.after_upload(upload.object_name, has_arrived=has_arrived))

    def _change(self, name: str) -> Change:
        before, after = self._log.files.files.get(name, ()), self._files[name].ranges
        same = 0
        while same < min(len(before), len(after)) and before[same] == after[same]:
            same += 1
        return Change(name, sum(each.size_bytes for each in after[:same]), after[same:])

    def _commit_dirty(self) -> None:
        self._upload_all()
        gone = self._commit([self._change(name) for name in self._dirty])
        self._dirty.clear()
        self._copies.clear()
        self._delete_unused(gone)

    def _commit(self, changes: Sequence[Change]) -> dict[str, int]:
        """Commit changes; return the objects that no committed file uses any more, with their sizes."""
        sizes = {**self._log.files.object_sizes, **self._uncommitted}
        named = {each.object_name for change in changes for each in change.ranges}
        gone = self._log.commit_files(changes, {name: sizes[name] for name in named})
        return {name: sizes[name] for name in gone}

    def _delete_unused(self, gone: Mapping[str, int]) -> None:
        """Delete objects that neither committed nor changed files use. Failed deletions are repeated later."""
        # Changed files may still use ranges that the last commit no longer names.
        seen = {each.object_name for name in self._dirty for each in self._files[name].ranges}
        uncommitted = {**self._uncommitted, **gone}
        committed = self._log.files.object_sizes
        self._uncommitted = {name: size for name, size in uncommitted.items() if name in seen}
        self._unused += [name for name in uncommitted if name not in seen and name not in committed]
        try:
            delete_all(self._store, self._unused)
        except ObjectStoreError:
            return
        for name in self._unused:
            self._cache.forget(name)
        self._unused = []

    def _merge(self) -> None:
        """Load runs of small ranges into memory again, so that the next upload joins them."""
        left = max(MERGES_MIN, len(self._dirty) // MERGES_SHARE)
        for name in list(self._dirty):
            ranges = self._files[name].ranges
            count = mergeable([each.size_bytes for each in ranges])
            if count and left:
                left -= 1
                self._take_in(name, set(ranges[-count:]))

    def _copy_from_unused(self) -> bool:
        """Load ranges of mostly unused objects into memory, so that the objects can be deleted.

        Returns whether any were loaded.
        """
        used, sizes = self._log.files.used_bytes, self._log.files.object_sizes
        wasted = {name for name, size in sizes.items() if 2 * used[name] < size}
        copied = 0
        for name in sorted(self._files) if wasted else ():
            ranges = {each for each in self._files[name].ranges if each.object_name in wasted}
            if not ranges:
                continue
            copied += sum(each.size_bytes for each in ranges)
            self._take_in(name, ranges)
            if copied >= COPIED_BYTES_MAX:
                break
        return copied > 0

    def _take_in(self, name: str, ranges: Collection[Range]) -> None:
        """Make ranges of a file pending again. Reads bypass the cache, which they would only fill."""
        pieces = self._files[name].pieces
        wanted = [each for each in pieces if isinstance(each, Range) and each in ranges]
        with obstacles("the archive cannot be written"):
            parts = self._readers.map(lambda each: self._store.read(*each).data, wanted)
            found = {each: Piece(part) for each, part in zip(wanted, parts, strict=True)}
        for each, piece in found.items():
            if piece.size_bytes != each.size_bytes:
                raise OSError(errno.EIO, f"the object {each.object_name} ends too early", name)
        self._set(name, ObjectFile([found.get(each, each) if isinstance(each, Range) else each for each in pieces]))


def _joined(parts: list[Buffer]) -> Buffer:
    return parts[0] if len(parts) == 1 else b"".join(parts)
