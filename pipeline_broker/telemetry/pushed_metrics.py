"""A decoder for pushed client metrics: OpenTelemetry's protocol buffers (opentelemetry-proto, metrics v1).

    MetricsData      1 resource_metrics
    ResourceMetrics  1 resource, 2 scope_metrics            Resource   1 attributes
    ScopeMetrics     2 metrics                              KeyValue   1 key, 2 value
    Metric           1 name, 5 gauge, 7 sum                 AnyValue   1 text, 2 boolean, 3 integer, 4 double
    Gauge, Sum       1 data_points                          NumberDataPoint  4 double, 6 integer, 7 attributes

Clients send sums and gauges. Other fields are skipped.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Any

__all__ = ["MalformedMetricsError", "read_metrics"]

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
VARINT_BYTES_MAX = 10
TEXT_CHARACTERS_MAX = 256
"""Characters of a name or value in a push; a longer one is truncated."""
# The attributes of a resource are repeated in each of its points, so without a bound a small push would make a large
# file.
ATTRIBUTES_MAX = 64
"""Attributes of one resource, and of one point; further ones are omitted."""
FIELDS_MAX = 50_000
"""Fields of one push, at every depth: some microseconds each. A push with more is malformed."""
DOUBLE = struct.Struct("<d")
INTEGER = struct.Struct("<q")
DATA_OF_METRIC = frozenset({5, 7})
Value = int | memoryview


class MalformedMetricsError(Exception):
    """The push is not a valid MetricsData message, or has more than FIELDS_MAX fields."""


class _Message:
    """The bytes of a message; all messages of a push share one count of fields."""

    __slots__ = ("_fields_left", "_pace", "data")

    def __init__(self, data: memoryview, fields_left: list[int], pace: Callable[[], None]) -> None:
        self.data, self._fields_left, self._pace = data, fields_left, pace

    def within(self, data: memoryview) -> _Message:
        return _Message(data, self._fields_left, self._pace)

    def count(self) -> None:
        self._fields_left[0] -= 1
        if self._fields_left[0] < 0:
            raise MalformedMetricsError(f"the message has more than {FIELDS_MAX} fields")
        self._pace()


def read_metrics(data: bytes, points_max: int, pace: Callable[[], None] = lambda: None) -> list[dict[str, Any]]:
    """Return the points of the metrics in a push, each with the keys name, value and attributes.

    The value is None if a point has no number.

    Args:
        data: the decompressed MetricsData message.
        points_max: the maximum number of points; further ones are omitted.
        pace: called for each field; may raise to end the work.

    Raises:
        MalformedMetricsError: the data are not a valid message, or have too many fields.
    """
    found: list[dict[str, Any]] = []
    for resource_metrics in _messages(_Message(memoryview(data), [FIELDS_MAX], pace), 1):
        shared: dict[str, Any] = {}
        for resource in _messages(resource_metrics, 1):
            shared |= _attributes(resource, 1)
        for scope_metrics in _messages(resource_metrics, 2):
            for metric in _messages(scope_metrics, 2):
                for point in _points(metric, shared):
                    if len(found) == points_max:
                        return found
                    found.append(point)
    return found


def _points(metric: _Message, shared: dict[str, Any]) -> Iterator[dict[str, Any]]:
    name = _last_text(metric, 1)
    for number, value in _fields(metric):
        if number in DATA_OF_METRIC and isinstance(value, memoryview):
            for point in _messages(metric.within(value), 1):
                yield {"name": name, "value": _number(point), "attributes": {**shared, **_attributes(point, 7)}}


def _number(point: _Message) -> float | int | None:
    for number, value in _fields(point):
        if number in {4, 6} and isinstance(value, memoryview) and len(value) == DOUBLE.size:
            return (DOUBLE if number == 4 else INTEGER).unpack(value)[0]  # type: ignore[no-any-return]  # of a struct
    return None


def _attributes(message: _Message, number: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for pair in _messages(message, number):
        key = _last_text(pair, 1)
        for value in _messages(pair, 2):
            if key in found or len(found) < ATTRIBUTES_MAX:
                found[key] = _any_value(value)
    return found


def _last_text(message: _Message, number: int) -> str:
    found = ""
    for value in _messages(message, number):
        # Of a repeated scalar field the last value applies, as in protocol buffers.
        found = _text(value.data)
    return found


def _any_value(message: _Message) -> Any:
    for number, value in _fields(message):
        if number == 1 and isinstance(value, memoryview):
            return _text(value)
        if number in {2, 3} and isinstance(value, int):
            return bool(value) if number == 2 else value - (1 << 64 if value >> 63 else 0)
        if number == 4 and isinstance(value, memoryview) and len(value) == DOUBLE.size:
            return DOUBLE.unpack(value)[0]
    return None


def _text(value: memoryview) -> str:
    text = str(value[: 4 * TEXT_CHARACTERS_MAX], "utf-8", "replace")
    return text if len(text) <= TEXT_CHARACTERS_MAX else f"{text[: TEXT_CHARACTERS_MAX - 1]}…"


def _messages(message: _Message, number: int) -> Iterator[_Message]:
    for found, value in _fields(message):
        if found == number:
            if not isinstance(value, memoryview):
                raise MalformedMetricsError(f"field {number} is not a message")
            yield message.within(value)


def _fields(whole: _Message) -> Iterator[tuple[int, Value]]:
    """Yield the number and value of each field: an integer for a varint, otherwise bytes."""
    message, position = whole.data, 0
    while position < len(message):
        whole.count()
        tag, position = _varint(message, position)
        kind = tag & 7
        if kind == VARINT:
            value, position = _varint(message, position)
            yield tag >> 3, value
            continue
        if kind == BYTES:
            size, position = _varint(message, position)
        elif kind in {FIXED64, FIXED32}:
            size = 8 if kind == FIXED64 else 4
        else:
            raise MalformedMetricsError(f"a field has the unknown wire type {kind}")
        if size > len(message) - position:
            raise MalformedMetricsError(f"a field has {size} bytes, but only {len(message) - position} are left")
        yield tag >> 3, message[position : position + size]
        position += size


def _varint(message: memoryview, position: int) -> tuple[int, int]:
    value = 0
    for index in range(VARINT_BYTES_MAX):
        if position + index >= len(message):
            break
        byte = message[position + index]
        value |= (byte & 0x7F) << 7 * index
        if byte < 0x80:
            return value & 0xFFFFFFFFFFFFFFFF, position + index + 1
    raise MalformedMetricsError("a varint does not end")
