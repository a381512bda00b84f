"""Records as JSON lines, lossless: `produce --json` accepts the output of `consume --json`.

Bytes that are not UTF-8 are in `key_base64`, `value_base64` and, in a header, `name_base64`, instead of `key`, `value`
and `name`.
"""

from __future__ import annotations

import base64
import binascii
import json
from typing import Any

import attrs

from pipeline_broker.base.buffer import Buffer
from pipeline_broker.records.batch import NewRecord
from pipeline_broker.records.record import Record

__all__ = ["InputRecord", "JsonText", "RecordFormError", "read_record", "record_object"]

_SUFFIX = "_base64"
_IGNORED = frozenset({"topic", "offset", "timestamp_type", "leader_epoch"})  # fields of `consume --json` only
_KNOWN = frozenset({"key", "key_base64", "value", "value_base64", "headers", "partition", "timestamp"})
TIMESTAMPS = range(-(2**63), 2**63)
PARTITIONS = range(2**31)


class RecordFormError(ValueError):
    pass


class JsonText(bytes):
    """A key or value that was decoded to JSON; it is shown as JSON, not as a string."""

    __slots__ = ()


@attrs.frozen(slots=True)
class InputRecord:
    """A record of the input; None stands for an absent or null field."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, Buffer | None], ...] = ()
    partition: int | None = None
    timestamp_ms: int | None = None

    def record(self, now_ms: int) -> NewRecord:
        return NewRecord(self.value, self.key, now_ms if self.timestamp_ms is None else self.timestamp_ms, self.headers)


def record_object(topic: str, partition: int, record: Record, *, is_append_time: bool) -> dict[str, Any]:
    return {
        "topic": topic,
        "partition": partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "timestamp_type": "append" if is_append_time else "create",
        **_shown("key", record.key),
        **_shown("value", record.value),
        "headers": [
            {**_shown("name", name.encode(errors="surrogateescape")), **_shown("value", value)}
            for name, value in record.headers
        ],
    }


def _shown(name: str, data: bytes | None) -> dict[str, Any]:
    if data is None:
        return {name: None}
    if isinstance(data, JsonText):
        return {name: json.loads(data)}
    try:
        return {name: data.decode()}
    except UnicodeDecodeError:
        return {name + _SUFFIX: base64.b64encode(data).decode()}


def read_record(line: bytes) -> InputRecord:
    """Parse a JSON line. A value that is not a string or null is stored as JSON text.

    Raises:
        RecordFormError: the line does not describe a record.
    """
    try:
        given = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise RecordFormError(f"the line is not JSON: {error}") from None
    if not isinstance(given, dict):
        raise RecordFormError('the line is not a JSON object such as {"key": "a", "value": "b"}')
    for name in given:
        # Without this check, a mistyped `value` would write a tombstone.
        if name not in _KNOWN and name not in _IGNORED:
            raise RecordFormError(f"unknown field {name!r}. Use one of {', '.join(sorted(_KNOWN))}")
    if "value" not in given and "value_base64" not in given:
        raise RecordFormError(
            'the value is missing. Add "value" or "value_base64"; write "value": null for a tombstone'
        )
    return InputRecord(
        _bytes(given, "key"),
        _bytes(given, "value"),
        _headers(given.get("headers")),
        _number(given, "partition", PARTITIONS),
        _number(given, "timestamp", TIMESTAMPS),
    )


def _bytes(given: dict[str, Any], name: str) -> bytes | None:
    encoded = given.get(name + _SUFFIX)
    if encoded is None:
        content = given.get(name)
        if content is None:
            return None
        text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False, separators=(",", ":"))
        try:
            return text.encode()
        except UnicodeEncodeError:
            raise RecordFormError(f"{name} has half a surrogate pair. Use {name}{_SUFFIX} for bytes") from None
    if given.get(name) is not None:
        raise RecordFormError(f"both {name} and {name}{_SUFFIX} are set. Remove one of them")
    if isinstance(encoded, str):
        try:
            return base64.b64decode(encoded, validate=True)
        except binascii.Error:
            pass
    raise RecordFormError(f"{name}{_SUFFIX} is not base64")


def _headers(given: Any) -> tuple[tuple[str, Buffer | None], ...]:
    if given is None:
        return ()
    if isinstance(given, dict):
        given = [{"name": name, "value": value} for name, value in given.items()]
    if not isinstance(given, list):
        raise RecordFormError('headers must be {"name": "value"} or [{"name": ..., "value": ...}]')
    headers = []
    for header in given:
        if not isinstance(header, dict) or not isinstance(header.get("name", ""), str):
            raise RecordFormError('a header is not {"name": ..., "value": ...}')
        name = _bytes(header, "name")
        if name is None:
            raise RecordFormError('a header is not {"name": ..., "value": ...}')
        headers.append((name.decode(errors="surrogateescape"), _bytes(header, "value")))
    return tuple(headers)


def _number(given: dict[str, Any], name: str, numbers: range) -> int | None:
    number = given.get(name)
    if number is None:
        return None
    if isinstance(number, bool) or not isinstance(number, int) or number not in numbers:
        raise RecordFormError(f"{name} is not a number from {numbers[0]} to {numbers[-1]}")
    return number
