"""The archive of one data directory: its files, and the manifest that says what of them counts.

Rules of this file: opened before the journal is read and before any log is made. The event loop asks what a log has
here; everything that writes runs in one thread at a time and ends with an edit of the manifest, which the event loop
then shows to the logs. What is not in the manifest does not count, so a writer may be killed anywhere.
"""

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
    """A segment that does not count any more, whose files are still there."""

    folder: str
    segment: SegmentInfo


class Expiry(NamedTuple):
    """What goes of one log.

    Attributes:
        folder: of its files.
        log_start_offset: nothing before it is shown any more.
        base_offsets: of the archived segments that go.
    """

    folder: str
    log_start_offset: int
    base_offsets: frozenset[int]


class Cleaned(NamedTuple):
    """What a round of compaction made.

    Attributes:
        folder: of the log.
        replaced: the segments that were read.
        written: the segments that hold what stayed of them.
        first_dirty_offset: where the next round begins.
    """

    folder: str
    replaced: tuple[SegmentInfo, ...]
    written: tuple[SegmentInfo, ...]
    first_dirty_offset: int


class ManifestLog(Protocol):
    """What of an archive counts, and where a change of that is made durable: a file, or a log in a bucket.

    Attributes:
        manifest: as of the last commit.
        end: what a clean shutdown notes of it; None when it cannot be trusted.
    """

    @property
    def manifest(self) -> Manifest: ...

    @property
    def end(self) -> ManifestEnd | None: ...

    def make_durable(self) -> None:
        """Return when what was read is durable, so that anything may be given up because of it."""

    def commit(self, edit: Edit) -> None:
        """Make an edit durable, then part of `manifest`; raises OSError, and nothing may be acted upon."""

    def close(self) -> None:
        """Commit nothing any more."""


class Archive:
    """See the rules of the file.

    Args:
        store: where the files are.
        cleaning_store: the same for compaction, which writes in a thread of its own.
        manifest_file: what of them counts.
    """

    def __init__(self, store: SegmentStore, cleaning_store: SegmentStore, manifest_file: ManifestLog) -> None:
        self.store = store
        self.cleaning_store = cleaning_store
        self.reader = SegmentReader(store)
        self._manifest_file = manifest_file
        partitions = manifest_file.manifest.partitions.values()
        latest = max((one.generation for each in partitions for one in each.segments), default=0)
        self._generations = count(latest + 1)

    @property
    def lsn(self) -> int:
        """Everything in front of it is here."""
        return self._manifest_file.manifest.lsn

    @property
    def manifest_end(self) -> ManifestEnd | None:
        return self._manifest_file.end

    def find(self, key: bytes) -> PartitionManifest | None:
        """What there is of a partition."""
        return self._manifest_file.manifest.partitions.get(key)

    def archived_log(self, key: bytes) -> tuple[ArchivedLog, ProducerStates] | None:
        """Return the archived part of a partition and its producers as of its end; None if nothing is archived."""
        manifest = self.find(key)
        if manifest is None:
            return None
        producers = ProducerStates.restored(manifest.producers, manifest.open_transactions)
        return ArchivedLog(self.reader, manifest), producers

    def batches(self, archived: ArchivedLog) -> Iterator[tuple[BatchHeader, memoryview]]:
        """Yield the batches of an archived log, each valid until the next one is requested; blocks."""
        manifest = archived.manifest
        for segment in manifest.segments:
            for header, batch in self.reader.batches(manifest.folder, segment):
                if header.base_offset + header.last_offset_delta >= manifest.log_start_offset:
                    yield header, batch

    def close(self) -> None:
        """Keep no file open, when nothing is read or written any more."""
        self.store.close()
        self.cleaning_store.close()
        self._manifest_file.close()

    # In the one thread that writes

    def new_generation(self) -> int:
        """A number that no segment had while this process runs, and that none has that was there before."""
        return next(self._generations)

    def make_durable(self) -> None:
        """See ManifestFile: before anything is given up because the archive holds it."""
        self._manifest_file.make_durable()

    def commit(self, edit: Edit) -> None:
        """Make an edit durable.

        Raises:
            OSError: the disk cannot.
        """
        self._manifest_file.commit(edit)

    def expire(self, expiries: Mapping[bytes, Expiry]) -> tuple[Edit, list[DeletedSegment]]:
        """Take segments out of the manifest and raise log starts; the files are to be deleted later.

        Raises:
            OSError: the disk cannot; nothing has changed.
        """
        partitions: dict[bytes, PartitionManifest | None] = {}
        deleted = []
        for key, expiry in expiries.items():
            before = self.find(key) or PartitionManifest(expiry.folder)
            kept = tuple(one for one in before.segments if one.base_offset not in expiry.base_offsets)
            deleted += [DeletedSegment(before.folder, one) for one in before.segments if one not in kept]
            start = max(before.log_start_offset, expiry.log_start_offset)
            partitions[key] = attrs.evolve(before, log_start_offset=start, segments=kept)
        edit = Edit(self.lsn, partitions)
        if partitions:
            self.commit(edit)
        return edit, deleted

    def replace(self, key: bytes, cleaned: Cleaned) -> tuple[Edit, list[DeletedSegment]]:
        """Let what a round of compaction wrote count, unless something that it read is gone by now.

        Returns:
            the edit, empty when the round was in vain, and the segments whose files are to be deleted.

        Raises:
            OSError: the disk cannot; nothing has changed.
        """
        before = self.find(key)
        if before is None or not set(cleaned.replaced) <= set(before.segments):
            return Edit(self.lsn, {}), [DeletedSegment(cleaned.folder, one) for one in cleaned.written]
        kept = tuple(one for one in before.segments if one not in cleaned.replaced)
        after = attrs.evolve(before, segments=(*cleaned.written, *kept), first_dirty_offset=cleaned.first_dirty_offset)
        edit = Edit(self.lsn, {key: after})
        self.commit(edit)
        return edit, [DeletedSegment(cleaned.folder, one) for one in cleaned.replaced]

    def delete_files(self, deleted: Iterable[DeletedSegment]) -> None:
        """Delete files of segments that the manifest does not name any more."""
        names: list[str] = []
        for one in deleted:
            self.reader.forget(one.folder, one.segment)
            names += counted_names(one.folder, one.segment)
        self.store.delete(names)

    def remove_unknown(self, known: Collection[bytes], check: Callable[[], object] = lambda: None) -> None:
        """Forget partitions that are no more, and delete files that do not count: what killed writers left.

        Args:
            known: the entry keys of the partitions that there are.
            check: called between folders; what it raises ends the work, and the next start does the rest.
        """
        self.make_durable()  # else a power cut brings back a manifest that counts them
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

    def make_folders_free(self, folders: Mapping[bytes, str], check: Callable[[], object] = lambda: None) -> None:
        """A new topic has the name of a deleted one: that one's files go before the first of the new is written.

        Args:
            folders: of all logs that there are, by entry key.
            check: called between folders; what it raises ends the work, and the next call does the rest.
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
        """The files of a folder that a broker may have written; others, which a user has put there, are left alone."""
        return [f"{folder}/{name}" for name in self.store.names(folder) if parse_file_name(name) is not None]

    def _delete_folder(self, folder: str) -> None:
        """Delete the files of a folder that a broker may have written, and the folder if nothing else is in it."""
        if is_folder(folder):
            self.store.delete_folder(folder, self._own_names(folder))

    def known(self) -> Collection[bytes]:
        """The entry keys of all partitions that there is something of."""
        return self._manifest_file.manifest.partitions.keys()
