"""Pieces of HTML, made by the macros of `templates/pieces.html.jinja`.

Jinja2 escapes every value that is not a piece.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from spark_analysis.report.csv_table import data_link

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = [
    "NOTHING",
    "Markup",
    "block",
    "code",
    "csv_of",
    "definitions",
    "details",
    "figure",
    "heading",
    "join",
    "legend",
    "paragraph",
    "piece",
    "section",
    "sentences",
    "table",
    "titled",
]

NOTHING = Markup("")
_FILE_WORDS_MAX = 8
_WIDE_COLUMNS_MIN = 7  # tables with this many columns are set closer
_LONG_TEXT = 40  # characters; longer text in a cell keeps a readable width on a phone, and the table scrolls
_PIECES = (
    Environment(
        loader=PackageLoader("spark_analysis.report"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    .get_template("pieces.html.jinja")
    .module
)


def piece(name: str, **values: Any) -> Markup:
    made: Markup = getattr(_PIECES, name)(**values)
    return made


def join(parts: Iterable[Markup]) -> Markup:
    return NOTHING.join(parts)


def paragraph(value: str, *, class_: str | None = None) -> Markup:
    return piece("paragraph", value=value, **{"class": class_})


def table(
    caption: str, head: Sequence[str], rows: Iterable[Sequence[object]], *, texts: int = 1, grey: Iterable[int] = ()
) -> Markup:
    """Return a table that scrolls by itself on narrow screens, with a link that saves it as CSV.

    Args:
        head: the column names.
        rows: plain values; the first is the name of the row.
        texts: the number of leading columns with text. The others contain numbers and are aligned right.
        grey: the indexes of rows that are not reliable.
    """
    listed, doubtful = list(rows), set(grey)
    shown = [
        {
            "name": row[0],
            "kind": "doubtful" if number in doubtful else None,
            "cells": [
                {"value": value, "kind": _cell_class(str(value), number=place >= texts)}
                for place, value in enumerate(row[1:], start=1)
            ],
        }
        for number, row in enumerate(listed)
    ]
    return piece(
        "table",
        caption=caption,
        head=head,
        rows=shown,
        texts=texts,
        is_wide=len(head) >= _WIDE_COLUMNS_MIN,
        csv=csv_of(caption, head, listed, texts),
    )


def csv_of(caption: str, head: Sequence[str], rows: Iterable[Sequence[object]], texts: int = 1) -> dict[str, str]:
    """Return the link and the file name that save a table as CSV."""
    words = re.findall(r"[a-z0-9]+", caption.lower())
    return {"href": data_link(head, rows, texts), "name": f"{'-'.join(words[:_FILE_WORDS_MAX]) or 'table'}.csv"}


def _cell_class(value: str, *, number: bool) -> str | None:
    if number:
        return "number"
    return "long" if len(value) > _LONG_TEXT else None


def details(summary: str, *children: Markup) -> Markup:
    return piece("details", summary=summary, children=children)


def figure(title: str, *children: Markup, note: str = "") -> Markup:
    return piece("figure", title=title, children=children, note=note)


def section(identifier: str, title: str, *children: Markup) -> Markup:
    """Return a section of the page; the table of contents links to it."""
    return piece("section", identifier=identifier, title=title, children=children)


def legend(entries: Iterable[tuple[str, str]]) -> Markup:
    """Return colour keys. An entry is a CSS class and a name."""
    return piece("legend", entries=list(entries))


def sentences(items: Iterable[str]) -> Markup:
    return piece("sentences", items=list(items))


def heading(title: str) -> Markup:
    return piece("heading", title=title)


def titled(title: str, child: Markup) -> Markup:
    return piece("titled", title=title, child=child)


def block(*children: Markup, class_: str | None = None) -> Markup:
    return piece("block", children=children, **{"class": class_})


def code(value: str) -> Markup:
    return piece("code", value=value)


def definitions(pairs: Iterable[tuple[str, str]]) -> Markup:
    return piece("definitions", pairs=list(pairs))
