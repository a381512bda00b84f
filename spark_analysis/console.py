"""Progress on the terminal, by rich, on standard error; silent where standard error is not a terminal.

Rules: standard output carries the result only. Without rich the work is done in silence.
"""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@contextlib.contextmanager
def progress_bar() -> Iterator[Callable[[str], Callable[[int, int], None]]]:
    """A function that starts a named step and returns what reports its progress (done, total)."""
    if not sys.stderr.isatty():
        yield lambda _name: lambda _done, _total: None
        return
    try:
        from rich.console import Console  # noqa: PLC0415 - needed on a terminal only
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn  # noqa: PLC0415 - see above
    except ImportError:
        yield lambda _name: lambda _done, _total: None
        return
    columns = (TextColumn("{task.description:<22}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:

        def begin(name: str) -> Callable[[int, int], None]:
            task = bar.add_task(name, total=None)
            return lambda done, total: bar.update(task, completed=done, total=total)

        yield begin
