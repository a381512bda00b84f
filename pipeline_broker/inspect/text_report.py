"""Findings as text, for people: one line each, and for a batch further lines for its header and records."""

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

from pipeline_broker.inspect.findings import (
    ArchivedBatchFound,
    ArchiveSegmentEnd,
    ArchiveSegmentFound,
    BatchFound,
    Damage,
    EditFound,
    Finding,
    FrameFound,
    GenerationFound,
    IndexFound,
    Leftover,
    ManifestFound,
    MarkFound,
    PartitionFound,
    SegmentEnd,
    SegmentFound,
    SetAsideFound,
    SlotFound,
    SpareFound,
    Superseded,
    TornTail,
    Totals,
)
from pipeline_broker.inspect.markers import marker_of
from pipeline_broker.inspect.selection import Selection
from pipeline_broker.records.batch import BatchHeader
from pipeline_broker.records.compression import codec_name
from pipeline_broker.records.record import Record
from pipeline_broker.wire.uuid_text import uuid_text

__all__ = ["text_lines"]

TEXT_BYTES_MAX = 60  # shown of a key or value
OPEN_MAX = 5  # shown open transactions of a partition, the oldest ones; JSON has all


def _plain(text: str) -> str:
    # Topic names and keys come from clients, and a terminal must not act on them.
    return text if text.isprintable() else ascii(text)


def _content(data: bytes | None) -> str:
    if data is None:
        return "null"
    shown = data[:TEXT_BYTES_MAX]
    try:
        text = shown.decode()
    except UnicodeDecodeError:
        text = ""
    quoted = json.dumps(text, ensure_ascii=False) if text.isprintable() and (text or not data) else repr(shown)
    return quoted + (f"... ({len(data)} bytes)" if len(data) > TEXT_BYTES_MAX else "")


def _time(milliseconds: int) -> str:
    try:
        return datetime.fromtimestamp(milliseconds / 1e3, UTC).isoformat(timespec="milliseconds")
    except (OverflowError, ValueError):
        return str(milliseconds)  # out of range, or -1 for no timestamp


def _topic(name: str | None, topic_id: bytes) -> str:
    return f"topic {uuid_text(topic_id)}" if name is None else f"topic {_plain(name)} ({uuid_text(topic_id)})"


# The journal


def _segment_line(found: SegmentFound) -> str:
    identity = "unreadable header" if found.identity is None else f"identity {found.identity}"
    return f"segment {found.number}: {identity}, {found.size_bytes:,} bytes"


def _segment_end_line(found: SegmentEnd) -> str:
    rest = f", {found.earlier_bytes:,} bytes of an earlier use" if found.earlier_bytes else ""
    rest += f", {found.unused_bytes:,} bytes unused" if found.unused_bytes else ""
    if not found.frames:
        return f"  segment {found.number} holds no frames{rest}"
    archived = ", archived" if found.is_archived else ""
    return (
        f"  segment {found.number} holds {found.frames:,} frames with {found.entries:,} entries up to LSN "
        f"{found.next_lsn - 1} in {found.used_bytes:,} bytes{rest}{archived}"
    )


def _frame_line(found: FrameFound) -> str:
    return (
        f"  frame @{found.position}: {found.entry_count} entries from LSN {found.first_lsn}, "
        f"{found.size_bytes:,} bytes, LSN below {found.durable_lsn} durable before it"
    )


def _slot_line(found: SlotFound) -> str:
    return (
        f"  slot {found.slot} of generation {found.generation}: {found.entry_count} entries from LSN "
        f"{found.first_lsn}, {found.size_bytes:,} bytes"
    )


def _generation_line(found: GenerationFound) -> str:
    return (
        f"generation {found.generation}: slots {found.first_slot}..{found.last_slot}, {found.slots:,} objects with "
        f"{found.entries:,} entries in {found.size_bytes:,} bytes"
    )


def _spare_line(found: SpareFound) -> str:
    return f"{found.file}: {found.size_bytes:,} bytes for the next segment"


# The archive


def _edit_line(found: EditFound) -> str:
    changed = f": changes {', '.join(map(_plain, found.changed))}" if found.changed else ""
    removed = f", removes {', '.join(found.removed)}" if found.removed else ""
    return f"  edit @{found.position}: archived below LSN {found.lsn}, {found.size_bytes:,} bytes{changed}{removed}"


def _manifest_line(found: ManifestFound) -> str:
    return (
        f"{found.file}: archived below LSN {found.lsn}, {found.partitions:,} partitions, {found.edits:,} edits, "
        f"{found.size_bytes:,} bytes"
    )


def _partition_line(found: PartitionFound) -> str:
    dirty = f", compacted below {found.first_dirty_offset}" if found.first_dirty_offset else ""
    producers = f", {found.producers:,} producers" if found.producers else ""
    return (
        f"archived {_plain(found.folder)}: {_topic(found.topic, found.topic_id)} partition {found.partition}, offsets "
        f"{found.log_start_offset}..{found.end_offset - 1}, {found.segments:,} segments, {found.size_bytes:,} bytes"
        f"{dirty}{producers}{_open_transactions(found)}"
    )


def _open_transactions(found: PartitionFound) -> str:
    if not found.open_transactions:
        return ""
    shown = [f"producer {it.producer_id} from offset {it.first_offset}" for it in found.open_transactions[:OPEN_MAX]]
    more = len(found.open_transactions) - len(shown)
    return f", open transactions: {', '.join(shown)}{f' and {more:,} more' if more else ''}"


def _archive_segment_line(found: ArchiveSegmentFound) -> str:
    state = "sealed" if found.is_sealed else "active"
    times = (
        f", times {_time(found.first_timestamp)} to {_time(found.max_timestamp)}" if found.max_timestamp >= 0 else ""
    )
    return (
        f"  {_plain(found.file)}: offsets {found.base_offset}..{found.last_offset}, {found.size_bytes:,} bytes, "
        f"{state}, generation {found.generation}{times}"
    )


def _index_line(found: IndexFound) -> str:
    return f"    {_plain(found.file)}: {found.status.value}, {found.entries:,} entries, {found.size_bytes:,} bytes"


def _archive_segment_end_line(found: ArchiveSegmentEnd) -> str:
    return f"    {_plain(found.file)} holds {found.batches:,} batches with {found.records:,} records"


# Batches


def _batch_line(header: BatchHeader) -> str:
    name = "control batch" if header.is_control else "batch"
    if header.is_transactional:
        name = f"transactional {name}"
    kind = "append" if header.timestamp_type else "create"
    line = f"      {name}: {header.record_count} records, compression {codec_name(header.compression)}"
    if header.max_timestamp >= 0:
        line += f", latest {kind} time {_time(header.max_timestamp)}"
    if header.producer_id >= 0:
        line += f", producer {header.producer_id} epoch {header.producer_epoch} sequence {header.base_sequence}"
    return line


def _record_line(record: Record) -> str:
    headers = "".join(f" {json.dumps(name)}={_content(value)}" for name, value in record.headers)
    time = f" time {_time(record.timestamp)}" if record.timestamp >= 0 else ""
    return (
        f"        offset {record.offset}{time} key {_content(record.key)} value {_content(record.value)}"
        f"{' headers' + headers if headers else ''}"
    )


def _marker_line(record: Record) -> Iterator[str]:
    marker = marker_of(record)
    if marker is not None:
        kind = "commit" if marker.is_commit else "abort"
        yield f"        {kind} of the producer's transaction, coordinator epoch {marker.coordinator_epoch}"


def _batch_lines(found: BatchFound | ArchivedBatchFound, selection: Selection) -> Iterator[str]:
    if not selection.shows("entries"):
        return
    header = found.header
    offsets = "unreadable batch" if header is None else f"offsets {header.base_offset}..{header.last_offset}"
    lsn = f"LSN {found.lsn} " if isinstance(found, BatchFound) else ""
    yield (
        f"    {lsn}@{found.position}: {_topic(found.topic, found.topic_id)} partition {found.partition} {offsets}, "
        f"{found.size_bytes:,} bytes"
    )
    if selection.shows("batches") and header is not None:
        yield _batch_line(header)
    for record in found.records:
        yield _record_line(record)
        if header is not None and header.is_control:
            yield from _marker_line(record)


# Of both


def _torn_line(found: TornTail) -> str:
    return f"  torn tail: {_plain(found.file)} @{found.position}, {found.size_bytes:,} bytes: {found.reason}"


def _leftover_line(found: Leftover) -> str:
    return f"  leftover: {_plain(found.file)} @{found.position}, {found.size_bytes:,} bytes: {found.reason}"


def _mark_line(found: MarkFound) -> str:
    return (
        f"{found.file}: stopped cleanly after LSN {found.next_lsn - 1}, at byte {found.position} of segment "
        f"{found.segment}"
    )


def _set_aside_line(found: SetAsideFound) -> str:
    return (
        f"  set aside: {_plain(found.topic)} partition {found.partition} offset {found.offset}: {_plain(found.reason)}"
    )


def _superseded_line(found: Superseded) -> str:
    return f"  {_plain(found.file)} was deleted or replaced by a running broker while it was read"


def _damage_line(found: Damage) -> str:
    offset = "" if found.offset is None else f", offset {found.offset}"
    return f"  DAMAGE: {_plain(found.file)} @{found.position}{offset}: {_plain(found.reason)}"


def _totals_line(totals: Totals) -> str:
    verdict = f"DAMAGED in {totals.damages} places" if totals.damages else "intact"
    tail = ", with a torn tail that the next startup cuts off" if totals.torn_tails else ""
    archive = ""
    if totals.archived_lsn or totals.archived_partitions:
        archive = (
            f"; archive below LSN {totals.archived_lsn}: {totals.archived_partitions:,} partitions, "
            f"{totals.archived_segments:,} segments, {totals.archived_batches:,} batches, "
            f"{totals.archived_records:,} records, {totals.archived_bytes:,} bytes"
        )
    leftovers = f"; {totals.leftovers:,} leftovers, which are ignored" if totals.leftovers else ""
    set_aside = f"; {totals.set_aside:,} records that the next startup sets aside" if totals.set_aside else ""
    return (
        f"{verdict}{tail}: {totals.segments} segments, {totals.frames:,} frames, {totals.entries:,} entries, "
        f"{totals.records:,} records, {totals.batch_bytes:,} bytes in batches, next LSN {totals.next_lsn}"
        f"{archive}{set_aside}{leftovers}"
    )


_LINES: dict[type, Callable[[Any], str]] = {
    SegmentFound: _segment_line,
    FrameFound: _frame_line,
    SlotFound: _slot_line,
    GenerationFound: _generation_line,
    SegmentEnd: _segment_end_line,
    SpareFound: _spare_line,
    EditFound: _edit_line,
    ManifestFound: _manifest_line,
    MarkFound: _mark_line,
    PartitionFound: _partition_line,
    ArchiveSegmentFound: _archive_segment_line,
    IndexFound: _index_line,
    ArchiveSegmentEnd: _archive_segment_end_line,
    TornTail: _torn_line,
    Leftover: _leftover_line,
    SetAsideFound: _set_aside_line,
    Superseded: _superseded_line,
    Damage: _damage_line,
    Totals: _totals_line,
}


def text_lines(finding: Finding, selection: Selection) -> Iterator[str]:
    """Yield the lines of a finding, or nothing if the finding is deeper than the selection."""
    if isinstance(finding, BatchFound | ArchivedBatchFound):
        yield from _batch_lines(finding, selection)
    elif not isinstance(finding, FrameFound | SlotFound | EditFound) or selection.shows_commits:
        yield _LINES[type(finding)](finding)
