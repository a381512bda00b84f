"""Verification of the archive's manifest, which must not contradict itself."""

import struct
from collections.abc import Iterator
from pathlib import Path

from pipeline_broker.files.errors import reason_of
from pipeline_broker.files.file_system import FileSystem
from pipeline_broker.files.memory_files import NO_FILE
from pipeline_broker.files.window import Window
from pipeline_broker.inspect.errors import NoDataDirectoryError
from pipeline_broker.inspect.findings import Damage, EditFound, Finding, Leftover, ManifestFound, TornTail
from pipeline_broker.log.archive.local.local_archive import ARCHIVE_NAME
from pipeline_broker.log.archive.local.manifest_file import (
    MANIFEST_NAME,
    WRITING_NAME,
    StoredEdit,
    file_end,
    is_edit_after,
    manifest_window,
    stored_edits,
)
from pipeline_broker.log.archive.manifest import Edit, Manifest, PartitionManifest
from pipeline_broker.log.archive.store import split_name
from pipeline_broker.log.errors import ManifestDamaged
from pipeline_broker.log.journal.clean_shutdown import ManifestEnd
from pipeline_broker.log.journal.frame import split_key
from pipeline_broker.log.producers.producer_state import ProducerStates
from pipeline_broker.wire.uuid_text import uuid_text

__all__ = ["MANIFEST_FILE", "ManifestReader", "folder_problem", "offset_problems", "producer_count"]

MANIFEST_FILE = f"{ARCHIVE_NAME}/{MANIFEST_NAME}"
_MALFORMED = (struct.error, ValueError)  # raised for an edit with a valid checksum that this broker did not write


class ManifestReader:
    """The manifest of one data directory, judged like `ManifestFile` does.

    A torn last edit is ignored. An unreadable edit before a readable one is damage. A running broker keeps adding
    edits, so readers call `refreshed` before they report a contradiction.

    Args:
        data_directory: a broker's data directory.
    """

    def __init__(self, files: FileSystem, data_directory: Path) -> None:
        #: Its name in findings.
        self.file = MANIFEST_FILE
        #: The valid edits; None if the file is damaged.
        self.manifest: Manifest | None = Manifest()
        #: The end of the file, including a torn edit, to compare with the mark of a clean shutdown.
        self.end = ManifestEnd()
        self._files = files
        self._directory = data_directory / ARCHIVE_NAME
        self._positions: dict[bytes, int] = {}

    def position_of(self, key: bytes) -> int:
        return self._positions.get(key, 0)

    def refreshed(self) -> Manifest | None:
        window = self._read()
        manifest, position = Manifest(), 0
        try:
            for stored in stored_edits(window):
                manifest.apply(stored.edit)
                position = stored.end
            is_known = not is_edit_after(window, position) and (bool(position) or not window.size_bytes)
        except ManifestDamaged:
            is_known = False
        return manifest if is_known else None

    def findings(self) -> Iterator[Finding]:
        window = self._read()
        self.manifest, self.end = None, file_end(window)
        manifest, position, count = Manifest(), 0, 0
        try:
            for stored in stored_edits(window):
                yield _edit_found(stored)
                if stored.edit.lsn < manifest.lsn:
                    reason = f"an edit goes back from LSN {manifest.lsn} to {stored.edit.lsn}"
                    yield Damage(MANIFEST_FILE, stored.position, reason)
                manifest.apply(stored.edit)
                self._positions.update(dict.fromkeys(stored.edit.partitions, stored.position))
                position, count = stored.end, count + 1
            problem = self._problem(window, position)
        except ManifestDamaged as error:
            problem = str(error)
        if problem:
            yield Damage(MANIFEST_FILE, position, f"{problem}; the content of the archive is unknown")
            return
        self.manifest = manifest
        if window.size_bytes:
            yield ManifestFound(MANIFEST_FILE, position, count, manifest.lsn, len(manifest.partitions))
        if window.size_bytes > position:
            yield TornTail(MANIFEST_FILE, position, window.size_bytes - position, "an edit that was cut short")
        yield from self._interrupted_rewriting()

    def _problem(self, window: Window, position: int) -> str:
        if not window.size_bytes:
            return "the manifest is missing, but the archive has segments" if self._has_folders() else ""
        if is_edit_after(window, position):
            return "an edit cannot be read"
        return "" if position else "the first edit cannot be read"

    def _read(self) -> Window:
        path = self._directory / MANIFEST_NAME
        try:
            return manifest_window(self._files.open(path), path)
        except FileNotFoundError:
            return Window(NO_FILE)
        except ManifestDamaged as error:
            raise NoDataDirectoryError(str(error)) from None
        except OSError as error:
            raise NoDataDirectoryError(f"{path} cannot be read: {reason_of(error, path)}") from None

    def _has_folders(self) -> bool:
        try:
            return any(self._files.list_directory(self._directory / name) for name in self._folders())
        except OSError:
            return False

    def _folders(self) -> list[str]:
        try:
            return self._files.list_directories(self._directory)
        except FileNotFoundError:
            return []

    def _interrupted_rewriting(self) -> Iterator[Finding]:
        try:
            size_bytes = self._files.open(self._directory / WRITING_NAME).size_bytes()
        except OSError:
            return
        yield Leftover(f"{ARCHIVE_NAME}/{WRITING_NAME}", 0, size_bytes, "an unfinished manifest")


def _edit_found(stored: StoredEdit) -> EditFound:
    edit: Edit = stored.edit
    changed = tuple(partition.folder for partition in edit.partitions.values() if partition is not None)
    removed = tuple(_partition_text(key) for key, partition in edit.partitions.items() if partition is None)
    size_bytes = stored.end - stored.position
    return EditFound(MANIFEST_FILE, stored.position, size_bytes, edit.lsn, changed, removed)


def _partition_text(key: bytes) -> str:
    topic_id, partition = split_key(key)
    return f"{uuid_text(topic_id)}-{partition}"


def folder_problem(key: bytes, manifest: PartitionManifest) -> str:
    """Return why the manifest's folder cannot be the partition's; empty if it can."""
    _, partition = split_key(key)
    name = manifest.folder
    try:
        is_folder = split_name(f"{name}/file")[0] == name and "\0" not in name
    # `split_name` asserts that a name has one folder.
    except AssertionError:
        is_folder = False
    return "" if is_folder and name.endswith(f"-{partition}") else f"{name!r} is not a folder of partition {partition}"


def producer_count(manifest: PartitionManifest) -> int | None:
    """Return the number of idempotent producers in the snapshot; None if it is unreadable."""
    try:
        return len(ProducerStates.restored(manifest.producers))
    except _MALFORMED:
        return None


def offset_problems(manifest: PartitionManifest) -> Iterator[tuple[str, int]]:
    """Yield the contradictions in a partition's manifest, each with the first affected offset.

    Missing offsets are allowed before the log start, where readers see none, and where compaction has removed records.
    """
    folder = manifest.folder
    # Compaction removes records below the first dirty offset, and readers see none below the log start.
    may_skip_to = max(manifest.log_start_offset, manifest.first_dirty_offset)
    expected = manifest.log_start_offset
    for number, segment in enumerate(manifest.segments):
        name = f"segment {segment.base_offset} of {folder}"
        if number and segment.base_offset < expected:
            yield f"{name} begins before offset {expected}, where the previous segment ends", segment.base_offset
        if segment.base_offset > max(expected, may_skip_to):
            yield f"{folder} lacks offsets {expected} to {segment.base_offset - 1}", expected
        if segment.last_offset < segment.base_offset or segment.size_bytes <= 0:
            yield f"{name} has no batch", segment.base_offset
        if not segment.is_sealed and number < len(manifest.segments) - 1:
            yield f"{name} is not sealed, but is not the last one", segment.base_offset
        expected = segment.last_offset + 1
    if manifest.segments and expected > manifest.end_offset:
        yield f"{folder} ends at offset {manifest.end_offset}, but its last segment at {expected}", manifest.end_offset
    if manifest.end_offset > max(expected, may_skip_to):
        yield f"{folder} lacks offsets {expected} to {manifest.end_offset - 1}", expected
