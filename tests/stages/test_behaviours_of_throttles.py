"""Throttles and responses in every order, with and without bytes, and several throttles together."""

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from stages.mode import CLASSIC, PIPELINED
from stages.mute import MuteReason
from stages.request import NO_OP, Send
from stages.transport_layer import BrokenTransportError
from tests.stages.connection_bench import connection_of, run

both_modes = pytest.mark.parametrize("mode", [CLASSIC, PIPELINED], ids=lambda mode: mode.name)
kinds = pytest.mark.parametrize("result", [Send(b"answer"), NO_OP], ids=["Send", "NoOp"])
SECONDS = 5.0


@both_modes
@kinds
def test_a_response_leaves_while_a_throttle_is_in_progress(mode, result):
    """Behaviours 12 and 14: afterwards the throttle alone mutes, and the next request waits for its end."""

    async def test(memory, application):
        client = await memory.connect()
        client.send(b"1")
        await wait_all_tasks_blocked()
        connection = connection_of(memory)
        connection.throttle(SECONDS)
        application.parked[0].complete(result)
        if result is not NO_OP:
            assert await client.receive() == b"answer"
        await wait_all_tasks_blocked()
        assert trio.current_time() == 0
        assert connection.mute.reasons == {MuteReason.THROTTLED}
        client.send(b"s2")
        assert await client.receive() == b"s2"
        assert trio.current_time() == SECONDS

    run(test, mode=mode)


@both_modes
@kinds
def test_a_throttle_that_is_over_before_the_response_leaves_nothing_behind(mode, result):
    """Behaviours 13 and 15: in classic mode the request in flight is the only reason left, then there is none."""

    async def test(memory, application):
        client = await memory.connect()
        client.send(b"1")
        await wait_all_tasks_blocked()
        connection = connection_of(memory)
        connection.throttle(SECONDS)
        await trio.sleep(SECONDS + 1)
        assert connection.mute.reasons == ({MuteReason.IN_FLIGHT} if mode is CLASSIC else set())
        application.parked[0].complete(result)
        await wait_all_tasks_blocked()
        assert connection.mute.reasons == set()
        client.send(b"s2")
        assert (await client.receive_count(2 - (result is NO_OP)))[-1] == b"s2"
        assert trio.current_time() == SECONDS + 1

    run(test, mode=mode)


@both_modes
@pytest.mark.parametrize("throttles", [(2.0, 9.0), (9.0, 2.0), (9.0, 0.0), (3.0, 3.0, 9.0)])
def test_the_latest_end_of_overlapping_throttles_counts(mode, throttles):
    """AutoMQ's single throttle bit let the first end lift all of them."""

    async def test(memory, application):
        client = await memory.connect()
        client.send(b"s")
        await client.receive()
        for seconds in throttles:
            connection_of(memory).throttle(seconds)
        client.send(b"s after")
        assert await client.receive() == b"s after"
        assert trio.current_time() == 9.0

    run(test, mode=mode)


def test_requests_read_before_a_throttle_are_answered_and_later_ones_wait():
    async def test(memory, application):
        client = await memory.connect()
        client.send(b"1", b"2")
        await wait_all_tasks_blocked()
        connection_of(memory).throttle(SECONDS)
        client.send(b"s3")
        application.answer(b"1")
        application.answer(b"2")
        assert await client.receive_count(2) == [b"1", b"2"]
        assert trio.current_time() == 0
        assert await client.receive() == b"s3"
        assert trio.current_time() == SECONDS

    run(test)


@pytest.mark.parametrize("end", ["close", "reset", "stop"])
def test_the_throttle_of_a_closed_connection_is_dropped(end):
    async def test(memory, application):
        client = await memory.connect()
        client.send(b"s")
        await client.receive()
        connection = connection_of(memory)
        connection.throttle(SECONDS)
        match end:
            case "close":
                connection.close()
            case "reset":
                client.reset()  # noticed at the next receive
            case "stop":
                memory.server.stop()
        await trio.sleep(2 * SECONDS)
        connection.throttle(SECONDS)
        assert connection.closed
        assert not memory.server.processors or not memory.server.processors[0].connections

    run(test)


@pytest.mark.parametrize("end", ["close", "reset"])
def test_a_long_throttle_keeps_no_memory_of_a_closed_connection(end):
    """A client that reconnects instead of waiting must not accumulate in the broker."""

    async def test(memory, application):
        for _ in range(10):
            client = await memory.connect()
            client.send(b"s")
            await client.receive()
            connection_of(memory).throttle(1_000_000)
            if end == "close":
                connection_of(memory).close()
            else:
                client.reset()
                connection_of(memory).fail(BrokenTransportError("the client is gone"))
        await wait_all_tasks_blocked()
        names = [task.name for nursery in _nurseries(trio.lowlevel.current_root_task()) for task in nursery.child_tasks]
        assert not [name for name in names if "throttle" in name]

    run(test)


def _nurseries(task):
    for nursery in task.child_nurseries:
        yield nursery
        for child in nursery.child_tasks:
            yield from _nurseries(child)
