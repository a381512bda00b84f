"""Tells a person how far an experiment is.

Rules of this file: a bar on standard error, and only where that is a terminal; it is drawn between runs, because a
thread that draws would disturb the client.
"""

import contextlib
import os
import sys
import time
from collections.abc import Iterator

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from pipeline_broker.measure.experiment.budget import TimeLeft, in_words


class ExperimentProgress:
    """The bar of one experiment.

    Args:
        progress: draws.
        runs: how many there are.
        left: what they will take.
    """

    def __init__(self, progress: Progress, runs: int, left: TimeLeft) -> None:
        self._progress = progress
        self._left = left
        self._runs = runs
        self._done = 0
        self._began_s = time.monotonic()
        self._task = progress.add_task("starting brokers", total=max(left.total_s, 1e-9), runs="", left="")
        self._draw("starting brokers")

    def show(self, title: str) -> None:
        """Say what is running now."""
        self._draw(title)

    def advance(self, estimate_s: float, *, is_run: bool = True) -> None:
        """Something with this estimate is done: a run, or the start of brokers."""
        self._left.add(estimate_s)
        self._done += is_run
        self._progress.update(self._task, advance=estimate_s)

    def _draw(self, title: str) -> None:
        left_s = self._left.seconds(time.monotonic() - self._began_s)
        runs, left = f"{self._done}/{self._runs} runs", f"{in_words(left_s)} left"
        self._progress.update(self._task, description=title, runs=runs, left=left, refresh=True)


@contextlib.contextmanager
def experiment_progress(runs: int, left: TimeLeft) -> Iterator[ExperimentProgress]:
    """A bar that is gone after the block."""
    console = Console(stderr=True)
    texts = [TextColumn(f"{{task.{name}}}") for name in ("fields[runs]", "fields[left]", "description")]
    columns = (BarColumn(), texts[0], TimeElapsedColumn(), *texts[1:])
    disabled = not console.is_terminal or "NO_COLOR" in os.environ
    with Progress(*columns, console=console, auto_refresh=False, transient=True, disable=disabled) as progress:
        yield ExperimentProgress(progress, runs, left)


def say(line: str) -> None:
    """A note for the person at the terminal."""
    print(line, file=sys.stderr, flush=True)  # noqa: T201 - see above
