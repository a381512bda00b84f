"""Varints: round trips, exact bytes and refusals."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.wire.codec import DecodeError, EncodeError
from pipeline_broker.wire.primitives import read_uvarint, write_string_length, write_uvarint
from tests.wire.generated import quick

EDGES = [edge + step for edge in (2**7, 2**14, 2**21, 2**28) for step in (-1, 0, 1)] + [0, 2**32 - 1]


@quick
@given(value=st.sampled_from(EDGES) | st.integers(0, 2**32 - 1))
def test_varints_survive(value):
    data = write_uvarint(value)
    assert read_uvarint(b"head" + data + b"\xff", 4) == (value, 4 + len(data))
    assert len(data) == max(1, -(-value.bit_length() // 7))


@pytest.mark.parametrize("data", [b"", b"\x80", b"\xff\xff\xff\xff", b"\x80\x80\x80\x80\x80\x00"])
def test_varints_cut_short_or_too_long_are_refused(data):
    """Case 61."""
    with pytest.raises(DecodeError):
        read_uvarint(data, 0)


@pytest.mark.parametrize(("value", "data"), [(0, b"\0"), (127, b"\x7f"), (128, b"\x80\x01"), (300, b"\xac\x02")])
def test_varints_byte_for_byte(value, data):
    assert write_uvarint(value) == data


def test_the_longest_string_length():
    assert write_string_length(0x8000) == b"\x80\x80\x02"
    with pytest.raises(EncodeError):
        write_string_length(0x8001)
