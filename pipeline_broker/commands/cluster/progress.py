"""How far a command is that takes long.

Rules of this file: a bar on standard error, only where that is a terminal, and gone afterwards; it is drawn by who does
the work, a few times a second. Colours follow NO_COLOR, which rich knows.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator
from typing import Protocol

__all__ = ["Meter", "metered"]

DRAW_S = 0.1


class Meter(Protocol):
    """Is told what was done."""

    def advance(self, amount: float) -> None:
        """So much more."""


class _NullMeter:
    def advance(self, amount: float) -> None:
        """Nobody looks."""


@contextlib.contextmanager
def metered(title: str, total: float | None, *, is_bytes: bool = False, is_shown: bool = True) -> Iterator[Meter]:
    """A bar for the time of the block.

    Args:
        title: what is done.
        total: how much there is to do; None or 0: nothing is drawn.
        is_bytes: it counts bytes, otherwise records.
        is_shown: a person wants to see it.
    """
    if not total or not is_shown or not sys.stderr.isatty():
        yield _NullMeter()
        return
    from rich.console import Console  # noqa: PLC0415 - for terminals only
    from rich.progress import (  # noqa: PLC0415 - see above
        BarColumn,
        DownloadColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    count = DownloadColumn() if is_bytes else MofNCompleteColumn()
    columns = (TextColumn("{task.description}"), BarColumn(), count, TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), auto_refresh=False, transient=True) as progress:
        task = progress.add_task(title, total=total)
        drawn_at = 0.0

        class Bar:
            def advance(self, amount: float) -> None:
                nonlocal drawn_at
                now = time.monotonic()
                is_due = now - drawn_at >= DRAW_S
                drawn_at = now if is_due else drawn_at
                progress.update(task, advance=amount, refresh=is_due)

        yield Bar()
