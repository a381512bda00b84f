"""Classic mode serves a connection one request at a time, so windows of 5 and of 64 requests are equally fast.

On a virtual clock, on which only commits take time, that is exact. benchmarks/bench_noise.py measures the deviation on
a real machine.
"""

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock

from stages.mode import CLASSIC, PIPELINED
from stages.request import Pending, Send
from stages.testing.memory_server import open_memory_server
from stages.testing.memory_storage import MemoryStorage
from stages.testing.scripted_commits import ScriptedCommits

COMMIT_S = 0.01


class Appends:
    """Commits every request as one entry, and records the maximum of concurrent requests."""

    def __init__(self):
        self.in_work = self.in_work_max = 0

    def handle(self, request):
        self.in_work += 1
        self.in_work_max = max(self.in_work_max, self.in_work)
        return Pending([bytes(request.frame)], Send(b"stored"), on_durable=self.done)

    def done(self):
        self.in_work -= 1

    def failed(self, request, error):
        raise error

    def connection_closed(self, session): ...


async def drive(mode, window, requests):
    """Return the virtual seconds until all requests are answered, and the maximum of concurrent requests."""
    application = Appends()
    executor = ScriptedCommits([COMMIT_S])
    async with open_memory_server(mode, application, storage=MemoryStorage(), executor=executor) as memory:
        client = await memory.connect()
        began_s = trio.current_time()
        sent = answered = 0
        with trio.fail_after(3600):
            while answered < requests:
                count = min(window - (sent - answered), requests - sent)
                client.send(*[b"x"] * count)
                sent += count
                assert await client.receive() == b"stored"
                answered += 1
        return trio.current_time() - began_s, application.in_work_max


def run(mode, window, requests):
    return trio.run(drive, mode, window, requests, clock=MockClock(autojump_threshold=0))


@given(st.integers(1, 64), st.integers(1, 64), st.integers(1, 80), st.random_module())
def test_any_two_windows_of_classic_mode_take_the_same_time(window, other, requests, _randomness):  # noqa: PT019 - Hypothesis fills it in
    elapsed_s, in_work_max = run(CLASSIC, window, requests)
    assert in_work_max == 1
    assert elapsed_s == pytest.approx(requests * COMMIT_S)
    assert run(CLASSIC, other, requests)[0] == pytest.approx(elapsed_s)


def test_windows_of_pipelined_mode_differ():
    """Shows that the measure can distinguish windows."""
    (five_s, five), (many_s, many) = run(PIPELINED, 5, 320), run(PIPELINED, 64, 320)
    assert (five, many) == (5, 64)
    assert five_s > 5 * many_s
