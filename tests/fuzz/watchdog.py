"""Limits for one step on the event loop: processor time, memory for each byte of input, and the files that it opens."""

import contextlib
import gc
import sys
import time
import tracemalloc

STEP_SECONDS_MAX = 0.05
MEMORY_BYTES_MIN = 1 << 20
MEMORY_PER_BYTE_MAX = 64

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
