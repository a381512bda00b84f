"""Input of `produce`, split into records."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.client import record_lines
from pipeline_broker.client.record_json import RecordFormError
from pipeline_broker.client.record_lines import LineForm, LineSplitter, unescape


def pieces_of(data, delimiter, sizes):
    splitter, found, position = LineSplitter(delimiter), [], 0
    for size in sizes:
        found += splitter.feed(data[position : position + size])
        position += size
    found += splitter.feed(data[position:])
    return found + splitter.finish()


@given(
    st.text("ab\n;", max_size=60).map(str.encode),
    st.sampled_from([b"\n", b";", b"ab", b"aba"]),
    st.lists(st.integers(1, 10), max_size=10),
)
def test_the_result_does_not_depend_on_the_chunks_of_the_input(data, delimiter, sizes):
    expected = data.split(delimiter)
    if not expected[-1]:
        expected.pop()
    assert pieces_of(data, delimiter, sizes) == expected
    assert pieces_of(data, delimiter, [1] * len(data)) == expected


def test_without_a_delimiter_the_input_is_one_record_even_if_empty():
    assert pieces_of(b"a\nb\n", None, [1, 1]) == [b"a\nb\n"]
    assert pieces_of(b"", None, []) == [b""]


@pytest.mark.parametrize("delimiter", [b"\n", b";;", None])
def test_a_record_has_a_maximum_size(monkeypatch, delimiter):
    monkeypatch.setattr(record_lines, "LINE_BYTES_MAX", 10)
    splitter = LineSplitter(delimiter)
    splitter.feed(b"x" * 10)
    with pytest.raises(RecordFormError, match="longer than 10 bytes"):
        splitter.feed(b"x")


def test_the_key_ends_at_the_first_delimiter():
    form = LineForm(key_delimiter=b":", has_tombstones=True)
    assert (form.read(b"k:v:w").key, form.read(b"k:v:w").value) == (b"k", b"v:w")
    assert form.read(b"k:").value is None
    assert form.read(b":v").key == b""
    with pytest.raises(RecordFormError, match="the line has no key delimiter ':'"):
        form.read(b"kv")


def test_common_key_and_headers_apply_to_every_record():
    assert LineForm(key=b"k", headers=(("a", b"1"),)).read(b"v").headers == (("a", b"1"),)
    form = LineForm(is_json=True, key=b"k", headers=(("a", b"1"),))
    found = form.read(b'{"value": "v", "headers": {"b": "2"}}')
    assert (found.key, found.headers) == (b"k", (("a", b"1"), ("b", b"2")))
    assert form.read(b'{"value": "v", "key": "own"}').key == b"own"
    assert form.read(b"  ") is None


def test_an_empty_line_is_an_empty_value_unless_it_is_a_tombstone():
    assert LineForm().read(b"").value == b""
    assert LineForm(has_tombstones=True).read(b"").value is None


@pytest.mark.parametrize(
    ("text", "found"),
    [(r"\n", b"\n"), (r"\t|", b"\t|"), (r"\x00\xFF", b"\0\xff"), (r"\\n", b"\\n"), ("ä", "ä".encode())],
)
def test_escapes_are_bytes(text, found):
    assert unescape(text) == found


@pytest.mark.parametrize("text", [r"\q", "\\", r"\x", r"\xzz", r"\x1"])
def test_an_unknown_escape_is_rejected(text):
    with pytest.raises(ValueError):
        unescape(text)
