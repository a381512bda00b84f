"""Tells a person how far an experiment is.

Rules of this file: on standard error, a bar where that is a terminal and lines where it is not; told between runs,
because a thread that draws would disturb the client.
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
"""Between two lines where there is no terminal."""


class ExperimentProgress:
    """How far one experiment is.

    Args:
        told: where it goes.
        runs: how many there are.
        left: what they will take.
    """

    def __init__(self, told: "Told", runs: int, left: TimeLeft) -> None:
        self._told = told
        self._left = left
        self._runs = runs
        self._done = 0
        self._began_s = time.monotonic()

    def show(self, title: str) -> None:
        """Say what is running now."""
        left_s = self._left.seconds(time.monotonic() - self._began_s)
        share = self._left.done_s / self._left.total_s if self._left.total_s else 1.0
        self._told.tell(share, f"{self._done}/{self._runs} runs", f"{in_words(left_s)} left", title)

    def advance(self, estimate_s: float, *, is_run: bool = True) -> None:
        """Something with this estimate is done: a run, or the start of brokers."""
        self._left.add(estimate_s)
        self._done += is_run


class Told(Protocol):
    """Where the progress of an experiment goes."""

    def tell(self, share: float, runs: str, left: str, title: str) -> None:
        """How much is done, 0 to 1, and in words."""


class Bar:
    """A bar, for a terminal.

    Args:
        progress: draws.
    """

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._task = progress.add_task("", total=1.0, runs="", left="")

    def tell(self, share: float, runs: str, left: str, title: str) -> None:
        self._progress.update(self._task, completed=share, description=title, runs=runs, left=left, refresh=True)


class Lines:
    """A line now and then, for a file, a pipe or a log.

    Args:
        clock: seconds that never run backwards.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._next_s = clock() + LINE_EVERY_S

    def tell(self, share: float, runs: str, left: str, title: str) -> None:  # noqa: ARG002 - see Told
        now_s = self._clock()
        if now_s >= self._next_s:
            self._next_s = now_s + LINE_EVERY_S
            say(f"{runs}, {left}: {title}")


@contextlib.contextmanager
def experiment_progress(runs: int, left: TimeLeft) -> Iterator[ExperimentProgress]:
    """A bar on a terminal, which is gone after the block; elsewhere lines."""
    console = Console(stderr=True)
    if not console.is_terminal or "NO_COLOR" in os.environ:
        yield ExperimentProgress(Lines(), runs, left)
        return
    texts = [TextColumn(f"{{task.{name}}}") for name in ("fields[runs]", "fields[left]", "description")]
    columns = (BarColumn(), texts[0], TimeElapsedColumn(), *texts[1:])
    with Progress(*columns, console=console, auto_refresh=False, transient=True) as progress:
        yield ExperimentProgress(Bar(progress), runs, left)


def say(line: str) -> None:
    """A note for the person at the terminal."""
    print(line, file=sys.stderr, flush=True)  # noqa: T201 - see above
