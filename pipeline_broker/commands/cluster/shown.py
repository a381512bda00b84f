"""Output of commands: tables for people, JSON for programs."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import click

__all__ = ["plain", "print_json", "print_table"]

GAP = "  "


def plain(value: object) -> str:
    """Format a value for a table; "-" for None and empty values.

    Escapes text that is not printable: topic and group names come from other clients, and could act on the terminal.
    """
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ",".join(map(plain, value)) or "-"
    text = str(value)
    return (text if text.isprintable() else ascii(text)) or "-"


def print_table(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> None:
    """Print columns of rows under a heading. Numbers are aligned to the right."""
    cells = [[column.upper().replace("_", "-") for column in columns]]
    cells += [[plain(row.get(column)) for column in columns] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    right = [_is_number(rows, column) for column in columns]
    for number, line in enumerate(cells):
        padded = [
            cell.rjust(width) if at_right else cell.ljust(width)
            for cell, width, at_right in zip(line, widths, right, strict=True)
        ]
        text = GAP.join(padded).rstrip()
        click.echo(click.style(text, bold=True) if number == 0 and _is_styled() else text)


def _is_number(rows: Sequence[Mapping[str, Any]], column: str) -> bool:
    values = [row.get(column) for row in rows]
    return any(isinstance(value, int) for value in values) and all(isinstance(it, int | None) for it in values)


def _is_styled() -> bool:
    # https://no-color.org
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def print_json(value: Any) -> None:
    click.echo(json.dumps(value, ensure_ascii=False))
