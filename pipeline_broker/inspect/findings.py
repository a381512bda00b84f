"""What is found in a data directory.

Rules of this file: data only, one class per kind of finding; each is one line of the report. Files are named from the
data directory on. A topic has a name where one is known: the journal keeps ids only.

Longer than most files: one value for each kind of finding, and nothing else.
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
    """A segment begins.

    Attributes:
        number, identity: its own, the identity in hexadecimal; None when the header is not readable.
        size_bytes: of the file.
    """

    type: ClassVar[str] = "segment"
    number: int
    identity: str | None
    size_bytes: int


@attrs.frozen
class FrameFound:
    """An intact frame in its place: one commit.

    Attributes:
        segment, position: where it is.
        size_bytes: with its header.
        first_lsn, entry_count: its entries.
        durable_lsn: what it declares: entries below this LSN were synced before it was written.
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
    """An entry of a frame: one record batch of one partition.

    Attributes:
        segment, position: where the batch is.
        lsn: the entry's.
        topic, topic_id, partition: whose it is.
        header: the batch's own; None when it is not readable.
        records: filled when they were asked for.
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
    """A segment was read.

    Attributes:
        number: its own.
        frames, entries: what was found in it.
        next_lsn: the LSN behind its last entry.
        used_bytes: up to the end of its last frame, the header included.
        earlier_bytes: behind that, of frames that an earlier use of the space left.
        unused_bytes: zero-filled space behind that.
        is_archived: the archive holds all of it: its space is about to be used again.
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
    """Space that is ready to become the next segment; what is in it belongs to nobody."""

    type: ClassVar[str] = "spare"
    file: str
    size_bytes: int


@attrs.frozen
class SlotFound:
    """An intact object of a journal in a store: one commit.

    Attributes:
        generation, slot: its place.
        size_bytes: of the object.
        first_lsn, entry_count: its entries.
    """

    type: ClassVar[str] = "slot"
    generation: int
    slot: int
    size_bytes: int
    first_lsn: int
    entry_count: int


@attrs.frozen
class GenerationFound:
    """What one owner has written to a journal in a store, as far as it is not given back.

    Attributes:
        generation: its number.
        first_slot, last_slot: its objects.
        slots, entries, size_bytes: how many, of how many bytes.
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
        file, position, size_bytes: where it is.
        lsn: everything in front of it is archived from here on.
        changed: the folders of the partitions that it changes.
        removed: the partitions that are gone, by topic id and number.
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
    """The manifest was read: what counts of the archive.

    Attributes:
        file, size_bytes, edits: the file, and how many edits count in it.
        lsn: everything in front of it is archived.
        partitions: how many the archive has something of.
    """

    type: ClassVar[str] = "manifest"
    file: str
    size_bytes: int
    edits: int
    lsn: int
    partitions: int


@attrs.frozen
class OpenTransactionFound:
    """A transaction that had not ended where the archive does, and where it began."""

    producer_id: int
    first_offset: int


@attrs.frozen
class PartitionFound:
    """What the manifest says of a partition; see `log.archive.manifest.PartitionManifest`.

    Attributes:
        topic, topic_id, partition: whose it is.
        folder: where its files are.
        log_start_offset, end_offset, first_dirty_offset: as in the manifest.
        segments, size_bytes: how many there are, and of how many bytes of batches.
        producers: how many idempotent producers are remembered.
        open_transactions: those that had not ended at `end_offset`.
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
    """What the manifest says of a segment; see `log.archive.segment_file.SegmentInfo`."""

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
    """A record batch in a segment of the archive; see BatchFound."""

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
    """How an index file compares with the batches of its segment."""

    VALID = "valid"
    MISSING = "missing"
    DAMAGED = "damaged"


@attrs.frozen
class IndexFound:
    """An index file was held against the batches: how many entries it should have, and whether it has just these."""

    type: ClassVar[str] = "index"
    file: str
    entries: int
    size_bytes: int
    status: IndexStatus


@attrs.frozen
class ArchiveSegmentEnd:
    """A segment of the archive was read: what was found in it up to its end, or to its damage."""

    type: ClassVar[str] = "archive_segment_end"
    file: str
    batches: int
    records: int


# Of both


@attrs.frozen
class MarkFound:
    """The mark of a clean shutdown: where the journal must end.

    Attributes:
        file: the mark's own.
        segment, position: of the journal, behind its last frame.
        next_lsn: behind its last entry.
    """

    type: ClassVar[str] = "mark"
    file: str
    segment: int
    position: int
    next_lsn: int


@attrs.frozen
class TornTail:
    """Bytes behind what counts, where a write was cut short that nobody was promised; the next start cuts them off."""

    type: ClassVar[str] = "torn_tail"
    file: str
    position: int
    size_bytes: int
    reason: str


@attrs.frozen
class Leftover:
    """A file, or bytes from a position on, that do not count: a writer is at work, or was interrupted."""

    type: ClassVar[str] = "leftover"
    file: str
    position: int
    size_bytes: int
    reason: str


@attrs.frozen
class SetAsideFound:
    """A record of an internal topic that the next start leaves out, because it cannot read it; see SetAside.

    Attributes:
        topic, topic_id, partition, offset: where it is.
        reason: why it cannot be read.
    """

    type: ClassVar[str] = "set_aside"
    topic: str
    topic_id: bytes
    partition: int
    offset: int
    reason: str


@attrs.frozen
class Superseded:
    """A file that a running broker deleted or replaced while it was read: no judgement of it is possible, or needed."""

    type: ClassVar[str] = "superseded"
    file: str


@attrs.frozen
class Damage:
    """Something that was durable cannot be read, or contradicts itself.

    Attributes:
        offset: of the first record that may be lost by it, if that is known.
        reason: what is wrong.
    """

    type: ClassVar[str] = "damage"
    file: str
    position: int
    reason: str
    offset: int | None = None


@attrs.frozen
class Totals:
    """The end of the report.

    Attributes:
        segments, frames, entries, records: what was found in the journal; of one in a store, generations and objects.
        batch_bytes: of all batches there.
        next_lsn: where a broker would go on.
        archived_lsn: everything in front of it is in the archive.
        archived_partitions, archived_segments, archived_batches, archived_records, archived_bytes: what was found in
            the archive.
        torn_tails, leftovers, damages: how many of each.
        set_aside: records that the next start leaves out.
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
