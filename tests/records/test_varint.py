"""Zig-zag numbers round trip and never run past their limit."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.records.errors import InvalidRecord
from pipeline_broker.records.varint import read_unsigned, read_varint, read_varlong, varint, write_varint


@given(st.integers(-(2**31), 2**31 - 1), st.binary(max_size=3), st.binary(max_size=3))
def test_int32_round_trips_with_bytes_around_it(value, before, after):
    buffer = bytearray(before)
    write_varint(buffer, value)
    end = len(buffer)
    buffer += after
    assert read_varint(bytes(buffer), len(before)) == (value, end)


@given(st.integers(-(2**63), 2**63 - 1))
def test_int64_round_trips(value):
    buffer = bytearray()
    write_varint(buffer, value)
    assert varint(value) == buffer
    assert read_varlong(buffer, 0) == (value, len(buffer))


@pytest.mark.parametrize("value", [*range(-2, 3), *range(62, 66), *range(2046, 2050), 8191, 8192])
def test_short_numbers_have_the_bytes_of_all_others(value):
    buffer = bytearray()
    write_varint(buffer, value)
    assert varint(value) == buffer


@given(st.integers(-(2**63), 2**63 - 1))
def test_every_proper_prefix_is_refused(value):
    buffer = bytearray()
    write_varint(buffer, value)
    for cut in range(len(buffer)):
        with pytest.raises(InvalidRecord):
            read_varlong(bytes(buffer[:cut]), 0)


@pytest.mark.parametrize("bytes_max", [5, 10])
def test_a_number_longer_than_its_bound_is_refused(bytes_max):
    assert read_unsigned(b"\x80" * (bytes_max - 1) + b"\x01", 0, bytes_max)[1] == bytes_max
    with pytest.raises(InvalidRecord):
        read_unsigned(b"\x80" * bytes_max + b"\x01", 0, bytes_max)
