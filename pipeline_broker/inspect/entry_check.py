"""Verification of a journal's entries: each batch, and the continuity of each partition's offsets."""

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
    """A segment, or a slot, of a journal.

    Attributes:
        number: the number of the segment or slot.
        file: its name in findings.
    """

    @property
    def number(self) -> int: ...
    @property
    def file(self) -> str: ...


class EntryCheck:
    """The check of a journal's entries, in their order.

    The journal continues each partition where the archive ends. Entries below the archived LSN are also in the archive,
    and must end where the archive does. A partition without archived data starts at offset 0, unless its topic is
    deleted: such partitions are not archived.

    Args:
        names: topic names; the check adds more.
        selection: the entries to report.
    """

    def __init__(self, names: TopicNames, selection: Selection) -> None:
        self._names = names
        self._selection = selection
        self._manifest: Manifest | None = None
        self._next_offsets: dict[bytes, int | None] = {}  # None after an unreadable batch
        self._has_crossed = False
        self._unarchived: dict[bytes, Damage] = {}

    def begin(self, manifest: Manifest | None) -> None:
        """Start over at the first segment of the journal.

        Args:
            manifest: the manifest of the archive; None if it is unreadable.
        """
        self._manifest = manifest
        self._next_offsets.clear()
        self._has_crossed = False
        self._unarchived.clear()

    def findings(self, segment: NamedSegment, lsn: int, entry: StoredEntry) -> Iterator[Finding]:
        """Yield an entry if it is selected, its records that a startup sets aside, and its damage.

        The check adds the topics of the broker's metadata to the names.

        Args:
            segment: the segment or slot of the entry.
            lsn: the LSN of the entry.
        """
        topic_id, partition = split_key(entry.key)
        header, problem = _check(entry.batch)
        is_readable = header is not None and not problem
        if header is not None and is_readable:
            self._names.note_batch(topic_id, header, entry.batch)
            if self._manifest is None or lsn >= self._manifest.lsn:  # older ones were checked in the archive
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
        try:
            return tuple(
                without_secrets(topic_id, record)
                for record in iterate_records(batch, header)
                if self._selection.takes_record(record)
            ), ""
        except RecordError as error:
            return (), str(error)

    def _cross(self, segment: NamedSegment, lsn: int, position: int) -> Iterator[Damage]:
        # At the first entry that is not archived, archive and journal must agree about all partitions.
        manifest = self._manifest
        if self._has_crossed or manifest is None or lsn < manifest.lsn:
            return
        self._has_crossed = True
        for key, offset in self._next_offsets.items():
            partition = manifest.partitions.get(key)
            if partition is not None and offset is not None and partition.end_offset != offset:
                reason = (
                    f"{partition.folder} ends at offset {partition.end_offset} in the archive, but at offset {offset}"
                    " in the journal"
                )
                yield Damage(segment.file, position, reason, min(partition.end_offset, offset))
                self._next_offsets[key] = partition.end_offset

    def _follow(self, segment: NamedSegment, lsn: int, entry: StoredEntry, header: BatchHeader) -> str:
        if entry.key in self._next_offsets:
            expected = self._next_offsets[entry.key]
        elif self._manifest is not None and lsn >= self._manifest.lsn:
            expected = self._first_offset(self._manifest, segment, entry, header)
        else:
            expected = None
        self._next_offsets[entry.key] = header.last_offset + 1
        if expected is None or header.base_offset == expected:
            return ""
        return f"expected offset {expected} of the partition, not {header.base_offset}"

    def _first_offset(
        self, manifest: Manifest, segment: NamedSegment, entry: StoredEntry, header: BatchHeader
    ) -> int | None:
        archived = manifest.partitions.get(entry.key)
        if archived is not None:
            return archived.end_offset
        if not manifest.lsn:
            return 0
        # Topics that are deleted later in the journal are not archived. `unarchived` reports the others at the end.
        if header.base_offset:
            topic_id, partition = split_key(entry.key)
            name = f"partition {partition} of {self._names.find(topic_id) or uuid_text(topic_id)}"
            reason = f"the archive has no records of {name}, but the journal continues at offset {header.base_offset}"
            self._unarchived[entry.key] = Damage(segment.file, entry.place, reason, 0)
        return None

    def unarchived(self) -> Iterator[Damage]:
        """Yield the damage of live partitions that should have archived data.

        Call it last, when all topics are known.
        """
        for key, damage in self._unarchived.items():
            if self._names.is_live(split_key(key)[0]):
                yield damage


def _check(batch: memoryview) -> tuple[BatchHeader | None, str]:
    try:
        header = read_header(batch)
    except RecordError as error:
        return None, str(error)
    if header.size_bytes != len(batch):
        return header, f"it has {len(batch)} bytes, but its header says {header.size_bytes}"
    if crc32c(batch[CHECKED_FROM:]) != header.crc:
        return header, "its checksum does not match"
    return header, ""
