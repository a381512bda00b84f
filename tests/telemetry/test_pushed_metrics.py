"""OpenTelemetry metrics are decoded, and any truncation or change gives one error."""

import json
import struct
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.telemetry.client_metrics_file import CLIENT_BYTES_MAX, ClientMetricsFile
from pipeline_broker.telemetry.pushed_metrics import (
    ATTRIBUTES_MAX,
    FIELDS_MAX,
    TEXT_CHARACTERS_MAX,
    MalformedMetricsError,
    read_metrics,
)

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


def test_histograms_and_unknown_fields_are_skipped():
    unknown = field(9, field(1, b"histogram")) + varint(40 << 3) + varint(3) + varint(41 << 3 | 5) + b"four"
    assert read_metrics(pushed(field(1, b"h") + unknown), MANY) == []


def test_no_more_points_are_read_than_wanted():
    assert len(read_metrics(pushed(*(metric(f"m{n}", n) for n in range(50))), 7)) == 7


@pytest.mark.parametrize("size", range(1, len(PUSH)))
def test_a_push_that_is_cut_off_is_malformed(size):
    with pytest.raises(MalformedMetricsError):
        read_metrics(PUSH[:size], MANY)


@given(st.binary(max_size=200) | st.tuples(st.integers(0, len(PUSH) - 1), st.integers(0, 255)))
def test_any_push_is_either_metrics_or_malformed(data):
    if isinstance(data, tuple):
        index, byte = data
        data = PUSH[:index] + bytes([byte]) + PUSH[index + 1 :]
    with suppress(MalformedMetricsError):
        read_metrics(data, MANY)


def test_attributes_of_a_resource_and_texts_of_a_push_do_not_multiply():
    """500 points, each with the attributes of their resource, take a bounded part of the file."""
    resource = b"".join(attribute(1, f"a{number}", field(1, b"x" * 10_000)) for number in range(100))
    push = pushed(*(metric("m" * 5_000, number) for number in range(500)), resource=resource)
    found = read_metrics(push, MANY)
    assert len(found) == 500
    for point in found:
        assert len(point["name"]) <= TEXT_CHARACTERS_MAX
        assert len(point["attributes"]) == ATTRIBUTES_MAX
        assert all(len(value) <= TEXT_CHARACTERS_MAX for value in point["attributes"].values())


def test_a_push_of_very_many_fields_is_malformed():
    with pytest.raises(MalformedMetricsError, match="more than"):
        read_metrics(pushed((varint(40 << 3) + varint(3)) * (FIELDS_MAX + 1)), MANY)


def test_a_truncated_number_has_no_value():
    push = pushed(metric("m", 7, attributes=attribute(7, "short", field(4, b"abc"))))
    assert read_metrics(push, MANY)[0]["attributes"] == {"short": None}


def test_the_file_keeps_a_bounded_part_of_each_push_and_is_json_whatever_is_pushed(tmp_path):
    path = tmp_path / "pushed.json"
    file = ClientMetricsFile(path, 1 << 20)
    resource = b"".join(attribute(1, f"a{number}", field(1, b"x" * 200)) for number in range(60))
    push = pushed(metric("nan", float("nan"), kind=5), *(metric(f"m{n}", n) for n in range(500)), resource=resource)
    for number in range(3):
        file.keep(f"client {number}", {"client_id": "c" * 32_000, "received_ms": 1}, 0, push)
    shown = json.loads(path.read_text(), parse_constant=pytest.fail)["clients"]
    assert list(shown) == ["client 0", "client 1", "client 2"]
    assert shown["client 0"]["metrics"][0]["value"] is None
    assert 5 < len(shown["client 0"]["metrics"]) < 500
    assert path.stat().st_size < 3 * (CLIENT_BYTES_MAX + 2_000)


def test_a_push_ends_when_its_check_raises():
    fields = []

    def pace():
        fields.append(1)
        if len(fields) > 5:
            raise LookupError("others need it")

    with pytest.raises(LookupError):
        read_metrics(PUSH, MANY, pace)
    assert len(fields) == 6
