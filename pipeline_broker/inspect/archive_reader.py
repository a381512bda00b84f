"""Verification of the archive, partition by partition, with the code that serves consumers."""

from collections.abc import Iterator
from pathlib import Path

from pipeline_broker.files.errors import reason_of
from pipeline_broker.inspect.errors import NoDataDirectoryError
from pipeline_broker.inspect.findings import (
    ArchiveSegmentFound,
    Damage,
    Finding,
    Leftover,
    OpenTransactionFound,
    PartitionFound,
    Superseded,
)
from pipeline_broker.inspect.leftovers import some_of
from pipeline_broker.inspect.manifest_reader import (
    folder_problem,
    offset_problems,
    producer_count,
)
from pipeline_broker.inspect.segment_check import SegmentCheck, file_of
from pipeline_broker.inspect.selection import Selection
from pipeline_broker.inspect.stored_archive import StoredArchive
from pipeline_broker.inspect.topic_names import TopicNames
from pipeline_broker.log.archive.manifest import Manifest, PartitionManifest
from pipeline_broker.log.archive.segment_file import SegmentInfo, counted_names, file_names
from pipeline_broker.log.journal.frame import split_key
from pipeline_broker.state.metadata_records import METADATA_TOPIC_ID

__all__ = ["ArchiveReader"]


class ArchiveReader:
    """One pass over an archive. Files that the manifest does not name are leftovers.

    Args:
        archive: an archive whose manifest has been read.
        names: topic names; the pass adds more.
        selection: the data to report and read. The broker's own metadata is always read, for the names.
    """

    def __init__(
        self,
        archive: StoredArchive,
        names: TopicNames,
        selection: Selection,
    ) -> None:
        self._archive = archive
        self._store = archive.store
        self._manifests = archive.manifests
        self._names = names
        self._selection = selection

    def findings(self) -> Iterator[Finding]:
        """Yield the findings of each partition, those of the broker's own metadata first, leftovers last.

        Raises:
            NoDataDirectoryError: a file or a folder cannot be read.
        """
        manifest = self._manifests.manifest
        assert manifest is not None, "an archive without a manifest cannot be read"
        for key, partition in manifest.partitions.items():
            self._names.note_folder(split_key(key)[0], partition.folder)
        in_order = sorted(manifest.partitions.items(), key=_order)
        try:
            for key, partition in in_order:
                yield from self._read_partition(key, partition)
            yield from self._uncounted(manifest)
        except OSError as error:
            name = str(error.filename or "the archive")
            raise NoDataDirectoryError(f"{name} cannot be read: {reason_of(error, Path(name))}") from None

    def _read_partition(self, key: bytes, manifest: PartitionManifest) -> Iterator[Finding]:
        topic_id, number = split_key(key)
        topic = self._names.find(topic_id)
        is_shown = self._selection.takes(topic, topic_id, number)
        # Metadata is read even if it is not selected, because topic names come from it.
        if not is_shown and topic_id != METADATA_TOPIC_ID:
            return
        if is_shown:
            yield _partition_found(key, topic, manifest)
        yield from self._contradictions(key, manifest)
        if folder_problem(key, manifest):
            return
        for segment in manifest.segments:
            if is_shown and self._selection.takes_offsets(segment.base_offset, segment.last_offset):
                yield from self._read_segment(key, manifest.folder, segment, self._selection)
            elif topic_id == METADATA_TOPIC_ID:
                found = self._read_segment(key, manifest.folder, segment, None)
                yield from (finding for finding in found if isinstance(finding, Damage))

    def _contradictions(self, key: bytes, manifest: PartitionManifest) -> Iterator[Damage]:
        position = self._manifests.position_of(key)
        if problem := folder_problem(key, manifest):
            yield Damage(self._manifests.file, position, problem)
        if producer_count(manifest) is None:
            yield Damage(self._manifests.file, position, f"the producers of {manifest.folder} cannot be read")
        for reason, offset in offset_problems(manifest):
            yield Damage(self._manifests.file, position, reason, offset)

    def _read_segment(
        self, key: bytes, folder: str, segment: SegmentInfo, selection: Selection | None
    ) -> Iterator[Finding]:
        yield _segment_found(key, folder, segment)
        for finding in SegmentCheck(self._store, key, folder, segment, self._names, selection).findings():
            # A running broker may have deleted or replaced the segment since the manifest was read. Then it is not
            # damaged.
            if isinstance(finding, Damage) and self._is_superseded(key, folder, segment):
                yield Superseded(finding.file)
                return
            yield finding

    def _is_superseded(self, key: bytes, folder: str, segment: SegmentInfo) -> bool:
        now = self._manifests.refreshed()
        if now is None:
            return False
        partition = now.partitions.get(key)
        if partition is None or partition.folder != folder:
            return True
        current = {(each.base_offset, each.generation) for each in partition.segments}
        return (segment.base_offset, segment.generation) not in current

    def _uncounted(self, before: Manifest) -> Iterator[Finding]:
        folders = self._archive.folders()
        # Read again after the folders were listed: files archived in between are not leftovers.
        now = self._manifests.refreshed()
        counting = {each.folder: each for each in (before if now is None else now).partitions.values()}
        for folder in folders:
            yield from self._uncounted_in(folder, counting.get(folder))
        yield from self._archive.strays()

    def _uncounted_in(self, folder: str, manifest: PartitionManifest | None) -> Iterator[Finding]:
        segments = () if manifest is None else manifest.segments
        counted = {name for segment in segments for name in counted_names(folder, segment)}
        wholes = (f"{folder}/{name}" for name in self._store.names(folder))
        yield from some_of([whole for whole in wholes if whole not in counted], file_of(folder), self._uncounted_file)

    def _uncounted_file(self, whole: str) -> Iterator[Leftover]:
        try:
            size_bytes = self._store.size_bytes(whole)
        except FileNotFoundError:
            return  # a running broker has deleted it
        except OSError:
            size_bytes = 0
        yield Leftover(file_of(whole), 0, size_bytes, "a file that the manifest does not name")


def _order(item: tuple[bytes, PartitionManifest]) -> tuple[bool, str]:
    key, manifest = item
    topic, _, number = manifest.folder.rpartition("-")
    return split_key(key)[0] != METADATA_TOPIC_ID, f"{topic}-{number:0>10}"


def _partition_found(key: bytes, topic: str | None, manifest: PartitionManifest) -> PartitionFound:
    topic_id, number = split_key(key)
    return PartitionFound(
        topic,
        topic_id,
        number,
        manifest.folder,
        manifest.log_start_offset,
        manifest.end_offset,
        manifest.first_dirty_offset,
        len(manifest.segments),
        manifest.size_bytes,
        producer_count(manifest) or 0,
        tuple(OpenTransactionFound(*each) for each in manifest.open_transactions),
    )


def _segment_found(key: bytes, folder: str, segment: SegmentInfo) -> ArchiveSegmentFound:
    topic_id, number = split_key(key)
    return ArchiveSegmentFound(
        file_of(file_names(folder, segment.base_offset, segment.cleanings)[0]),
        topic_id,
        number,
        segment.base_offset,
        segment.last_offset,
        segment.size_bytes,
        segment.first_timestamp,
        segment.max_timestamp,
        segment.modified_ms,
        segment.is_sealed,
        segment.generation,
    )
