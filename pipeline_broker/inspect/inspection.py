"""One look at what is stored: the manifest, the archive, the journal, the mark of a clean shutdown, in this order.

Rules of this file: read only. The archive comes first because the journal goes on where it ends; what a running broker
archives meanwhile is not looked at in the archive any more, and no longer in the journal.
"""

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
from pipeline_broker.inspect.stored_place import StoredPlace, is_there, journal_of, open_stored_archive
from pipeline_broker.inspect.topic_names import TopicNames

__all__ = ["Inspection"]


class Inspection:
    """See the rules of the file.

    Args:
        stored: a data directory, or a node of a store that has everything.
        selection: what is shown.
        files: the file system.

    Raises:
        NoDataDirectoryError: there is neither a journal nor an archive in it.
    """

    def __init__(self, stored: StoredPlace, selection: Selection = EVERYTHING, files: FileSystem | None = None) -> None:
        self._stored = stored
        self._selection = selection
        self._files = ReadOnlyFileSystem() if files is None else files
        self._counts: Counter[str] = Counter()
        self._names = TopicNames()
        is_there(self._files, stored)

    def findings(self) -> Iterator[Finding]:
        """Everything in the order in which it lies there; the totals come last.

        Raises:
            NoDataDirectoryError: a file cannot be read.
        """
        for finding in self._walk():
            _count(self._counts, finding)
            yield finding
        yield Totals(**self._counts)

    def _walk(self) -> Iterator[Finding]:
        mark = MarkReader(self._files, self._stored) if isinstance(self._stored, Path) else None
        archive = open_stored_archive(self._files, self._stored)
        manifests = archive.manifests
        yield from manifests.findings()
        if manifests.manifest is not None:
            self._counts["archived_lsn"] = manifests.manifest.lsn
            yield from ArchiveReader(archive, self._names, self._selection).findings()
        journal = journal_of(self._files, self._stored, manifests, EntryCheck(self._names, self._selection))
        yield from journal.findings()
        if (
            mark is not None and not self._counts["damages"]
        ):  # else it is known already why things do not end where the mark says
            yield from mark.findings(journal, manifests)
        self._counts["next_lsn"] = max(journal.next_lsn, self._counts["archived_lsn"])

    def has_found_topic(self) -> bool:
        """Afterwards: whether there was anything of the topic that is asked for."""
        is_found = self._counts["entries"] or self._counts["archived_partitions"]
        return self._selection.topic is None or bool(is_found) or self._names.has_one_taken_by(self._selection)


def _count(counts: Counter[str], finding: Finding) -> None:
    """Add one finding to the totals."""
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
