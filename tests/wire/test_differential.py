"""Every declared message in every version, compared with an independent implementation, kio."""

from __future__ import annotations

from functools import cache
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from kio.serial import entity_reader

from pipeline_broker.wire.codec import decode, encode
from tests.wire.generated import API_MESSAGES, each_version, plain, quick, sample, structures
from tests.wire.oracle import default_differences, differences, kio_class, narrowing, written


@cache
def comparable(message: type, version: int) -> st.SearchStrategy[Any]:
    return structures(message, message, version, narrowing(message, version))


def check_against_kio(message: type, version: int, built: Any) -> None:
    data = b"".join(encode(built, version))
    theirs, size = entity_reader(kio_class(message, version))(data, 0)
    assert size == len(data)
    assert differences(built, theirs, version) == []
    assert written(theirs) == data

    decoded, position = decode(message, version, memoryview(data))

    assert position == len(data)
    assert plain(decoded) == built


@each_version(API_MESSAGES, parts=4)
@quick
@given(data=st.data())
def test_agrees_with_kio(message, version, data):
    """kio decodes our bytes to the same values, encodes the same bytes, and we decode them."""
    check_against_kio(message, version, data.draw(comparable(message, version)))


@each_version(API_MESSAGES)
def test_defaults_and_filled_messages_agree_with_kio(message, version):
    """Covers a message of defaults, and one with content in every field."""
    check_against_kio(message, version, message())
    check_against_kio(message, version, sample(message, version, elements=2))


@each_version(API_MESSAGES)
def test_declared_defaults_are_those_of_kio(message, version):
    assert default_differences(message, kio_class(message, version), version) == []
