"""The progress of an experiment on stderr: a bar on a terminal, lines elsewhere.

It is updated between runs only, because a thread that draws would disturb the client.
"""

import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterator
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from pipeline_broker.measure.experiment.budget import TimeLeft, in_words

LINE_EVERY_S = 10.0
"""Minimum interval between two lines without a terminal."""


class ExperimentProgress:
    """The progress of one experiment.

    Args:
        display: the bar or the lines.
        runs: number of runs.
        left: estimates the remaining time.
    """

    def __init__(self, display: "ProgressDisplay", runs: int, left: TimeLeft) -> None:
        self._display = display
        self._left = left
        self._runs = runs
        self._done = 0
        self._began_s = time.monotonic()

    def show(self, title: str) -> None:
        left_s = self._left.seconds(time.monotonic() - self._began_s)
        share = self._left.done_s / self._left.total_s if self._left.total_s else 1.0
        self._display.update(share, f"{self._done}/{self._runs} runs", f"{in_words(left_s)} left", title)

    def advance(self, estimate_s: float, *, is_run: bool = True) -> None:
        """Add a finished part of `estimate_s` estimated seconds: a run, or the start of brokers."""
        self._left.add(estimate_s)
        self._done += is_run


class ProgressDisplay(Protocol):
    def update(self, share: float, runs: str, left: str, title: str) -> None:
        """Show the finished share, 0 to 1, with texts for the runs, the remaining time and the current activity."""


class Bar:
    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._task = progress.add_task("", total=1.0, runs="", left="")

    def update(self, share: float, runs: str, left: str, title: str) -> None:
        self._progress.update(self._task, completed=share, description=title, runs=runs, left=left, refresh=True)


class Lines:
    """A line at intervals, for a file, a pipe or a log.

    Args:
        clock: a monotonic clock, in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._next_s = clock() + LINE_EVERY_S

    def update(self, share: float, runs: str, left: str, title: str) -> None:  # noqa: ARG002 - see ProgressDisplay
        now_s = self._clock()
        if now_s >= self._next_s:
            self._next_s = now_s + LINE_EVERY_S
            say(f"{runs}, {left}: {title}")


@contextlib.contextmanager
def experiment_progress(runs: int, left: TimeLeft) -> Iterator[ExperimentProgress]:
    """Show a bar that disappears after the block. Print lines if stderr is not a terminal, or NO_COLOR is set."""
    console = Console(stderr=True)
    if not console.is_terminal or "NO_COLOR" in os.environ:
        yield ExperimentProgress(Lines(), runs, left)
        return
    texts = [TextColumn(f"{{task.{name}}}") for name in ("fields[runs]", "fields[left]", "description")]
    columns = (BarColumn(), texts[0], TimeElapsedColumn(), *texts[1:])
    with Progress(*columns, console=console, auto_refresh=False, transient=True) as progress:
        yield ExperimentProgress(Bar(progress), runs, left)


def say(line: str) -> None:
    sys.stderr.write(f"{line}\n")
