"""Pieces of HTML.

Rules: text enters the page through `text` or an `element` attribute, both of which escape; `Markup` is what is already
safe, and only this file and the charts make it. A table carries its caption, a figure its title and its table.
"""

from __future__ import annotations

import html
import re
from typing import TYPE_CHECKING, NewType

from spark_analysis.report.csv_table import data_link

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Markup = NewType("Markup", str)
Content = Markup | str
"""`Markup` or plain text; functions that take plain text escape it."""

NOTHING = Markup("")
_FILE_WORDS_MAX = 8
_WIDE_COLUMNS_MIN = 7  # a table of so many columns is set closer
_LONG_TEXT = 40  # a sentence in a cell keeps a readable width on a phone; the table scrolls


def text(value: object) -> Markup:
    """Escape plain text."""
    return Markup(html.escape(str(value)))


def join(parts: Iterable[Markup], between: str = "") -> Markup:
    """Concatenate safe pieces."""
    return Markup(between.join(parts))


def element(tag: str, *children: Markup, **attributes: object) -> Markup:
    """An element; attribute names take `_` for `-`, a trailing `_` is dropped, None leaves the attribute out."""
    shown = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{html.escape(str(value))}"'
        for name, value in attributes.items()
        if value is not None
    )
    return Markup(f"<{tag}{shown}>{''.join(children)}</{tag}>")


def paragraph(value: str, **attributes: object) -> Markup:
    """A paragraph of plain text."""
    return element("p", text(value), **attributes)


def table(
    caption: str, head: Sequence[str], rows: Iterable[Sequence[object]], *, texts: int = 1, grey: Iterable[int] = ()
) -> Markup:
    """A table that scrolls by itself on narrow screens, with a link that saves it as CSV.

    Args:
        caption: what the table shows.
        head: the column names.
        rows: plain values; each cell is escaped.
        texts: how many of the leading columns hold text; the others are numbers, set flush right. The first is the
            name of its row.
        grey: the numbers of rows that are not to be relied on.
    """
    body = []
    rows, doubtful = list(rows), set(grey)
    for number, row in enumerate(rows):
        cells = [element("th", text(row[0]), scope="row")]
        cells += [
            element("td", text(value), class_=_cell_class(str(value), number=place >= texts))
            for place, value in enumerate(row[1:], start=1)
        ]
        body.append(element("tr", *cells, class_="doubtful" if number in doubtful else None))
    heads = [
        element("th", text(name), scope="col", class_=None if place < texts else "number")
        for place, name in enumerate(head)
    ]
    whole = element(
        "table",
        element("caption", text(caption)),
        element("thead", element("tr", *heads)),
        element("tbody", *body),
        class_="wide" if len(head) >= _WIDE_COLUMNS_MIN else None,
    )
    scrolled = element("div", whole, class_="scroll", tabindex="0", role="region", aria_label=caption)
    return element("div", scrolled, csv_link(caption, head, rows, texts), class_="table")


def csv_link(caption: str, head: Sequence[str], rows: Iterable[Sequence[object]], texts: int = 1) -> Markup:
    """What saves a table as CSV."""
    save = element("a", text("CSV"), href=data_link(head, rows, texts), download=f"{_file_name(caption)}.csv")
    return element("p", save, class_="save")


def _file_name(caption: str) -> str:
    words = re.findall(r"[a-z0-9]+", caption.lower())
    return "-".join(words[:_FILE_WORDS_MAX]) or "table"


def _cell_class(value: str, *, number: bool) -> str | None:
    if number:
        return "number"
    return "long" if len(value) > _LONG_TEXT else None


def details(summary: str, *children: Markup) -> Markup:
    """Something that is opened on demand."""
    return element("details", element("summary", text(summary)), *children)


def figure(title: str, *children: Markup, note: str = "") -> Markup:
    """A figure under its title."""
    parts = [element("h3", text(title)), *children]
    if note:
        parts.append(element("figcaption", text(note)))
    return element("figure", *parts)


def section(identifier: str, title: str, *children: Markup) -> Markup:
    """A section of the page; the table of contents links to it."""
    heading = element("h2", text(title), id=f"{identifier}-title")
    return element("section", heading, *children, id=identifier, aria_labelledby=f"{identifier}-title")


def legend(entries: Iterable[tuple[str, str]]) -> Markup:
    """Colour keys: (CSS class, name)."""
    items = [
        element("li", element("span", class_=f"key {kind}", aria_hidden="true"), text(name)) for kind, name in entries
    ]
    return element("ul", *items, class_="legend")
