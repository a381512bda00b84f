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
    """`trio.run` of a function, the same for the same seed; `work_delays` are the seconds that threads take."""
    with _deterministic(seed, work_delays):
        return trio.run(function, *arguments, clock=MockClock(autojump_threshold=0))


@contextmanager
def _deterministic(seed, work_delays):
    dice, shuffles, run_sync = scheduler._r.getstate(), scheduler._ALLOW_DETERMINISTIC_SCHEDULING, trio.to_thread.run_sync
    scheduler._r.setstate(random.Random(f"schedule {seed}").getstate())
    scheduler._ALLOW_DETERMINISTIC_SCHEDULING = True
    trio.to_thread.run_sync = _inline(work_delays)
    logging.disable(logging.CRITICAL)  # faults are told in the log as they must be; here they are thousands
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)
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
