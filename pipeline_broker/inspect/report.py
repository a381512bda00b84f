"""Findings as lines: for people, or JSON for programs.

Rules of this file: one finding is one line, or none at the depth asked for; keys and values come from anybody, so
what is not plain text is written in an escaped form. In JSON `type` tells the kind and the other names are those of
the finding; bytes that are no UTF-8 are in base64 under `<name>_base64`.
"""

import base64
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import attrs

from pipeline_broker.inspect.findings import (
    BatchFound,
    Damage,
    Finding,
    FrameFound,
    JournalTotals,
    SegmentEnd,
    SegmentFound,
    TornTail,
)
from pipeline_broker.records.batch import BatchHeader
from pipeline_broker.records.record import Record

__all__ = ["DEPTHS", "json_lines", "text_lines"]

DEPTHS = ("segments", "frames", "entries", "batches", "records")
"""How deep a report goes; each includes those before it."""
TEXT_BYTES_MAX = 60
"""Of a key or a value in a line for people."""

_CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


def topic_id_text(topic_id: bytes) -> str:
    """As Kafka's tools print it."""
    return base64.urlsafe_b64encode(topic_id).decode().rstrip("=")


def _codec(header: BatchHeader) -> str:
    return _CODECS[header.compression] if header.compression < len(_CODECS) else f"codec {header.compression}"


# For people


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
        return str(milliseconds)  # beyond what a calendar holds, or -1 for none


def _batch_line(header: BatchHeader) -> str:
    what = "control batch" if header.is_control else "batch"
    if header.is_transactional:
        what = f"transactional {what}"
    kind = "append" if header.timestamp_type else "create"
    line = f"      {what}: {header.record_count} records, compression {_codec(header)}"
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


def _entry_lines(found: BatchFound, level: int) -> Iterator[str]:
    header = found.header
    offsets = "unreadable batch" if header is None else f"offsets {header.base_offset}..{header.last_offset}"
    yield (
        f"    LSN {found.lsn} @{found.position}: topic {topic_id_text(found.topic_id)} partition {found.partition} "
        f"{offsets}, {found.size_bytes:,} bytes"
    )
    if level >= DEPTHS.index("batches") and header is not None:
        yield _batch_line(header)
    for record in found.records:
        yield _record_line(record)


def _segment_line(found: SegmentFound) -> str:
    identity = "unreadable header" if found.identity is None else f"identity {found.identity}"
    return f"segment {found.number}: {identity}, {found.size_bytes:,} bytes"


def _segment_end_line(found: SegmentEnd) -> str:
    unused = f", {found.unused_bytes:,} bytes zero-filled ahead" if found.unused_bytes else ""
    return (
        f"  segment {found.number} holds {found.frames:,} frames with {found.entries:,} entries up to LSN "
        f"{found.next_lsn - 1} in {found.used_bytes:,} bytes{unused}"
        if found.frames
        else f"  segment {found.number} holds no frames{unused}"
    )


def _frame_line(found: FrameFound) -> str:
    return (
        f"  frame @{found.position}: {found.entry_count} entries from LSN {found.first_lsn}, "
        f"{found.size_bytes:,} bytes, durable before it: LSN below {found.durable_lsn}"
    )


def _totals_line(totals: JournalTotals) -> str:
    verdict = f"DAMAGED in {totals.damages} places" if totals.damages else "intact"
    tail = ", with a torn tail that the next start cuts off" if totals.torn_tails else ""
    return (
        f"{verdict}{tail}: {totals.segments} segments, {totals.frames:,} frames, {totals.entries:,} entries, "
        f"{totals.records:,} records, {totals.batch_bytes:,} bytes in batches, next LSN {totals.next_lsn}"
    )


def text_lines(finding: Finding, depth: str) -> Iterator[str]:
    """The lines of a finding in a report of this depth."""
    level = DEPTHS.index(depth)
    if isinstance(finding, BatchFound):
        if level >= DEPTHS.index("entries"):
            yield from _entry_lines(finding, level)
    elif isinstance(finding, FrameFound):
        if level >= DEPTHS.index("frames"):
            yield _frame_line(finding)
    elif isinstance(finding, TornTail):
        place = f"segment {finding.segment} @{finding.position}"
        yield f"  torn tail: {place}, {finding.size_bytes:,} bytes: {finding.reason}"
    elif isinstance(finding, Damage):
        place = "journal" if finding.segment is None else f"segment {finding.segment} @{finding.position}"
        yield f"  DAMAGE: {place}: {finding.reason}"
    elif isinstance(finding, SegmentFound):
        yield _segment_line(finding)
    elif isinstance(finding, SegmentEnd):
        yield _segment_end_line(finding)
    else:
        yield _totals_line(finding)


# For programs


def _json_bytes(name: str, data: bytes | None) -> dict[str, Any]:
    if data is None:
        return {name: None}
    try:
        return {name: data.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(data).decode()}


def _json_record(record: Record) -> dict[str, Any]:
    return {
        "offset": record.offset,
        "timestamp": record.timestamp,
        **_json_bytes("key", record.key),
        **_json_bytes("value", record.value),
        "headers": [{"name": name, **_json_bytes("value", value)} for name, value in record.headers],
    }


def _json_batch(found: BatchFound, level: int) -> dict[str, Any]:
    header = found.header
    line: dict[str, Any] = {
        "segment": found.segment,
        "position": found.position,
        "lsn": found.lsn,
        "topic_id": topic_id_text(found.topic_id),
        "partition": found.partition,
        "size_bytes": found.size_bytes,
        "base_offset": None if header is None else header.base_offset,
        "last_offset": None if header is None else header.last_offset,
    }
    if level >= DEPTHS.index("batches"):
        line["batch"] = None if header is None else {**header._asdict(), "codec": _codec(header)}
    if level >= DEPTHS.index("records"):
        line["records"] = [_json_record(record) for record in found.records]
    return line


_JSON_TYPES: dict[type, tuple[str, str]] = {
    SegmentFound: ("segment", "segments"),
    FrameFound: ("frame", "frames"),
    BatchFound: ("entry", "entries"),
    SegmentEnd: ("segment_end", "segments"),
    TornTail: ("torn_tail", "segments"),
    Damage: ("damage", "segments"),
    JournalTotals: ("totals", "segments"),
}


def json_lines(finding: Finding, depth: str) -> Iterator[str]:
    """The line of a finding in a report of this depth, if it has one."""
    name, from_depth = _JSON_TYPES[type(finding)]
    level = DEPTHS.index(depth)
    if level < DEPTHS.index(from_depth):
        return
    fields = _json_batch(finding, level) if isinstance(finding, BatchFound) else attrs.asdict(finding)
    yield json.dumps({"type": name, **fields})
