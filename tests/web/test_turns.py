"""However many viewers wait, one turn of their work runs between two turns of the requests."""

from types import SimpleNamespace

import pytest
import trio

from pipeline_broker.web import turns
from pipeline_broker.web.turns import in_turns

VIEWERS, STEPS = 5, 40

pytestmark = pytest.mark.trio


async def test_steps_return_their_result():
    def steps():
        yield
        return 3

    assert await in_turns(steps()) == 3


async def test_an_exception_of_a_step_is_raised():
    def steps():
        yield
        raise LookupError("of a step")

    with pytest.raises(LookupError, match="of a step"):
        await in_turns(steps())


async def test_steps_are_closed_if_the_caller_is_cancelled():
    closed = []

    def steps():
        try:
            while True:
                scope.cancel()
                yield
        finally:
            closed.append(True)

    with trio.CancelScope() as scope:
        await in_turns(steps())
    assert closed == [True]


async def test_all_viewers_together_get_one_turn_between_two_turns_of_others(monkeypatch):
    """Count the steps that run between two turns of a task that represents the requests."""
    now = [0.0]
    monkeypatch.setattr(turns, "time", SimpleNamespace(perf_counter=lambda: now[0]))
    ran, most = [], 0

    def steps():
        for _ in range(STEPS):
            now[0] += 1.0  # a turn is over after each step
            ran.append(1)
            yield

    monkeypatch.setattr(turns, "TURN_SECONDS", 0.5)
    async with trio.open_nursery() as nursery:
        for _ in range(VIEWERS):
            nursery.start_soon(in_turns, steps())
        while len(ran) < VIEWERS * STEPS:
            before = len(ran)
            await trio.lowlevel.checkpoint()
            most = max(most, len(ran) - before)
    assert most <= 2, "the end of a turn and the first step of the next may fall between two looks"
