"""Malformed text is decoded as in Java."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.wire.primitives import STRING_SIZE_MAX
from pipeline_broker.wire.text import text_of

READ_BY_JAVA = {
    b"b\xfcro": "b?ro",
    b"\xc3": "?",
    b"\xc0\x80": "??",
    b"\xe2\x82": "?",
    b"\xe2\x82\xe2\x82\xac": "?\N{EURO SIGN}",
    b"\xe0\x80\x80": "???",
    b"\xed": "?",
    b"\xed\xa0": "?",
    b"\xed\xa0a": "?a",
    b"\xed\xa0\x80": "?",
    b"\xed\xbf\xbf\xbf": "??",
    b"\xed\xa0\xed\xa0\x80\xed\xb0\x80": "???",
    b"\xe1\xed\xa0\x80": "??",
    b"\xed\x9f\xbf": "\ud7ff",
    b"\xf0\x9f\x92": "?",
    b"\xf0\x9f\x92\xa9": "\N{PILE OF POO}",
    b"\xf4\x90\x80\x80": "????",
    b"\xf8\x88\x80\x80\x80": "?????",
    b"\xfe\xff": "??",
}
"""As `new String(bytes, UTF_8)` of Java 17 reads them, with ? for U+FFFD: it is what Apache Kafka calls."""
SEQUENCES = st.sampled_from(sorted(READ_BY_JAVA)) | st.binary(max_size=4) | st.text(max_size=4).map(str.encode)


@pytest.mark.parametrize("data", READ_BY_JAVA)
def test_malformed_text_is_decoded_as_in_java(data):
    assert text_of(data) == READ_BY_JAVA[data].replace("?", "\ufffd")


@given(st.lists(SEQUENCES).map(b"".join))
def test_any_bytes_are_text_that_can_be_written(data):
    text = text_of(data)
    assert text_of(text.encode()) == text
    if b"\xed" not in data:
        assert text == data.decode(errors="replace")


@pytest.mark.parametrize("data", [b"\xff" * STRING_SIZE_MAX, b"\xc3\xa9" * 16_382 + b"\xff\xff\xff"])
def test_replacements_that_are_too_long_are_truncated(data):
    text = text_of(data)
    assert STRING_SIZE_MAX - 3 < len(text.encode()) <= STRING_SIZE_MAX
    assert data.decode(errors="replace").startswith(text)
