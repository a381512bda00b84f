"""Findings as JSON, one object per line, for programs.

`type` is the kind of finding, and the other keys are its fields. Batches have `base_offset`, `last_offset` and, by
depth, `batch`, `records` and `markers` in place of `header`. Topic ids are Kafka's UUID texts. Keys and values that are
not UTF-8, also those of headers, are base64 under `<name>_base64`.
"""

import base64
import json
from collections.abc import Iterator
from typing import Any

import attrs

from pipeline_broker.inspect.findings import (
    ArchivedBatchFound,
    BatchFound,
    EditFound,
    Finding,
    FrameFound,
    IndexStatus,
    SlotFound,
)
from pipeline_broker.inspect.markers import marker_of
from pipeline_broker.inspect.selection import Selection
from pipeline_broker.records.compression import codec_name
from pipeline_broker.records.record import Record
from pipeline_broker.wire.uuid_text import uuid_text

__all__ = ["json_lines"]


def _bytes(name: str, data: bytes | None) -> dict[str, Any]:
    if data is None:
        return {name: None}
    try:
        return {name: data.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(data).decode()}


def _record(record: Record) -> dict[str, Any]:
    return {
        "offset": record.offset,
        "timestamp": record.timestamp,
        **_bytes("key", record.key),
        **_bytes("value", record.value),
        "headers": [{"name": name, **_bytes("value", value)} for name, value in record.headers],
    }


def _plain(_owner: object, _field: object, value: Any) -> Any:
    if isinstance(value, bytes):  # the only fields of bytes are topic ids
        return uuid_text(value)
    return value.value if isinstance(value, IndexStatus) else value


def _batch(found: BatchFound | ArchivedBatchFound, selection: Selection) -> dict[str, Any]:
    header = found.header
    own = attrs.filters.exclude("header", "records")
    line = attrs.asdict(found, filter=own, value_serializer=_plain)
    line["base_offset"] = None if header is None else header.base_offset
    line["last_offset"] = None if header is None else header.last_offset
    if selection.shows("batches"):
        line["batch"] = None if header is None else {**header._asdict(), "codec": codec_name(header.compression)}
    if selection.shows("records"):
        line["records"] = [_record(record) for record in found.records]
        if header is not None and header.is_control:
            markers = map(marker_of, found.records)
            line["markers"] = [None if marker is None else attrs.asdict(marker) for marker in markers]
    return line


def json_lines(finding: Finding, selection: Selection) -> Iterator[str]:
    """Yield the line of a finding, or nothing if the finding is deeper than the selection."""
    if isinstance(finding, BatchFound | ArchivedBatchFound):
        if not selection.shows("entries"):
            return
        fields = _batch(finding, selection)
    elif isinstance(finding, FrameFound | SlotFound | EditFound) and not selection.shows_commits:
        return
    else:
        fields = attrs.asdict(finding, value_serializer=_plain)
    yield json.dumps({"type": finding.type, **fields})
