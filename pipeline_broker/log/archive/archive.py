"""The archive of a broker: its segment files and the manifest that says which of them count."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import count
from typing import TYPE_CHECKING, NamedTuple, Protocol

import attrs

from pipeline_broker.log.archive.archived_log import ArchivedLog
from pipeline_broker.log.archive.manifest import Edit, Manifest, PartitionManifest
from pipeline_broker.log.archive.segment_file import counted_names, is_folder, parse_file_name
from pipeline_broker.log.archive.segment_reader import SegmentReader
from pipeline_broker.log.producers.producer_state import ProducerStates

if TYPE_CHECKING:
    from pipeline_broker.log.archive.segment_file import SegmentInfo
    from pipeline_broker.log.archive.store import SegmentStore
    from pipeline_broker.log.journal.clean_shutdown import ManifestEnd
    from pipeline_broker.records.batch import BatchHeader

__all__ = ["Archive", "Cleaned", "DeletedSegment", "Expiry", "ManifestLog"]


class DeletedSegment(NamedTuple):
    """A segment that the manifest no longer names. Its files still exist."""

    folder: str
    segment: SegmentInfo


class Expiry(NamedTuple):
    """The expired segments of one log, and its new log start offset.

    Attributes:
        base_offsets: base offsets of the archived segments to delete.
    """

    folder: str
    log_start_offset: int
    base_offsets: frozenset[int]


class Cleaned(NamedTuple):
    """The result of one round of compaction.

    Attributes:
        replaced: the segments that were compacted.
        written: the new segments with the remaining records.
        first_dirty_offset: the offset at which the next round starts.
    """

    folder: str
    replaced: tuple[SegmentInfo, ...]
    written: tuple[SegmentInfo, ...]
    first_dirty_offset: int


class ManifestLog(Protocol):
    """Durable storage of the manifest: a file, or a log in an object store.

    Attributes:
        manifest: the manifest as of the last commit.
        end: the end that a clean shutdown marks; None if the content may not be durable.
    """

    @property
    def manifest(self) -> Manifest: ...

    @property
    def end(self) -> ManifestEnd | None: ...

    def make_durable(self) -> None:
        """Make the content that was read durable. Required before anything is deleted because of that content.

        Raises:
            OSError: the content may not be durable.
        """

    def commit(self, edit: Edit) -> None:
        """Make an edit durable, then apply it to `manifest`.

        Raises:
            OSError: the edit may or may not be durable, so the caller must not act on it.
        """

    def close(self) -> None: ...


class Archive:
    """The archive of one broker. Open it before the journal is recovered.

    The event loop looks up the archived part of a log. The methods under "For the writing thread" run in one thread at
    a time. The event loop then shows the edits that they return to the logs.

    Args:
        store: the segment files.
        cleaning_store: the same files, for compaction, which writes in a thread of its own.
        manifest_file: the stored manifest.
    """

    def __init__(self, store: SegmentStore, cleaning_store: SegmentStore, manifest_file: ManifestLog) -> None:
        self.store = store
        self.cleaning_store = cleaning_store
        self.reader = SegmentReader(store)
        self._manifest_file = manifest_file
        partitions = manifest_file.manifest.partitions.values()
        # Generations are never reused, not even across restarts: caches and damage records use them to identify
        # content.
        latest = max((one.generation for each in partitions for one in each.segments), default=0)
        self._generations = count(latest + 1)

    @property
    def lsn(self) -> int:
        """The LSN below which all entries are archived."""
        return self._manifest_file.manifest.lsn

    @property
    def manifest_end(self) -> ManifestEnd | None:
        return self._manifest_file.end

    def find(self, key: bytes) -> PartitionManifest | None:
        return self._manifest_file.manifest.partitions.get(key)

    def archived_log(self, key: bytes) -> tuple[ArchivedLog, ProducerStates] | None:
        """Return the archived part of a partition, and the producer states at the end of that part.

        Returns None if the manifest does not name the partition.
        """
        manifest = self.find(key)
        if manifest is None:
            return None
        producers = ProducerStates.restored(manifest.producers, manifest.open_transactions)
        return ArchivedLog(self.reader, manifest), producers

    def batches(self, archived: ArchivedLog) -> Iterator[tuple[BatchHeader, memoryview]]:
        """Yield the batches of an archived log that end at or above its log start. Blocks.

        A batch is valid until the next one is requested.

        Raises:
            DamagedSegment: instead of the first damaged batch.
            SegmentGone: a segment was deleted or replaced.
        """
        manifest = archived.manifest
        for segment in manifest.segments:
            for header, batch in self.reader.batches(manifest.folder, segment):
                if header.base_offset + header.last_offset_delta >= manifest.log_start_offset:
                    yield header, batch

    def close(self) -> None:
        """Close all files. Call it after the last read and write."""
        self.store.close()
        self.cleaning_store.close()
        self._manifest_file.close()

    # For the writing thread

    def new_generation(self) -> int:
        return next(self._generations)

    def make_durable(self) -> None:
        self._manifest_file.make_durable()

    def commit(self, edit: Edit) -> None:
        self._manifest_file.commit(edit)

    def expire(self, expiries: Mapping[bytes, Expiry]) -> tuple[Edit, list[DeletedSegment]]:
        """Remove segments from the manifest and raise log starts. The files remain; see `delete_files`.

        Args:
            expiries: by journal key.

        Returns:
            the edit, and the segments whose files can be deleted.

        Raises:
            OSError: the edit was not committed.
        """
        partitions: dict[bytes, PartitionManifest | None] = {}
        deleted = []
        for key, expiry in expiries.items():
            # A log without archived segments gets an entry, because its log start must survive a restart.
            before = self.find(key) or PartitionManifest(expiry.folder)
            kept = tuple(one for one in before.segments if one.base_offset not in expiry.base_offsets)
            deleted += [DeletedSegment(before.folder, one) for one in before.segments if one not in kept]
            start = max(before.log_start_offset, expiry.log_start_offset)
            after = attrs.evolve(before, log_start_offset=start, segments=kept)
            partitions[key] = attrs.evolve(after, epochs=after.epochs.since(after.first_offset))
        edit = Edit(self.lsn, partitions)
        if partitions:
            self.commit(edit)
        return edit, deleted

    def replace(self, key: bytes, cleaned: Cleaned) -> tuple[Edit, list[DeletedSegment]]:
        """Commit the result of a compaction, unless a segment that it read was deleted or replaced in the meantime.

        Returns:
            the edit, and the segments whose files can be deleted. If nothing was committed, the edit is empty and these
            are the new segments.

        Raises:
            OSError: the edit was not committed.
        """
        before = self.find(key)
        # Retention or a deleted topic may have removed a segment while the round ran. Its records must not return.
        if before is None or not set(cleaned.replaced) <= set(before.segments):
            return Edit(self.lsn, {}), [DeletedSegment(cleaned.folder, one) for one in cleaned.written]
        # Later segments, also those archived during the round, follow the compacted ones.
        kept = tuple(one for one in before.segments if one not in cleaned.replaced)
        after = attrs.evolve(before, segments=(*cleaned.written, *kept), first_dirty_offset=cleaned.first_dirty_offset)
        edit = Edit(self.lsn, {key: after})
        self.commit(edit)
        return edit, [DeletedSegment(cleaned.folder, one) for one in cleaned.replaced]

    def delete_files(self, deleted: Iterable[DeletedSegment]) -> None:
        """Delete the files of segments that the manifest no longer names.

        Reads of these segments then raise SegmentGone.

        Raises:
            OSError: the disk or the store failed.
        """
        names: list[str] = []
        for one in deleted:
            # Before the deletion: a read that then finds no file must not report damage.
            self.reader.forget(one.folder, one.segment)
            names += counted_names(one.folder, one.segment)
        self.store.delete(names)

    def remove_unknown(self, known: Collection[bytes], check: Callable[[], object] = lambda: None) -> None:
        """Remove unknown partitions from the manifest, and delete leftover files of killed writers.

        Args:
            known: journal keys of the existing partitions.
            check: called between folders. An exception from it ends the work; the next startup does the rest.

        Raises:
            OSError: the disk or the store failed.
        """
        self.make_durable()  # otherwise a power cut could bring back a manifest that names the deleted files
        partitions = self._manifest_file.manifest.partitions
        gone = [key for key in partitions if key not in known]
        if gone:
            self.commit(Edit(self.lsn, dict.fromkeys(gone)))
        counting = {manifest.folder: manifest for manifest in partitions.values()}
        for folder in self.store.folders():
            check()
            if folder not in counting:
                self._delete_folder(folder)
                continue
            segments = counting[folder].segments
            counted = {name for one in segments for name in counted_names(folder, one)}
            self.store.delete([name for name in self._own_names(folder) if name not in counted])

    def remove(self, folders: Mapping[bytes, str]) -> None:
        """Remove partitions from the manifest, and delete their files.

        Args:
            folders: by journal key.

        Raises:
            OSError: the disk or the store failed.
        """
        self.make_durable()
        manifests = [manifest for key in folders if (manifest := self.find(key)) is not None]
        if manifests:
            self.commit(Edit(self.lsn, dict.fromkeys(folders)))
        for manifest in manifests:
            for segment in manifest.segments:
                self.reader.forget(manifest.folder, segment)  # as in `delete_files`
        for folder in folders.values():
            self._delete_folder(folder)

    def make_folders_free(self, folders: Mapping[bytes, str], check: Callable[[], object] = lambda: None) -> None:
        """Delete the files of deleted topics if new topics have the same folder names.

        Must happen before the first file of a new topic is written.

        Args:
            folders: folders of all existing logs, by journal key.
            check: called between folders. An exception from it ends the work; the next call does the rest.

        Raises:
            OSError: the disk or the store failed.
        """
        partitions = self._manifest_file.manifest.partitions
        new = {folder for key, folder in folders.items() if key not in partitions}
        if not new:
            return
        former = [key for key, manifest in partitions.items() if manifest.folder in new]
        if former:
            self.commit(Edit(self.lsn, dict.fromkeys(former)))
        for folder in new.intersection(self.store.folders()):
            check()
            self._delete_folder(folder)

    def _own_names(self, folder: str) -> list[str]:
        """Return the files of a folder that a broker may have written. Files that a user put there are left alone."""
        return [f"{folder}/{name}" for name in self.store.names(folder) if parse_file_name(name) is not None]

    def _delete_folder(self, folder: str) -> None:
        if is_folder(folder):
            self.store.delete_folder(folder, self._own_names(folder))

    def known(self) -> Collection[bytes]:
        return self._manifest_file.manifest.partitions.keys()
