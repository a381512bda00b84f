"""What is found in a journal.

Rules of this file: data only, one class per kind of finding; each is one line of the report.
"""

import attrs

from pipeline_broker.records.batch import BatchHeader
from pipeline_broker.records.record import Record

__all__ = ["BatchFound", "Damage", "Finding", "FrameFound", "JournalTotals", "SegmentEnd", "SegmentFound", "TornTail"]


@attrs.frozen
class SegmentFound:
    """A segment begins.

    Attributes:
        number, identity: its own, the identity in hexadecimal; None when the header is not readable.
        size_bytes: of the file.
    """

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
        topic_id, partition: whose it is.
        size_bytes: of the batch.
        header: the batch's own; None when it is not readable.
        records: filled when they were asked for.
    """

    segment: int
    position: int
    lsn: int
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
        unused_bytes: zero-filled space behind that.
    """

    number: int
    frames: int
    entries: int
    next_lsn: int
    used_bytes: int
    unused_bytes: int


@attrs.frozen
class TornTail:
    """Bytes behind the last frame that are no frame: a commit that was cut short, and that nobody was promised."""

    segment: int
    position: int
    size_bytes: int
    reason: str


@attrs.frozen
class Damage:
    """Something that was durable cannot be read, or contradicts itself; no segment stands for the journal."""

    segment: int | None
    position: int
    reason: str


@attrs.frozen
class JournalTotals:
    """The end of the report.

    Attributes:
        segments, frames, entries, records: what was found.
        batch_bytes: of all batches.
        next_lsn: where a broker would go on.
        torn_tails, damages: how many of each.
    """

    segments: int = 0
    frames: int = 0
    entries: int = 0
    records: int = 0
    batch_bytes: int = 0
    next_lsn: int = 0
    torn_tails: int = 0
    damages: int = 0


Finding = SegmentFound | FrameFound | BatchFound | SegmentEnd | TornTail | Damage | JournalTotals
