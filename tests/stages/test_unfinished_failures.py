"""Unfinished requests that fail in a step are answered, and no other request is affected."""

import pytest

from stages.mode import CLASSIC, PIPELINED
from stages.request import PARKED, Send, Waiting, go_on
from tests.stages.connection_bench import run
from tests.stages.stepping import Stepping, three_steps, unfinished_count

both_modes = pytest.mark.parametrize("mode", [CLASSIC, PIPELINED], ids=lambda mode: mode.name)
BIG = bytes(10_000)


def raises_at(place):
    def steps(application, request):
        for _ in range(place):
            yield None
        raise ValueError("asked for")
        yield None

    return steps


def yields(what):
    def steps(application, request):
        yield what
        return Send(b"it went on")

    return steps


def fails_to_wait(application, request):
    yield Waiting(lambda go_on: 1 / 0)


@both_modes
@pytest.mark.parametrize(
    ("steps", "error"),
    [
        (raises_at(1), b"ValueError"),
        (raises_at(3), b"ValueError"),
        (yields(Send(b"too early")), b"TypeError"),
        (yields(PARKED), b"TypeError"),
        (yields("nonsense"), b"TypeError"),
        (fails_to_wait, b"ZeroDivisionError"),
    ],
)
def test_steps_that_fail_are_answered_and_hurt_no_other_request(mode, steps, error):
    async def test(memory, application):
        client, other = await memory.connect(), await memory.connect()
        client.send(b"u", b"s")
        other.send(b"s other")
        assert await client.receive_count(2) == [error + b" u", b"s"]
        assert await other.receive() == b"s other"
        assert memory.server.statistics().handlers.failed == 1
        assert unfinished_count(memory) == 0

    run(test, mode=mode, application=Stepping(u=steps))


def test_the_answer_of_failed_steps_may_take_several_turns_itself():
    class Slowly(Stepping):
        def failed(self, request, error):
            return go_on(three_steps(self, request))

    async def test(memory, application):
        client = await memory.connect()
        client.send(b"u", b"s")
        assert await client.receive_count(2) == [b"done u", b"s"]

    run(test, application=Slowly(u=raises_at(2)))
