"""Verifies the entries of the journal: each batch, and that the offsets of a partition go on where they should.

Rules of this file: no I/O. A partition goes on in the journal where it ends in the archive. What the journal holds of
it in front of the archived LSN is there twice, and must end where the archive does. A partition that the archive has
nothing of begins with offset 0, unless it belongs to a deleted topic: those are not archived.
"""

from collections.abc import Iterator
from typing import Protocol

from pipeline_broker.inspect.findings import BatchFound, Damage, Finding
from pipeline_broker.inspect.secrets import without_secrets
from pipeline_broker.inspect.selection import Selection
from pipeline_broker.inspect.state_check import set_aside_in
from pipeline_broker.inspect.topic_names import TopicNames
from pipeline_broker.log.archive.manifest import Manifest
from pipeline_broker.log.journal.frame import StoredEntry, split_key
from pipeline_broker.records.batch import CHECKED_FROM, BatchHeader, read_header
from pipeline_broker.records.checksum import crc32c
from pipeline_broker.records.errors import RecordError
from pipeline_broker.records.record import Record, iterate_records
from pipeline_broker.wire.uuid_text import uuid_text

__all__ = ["EntryCheck", "NamedSegment"]


class NamedSegment(Protocol):
    """Where entries lie.

    Attributes:
        number: of the segment, or of the slot.
        file: what it is called in findings.
    """

    @property
    def number(self) -> int: ...
    @property
    def file(self) -> str: ...


class EntryCheck:
    """See the rules of the file.

    Args:
        names: of topics; more are known afterwards.
        selection: which entries are shown.
    """

    def __init__(self, names: TopicNames, selection: Selection) -> None:
        self._names = names
        self._selection = selection
        self._manifest: Manifest | None = None
        self._next_offsets: dict[bytes, int | None] = {}  # None behind a batch that cannot be read
        self._has_crossed = False
        self._unarchived: dict[bytes, Damage] = {}

    def begin(self, manifest: Manifest | None) -> None:
        """The journal is read from its first segment on; what the archive holds, None when that cannot be known."""
        self._manifest = manifest
        self._next_offsets.clear()
        self._has_crossed = False
        self._unarchived.clear()

    def findings(self, segment: NamedSegment, lsn: int, entry: StoredEntry) -> Iterator[Finding]:
        """The entry if it is to be shown, and what is wrong with it."""
        topic_id, partition = split_key(entry.key)
        header, problem = _check(entry.batch)
        is_readable = header is not None and not problem
        if header is not None and is_readable:
            self._names.note_batch(topic_id, header, entry.batch)
            if self._manifest is None or lsn >= self._manifest.lsn:  # else the archive has it, too
                topic = self._names.live_name(topic_id)
                yield from set_aside_in(topic, topic_id, partition, header, entry.batch, self._selection)
        name = self._names.find(topic_id)
        if self._selection.takes(name, topic_id, partition) and (
            header is None or self._selection.takes_offsets(header.base_offset, header.last_offset)
        ):
            records: tuple[Record, ...] = ()
            if header is not None and is_readable and self._selection.with_records:
                records, problem = self._records(topic_id, header, entry.batch)
            size = len(entry.batch)
            yield BatchFound(segment.number, entry.place, lsn, name, topic_id, partition, size, header, records)
        offset = None
        if header is not None and is_readable:
            offset = header.base_offset
            yield from self._cross(segment, lsn, entry.place)
            problem = self._follow(segment, lsn, entry, header) or problem
        else:
            self._next_offsets[entry.key] = None
        if problem:
            yield Damage(segment.file, entry.place, f"batch at LSN {lsn}: {problem}", offset)

    def _records(self, topic_id: bytes, header: BatchHeader, batch: memoryview) -> tuple[tuple[Record, ...], str]:
        """The records asked for, and what is wrong with them."""
        try:
            return tuple(
                without_secrets(topic_id, record)
                for record in iterate_records(batch, header)
                if self._selection.takes_record(record)
            ), ""
        except RecordError as error:
            return (), str(error)

    def _cross(self, segment: NamedSegment, lsn: int, position: int) -> Iterator[Damage]:
        """The first entry that is not in the archive: until here both must say the same."""
        manifest = self._manifest
        if self._has_crossed or manifest is None or lsn < manifest.lsn:
            return
        self._has_crossed = True
        for key, offset in self._next_offsets.items():
            partition = manifest.partitions.get(key)
            if partition is not None and offset is not None and partition.end_offset != offset:
                reason = f"{partition.folder} ends in the archive at {partition.end_offset}, in the journal at {offset}"
                yield Damage(segment.file, position, reason, min(partition.end_offset, offset))
                self._next_offsets[key] = partition.end_offset

    def _follow(self, segment: NamedSegment, lsn: int, entry: StoredEntry, header: BatchHeader) -> str:
        """What is wrong with where the batch begins."""
        if entry.key in self._next_offsets:
            expected = self._next_offsets[entry.key]
        elif self._manifest is not None and lsn >= self._manifest.lsn:
            expected = self._first_offset(self._manifest, segment, entry, header)
        else:
            expected = None
        self._next_offsets[entry.key] = header.last_offset + 1
        if expected is None or header.base_offset == expected:
            return ""
        return f"offset {expected} of the partition should follow, not {header.base_offset}"

    def _first_offset(
        self, manifest: Manifest, segment: NamedSegment, entry: StoredEntry, header: BatchHeader
    ) -> int | None:
        archived = manifest.partitions.get(entry.key)
        if archived is not None:
            return archived.end_offset
        if not manifest.lsn:
            return 0
        if header.base_offset:
            topic_id, partition = split_key(entry.key)
            whose = f"partition {partition} of {self._names.find(topic_id) or uuid_text(topic_id)}"
            reason = f"the archive has nothing of {whose}, which goes on with offset {header.base_offset}"
            self._unarchived[entry.key] = Damage(segment.file, entry.place, reason, 0)
        return None

    def unarchived(self) -> Iterator[Damage]:
        """At the end, when it is known which topics there are: those that the archive should have something of."""
        for key, damage in self._unarchived.items():
            if self._names.is_live(split_key(key)[0]):
                yield damage


def _check(batch: memoryview) -> tuple[BatchHeader | None, str]:
    """The header of a batch, and what is wrong with it if anything is."""
    try:
        header = read_header(batch)
    except RecordError as error:
        return None, str(error)
    if header.size_bytes != len(batch):
        return header, f"it has {len(batch)} bytes and says {header.size_bytes}"
    if crc32c(batch[CHECKED_FROM:]) != header.crc:
        return header, "its checksum does not match"
    return header, ""
