"""A table as CSV has its figures as numbers, units in the column names, and no text that a spreadsheet would run."""

from __future__ import annotations

import base64
import csv
import io
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_analysis.report.csv_table import as_csv
from spark_analysis.report.markup import table
from spark_analysis.words import DASH

ARROW = "\N{RIGHTWARDS ARROW}"


def read(head, rows, texts=1):
    return list(csv.reader(io.StringIO(as_csv(head, rows, texts))))


@pytest.mark.parametrize(
    ("cells", "columns"),
    [
        (["1,234/s", "567/s"], [("x (/s)", "1234", "567")]),
        (["3.2x", "0.97x"], [("x (x)", "3.2", "0.97")]),
        (["98.5%", DASH], [("x (%)", "98.5", "")]),
        (["950 µs", "1.20 ms"], [("x (ms)", "0.95", "1.20")]),
        (["1,234", "5"], [("x", "1234", "5")]),
        (
            [f"2.50 ms {ARROW} 1.00 ms", f"{DASH} {ARROW} 3.00 ms"],
            [("x 1 (ms)", "2.50", ""), ("x 2 (ms)", "1.00", "3.00")],
        ),
        (
            ["3.2x (2.0x to 5.1x)", "1.10x"],
            [("x 1 (x)", "3.2", "1.10"), ("x 2 (x)", "2.0", ""), ("x 3 (x)", "5.1", "")],
        ),
        (["0.97x to 1.06x", "one round"], [("x", "0.97x to 1.06x", "one round")]),
        ([DASH, DASH], [("x", "", "")]),
        (["+3.1%", "-0.2%"], [("x (%)", "+3.1", "-0.2")]),
        (["3 ms", "4/s"], [("x", "3 ms", "4/s")]),
    ],
)
def test_figures_become_numbers_and_several_in_a_cell_become_columns(cells, columns):
    found = read(["name", "x"], [["a", cells[0]], ["b", cells[1]]])
    expected = list(zip(*columns, strict=True))
    assert [tuple(row[1:]) for row in found] == expected
    assert [row[0] for row in found] == ["name", "a", "b"]


@given(st.lists(st.lists(st.text(st.characters(exclude_categories=["Cs", "Cc"])), min_size=2, max_size=2), max_size=5))
def test_any_text_survives_csv(rows):
    found = read(["a", "b"], rows, texts=2)
    assert found[0] == ["a", "b"]
    for row, shown in zip(rows, found[1:], strict=True):
        assert [
            cell.removeprefix("'") if cell[1:] == value else cell for cell, value in zip(shown, row, strict=True)
        ] == ["" if value == DASH else value for value in row]


@pytest.mark.parametrize("cell", ["=1+1", "+cmd", "-2+3", "@sum", "\tx"])
def test_a_name_that_a_spreadsheet_would_run_is_quoted(cell):
    assert read(["a"], [[cell]])[1] == [f"'{cell}"]


def test_a_table_of_the_page_carries_its_rows_in_a_link():
    page = table("Messages, by load", ["Load", "Rate"], [["1 x 5", "1,234/s"]])
    (encoded,) = re.findall(r'href="data:text/csv;charset=utf-8;base64,([^"]+)" download="messages-by-load.csv"', page)
    assert base64.b64decode(encoded).decode() == "Load,Rate (/s)\n1 x 5,1234\n"
