"""The manifest on disk: a file of edits, and now and then a new one that holds the sum of them.

Rules of this file: an edit counts when `commit` returned; only then may anybody act on it. At each start but those
after a clean shutdown the sum is written anew under the other name, because what can be read after a failed sync need
not be on the disk. Where there is no room for that, it is done before the first edit (`make_durable`): until then what
was read may be served, but nothing may be deleted because of it. A torn end is cut off; an edit that cannot be read in
front of one that can is damage, and the start is refused.
Killed at any point, it does the same again.
"""

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
    "is_edit_behind",
    "manifest_window",
    "stored_edits",
]

MANIFEST_NAME = "manifest"
WRITING_NAME = "manifest.writing"
REWRITE_BYTES_MIN = 1 << 20
REWRITE_FACTOR = 4
"""The file is written anew when it is so many times as long as the sum of its edits was, and not short."""
MANIFEST_BYTES_MAX = 2 << 30
"""A longer file was not written by a broker: one partition takes some hundred bytes. Half of it is written anew."""
DOUBTFUL_BYTES_MAX = 4 << 30
"""Bytes whose checksum is compared in a search for an intact edit after one that is not."""


class StoredEdit(NamedTuple):
    """An edit, and where it lies in the file."""

    position: int
    end: int
    edit: Edit


def manifest_window(file: File, path: Path) -> Window:
    """Return the window through which a manifest is read.

    Raises:
        ManifestDamaged: it is longer than any manifest.
    """
    window = Window(file)
    if window.size_bytes > MANIFEST_BYTES_MAX:
        raise ManifestDamaged(
            f"{path} has {window.size_bytes} bytes, and a manifest has at most {MANIFEST_BYTES_MAX}: nothing was "
            "changed; restore the file from a backup, or cut off what another program appended (truncate -s)"
        )
    return window


def stored_edits(window: Window) -> Iterator[StoredEdit]:
    """The edits that count: from the beginning of the file up to the first bytes that are none.

    Raises:
        ManifestDamaged: one makes no sense, though its checksum is right.
    """
    position = 0
    while (stored := _edit_at(window, position)) is not None:
        yield stored
        position = stored.end


def is_edit_behind(window: Window, position: int) -> bool:
    """Whether an edit can be read behind bytes that are none: then these were one, and no torn end.

    Raises:
        ManifestDamaged: so many bytes begin as an edit that the search does not end.
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
    """Return how long the file is, and the checksum of all of it."""
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
    """Return the size of a possible edit at a position; None if none can begin there."""
    place = window.ensure(position, FRAME_HEADER_SIZE)
    size_bytes = frame_bytes(window.data, place)
    return None if size_bytes is None or position + size_bytes > window.size_bytes else size_bytes


class ManifestFile:
    """The manifest of one archive; used by one thread at a time.

    Args:
        files: the file system.
        directory: of the archive; it exists.
        clean: where the manifest ended at a clean shutdown; all of it is durable then.

    Raises:
        ManifestDamaged: what was durable cannot be read.
        OSError: the disk cannot.
    """

    def __init__(self, files: FileSystem, directory: Path, clean: ManifestEnd | None = None) -> None:
        self._manifest = Manifest()
        self._files = files
        self._directory = directory
        self._sum_bytes: int  # of the edit that the file begins with
        self._size: int
        self._end: ManifestEnd | None = ManifestEnd()
        self._file: File | None  # None while what was read is not known to be durable
        if MANIFEST_NAME in files.list_directory(directory):
            self._load(files.open(directory / MANIFEST_NAME), clean)
        if clean is not None and clean.size_bytes:
            if clean != self._end:
                raise ManifestDamaged(
                    f"{directory / MANIFEST_NAME} is not as the broker left it when it was stopped in order; "
                    f"without {MARK_NAME} what is left counts as that of a crash"
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
        """Where the manifest ends; None after an error, when what is in the file is not known to be durable."""
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
            raise ManifestDamaged(f"{self._directory / MANIFEST_NAME} is damaged at {position}: {error}") from None
        has_size = clean is not None and clean.size_bytes == window.size_bytes  # else it is written anew, or refused
        self._end = file_end(window) if has_size else None
        if is_edit_behind(window, position):
            raise ManifestDamaged(
                f"{self._directory / MANIFEST_NAME} is damaged at {position}: what the archive holds cannot be read"
            )
        if not position:
            raise ManifestDamaged(f"{self._directory / MANIFEST_NAME} is damaged at its beginning")

    def make_durable(self) -> None:
        """Write the sum of what was read anew, unless it is durable; may be called again after it was refused.

        Raises:
            OSError: the disk cannot.
        """
        if self._file is None:
            self._end = None
            self._file, self._size = self._rewrite()

    def close(self) -> None:
        """Commit nothing any more."""
        self._file = None

    def _rewrite(self) -> tuple[File, int]:
        if WRITING_NAME in self._files.list_directory(self._directory):
            self._files.unlink(self._directory / WRITING_NAME)  # an attempt that was cut short
        data = encode_frame(self._manifest.as_edit())
        file = self._files.open(self._directory / WRITING_NAME, create=True)
        write_all(file, [data], 0)
        file.sync_data()
        self._files.rename(self._directory / WRITING_NAME, self._directory / MANIFEST_NAME)
        self._files.sync_directory(self._directory)
        self._sum_bytes = len(data)
        self._end = ManifestEnd(len(data), crc32c(data))
        return file, len(data)

    def commit(self, edit: Edit) -> None:
        """Make an edit durable, then part of `manifest`.

        Raises:
            OSError: the disk cannot; nothing may be acted upon, and the file must not be used again.
        """
        self.make_durable()
        assert self._file is not None, "made durable"
        data = encode_frame(edit)
        before, self._end = self._end, None
        write_all(self._file, [data], self._size)
        self._file.sync_data()
        self._size += len(data)
        self._manifest.apply(edit)
        self._end = before and ManifestEnd(self._size, crc32c(data, before.crc))
        if self._size > min(MANIFEST_BYTES_MAX // 2, max(REWRITE_BYTES_MIN, REWRITE_FACTOR * self._sum_bytes)):
            self._end = None
            self._file, self._size = self._rewrite()
