"""What a simulated broker runs in: no time, no thread and no chance but what the seed gives.

Rules of this file: Trio's clock is virtual and jumps to whatever is due next; the wall clock follows it; Trio's
scheduler shuffles the tasks that can run by dice of the seed; work for threads runs on the loop, after a drawn delay.
Whatever was replaced is put back at the end.
"""

import itertools
import logging
import random
from contextlib import contextmanager

import trio
import trio._core._run as scheduler  # its dice and its switch for them have no public name
from trio.testing import MockClock

EPOCH_MS = 1_700_000_000_000
MILLISECOND = 0.001


def wall_clock_ms():
    return EPOCH_MS + round(trio.current_time() * 1000)


def run(seed, work_delays, function, *arguments):
    """`trio.run` of a function, the same for the same seed; `work_delays` are the seconds that threads take.

    Returns:
        what the function returned, and the errors that were logged meanwhile.
    """
    with _deterministic(seed, work_delays), _logged_errors() as errors:
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
def _deterministic(seed, work_delays):
    dice, shuffles, run_sync = (
        scheduler._r.getstate(),
        scheduler._ALLOW_DETERMINISTIC_SCHEDULING,
        trio.to_thread.run_sync,
    )
    scheduler._r.setstate(random.Random(f"schedule {seed}").getstate())
    scheduler._ALLOW_DETERMINISTIC_SCHEDULING = True
    trio.to_thread.run_sync = _inline(work_delays)
    try:
        yield
    finally:
        trio.to_thread.run_sync = run_sync
        scheduler._ALLOW_DETERMINISTIC_SCHEDULING = shuffles
        scheduler._r.setstate(dice)


def _inline(work_delays):
    """`trio.to_thread.run_sync` without a thread."""
    delays = itertools.cycle(work_delays)

    async def run_sync(function, *arguments, abandon_on_cancel=False, **_):
        with trio.CancelScope(shield=not abandon_on_cancel):
            await trio.sleep(next(delays))
        return function(*arguments)

    return run_sync
