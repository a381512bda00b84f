"""Tables of the page as CSV, inside a link of the page itself.

A cell with several figures (`a to b`, `a -> b`) becomes several columns, so that programs can use them. Figures lose
their unit (`1,234/s`, `3.2x`, `98.5%`), and microseconds become milliseconds; the column name shows the unit. If the
units of a column differ, its figures keep them. A dash becomes an empty cell, and text that a
program could take for a formula gets an apostrophe.
"""

from __future__ import annotations

import base64
import csv
import io
import re
from typing import TYPE_CHECKING, Final

from spark_analysis.words import DASH

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_FIGURE: Final = re.compile(r"([+-]?[\d,]*\.?\d+)(x|/s| ms| \N{MICRO SIGN}s|%)?")
_MICROSECOND_UNIT: Final = " \N{MICRO SIGN}s"
_BETWEEN: Final = re.compile(r" \N{RIGHTWARDS ARROW} | to | \(|; ")
"""The separators between the figures of one cell."""


def data_link(head: Sequence[str], rows: Iterable[Sequence[object]], texts: int) -> str:
    """Return the table as a `data:` URL.

    Args:
        head: the column names.
        rows: the cells as shown.
        texts: the number of leading columns that contain text.
    """
    encoded = base64.b64encode(as_csv(head, rows, texts).encode()).decode()
    return f"data:text/csv;charset=utf-8;base64,{encoded}"


def as_csv(head: Sequence[str], rows: Iterable[Sequence[object]], texts: int) -> str:
    shown = [[str(cell) for cell in row] for row in rows]
    columns = [
        (_text if place < texts else _split)(name, [row[place] for row in shown]) for place, name in enumerate(head)
    ]
    written = io.StringIO()
    writer = csv.writer(written, lineterminator="\n")
    writer.writerow([name for column in columns for name, _ in column])
    for number in range(len(shown)):
        writer.writerow([values[number] for column in columns for _, values in column])
    return written.getvalue()


def _text(name: str, cells: list[str]) -> list[tuple[str, list[str]]]:
    return [(name, ["" if cell == DASH else _harmless(cell) for cell in cells])]


def _split(name: str, cells: list[str]) -> list[tuple[str, list[str]]]:
    """Split a column of figures into one column per figure; keep it as text if a cell is not all figures."""
    pieces = [[] if cell == DASH else _BETWEEN.split(cell.rstrip(")")) for cell in cells]
    most = max((len(found) for found in pieces), default=0)
    if most == 0 or not all(_FIGURE.fullmatch(piece) or piece == DASH for found in pieces for piece in found):
        return _text(name, cells)
    found = []
    for place in range(most):
        matches = [_FIGURE.fullmatch(each[place]) if place < len(each) else None for each in pieces]
        units = {_unit(match) for match in matches if match}
        unit = next(iter(units)) if len(units) == 1 else ""
        mixed = len(units) > 1
        values = ["" if match is None else match[0] if mixed else _number(match) for match in matches]
        title = name if most == 1 else f"{name} {place + 1}"
        found.append((f"{title} ({unit})" if unit else title, values))
    return found


def _unit(match: re.Match[str]) -> str:
    unit = (match[2] or "").strip()
    return "ms" if match[2] == _MICROSECOND_UNIT else unit


def _number(match: re.Match[str]) -> str:
    plain = match[1].replace(",", "")
    return f"{float(plain) / 1000:.6g}" if match[2] == _MICROSECOND_UNIT else plain


def _harmless(cell: str) -> str:
    # A name in a trace may be anything, and a spreadsheet would run it as a formula.
    return f"'{cell}" if cell[:1] in ("=", "+", "-", "@", "\t", "\r") else cell
