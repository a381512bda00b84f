"""Turns so small that ordinary requests take several: what takes 4 ms of work elsewhere is a few bytes here.

Rules of this file: bounds are set lower while a block runs, and put back; nothing of how requests are handled changes.
"""

from contextlib import ExitStack, contextmanager
from functools import cache

from pipeline_broker.apis import call, dispatch, steps
from pipeline_broker.apis.data import produce
from pipeline_broker.broker import broker
from pipeline_broker.records import record_walk
from pipeline_broker.wire import codec, decoding, encoding
from tests.stages.sabotage import replaced

BOUNDS = (
    (call, "TURN_COST", produce.APPEND_COST),
    (dispatch, "LARGE_BYTES", 0),
    (steps, "TURNS_WITHOUT_PLACE", 1),
    (produce, "ANSWERED_IN_A_TURN", 0),
    (record_walk, "RECORDS_A_TURN", 1),
    (broker, "LARGE_REQUESTS_MAX", 2),
    (broker, "LONG_BATCHES_MAX", 1),
)


@cache
def _coder(original, message, version, **options):
    """A decoder or encoder in steps, each of one element."""
    saved = [(names, names["ELEMENTS_A_TURN"]) for names in (decoding.NAMES, encoding.NAMES)]
    for names, _ in saved:
        names["ELEMENTS_A_TURN"] = 0
    try:
        return original.__wrapped__(message, version, in_steps=True, **options)
    finally:
        for names, value in saved:
            names["ELEMENTS_A_TURN"] = value


def _as_it_is(original, message, version, **options):
    return original(message, version, **options)


def _in_small_steps(original):
    def coder(message, version, *, in_steps=False, **options):
        of = _coder if in_steps else _as_it_is
        return of(original, message, version, **options)

    return coder


@contextmanager
def small_turns():
    with ExitStack() as stack:
        for owner, name, value in BOUNDS:
            stack.enter_context(replaced(owner, name, value))
        for name in ("_decoder", "_encoder"):
            stack.enter_context(replaced(codec, name, _in_small_steps(getattr(codec, name))))
        yield
