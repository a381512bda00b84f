"""A table is written and read by its declaration; another file is refused in one line."""

import json
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.traces.ring_file import MAGIC, SCHEMA, SCHEMAS_READ, RingFileError, Table, read, write

SIZES = {"i1": 1, "i2": 2, "i4": 4, "i8": 8, "string": 4}
EXAMPLE = Table("example", (("a", "i8"), ("b", "i1")), {"b": {0: "zero"}})


def numbers_of(kind):
    if kind == "string":
        return st.none() | st.integers(0, 2**31 - 1)
    bound = 1 << (8 * SIZES[kind] - 1)
    return st.none() | st.integers(1 - bound, bound - 1)


@st.composite
def tables_with_rows(draw):
    kinds = draw(st.lists(st.sampled_from(sorted(SIZES)), min_size=1, max_size=6))
    table = Table("any", tuple((f"column{number}", kind) for number, kind in enumerate(kinds)))
    return table, draw(st.lists(st.tuples(*map(numbers_of, kinds)), max_size=10))


@given(tables_with_rows())
def test_rows_and_nulls_survive_their_file(tmp_path_factory, table_and_rows):
    table, rows = table_and_rows
    path = tmp_path_factory.mktemp("ring") / "any.ring"
    write(path, table, rows)
    file = read(path)
    names = [name for name, _ in table.columns]
    assert (file.table.name, file.table.columns) == ("any", table.columns)
    assert list(file.rows(*names)) == rows
    assert list(file.rows(names[-1])) == [row[-1:] for row in rows]


def test_a_file_has_the_documented_layout(tmp_path):
    write(tmp_path / "example.ring", EXAMPLE, [(1, 0), (None, None)])
    raw = (tmp_path / "example.ring").read_bytes()
    (length,) = struct.unpack_from("<I", raw, 8)
    assert raw[:8] == b"PBTRACE1"
    assert json.loads(raw[12 : 12 + length]) == {
        "table": "example",
        "schema": SCHEMA,
        "columns": [["a", "i8"], ["b", "i1"]],
        "enums": {"b": {"0": "zero"}},
    }
    assert raw[12 + length :] == struct.pack("<qbqb", 1, 0, -(2**63), -128)


def test_an_incomplete_last_row_is_ignored(tmp_path):
    path = tmp_path / "example.ring"
    write(path, EXAMPLE, [(1, 2), (3, 4)])
    path.write_bytes(path.read_bytes()[:-1])
    assert list(read(path).rows("a", "b")) == [(1, 2)]


@pytest.mark.parametrize("schema", SCHEMAS_READ)
def test_a_file_of_an_earlier_schema_is_read_by_its_own_header(schema, tmp_path):
    path = tmp_path / "example.ring"
    path.write_bytes(EXAMPLE.header().replace(b'"schema": 2', b'"schema": %d' % schema))
    assert read(path).table.columns == EXAMPLE.columns


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "not a trace ring file"),
        (b"PNG", "not a trace ring file"),
        (MAGIC + b"\4\0", "not a trace ring file"),
        (MAGIC + b"\2\0\0\0{}", "the file header cannot be read"),
        (MAGIC + b"\4\0\0\0[]", "the file header cannot be read"),
        (EXAMPLE.header()[:-5], "the file header cannot be read"),
        (EXAMPLE.header().replace(b'"i1"', b'"u1"'), "the file header cannot be read"),
        (EXAMPLE.header().replace(b'"schema": 2', b'"schema": 9'), "schema 9, but this version reads 1 and 2"),
    ],
)
def test_another_file_is_refused_in_one_line(content, said, tmp_path):
    path = tmp_path / "example.ring"
    path.write_bytes(content)
    with pytest.raises(RingFileError, match=said):
        read(path)


def test_a_missing_column_is_refused(tmp_path):
    write(tmp_path / "example.ring", EXAMPLE, [(1, 2)])
    with pytest.raises(RingFileError, match="the table example has no column c"):
        list(read(tmp_path / "example.ring").rows("a", "c"))
