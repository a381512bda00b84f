"""Records as JSON lines, in both directions."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.client.record_json import RecordFormError, read_record, record_object
from pipeline_broker.records.record import Record

contents = st.none() | st.binary(max_size=20) | st.text(max_size=20).map(str.encode)

names = (st.binary(max_size=5) | st.text(max_size=5).map(str.encode)).map(
    lambda it: it.decode(errors="surrogateescape")
)


@given(
    contents,
    contents,
    st.lists(st.tuples(names, contents), max_size=3).map(tuple),
    st.integers(-(2**63), 2**63 - 1),
    st.booleans(),
)
def test_a_printed_record_is_read_as_the_same_record(key, value, headers, timestamp, is_append_time):
    shown = record_object("t", 3, Record(7, timestamp, key, value, headers, -1), is_append_time=is_append_time)
    found = read_record(json.dumps(shown).encode())
    assert (found.key, found.value, found.headers, found.partition) == (key, value, headers, 3)
    assert found.timestamp_ms == timestamp


def test_bytes_that_are_not_utf8_are_base64_under_another_name():
    shown = record_object("t", 0, Record(0, 1, b"\xff\x00", b"text", (("h", b"\xfe"),), -1), is_append_time=False)
    assert shown["key_base64"] == "/wA="
    assert "key" not in shown
    assert shown["value"] == "text"
    assert shown["headers"] == [{"name": "h", "value_base64": "/g=="}]


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ('{"value": {"b": [1, true]}}', b'{"b":[1,true]}'),
        ('{"value": 5}', b"5"),
        ('{"value": "5"}', b"5"),
        ('{"value": false}', b"false"),
        ('{"value": null}', None),
        ('{"value_base64": "AAE="}', b"\0\1"),
        ('{"value": ""}', b""),
    ],
)
def test_values_of_every_kind(line, value):
    assert read_record(line.encode()).value == value


def test_names_of_headers_that_are_not_utf8_are_base64_too():
    shown = record_object("t", 0, Record(0, -5000, None, None, (("b\udcfcro", b"1"),), -1), is_append_time=False)
    assert shown["headers"] == [{"name_base64": "Yvxybw==", "value": "1"}]
    assert shown["timestamp"] == -5000


def test_headers_may_be_an_object():
    assert read_record(b'{"value": "", "headers": {"a": "1", "b": null}}').headers == (("a", b"1"), ("b", None))


def test_a_record_without_a_timestamp_gets_the_current_time():
    assert read_record(b'{"value": "v"}').record(99).timestamp == 99
    assert read_record(b'{"value": "v", "timestamp": 5}').record(99).timestamp == 5


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"{", "not JSON"),
        (b"\xff", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"[1]", "not a JSON object"),
        (b'{"vlaue": "x"}', "unknown field 'vlaue'"),
        (b'{"key": "x"}', "the value is missing"),
        (b'{"value": "x", "value_base64": "eA=="}', "both value and value_base64"),
        (b'{"value_base64": "?"}', "value_base64 is not base64"),
        (b'{"value_base64": 5}', "value_base64 is not base64"),
        (b'{"value": "\\ud800"}', "half a surrogate pair"),
        (b'{"value": "", "headers": 1}', "headers must be"),
        (b'{"value": "", "headers": [{"value": "x"}]}', "a header is not"),
        (b'{"value": "", "headers": [{"name": 5, "value": "x"}]}', "a header is not"),
        (b'{"value": "", "headers": [{"name": "\\udc80", "value": "x"}]}', "name has half a surrogate pair"),
        (b'{"value": "", "headers": {"\\ud800": "x"}}', "name has half a surrogate pair"),
        (
            b'{"value": "", "headers": [{"name": "a", "name_base64": "YQ==", "value": "x"}]}',
            "both name and name_base64",
        ),
        (b'{"value": "", "timestamp": 9223372036854775808}', "timestamp is not a number"),
        (b'{"value": "", "partition": -1}', "partition is not a number"),
        (b'{"value": "", "partition": true}', "partition is not a number"),
        (b'{"value": "", "timestamp": 1.5}', "timestamp is not a number"),
    ],
)
def test_an_invalid_record_is_rejected(line, message):
    with pytest.raises(RecordFormError, match=message):
        read_record(line)
