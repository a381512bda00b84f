"""OpenTelemetry's metrics: what is written field by field is read, whatever is cut or changed is one error."""

import struct
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.telemetry.pushed_metrics import MalformedMetricsError, read_metrics

MANY = 1000


def varint(value):
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(out) + bytes([value])


def field(number, data):
    return varint(number << 3 | 2) + varint(len(data)) + data


def fixed(number, data):
    return varint(number << 3 | 1) + data


def attribute(number, key, value):
    return field(number, field(1, key.encode()) + field(2, value))


def metric(name, value, kind=7, attributes=b""):
    number, packed = (4, struct.pack("<d", value)) if isinstance(value, float) else (6, struct.pack("<q", value))
    return field(1, name.encode()) + field(kind, field(1, fixed(number, packed) + attributes))


def pushed(*metrics, resource=b""):
    scope = b"".join(field(2, each) for each in metrics)
    return field(1, field(1, resource) + field(2, scope))


RESOURCE = attribute(1, "client_rack", field(1, b"r1")) + attribute(1, "big", varint(3 << 3) + varint(2**64 - 5))
PUSH = pushed(
    metric("org.apache.kafka.a", 7, attributes=attribute(7, "node", varint(3 << 3) + varint(4))),
    metric("org.apache.kafka.b", 0.5, kind=5),
    resource=RESOURCE,
)


def test_sums_and_gauges_are_read_with_the_attributes_of_their_resource():
    shared = {"client_rack": "r1", "big": -5}
    assert read_metrics(PUSH, MANY) == [
        {"name": "org.apache.kafka.a", "value": 7, "attributes": {**shared, "node": 4}},
        {"name": "org.apache.kafka.b", "value": 0.5, "attributes": shared},
    ]


def test_an_empty_push_has_no_metrics():
    assert read_metrics(b"", MANY) == []


def test_histograms_and_fields_to_come_are_read_past():
    unknown = field(9, field(1, b"histogram")) + varint(40 << 3) + varint(3) + varint(41 << 3 | 5) + b"four"
    assert read_metrics(pushed(field(1, b"h") + unknown), MANY) == []


def test_no_more_points_are_read_than_wanted():
    assert len(read_metrics(pushed(*(metric(f"m{n}", n) for n in range(50))), 7)) == 7


@pytest.mark.parametrize("size", range(1, len(PUSH)))
def test_a_push_that_is_cut_off_is_malformed(size):
    with pytest.raises(MalformedMetricsError):
        read_metrics(PUSH[:size], MANY)


@given(st.binary(max_size=200) | st.tuples(st.integers(0, len(PUSH) - 1), st.integers(0, 255)))
def test_whatever_comes_is_metrics_or_malformed(data):
    if isinstance(data, tuple):
        index, byte = data
        data = PUSH[:index] + bytes([byte]) + PUSH[index + 1 :]
    with suppress(MalformedMetricsError):
        read_metrics(data, MANY)
