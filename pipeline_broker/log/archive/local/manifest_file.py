"""The manifest on disk: a file of edits, compacted from time to time into a new file with one edit."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from pipeline_broker.files.errors import is_passing
from pipeline_broker.files.file_system import File, FileSystem, write_all
from pipeline_broker.files.window import Window
from pipeline_broker.log.archive.manifest import (
    CHECKED_FROM,
    FRAME_HEADER_SIZE,
    MAGIC_BYTES,
    Edit,
    Manifest,
    decode_frame,
    encode_frame,
    frame_bytes,
    frame_crc,
)
from pipeline_broker.log.errors import ManifestDamaged
from pipeline_broker.log.journal.clean_shutdown import MARK_NAME, ManifestEnd
from pipeline_broker.records.checksum import crc32c, crc32c_of

__all__ = [
    "MANIFEST_NAME",
    "WRITING_NAME",
    "ManifestFile",
    "StoredEdit",
    "file_end",
    "is_edit_after",
    "manifest_window",
    "stored_edits",
]

MANIFEST_NAME = "manifest"
WRITING_NAME = "manifest.writing"
# The file is rewritten when it is REWRITE_FACTOR times as long as its first edit, the sum of all earlier ones, and
# longer than REWRITE_BYTES_MIN.
REWRITE_BYTES_MIN = 1 << 20
REWRITE_FACTOR = 4
MANIFEST_BYTES_MAX = 2 << 30
"""Size of a manifest that is read. Longer files are refused, because no broker wrote them:
a partition takes a few hundred bytes. A file is rewritten at
half of this size at the latest."""
DOUBTFUL_BYTES_MAX = 4 << 30
"""Limit on bytes of broken edits whose checksums one search computes."""


class StoredEdit(NamedTuple):
    position: int
    end: int
    edit: Edit


def manifest_window(file: File, path: Path) -> Window:
    """Return a window for reading a manifest.

    Raises:
        ManifestDamaged: the file is longer than any manifest.
    """
    window = Window(file)
    if window.size_bytes > MANIFEST_BYTES_MAX:
        raise ManifestDamaged(
            f"{path} has {window.size_bytes} bytes, but a manifest has at most {MANIFEST_BYTES_MAX}; nothing was "
            "changed. Restore the file from a backup, or cut off what another program appended (truncate -s)"
        )
    return window


def stored_edits(window: Window) -> Iterator[StoredEdit]:
    """Yield the edits from the beginning of the file up to the first bytes that are not an edit.

    Raises:
        ManifestDamaged: the checksum of an edit matches, but its content is invalid.
    """
    position = 0
    while (stored := _edit_at(window, position)) is not None:
        yield stored
        position = stored.end


def is_edit_after(window: Window, position: int) -> bool:
    """Return whether an intact edit follows broken bytes. Then these are damage and not a torn end.

    Raises:
        ManifestDamaged: the broken edits have more than DOUBTFUL_BYTES_MAX bytes, so a search could take very long; or
            the checksum of an edit matches, but its content is invalid.
    """
    doubtful_bytes = 0
    while (position := window.find(MAGIC_BYTES, position + 1)) >= 0:
        if _edit_at(window, position) is not None:
            return True
        doubtful_bytes += _claimed_bytes(window, position) or 0
        if doubtful_bytes > DOUBTFUL_BYTES_MAX:
            raise ManifestDamaged("the manifest has too many broken edits at its end")
    return False


def file_end(window: Window) -> ManifestEnd:
    return ManifestEnd(window.size_bytes, crc32c_of(window.pieces(0, window.size_bytes)))


def _edit_at(window: Window, position: int) -> StoredEdit | None:
    size_bytes = _claimed_bytes(window, position)
    if size_bytes is None:
        return None
    end = position + size_bytes
    if window.is_long(size_bytes):
        crc = frame_crc(window.data, position - window.start)
        if crc32c_of(window.pieces(position + CHECKED_FROM, end)) != crc:
            return None
    place = window.ensure(position, size_bytes)
    edit = decode_frame(window.data, place)
    return None if edit is None else StoredEdit(position, end, edit)


def _claimed_bytes(window: Window, position: int) -> int | None:
    place = window.ensure(position, FRAME_HEADER_SIZE)
    size_bytes = frame_bytes(window.data, place)
    return None if size_bytes is None or position + size_bytes > window.size_bytes else size_bytes


class ManifestFile:
    """The manifest file of one archive, for one thread at a time.

    An edit counts once `commit` has returned. A torn end is cut off. A broken edit before an intact one is damage.

    At startup all edits are summed up in a new file: bytes that can be read after a failed sync need not be on the
    disk. After a clean shutdown this is unnecessary. On a full disk it is postponed to `make_durable`: until then
    reads may be served, but nothing may be deleted because of the manifest. A crash at any point leads to the same
    result.

    Args:
        files: the file system.
        directory: directory of the archive; must exist.
        clean: the end of the manifest from the mark of a clean shutdown; None after a crash.

    Raises:
        ManifestDamaged: durable edits cannot be read.
        OSError: the disk failed.
    """

    def __init__(self, files: FileSystem, directory: Path, clean: ManifestEnd | None = None) -> None:
        self._manifest = Manifest()
        self._files = files
        self._directory = directory
        self._sum_bytes: int  # size of the first edit in the file
        self._size: int
        self._end: ManifestEnd | None = ManifestEnd()
        self._file: File | None  # None while the edits that were read may not be durable
        if MANIFEST_NAME in files.list_directory(directory):
            self._load(files.open(directory / MANIFEST_NAME), clean)
        if clean is not None and clean.size_bytes:
            if clean != self._end:
                raise ManifestDamaged(
                    f"{directory / MANIFEST_NAME} has changed since the clean shutdown. Restore the directory from a "
                    f"backup. Without one, delete the file {MARK_NAME}: the broker then starts with the present "
                    "manifest, but only if the journal still holds the records that the manifest lacks"
                )
            self._file, self._size = files.open(directory / MANIFEST_NAME), clean.size_bytes
        else:
            self._file = None
            try:
                self.make_durable()
            except OSError as error:
                if not is_passing(error):
                    raise

    @property
    def manifest(self) -> Manifest:
        return self._manifest

    @property
    def end(self) -> ManifestEnd | None:
        return self._end

    def _load(self, file: File, clean: ManifestEnd | None) -> None:
        window, position = manifest_window(file, self._directory / MANIFEST_NAME), 0
        try:
            for stored in stored_edits(window):
                if not position:
                    self._sum_bytes = stored.end
                self._manifest.apply(stored.edit)
                position = stored.end
        except ManifestDamaged as error:
            raise ManifestDamaged(f"{self._directory / MANIFEST_NAME} is damaged at byte {position}: {error}") from None
        # With another size the file is rewritten or refused, and the checksum is not needed.
        has_size = clean is not None and clean.size_bytes == window.size_bytes
        self._end = file_end(window) if has_size else None
        if is_edit_after(window, position):
            raise ManifestDamaged(
                f"{self._directory / MANIFEST_NAME} is damaged at byte {position}:"
                " the archive's contents cannot be read. Restore the directory from a backup"
            )
        if not position:
            raise ManifestDamaged(
                f"{self._directory / MANIFEST_NAME} is damaged at its beginning. Restore the directory from a backup"
            )

    def make_durable(self) -> None:
        """Write the sum of the edits to a new file, unless they are durable. May be repeated after an error.

        Raises:
            OSError: the disk failed.
        """
        if self._file is None:
            self._end = None
            self._file, self._size = self._rewrite()

    def close(self) -> None:
        self._file = None

    def _rewrite(self) -> tuple[File, int]:
        if WRITING_NAME in self._files.list_directory(self._directory):
            self._files.unlink(self._directory / WRITING_NAME)  # left by an interrupted attempt
        data = encode_frame(self._manifest.as_edit())
        file = self._files.open(self._directory / WRITING_NAME, create=True)
        write_all(file, [data], 0)
        file.sync_data()
        # The old file stays until the new one is durable.
        self._files.rename(self._directory / WRITING_NAME, self._directory / MANIFEST_NAME)
        self._files.sync_directory(self._directory)
        self._sum_bytes = len(data)
        self._end = ManifestEnd(len(data), crc32c(data))
        return file, len(data)

    def commit(self, edit: Edit) -> None:
        """Make an edit durable, then apply it to `manifest`.

        Raises:
            OSError: the caller must not act on the edit, nor use this object again.
        """
        self.make_durable()
        assert self._file is not None, "make_durable() opens it"
        data = encode_frame(edit)
        # Until the sync has returned, the end of the file is unknown, and a clean shutdown must not mark it.
        before, self._end = self._end, None
        write_all(self._file, [data], self._size)
        self._file.sync_data()
        self._size += len(data)
        # Only after the sync: the caller and readers act on `manifest`.
        self._manifest.apply(edit)
        self._end = before and ManifestEnd(self._size, crc32c(data, before.crc))
        if self._size > min(MANIFEST_BYTES_MAX // 2, max(REWRITE_BYTES_MIN, REWRITE_FACTOR * self._sum_bytes)):
            self._end = None
            self._file, self._size = self._rewrite()
