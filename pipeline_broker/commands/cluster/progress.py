"""A progress bar on standard error, shown only on a terminal, and erased at the end. NO_COLOR disables colours."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator
from typing import Protocol

__all__ = ["Meter", "metered"]

DRAW_S = 0.1


class Meter(Protocol):
    def advance(self, amount: float) -> None: ...


class _NullMeter:
    def advance(self, amount: float) -> None:
        pass


@contextlib.contextmanager
def metered(title: str, total: float | None, *, is_bytes: bool = False, is_shown: bool = True) -> Iterator[Meter]:
    """Show a progress bar during the block.

    Args:
        title: the text beside the bar.
        total: the amount at completion; None or 0: show no bar.
        is_bytes: the amount is bytes; otherwise records.
        is_shown: False: show no bar.
    """
    if not total or not is_shown or not sys.stderr.isatty():
        yield _NullMeter()
        return
    from rich.console import Console  # noqa: PLC0415 - only on terminals
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
    # No refresh thread: `advance` redraws the bar, at most every DRAW_S.
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
