"""Progress on standard error: by rich where that is a terminal, elsewhere by a line now and then.

Rules: standard output carries the result only. A short analysis says nothing where nobody watches. Without rich a
terminal has lines, too.
"""

from __future__ import annotations

import contextlib
import sys
import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LINE_EVERY_S: Final = 10.0
"""Between two lines, and before the first one."""


@contextlib.contextmanager
def progress_bar() -> Iterator[Callable[[str], Callable[[int, int], None]]]:
    """A function that starts a named step and returns what reports its progress (done, total)."""
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
    """What starts a step and reports its progress by a line every ten seconds at most.

    Args:
        clock: seconds that never run backwards.
    """
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
