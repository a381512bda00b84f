"""Output formats of `consume`."""

import json

import pytest

from pipeline_broker.client.record_format import escape_for_terminal, format_printer, json_line
from pipeline_broker.records.record import Record

RECORD = Record(7, 1234, b"k", b"value", (("a", b"1"), ("b", None)), -1)
EMPTY = Record(8, -1, None, None, (), -1)


@pytest.mark.parametrize(
    ("text", "full", "empty"),
    [
        (r"%s\n", b"value\n", b"NONE\n"),
        ("%k=%s", b"k=value", b"NONE=NONE"),
        ("%t/%p@%o %T", b"t/3@7 1234", b"t/3@8 -1"),
        ("%K %S", b"1 5", b"-1 -1"),
        ("%h|", b"a=1,b=NONE|", b"|"),
        (r"100%% \x00\t", b"100% \0\t", b"100% \0\t"),
        ("", b"", b""),
    ],
)
def test_formats(text, full, empty):
    printer = format_printer(text, b"NONE")
    assert printer(("t", 3), RECORD, False) == full
    assert printer(("t", 3), EMPTY, False) == empty


@pytest.mark.parametrize("text", ["%q", "%", "a%", "%%%", r"\q"])
def test_an_invalid_format_is_rejected(text):
    with pytest.raises(ValueError):
        format_printer(text)


def test_bytes_are_escaped_only_for_a_terminal():
    record = RECORD._replace(value=b"\x1b[31m\xff")
    assert format_printer("%s")(("t", 0), record, False) == b"\x1b[31m\xff"
    assert format_printer("%s", show=escape_for_terminal)(("t", 0), record, False) == rb"\x1b[31m\xff"


def test_line_feeds_and_tabs_are_not_escaped():
    assert escape_for_terminal("ä\tb\nc\u202e".encode()) == "ä\tb\nc\\u202e".encode()


def test_json_is_one_line_with_all_fields():
    line = json_line(("t", 3), RECORD._replace(value=b"a\nb"), True)
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert json.loads(line) == {
        "topic": "t",
        "partition": 3,
        "offset": 7,
        "timestamp": 1234,
        "timestamp_type": "append",
        "key": "k",
        "value": "a\nb",
        "headers": [{"name": "a", "value": "1"}, {"name": "b", "value": None}],
    }
