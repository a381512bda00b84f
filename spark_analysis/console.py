"""Progress on standard error: a rich progress bar on a terminal, otherwise an occasional line.

Standard output stays free for the result. Without rich, a terminal gets lines too.
"""

from __future__ import annotations

import contextlib
import sys
import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LINE_EVERY_S: Final = 10.0
"""Time between two lines, and before the first one, so that a short analysis prints none."""


@contextlib.contextmanager
def progress_bar() -> Iterator[Callable[[str], Callable[[int, int], None]]]:
    """Yield a function that starts a named step and returns the callback for its progress (done, total)."""
    if not sys.stderr.isatty():
        yield lines()
        return
    try:
        from rich.console import Console  # noqa: PLC0415 - needed on a terminal only
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn  # noqa: PLC0415 - see above
    except ImportError:
        yield lines()
        return
    columns = (TextColumn("{task.description:<22}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:

        def begin(name: str) -> Callable[[int, int], None]:
            task = bar.add_task(name, total=None)
            return lambda done, total: bar.update(task, completed=done, total=total)

        yield begin


def lines(clock: Callable[[], float] = time.monotonic) -> Callable[[str], Callable[[int, int], None]]:
    """Return the function that `progress_bar` yields; it prints a line to stderr at most every LINE_EVERY_S seconds."""
    next_s = clock() + LINE_EVERY_S

    def begin(name: str) -> Callable[[int, int], None]:
        def report(done: int, total: int) -> None:
            nonlocal next_s
            now_s = clock()
            if now_s >= next_s:
                next_s = now_s + LINE_EVERY_S
                sys.stderr.write(f"{name}: {done} of {total}\n")
                sys.stderr.flush()

        return report

    return begin
