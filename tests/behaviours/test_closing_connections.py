"""Throttles, and the ends of connections: which requests are still handled, and which responses still leave.

The classic mode handles one request of a connection at a time, so what is behind it is not handled once the client is
gone; the pipelined mode has it in flight already, and then its effects stay while its responses are dropped.
"""

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from stages.mode import CLASSIC, PIPELINED
from stages.request import NO_OP, Send
from tests.stages.connection_bench import ByHand, connection_of, run

both_modes = pytest.mark.parametrize("mode", [CLASSIC, PIPELINED], ids=lambda mode: mode.name)
both_answers = pytest.mark.parametrize("answer", [Send(b"answer"), NO_OP], ids=["response", "no response"])
THROTTLE_SECONDS = 10.0
IDLE_SECONDS = 30.0
THREE = (b"1", b"2", b"3")
PART = b"\0\0\0\x64part"


def reasons(memory, index=0):
    return connection_of(memory, index).statistics().mute_reasons


async def begin_throttled(memory, application):
    """A request is in progress and its connection is throttled."""
    client = await memory.connect()
    client.send(b"wait")
    await wait_all_tasks_blocked()
    connection_of(memory).throttle(THROTTLE_SECONDS)
    return client, application.parked.pop()


@both_modes
@both_answers
def test_an_answer_within_a_throttle_leaves_the_throttle_alone(mode, answer):
    """Behaviours 12 and 14: a response leaves at once; afterwards the throttle is the only reason not to read."""

    async def test(memory, application):
        client, request = await begin_throttled(memory, application)
        request.complete(answer)
        await wait_all_tasks_blocked()
        assert client.unread_bytes == (0 if answer is NO_OP else 4 + len(b"answer"))
        assert reasons(memory) == ("THROTTLED",)
        client.send(b"s next")
        await trio.sleep(THROTTLE_SECONDS - 1)
        assert application.handled == [b"wait"]
        await trio.sleep(2)
        assert application.handled == [b"wait", b"s next"]

    run(test, mode=mode)


@both_modes
@both_answers
def test_an_answer_behind_a_throttle_leaves_no_reason(mode, answer):
    """Behaviours 13 and 15: the throttle ended while the request was still in progress."""

    async def test(memory, application):
        client, request = await begin_throttled(memory, application)
        await trio.sleep(THROTTLE_SECONDS + 1)
        assert "THROTTLED" not in reasons(memory)
        request.complete(answer)
        await wait_all_tasks_blocked()
        assert reasons(memory) == ()
        client.send(b"s next")
        await wait_all_tasks_blocked()
        assert application.handled == [b"wait", b"s next"]

    run(test, mode=mode)


@both_modes
@pytest.mark.parametrize("sent", [b"", PART], ids=["nothing", "a part"])
def test_a_client_that_ends_before_its_first_request_is_closed(mode, sent):
    """Behaviours 40, 41 and testPartialReceiveGracefulClose: nothing is handled."""

    async def test(memory, application):
        client = await memory.connect()
        client.send_bytes(sent)
        client.half_close()
        assert await client.receive_all() == []
        assert application.handled == []

    run(test, mode=mode)


@both_modes
@pytest.mark.parametrize("rest", [b"", PART], ids=["whole", "and a part"])
def test_what_was_received_before_the_end_is_handled(mode, rest):
    """Behaviours 7, 39, 42, 44, 45 and testGracefulClose: whole requests are answered, a part of one is dropped.

    The connection is closing from the end of the first burst on; in classic mode the others are handled after that.
    """

    async def test(memory, application):
        client = await memory.connect()
        client.send(*THREE)
        client.send_bytes(rest)
        client.half_close()
        for number in range(3):
            await wait_all_tasks_blocked()
            in_flight = 1 if mode is CLASSIC else 3 - number
            assert len(application.parked) == in_flight
            application.answer(THREE[number])
        assert await client.receive_all() == list(THREE)
        assert application.handled == list(THREE)

    run(test, mode=mode)


@both_modes
@pytest.mark.parametrize("is_closing", [False, True], ids=["open", "closing"])
def test_a_response_that_cannot_be_sent_ends_its_connection_only(mode, is_closing):
    """Behaviours 29, 37, 38, 43 and 46: nothing behind it is handled, but for what was in flight already."""

    async def test(memory, application):
        client, other = await memory.connect(), await memory.connect()
        client.send(*THREE)
        if is_closing:
            client.half_close()
        await wait_all_tasks_blocked()
        client.reset()
        application.answer(b"1")
        await wait_all_tasks_blocked()
        assert application.handled == ([b"1"] if mode is CLASSIC else list(THREE))
        assert len(memory.server.processors[0].connections) == 1
        other.send(b"s")
        assert await other.receive() == b"s"
        for request in tuple(application.parked):
            request.complete(Send(b"dropped"))

    run(test, mode=mode)


def test_a_muted_connection_does_not_become_active_by_what_it_has_received():
    """Behaviours 10, 47 and testExpireConnectionWithPendingReceives: it expires, and what waited is not handled."""

    async def test(memory, application):
        client = await memory.connect()
        client.send(b"wait", b"s behind")
        began = trio.current_time()
        assert await client.receive_all() == []
        assert IDLE_SECONDS <= trio.current_time() - began < IDLE_SECONDS + 3
        application.answer(b"wait")
        await wait_all_tasks_blocked()
        assert application.handled == [b"wait"]

    run(test, mode=CLASSIC, idle_seconds_max=IDLE_SECONDS)


def test_of_two_idle_connections_the_one_idle_for_longer_expires_first():
    """Behaviour testCloseOldestConnection: each has its own time, and another one's requests do not lengthen it."""

    async def test(memory, application):
        older = await memory.connect()
        await trio.sleep(10)
        younger = await memory.connect()
        await older.receive_all()
        assert IDLE_SECONDS <= trio.current_time() < IDLE_SECONDS + 3
        assert not younger.is_closed_by_server
        await younger.receive_all()
        assert trio.current_time() >= IDLE_SECONDS + 10

    run(test, idle_seconds_max=IDLE_SECONDS)


def test_a_request_that_was_received_with_an_earlier_one_needs_no_more_bytes():
    """Behaviour 48: the muted connection is not looked at; once it is not muted, what it has is handled at once."""

    async def test(memory, application):
        client = await memory.connect()
        client.send(b"wait", b"s behind")
        await trio.sleep(1)
        assert application.handled == [b"wait"]
        began = trio.current_time()
        application.answer(b"wait")
        assert await client.receive_count(2) == [b"wait", b"s behind"]
        assert trio.current_time() == began

    run(test, mode=CLASSIC)


@both_modes
def test_the_end_of_a_connection_that_has_ended_changes_nothing(mode):
    """Behaviours 51 and 61: whoever ends it again, it is told once, with the session of its requests."""

    async def test(memory, application):
        client, other = await memory.connect(), await memory.connect()
        for one in (client, other):
            one.send(b"s")
            await one.receive()
        connection = connection_of(memory)
        client.reset()
        await wait_all_tasks_blocked()
        connection.close()
        assert application.closed == [f"session of {connection.index}"]
        other.send(b"s")
        assert await other.receive() == b"s"

    run(test, mode=mode)


class FatalError(BaseException):
    """What no server may go on after."""


@both_modes
def test_what_must_end_the_process_ends_the_server_and_its_connections(mode):
    """Behaviour 53: unlike an error of a handler, it is not answered."""
    clients = []

    class Ending(ByHand):
        def handle(self, request):
            raise FatalError

    async def test(memory, application):
        clients.extend([await memory.connect(), await memory.connect()])
        clients[0].send(b"s")
        await trio.sleep_forever()

    with pytest.raises(BaseExceptionGroup) as ended:
        run(test, mode=mode, application=Ending())
    assert ended.group_contains(FatalError, depth=None)
    assert [client.is_closed_by_server for client in clients] == [True, True]
