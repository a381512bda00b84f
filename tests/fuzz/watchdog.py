"""Limits for one step on the event loop: processor time, memory for each byte of input, and the files that it opens."""

import contextlib
import functools
import gc
import signal
import sys
import time
import tracemalloc

from hypothesis import HealthCheck, Phase, settings

STEP_SECONDS_MAX = 0.05
MEMORY_BYTES_MIN = 1 << 20
MEMORY_PER_BYTE_MAX = 64

END_SECONDS = 5
FUZZED = settings(
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.generate, Phase.shrink],  # to explain a failure Python is traced, and each step takes too long
)
"""How inputs are drawn by all fuzzers."""

_opened = []
"""Lists of the files that watched bodies open, the innermost last."""


def _note_open(event, arguments):
    if event == "open" and _opened and isinstance(arguments[0], str | bytes):
        _opened[-1].append(arguments[0])


sys.addaudithook(_note_open)


class StepError(AssertionError):
    """A step was too long, took too much memory, or opened a file."""


@contextlib.contextmanager
def watched(
    what, input_bytes=0, *, seconds_max=STEP_SECONDS_MAX, per_byte_max=MEMORY_PER_BYTE_MAX, may_open=lambda _: False
):
    """Fail where the body takes too long, or too much.

    Args:
        what: names the step in the failure.
        input_bytes: that a stranger sent for it.
        may_open: returns whether a file may be opened.
    """
    is_tracing = tracemalloc.is_tracing()
    gc.disable()
    if not is_tracing:
        tracemalloc.start()
    tracemalloc.reset_peak()
    before = tracemalloc.get_traced_memory()[0]
    _opened.append([])
    began = time.thread_time()
    try:
        yield
    finally:
        took = time.thread_time() - began
        opened = _opened.pop()
        grown = tracemalloc.get_traced_memory()[1] - before
        if not is_tracing:
            tracemalloc.stop()
        gc.enable()
    # Tracing makes allocation several times as slow, so a step that is near the limit is not a finding.
    if took > 4 * seconds_max:
        raise StepError(f"{what} took {took * 1000:.0f} ms of the processor")
    if grown > MEMORY_BYTES_MIN + per_byte_max * input_bytes:
        raise StepError(f"{what} took {grown} bytes of memory for {input_bytes} bytes of input")
    strange = [path for path in opened if not may_open(path)]
    if strange:
        raise StepError(f"{what} opened {strange[0]!r}")


@contextlib.contextmanager
def ending():
    """A step that does not end is a finding, not the end of the campaign."""

    def end(number, frame):
        del number, frame
        raise StepError(f"a step did not end within {END_SECONDS} s")

    before = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, END_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def repeated(run_one):
    """Try an input again where a step did too much: a first one may load modules, and another process may be busy."""

    @functools.wraps(run_one)
    def run(data):
        try:
            return run_one(data)
        except StepError:
            return run_one(data)

    return run


def finished_in_turns(what, steps):
    """Return the result of steps; fails where one of them takes too long."""
    while True:
        began = time.thread_time()
        try:
            next(steps)
        except StopIteration as end:
            return end.value
        finally:
            took = time.thread_time() - began
            if took > 4 * STEP_SECONDS_MAX:
                raise StepError(f"{what} took {took * 1000:.0f} ms of the processor")
