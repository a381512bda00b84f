"""The metrics that clients push, read out of OpenTelemetry's protocol buffers (opentelemetry-proto, metrics v1).

    MetricsData      1 resource_metrics
    ResourceMetrics  1 resource, 2 scope_metrics            Resource   1 attributes
    ScopeMetrics     2 metrics                              KeyValue   1 key, 2 value
    Metric           1 name, 5 gauge, 7 sum                 AnyValue   1 text, 2 boolean, 3 integer, 4 double
    Gauge, Sum       1 data_points                          NumberDataPoint  4 double, 6 integer, 7 attributes

Rules of this file: it reads what clients send, which is sums and gauges, and reads past everything else. Whatever is no
such message is one error; lengths are checked against what is there, and the number of points is bounded.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

__all__ = ["MalformedMetricsError", "read_metrics"]

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
VARINT_BYTES_MAX = 10
DOUBLE = struct.Struct("<d")
INTEGER = struct.Struct("<q")
DATA_OF_METRIC = frozenset({5, 7})
Value = int | memoryview


class MalformedMetricsError(Exception):
    """What was pushed is no such message."""


def read_metrics(data: bytes, points_max: int) -> list[dict[str, Any]]:
    """The metrics of a push, each with its name, its value and its attributes.

    Args:
        data: the message, decompressed.
        points_max: how many are read; the rest is left out.

    Raises:
        MalformedMetricsError: it is none.
    """
    found: list[dict[str, Any]] = []
    for resource_metrics in _messages(memoryview(data), 1):
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


def _points(metric: memoryview, shared: dict[str, Any]) -> Iterator[dict[str, Any]]:
    name = "".join(_text(value) for value in _messages(metric, 1))
    for number, value in _fields(metric):
        if number in DATA_OF_METRIC and isinstance(value, memoryview):
            for point in _messages(value, 1):
                yield {"name": name, "value": _number(point), "attributes": {**shared, **_attributes(point, 7)}}


def _number(point: memoryview) -> float | int | None:
    for number, value in _fields(point):
        if number in {4, 6} and isinstance(value, memoryview) and len(value) == DOUBLE.size:
            return (DOUBLE if number == 4 else INTEGER).unpack(value)[0]  # type: ignore[no-any-return]  # of a struct
    return None


def _attributes(message: memoryview, number: int) -> dict[str, Any]:
    found = {}
    for pair in _messages(message, number):
        key = "".join(_text(value) for value in _messages(pair, 1))
        for value in _messages(pair, 2):
            found[key] = _any_value(value)
    return found


def _any_value(message: memoryview) -> Any:
    for number, value in _fields(message):
        if number == 1 and isinstance(value, memoryview):
            return _text(value)
        if number in {2, 3} and isinstance(value, int):
            return bool(value) if number == 2 else value - (1 << 64 if value >> 63 else 0)
        if number == 4 and isinstance(value, memoryview):
            return DOUBLE.unpack(value)[0]
    return None


def _text(value: memoryview) -> str:
    return str(value, "utf-8", "replace")


def _messages(message: memoryview, number: int) -> Iterator[memoryview]:
    """The values of a field that have a length."""
    for found, value in _fields(message):
        if found == number:
            if not isinstance(value, memoryview):
                raise MalformedMetricsError(f"field {number} is no message")
            yield value


def _fields(message: memoryview) -> Iterator[tuple[int, Value]]:
    """Number and value of each field: an integer, or the bytes of whatever is not a varint."""
    position = 0
    while position < len(message):
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
            raise MalformedMetricsError(f"a field of kind {kind}")
        if size > len(message) - position:
            raise MalformedMetricsError(f"a field of {size} bytes where {len(message) - position} are left")
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
    raise MalformedMetricsError("a number that does not end")
