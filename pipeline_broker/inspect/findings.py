"""Findings: one class for each kind of line in the report.

Files are named relative to the data directory. Topic names are None if unknown, because the journal stores only ids.
"""

import enum
from typing import ClassVar

import attrs

from pipeline_broker.records.batch import BatchHeader
from pipeline_broker.records.record import Record

__all__ = [
    "ArchiveSegmentEnd",
    "ArchiveSegmentFound",
    "ArchivedBatchFound",
    "BatchFound",
    "Damage",
    "EditFound",
    "Finding",
    "FrameFound",
    "GenerationFound",
    "IndexFound",
    "IndexStatus",
    "Leftover",
    "ManifestFound",
    "MarkFound",
    "OpenTransactionFound",
    "PartitionFound",
    "SegmentEnd",
    "SegmentFound",
    "SetAsideFound",
    "SlotFound",
    "SpareFound",
    "Superseded",
    "TornTail",
    "Totals",
]


# The journal


@attrs.frozen
class SegmentFound:
    """The start of a segment of the journal.

    Attributes:
        identity: from the header, in hexadecimal; None if the header is unreadable.
        size_bytes: the size of the file.
    """

    type: ClassVar[str] = "segment"
    number: int
    identity: str | None
    size_bytes: int


@attrs.frozen
class FrameFound:
    """An intact frame of the journal: one commit.

    Attributes:
        segment, position: the start of the frame.
        size_bytes: the size with the header.
        first_lsn, entry_count: the LSN of the first entry, and the number of entries.
        durable_lsn: entries below this LSN were synced before the frame was written.
    """

    type: ClassVar[str] = "frame"
    segment: int
    position: int
    size_bytes: int
    first_lsn: int
    entry_count: int
    durable_lsn: int


@attrs.frozen
class BatchFound:
    """An entry of the journal: one record batch of one partition.

    Attributes:
        segment, position: the start of the batch; in a store, the slot and the position in its object.
        lsn: the LSN of the entry.
        header: the header of the batch; None if it is unreadable.
        records: the selected records, only at the depth `records`.
    """

    type: ClassVar[str] = "entry"
    segment: int
    position: int
    lsn: int
    topic: str | None
    topic_id: bytes
    partition: int
    size_bytes: int
    header: BatchHeader | None
    records: tuple[Record, ...] = ()


@attrs.frozen
class SegmentEnd:
    """The end of a segment of the journal.

    Attributes:
        frames, entries: the numbers of valid frames and of their entries.
        next_lsn: the LSN after its last entry.
        used_bytes: up to the end of its last frame, including the header.
        earlier_bytes: size of frames of an earlier use of the space, which follow the last frame.
        unused_bytes: number of zeros at the end.
        is_archived: the archive holds all entries of the segment, so its space is about to be reused.
    """

    type: ClassVar[str] = "segment_end"
    number: int
    frames: int
    entries: int
    next_lsn: int
    used_bytes: int
    earlier_bytes: int
    unused_bytes: int
    is_archived: bool


@attrs.frozen
class SpareFound:
    """A spare file, which becomes the next segment of the journal."""

    type: ClassVar[str] = "spare"
    file: str
    size_bytes: int


@attrs.frozen
class SlotFound:
    """An intact slot object of a journal in a store: one commit.

    Attributes:
        generation, slot: the generation of the journal's owner, and the number of the slot.
        size_bytes: the size of the object.
        first_lsn, entry_count: the LSN of the first entry, and the number of entries.
    """

    type: ClassVar[str] = "slot"
    generation: int
    slot: int
    size_bytes: int
    first_lsn: int
    entry_count: int


@attrs.frozen
class GenerationFound:
    """The remaining slots of one owner of a journal in a store.

    Attributes:
        first_slot, last_slot: the range of its slots.
        slots, entries, size_bytes: their number, their entries, and their total size.
    """

    type: ClassVar[str] = "generation"
    generation: int
    first_slot: int
    last_slot: int
    slots: int
    entries: int
    size_bytes: int


# The archive


@attrs.frozen
class EditFound:
    """An edit of the manifest.

    Attributes:
        lsn: all entries below it are archived.
        changed: folders of the changed partitions.
        removed: topic id and number of the removed partitions.
    """

    type: ClassVar[str] = "edit"
    file: str
    position: int
    size_bytes: int
    lsn: int
    changed: tuple[str, ...]
    removed: tuple[str, ...]


@attrs.frozen
class ManifestFound:
    """The manifest as a whole.

    Attributes:
        file, size_bytes, edits: the file, its size without a torn end, and its edits.
        lsn: all entries below it are archived.
        partitions: number of partitions in the archive.
    """

    type: ClassVar[str] = "manifest"
    file: str
    size_bytes: int
    edits: int
    lsn: int
    partitions: int


@attrs.frozen
class OpenTransactionFound:
    """A transaction that is open at the end of the archive, and its first offset."""

    producer_id: int
    first_offset: int


@attrs.frozen
class PartitionFound:
    """A partition in the manifest; see `log.archive.manifest.PartitionManifest`.

    Attributes:
        folder: holds its files.
        segments, size_bytes: number of its segments, and total size of their batches.
        producers: number of idempotent producers in its snapshot.
        open_transactions: transactions not ended at `end_offset`.
    """

    type: ClassVar[str] = "partition"
    topic: str | None
    topic_id: bytes
    partition: int
    folder: str
    log_start_offset: int
    end_offset: int
    first_dirty_offset: int
    segments: int
    size_bytes: int
    producers: int
    open_transactions: tuple[OpenTransactionFound, ...] = ()


@attrs.frozen
class ArchiveSegmentFound:
    """A segment in the manifest; see `log.archive.segment_file.SegmentInfo`."""

    type: ClassVar[str] = "archive_segment"
    file: str
    topic_id: bytes
    partition: int
    base_offset: int
    last_offset: int
    size_bytes: int
    first_timestamp: int
    max_timestamp: int
    modified_ms: int
    is_sealed: bool
    generation: int


@attrs.frozen
class ArchivedBatchFound:
    type: ClassVar[str] = "archived_batch"
    file: str
    position: int
    topic: str | None
    topic_id: bytes
    partition: int
    size_bytes: int
    header: BatchHeader
    records: tuple[Record, ...] = ()


class IndexStatus(enum.Enum):
    """The result of comparing an index file with the manifest and, if they are intact, the batches of its segment."""

    VALID = "valid"
    MISSING = "missing"
    DAMAGED = "damaged"


@attrs.frozen
class IndexFound:
    """An index file, with the entries and the size that it should have."""

    type: ClassVar[str] = "index"
    file: str
    entries: int
    size_bytes: int
    status: IndexStatus


@attrs.frozen
class ArchiveSegmentEnd:
    """The end of a segment of the archive, with the batches and records read up to there or to its damage."""

    type: ClassVar[str] = "archive_segment_end"
    file: str
    batches: int
    records: int


# Of both


@attrs.frozen
class MarkFound:
    """The mark of a clean shutdown: the end that the journal must have.

    Attributes:
        segment, position: end of the last frame.
        next_lsn: the LSN after the last entry.
    """

    type: ClassVar[str] = "mark"
    file: str
    segment: int
    position: int
    next_lsn: int


@attrs.frozen
class TornTail:
    """A write that was cut short and never acknowledged. The next startup truncates it."""

    type: ClassVar[str] = "torn_tail"
    file: str
    position: int
    size_bytes: int
    reason: str


@attrs.frozen
class Leftover:
    """A file, or the bytes from a position, that readers ignore: a writer is working on it or was interrupted."""

    type: ClassVar[str] = "leftover"
    file: str
    position: int
    size_bytes: int
    reason: str


@attrs.frozen
class SetAsideFound:
    """A record of an internal topic that the next startup cannot read and skips (see `SetAside`).

    Attributes:
        reason: the problem, as text.
    """

    type: ClassVar[str] = "set_aside"
    topic: str
    topic_id: bytes
    partition: int
    offset: int
    reason: str


@attrs.frozen
class Superseded:
    """A file that a running broker deleted or replaced while it was read, so it cannot be judged."""

    type: ClassVar[str] = "superseded"
    file: str


@attrs.frozen
class Damage:
    """Data that was durable and is unreadable, or that contradicts other data.

    Attributes:
        offset: offset of the first record that may be lost; None if unknown.
        reason: the problem, as text.
    """

    type: ClassVar[str] = "damage"
    file: str
    position: int
    reason: str
    offset: int | None = None


@attrs.frozen
class Totals:
    """The last line of the report.

    Attributes:
        segments, frames, entries, records: numbers for the journal; in a store, generations and slots count as
            segments and frames.
        batch_bytes: total size of the journal's batches.
        next_lsn: the LSN of the next entry that a broker would write.
        archived_lsn: all entries below it are archived.
        archived_partitions, archived_segments, archived_batches, archived_records, archived_bytes: numbers for the
            archive.
        set_aside: records that the next startup skips.
    """

    type: ClassVar[str] = "totals"
    segments: int = 0
    frames: int = 0
    entries: int = 0
    records: int = 0
    batch_bytes: int = 0
    next_lsn: int = 0
    archived_lsn: int = 0
    archived_partitions: int = 0
    archived_segments: int = 0
    archived_batches: int = 0
    archived_records: int = 0
    archived_bytes: int = 0
    torn_tails: int = 0
    leftovers: int = 0
    damages: int = 0
    set_aside: int = 0


Finding = (
    SegmentFound
    | FrameFound
    | SlotFound
    | GenerationFound
    | BatchFound
    | SegmentEnd
    | SpareFound
    | EditFound
    | ManifestFound
    | PartitionFound
    | ArchiveSegmentFound
    | ArchivedBatchFound
    | IndexFound
    | ArchiveSegmentEnd
    | TornTail
    | Leftover
    | MarkFound
    | SetAsideFound
    | Superseded
    | Damage
    | Totals
)
