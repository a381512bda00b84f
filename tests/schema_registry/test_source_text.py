"""Comments and quoted texts of a source are found in one pass, even if they are unterminated."""

import contextlib
import time

import hypothesis.strategies as st
from hypothesis import given

from pipeline_broker.schema_registry.avro_schema import sketch as avro_sketch
from pipeline_broker.schema_registry.protobuf_form import sketch_of
from pipeline_broker.schema_registry.source_text import Kind, pieces
from tests.tables import each_row

CODE, QUOTED, COMMENT = Kind.CODE, Kind.QUOTED, Kind.COMMENT


@each_row(
    "text, expected",
    [
        ("a // b\nc", [(CODE, "a "), (COMMENT, "// b\n"), (CODE, "c")]),
        ("a/* // */b", [(CODE, "a"), (COMMENT, "/* // */"), (CODE, "b")]),
        ('"/*" // "', [(QUOTED, '"/*"'), (CODE, " "), (COMMENT, '// "')]),
        (r'"\"//" 1', [(QUOTED, r'"\"//"'), (CODE, " 1")]),
        ("'\"' a", [(QUOTED, "'\"'"), (CODE, " a")]),
        ("a / b", [(CODE, "a "), (CODE, "/"), (CODE, " b")]),
        ("/*/ a", [(COMMENT, "/*/ a")]),
        ('"a', [(QUOTED, '"a')]),
        ("'\\", [(QUOTED, "'\\")]),
    ],
    ids=["line", "block", "in a text", "quote in a text", "other quote", "slash", "no end", "no quote", "escape"],
)  # fmt: skip
def test_the_parts_of_a_source(text, expected):
    assert list(pieces(text)) == expected


@given(st.text(st.sampled_from("a/*\"'\\\n ")))
def test_the_parts_are_the_source(text):
    assert "".join(piece for _, piece in pieces(text)) == text


@each_row("text", ["/*", "//", '"', "'", "\\", "/", "[", "{", "option ", "=-1", "message M{"], ids=range(11))
def test_a_source_of_any_size_is_sketched_in_time(text):
    long = text * (200_000 // len(text))
    begin = time.process_time()
    sketch_of(long)
    with contextlib.suppress(ValueError):
        avro_sketch(long)
    assert time.process_time() - begin < 3, "a loop in a loop would take minutes"
