"""One pass over all stored data: manifest, archive, journal, and the mark of a clean shutdown."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from pipeline_broker.files.file_system import FileSystem, ReadOnlyFileSystem
from pipeline_broker.inspect.archive_reader import ArchiveReader
from pipeline_broker.inspect.entry_check import EntryCheck
from pipeline_broker.inspect.findings import (
    ArchivedBatchFound,
    ArchiveSegmentFound,
    BatchFound,
    Damage,
    Finding,
    FrameFound,
    GenerationFound,
    Leftover,
    PartitionFound,
    SegmentFound,
    SetAsideFound,
    SlotFound,
    TornTail,
    Totals,
)
from pipeline_broker.inspect.mark_reader import MarkReader
from pipeline_broker.inspect.selection import EVERYTHING, Selection
from pipeline_broker.inspect.stored_place import StoredPlace, check_is_stored, journal_of, open_stored_archive
from pipeline_broker.inspect.topic_names import TopicNames

__all__ = ["Inspection"]


class Inspection:
    """The verification of a broker's stored data, which yields findings.

    The archive is read before the journal, because the journal continues where the archive ends. Entries that a running
    broker archives in between are in neither part of the report.

    Args:
        stored: a data directory, or a node in a store.
        selection: the data to report.
        names: the known topics; those that the data names are added.
        files: the file system; by default the real one, read-only.

    Raises:
        NoDataDirectoryError: the directory cannot be read, or holds neither a journal nor an archive.
    """

    def __init__(
        self,
        stored: StoredPlace,
        selection: Selection = EVERYTHING,
        files: FileSystem | None = None,
        names: TopicNames | None = None,
    ) -> None:
        self._stored = stored
        self._selection = selection
        self._files = ReadOnlyFileSystem() if files is None else files
        self._counts: Counter[str] = Counter()
        self._names = TopicNames() if names is None else names
        check_is_stored(self._files, stored)

    def findings(self) -> Iterator[Finding]:
        """Yield all findings in the order of the data, and the totals at the end.

        Raises:
            NoDataDirectoryError: a file or the store cannot be read, or the store has no journal of the node.
        """
        for finding in self._walk():
            _count(self._counts, finding)
            yield finding
        yield Totals(**self._counts)

    def _walk(self) -> Iterator[Finding]:
        # The mark is read first, because a broker that starts removes it before it writes anything.
        mark = MarkReader(self._files, self._stored) if isinstance(self._stored, Path) else None
        archive = open_stored_archive(self._files, self._stored)
        manifests = archive.manifests
        yield from manifests.findings()
        if manifests.manifest is not None:
            self._counts["archived_lsn"] = manifests.manifest.lsn
            yield from ArchiveReader(archive, self._names, self._selection).findings()
        journal = journal_of(self._files, self._stored, manifests, EntryCheck(self._names, self._selection))
        yield from journal.findings()
        # After damage the journal ends elsewhere, and the mark would add nothing.
        if mark is not None and not self._counts["damages"]:
            yield from mark.findings(journal, manifests)
        self._counts["next_lsn"] = max(journal.next_lsn, self._counts["archived_lsn"])

    def has_found_topic(self) -> bool:
        """Return whether `findings` found the selected topic; True if no topic is selected."""
        is_found = self._counts["entries"] or self._counts["archived_partitions"]
        return self._selection.topic is None or bool(is_found) or self._names.has_selected(self._selection)


def _count(counts: Counter[str], finding: Finding) -> None:
    if isinstance(finding, BatchFound):
        counts["entries"] += 1
        counts["records"] += finding.header.record_count if finding.header is not None else 0
        counts["batch_bytes"] += finding.size_bytes
    elif isinstance(finding, ArchivedBatchFound):
        counts["archived_batches"] += 1
        counts["archived_records"] += finding.header.record_count
        counts["archived_bytes"] += finding.size_bytes
    elif type(finding) in _COUNTED:
        counts[_COUNTED[type(finding)]] += 1


_COUNTED: dict[type, str] = {
    SegmentFound: "segments",
    FrameFound: "frames",
    GenerationFound: "segments",
    SlotFound: "frames",
    PartitionFound: "archived_partitions",
    ArchiveSegmentFound: "archived_segments",
    TornTail: "torn_tails",
    Leftover: "leftovers",
    Damage: "damages",
    SetAsideFound: "set_aside",
}
