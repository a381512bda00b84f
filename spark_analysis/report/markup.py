"""Pieces of HTML, made by the macros of `templates/pieces.html.jinja`.

Jinja2 escapes every value that is not a piece itself. A table carries its caption and a link that saves it as CSV, a
figure its title.
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
_WIDE_COLUMNS_MIN = 7  # a table of so many columns is set closer
_LONG_TEXT = 40  # a sentence in a cell keeps a readable width on a phone; the table scrolls
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
    """Return what a macro makes of some values."""
    made: Markup = getattr(_PIECES, name)(**values)
    return made


def join(parts: Iterable[Markup]) -> Markup:
    """Concatenate pieces."""
    return NOTHING.join(parts)


def paragraph(value: str, *, class_: str | None = None) -> Markup:
    """Return a paragraph of plain text."""
    return piece("paragraph", value=value, **{"class": class_})


def table(
    caption: str, head: Sequence[str], rows: Iterable[Sequence[object]], *, texts: int = 1, grey: Iterable[int] = ()
) -> Markup:
    """Return a table that scrolls by itself on narrow screens, with a link that saves it as CSV.

    Args:
        caption: what the table shows.
        head: the column names.
        rows: plain values.
        texts: how many of the leading columns hold text; the others are numbers, set flush right. The first is the
            name of its row.
        grey: the numbers of rows that are not to be relied on.
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
    """Return something that is opened on demand."""
    return piece("details", summary=summary, children=children)


def figure(title: str, *children: Markup, note: str = "") -> Markup:
    """Return a figure under its title."""
    return piece("figure", title=title, children=children, note=note)


def section(identifier: str, title: str, *children: Markup) -> Markup:
    """Return a section of the page; the table of contents links to it."""
    return piece("section", identifier=identifier, title=title, children=children)


def legend(entries: Iterable[tuple[str, str]]) -> Markup:
    """Return colour keys: (CSS class, name)."""
    return piece("legend", entries=list(entries))


def sentences(items: Iterable[str]) -> Markup:
    """Return sentences as a list."""
    return piece("sentences", items=list(items))


def heading(title: str) -> Markup:
    """Return a heading within a section."""
    return piece("heading", title=title)


def titled(title: str, child: Markup) -> Markup:
    """Return a piece under a small title."""
    return piece("titled", title=title, child=child)


def block(*children: Markup, class_: str | None = None) -> Markup:
    """Return pieces together, as a class of the style sheet lays them out."""
    return piece("block", children=children, **{"class": class_})


def code(value: str) -> Markup:
    """Return lines for a terminal."""
    return piece("code", value=value)


def definitions(pairs: Iterable[tuple[str, str]]) -> Markup:
    """Return names with their meanings."""
    return piece("definitions", pairs=list(pairs))
