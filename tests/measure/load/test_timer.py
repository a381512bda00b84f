"""A wait for one time, which may be shortened and never prolonged."""

import time

import pytest
import trio
import trio.testing

from pipeline_broker.measure.load.timer import _TrioTimer, precise_timer

NS_PER_S = 1_000_000_000
SECONDS_MAX = 10
LATER_SECONDS = 3600


@pytest.fixture(params=["precise", "of Trio"])
def timer(request):
    if request.param == "of Trio":
        yield _TrioTimer()
        return
    with precise_timer() as found:
        yield found


def in_seconds(seconds):
    return time.monotonic_ns() + round(seconds * NS_PER_S)


def waited(timer, first_ns, second_ns):
    """Wait for a time, and call `hurry` with a second one during the wait."""

    async def main():
        with trio.fail_after(SECONDS_MAX):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(timer.wait_until, first_ns)
                await trio.testing.wait_all_tasks_blocked()
                timer.hurry(second_ns)

    trio.run(main)


def test_hurry_with_an_earlier_time_shortens_a_wait(timer):
    moment_ns = in_seconds(0.03)
    waited(timer, in_seconds(LATER_SECONDS), moment_ns)
    assert time.monotonic_ns() >= moment_ns


def test_hurry_with_a_later_time_does_not_prolong_a_wait(timer):
    waited(timer, in_seconds(0.03), in_seconds(LATER_SECONDS))
