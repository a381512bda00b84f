"""JSON values of records and of tests as texts that are equal if the values are equal."""

from __future__ import annotations

import json

from pipeline_broker.embedded.errors import EmbeddedBrokerError

__all__ = ["expected_json", "found_json"]

# The JSON Schema serializer of Confluent writes a zero byte and the id of the schema before the document.
FRAME = b"\0"
FRAME_BYTES = 5


def expected_json(asked: str, value: object) -> str:
    try:
        return _text(json.loads(json.dumps(value), parse_float=_number))
    except (TypeError, ValueError, RecursionError):
        raise EmbeddedBrokerError(f"{asked}: JSON cannot express {value!r}; convert it, as for json.dumps") from None


def found_json(value: bytes | None) -> str | bytes:
    """Return the text of a record's value, or the value itself if it is not JSON. A tombstone equals `null`."""
    if value is None:
        return _text(None)
    try:
        return _text(json.loads(value[FRAME_BYTES:] if value.startswith(FRAME) else value, parse_float=_number))
    except (ValueError, RecursionError):
        return value


def _text(value: object) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False)


def _number(text: str) -> float:
    number = float(text)
    return int(number) if number.is_integer() else number  # 15.0 equals 15, as in Python
