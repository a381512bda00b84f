"""The writers (broker and load client) and the reader declare the same tables. They share a format, but no code."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pyarrow as pa
import pytest

from pipeline_broker.telemetry import timeline_records
from pipeline_broker.traces import broker_tables, client_rows, ring_file, stage_durations
from spark_analysis import tables
from spark_analysis.live import timelines
from spark_analysis.report.common import PARTS
from spark_analysis.report.method import WORDS
from spark_analysis.ring import RING_MAGIC, RingFile, arrow_schema
from spark_analysis.tables import BROKER_TABLES, RING_TABLES, SCHEMAS_READ, TABLES
from stages.timeline import STAMPS

WRITTEN = {table.name: table for table in (*broker_tables.BROKER_TABLES, client_rows.CLIENT)}
READ_AS = {"i1": "int", "i2": "int", "i4": "int", "i8": "bigint", "string": "string"}
WIDER = {
    ("request_bytes", "i4"): "bigint",
    ("response_bytes", "i4"): "bigint",
    ("measured", "i1"): "boolean",
    ("is_on_loop", "i1"): "boolean",
}


def test_writer_and_reader_declare_the_same_tables():
    assert tuple(WRITTEN) == RING_TABLES == (*BROKER_TABLES, "client")
    assert (RING_MAGIC, SCHEMAS_READ[-1], SCHEMAS_READ) == (ring_file.MAGIC, ring_file.SCHEMA, ring_file.SCHEMAS_READ)
    assert timeline_records.SCHEMA == timelines.RECORD_SCHEMA


def test_stamps_and_stages_are_the_same_and_in_the_same_order():
    assert tables.REQUEST_STAMPS == STAMPS
    assert list(tables.STAGES.items()) == list(stage_durations.STAGES.items())


@pytest.mark.parametrize("name", RING_TABLES)
def test_columns_have_the_same_names_order_and_types(name):
    columns = WRITTEN[name].columns
    # The words for mute reasons are given to the broker's writer when it starts.
    enums = {"reason"} if name == "mutes" else set(WRITTEN[name].enums)
    read = {column: kind for column, kind in TABLES[name].items() if column != "run"}
    assert [column for column, _ in columns] == list(read)
    for column, packed in columns:
        expected = "string" if column in enums else WIDER.get((column, packed), READ_AS[packed])
        assert read[column] == expected, column


def test_arrow_types_are_those_that_spark_reads_as_declared():
    assert arrow_schema("runs").field("commit_delay_ms").type == pa.float64()
    kinds = {str(kind) for table in TABLES for kind in arrow_schema(table).types}
    assert kinds == {"int32", "int64", "bool", "double", "string"}


@pytest.mark.parametrize("name", [name for name in BROKER_TABLES if name != "mutes"])
def test_the_header_that_the_broker_writes_is_read(name):
    assert rows_of(name, WRITTEN[name].header()) == []
    row_bytes = sum({"i1": 1, "i2": 2, "i4": 4, "i8": 8, "string": 4}[t] for _, t in WRITTEN[name].columns)
    (row,) = rows_of(name, WRITTEN[name].header() + bytes(row_bytes), ["first"])
    assert list(row) == list(TABLES[name])


def rows_of(table, content, strings=()):
    """Return the rows that the analysis reads from the bytes of a ring file."""
    ring = RingFile(f"{table}.ring", table, 1, pa.array(list(strings), pa.string()), pa.py_buffer(content))
    return [row for batch in ring.batches() for row in batch.to_pylist()]


def test_the_ring_that_the_load_client_writes_is_read(tmp_path):
    rows = [client_rows.ClientRow(3, sequence, None if sequence else 7, None, 10, 20, 0, True) for sequence in range(5)]
    client_rows.write_client(tmp_path / "client-0.ring", rows)
    found = rows_of("client", (tmp_path / "client-0.ring").read_bytes())
    assert [(row["run"], row["sequence"], row["correlation_id"]) for row in found] == [
        (1, row.sequence, row.correlation_id) for row in rows
    ]


def test_the_formats_document_names_every_table_and_column():
    from pathlib import Path

    text = (Path(__file__).resolve().parents[2] / "docs/reference/trace-format.md").read_text(encoding="utf-8")
    for name, columns in TABLES.items():
        assert f"### {name}" in text
        part = text.split(f"### {name}\n")[1].split("\n### ")[0].split("\n## ")[0]
        for column in columns:
            assert f"`{column}`" in part, json.dumps([name, column])


ROOT = Path(__file__).parents[2]


def colours(path, name):
    """Return the colours of the seven parts, in the light and the dark sheet."""
    return re.findall(rf"--{name}\d: (#[0-9a-f]+)", (ROOT / path).read_text(encoding="utf-8"))


def test_the_parts_of_a_request_have_the_same_names_and_colours_in_report_and_dashboard():
    assert tuple(PARTS) == stage_durations.PARTS
    in_report, on_page = (
        colours("spark_analysis/report/style.css", "s"),
        colours("pipeline_broker/dashboard/static/style.css", "stage-"),
    )
    assert in_report == on_page
    assert len(in_report) == 2 * len(PARTS)


def test_the_words_of_the_page_are_those_of_the_glossary():
    glossary = (ROOT / "docs/reference/glossary.md").read_text(encoding="utf-8")
    assert len(WORDS) > 10
    for word, meaning in WORDS.items():
        assert f"| {word} | {meaning} |" in glossary, word
