"""What a simulated broker runs in: no time, no thread and no chance but what the seed gives.

Rules of this file: Trio's clock is virtual and jumps to whatever is due next; the wall clock follows it; Trio's
scheduler shuffles the tasks that can run by dice of the seed; work for threads runs on the loop, after a drawn delay
(`inline_work`), or in simulated threads (`threads`).
Whatever was replaced is put back at the end.
"""

import itertools
import logging
import random
from contextlib import contextmanager
from types import SimpleNamespace

import trio
import trio._core._run as scheduler  # its dice and its switch for them have no public name
from trio.testing import MockClock

from stages import unfinished
from tests.stages.sabotage import replaced

EPOCH_MS = 1_700_000_000_000
MILLISECOND = 0.001


def wall_clock_ms():
    return EPOCH_MS + round(trio.current_time() * 1000)


def run(seed, function, *arguments):
    """`trio.run` of a function, the same for the same seed.

    Returns:
        what the function returned, and the errors that were logged meanwhile.
    """
    with (
        _deterministic(seed),
        _logged_errors() as errors,
        replaced(unfinished, "time", SimpleNamespace(sleep=lambda _: None)),  # no thread waits for Python's lock
    ):
        return trio.run(function, *arguments, clock=MockClock(autojump_threshold=0)), errors


class _Errors(logging.Handler):
    """Keeps the exceptions that were logged: a bug that cost a connection or an answer, and was survived."""

    def __init__(self):
        super().__init__(logging.ERROR)
        self.errors = []

    def emit(self, record):
        if record.exc_info is not None:
            self.errors.append(record.exc_info[1])


@contextmanager
def _logged_errors():
    handler = _Errors()
    before = [
        (logger, logger.level, logger.propagate) for logger in map(logging.getLogger, ("stages", "pipeline_broker"))
    ]
    for logger, _, _ in before:
        logger.addHandler(handler)
        logger.setLevel(logging.ERROR)
        logger.propagate = False
    try:
        yield handler.errors
    finally:
        for logger, level, propagate in before:
            logger.removeHandler(handler)
            logger.setLevel(level)
            logger.propagate = propagate


@contextmanager
def _deterministic(seed):
    dice, shuffles = scheduler._r.getstate(), scheduler._ALLOW_DETERMINISTIC_SCHEDULING
    scheduler._r.setstate(random.Random(f"schedule {seed}").getstate())
    scheduler._ALLOW_DETERMINISTIC_SCHEDULING = True
    try:
        yield
    finally:
        scheduler._ALLOW_DETERMINISTIC_SCHEDULING = shuffles
        scheduler._r.setstate(dice)


def inline_work(work_delays):
    """Have `trio.to_thread.run_sync` need no thread; `work_delays` are the seconds that threads take."""
    delays = itertools.cycle(work_delays)

    async def run_sync(function, *arguments, abandon_on_cancel=False, **_):
        with trio.CancelScope(shield=not abandon_on_cancel):
            await trio.sleep(next(delays))
        return function(*arguments)

    return replaced(trio.to_thread, "run_sync", run_sync)
