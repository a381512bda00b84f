"""Ends of connections: by the client, with buffered requests, by failed sends, by idleness, and by errors of our own.

Longer than most files: one test for each behaviour.
"""

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from stages.mode import CLASSIC, PIPELINED
from stages.muting import Muting
from stages.request import NO_OP, Send
from stages.testing.memory_server import open_memory_server
from stages.testing.memory_transport import MemoryTransportLayer
from stages.transport_layer import BrokenTransportError
from tests.stages.connection_bench import ONE_QUEUE, ByHand, connection_of, limits, paused_turns, run

both_modes = pytest.mark.parametrize("mode", [CLASSIC, PIPELINED], ids=lambda mode: mode.name)
PARTIAL = b"\0\0\0\x09abc"


async def is_healthy(memory):
    """Return whether an existing connection and a new one do a round trip and are all uncounted; Kafka's own check."""
    client = await memory.connect()
    client.send(b"s healthy")
    assert await client.receive() == b"s healthy"
    client.half_close()
    assert await client.receive_all() == []


def started_at_once(mode, count):
    """Return the number of requests handled before the first of them is answered."""
    return min(count, mode.in_flight_max)


def fail_sends(monkeypatch, index, error):
    """Make the sends of the n-th connection of the server fail."""
    transports = []
    begin, send = MemoryTransportLayer.__init__, MemoryTransportLayer.send

    def init(transport, *arguments, **options):
        begin(transport, *arguments, **options)
        transports.append(transport)

    def failing(transport, parts):
        if transports.index(transport) == index:
            raise error
        return send(transport, parts)

    monkeypatch.setattr(MemoryTransportLayer, "__init__", init)
    monkeypatch.setattr(MemoryTransportLayer, "send", failing)


@both_modes
def test_requests_before_the_client_s_end_are_all_handled(mode):
    """Behaviours 7, 39 and testGracefulClose: ten requests, then the end; pipelined, ten are in flight together."""

    async def test(memory, application):
        client = await memory.connect()
        payloads = [b"%d" % number for number in range(10)]
        client.send(*payloads)
        client.half_close()
        await wait_all_tasks_blocked()
        assert len(application.handled) == started_at_once(mode, 10)
        for payload in payloads:
            await wait_all_tasks_blocked()
            application.answer(payload)
        assert await client.receive_all() == payloads
        assert application.handled == payloads
        await is_healthy(memory)

    run(test, mode=mode)


@both_modes
def test_requests_without_a_response_release_their_slots(mode):
    """Behaviour 8: three of them, each handled; in classic mode the next is read when the one before is released."""

    async def test(memory, application):
        client = await memory.connect()
        client.send(b"1", b"2", b"3")
        for number in range(1, 4):
            await wait_all_tasks_blocked()
            assert len(application.handled) == max(number, started_at_once(mode, 3))
            application.parked.pop(0).complete(NO_OP)
        await wait_all_tasks_blocked()
        assert application.handled == [b"1", b"2", b"3"]
        assert client.unread_bytes == 0
        client.send(b"s")
        assert await client.receive() == b"s"

    run(test, mode=mode)


@both_modes
@pytest.mark.parametrize("is_partial", [False, True])
def test_a_client_that_ends_with_nothing_or_part_of_a_request_is_closed(mode, is_partial):
    """Behaviours 40, 41 and testPartialReceiveGracefulClose: nothing is handled."""

    async def test(memory, application):
        client = await memory.connect()
        if is_partial:
            client.send_bytes(PARTIAL)
        client.half_close()
        assert await client.receive_all() == []
        assert application.handled == []
        await is_healthy(memory)

    run(test, mode=mode)


@both_modes
@pytest.mark.parametrize("is_closing", [False, True])
def test_of_whole_requests_and_a_part_of_one_the_whole_are_handled(mode, is_closing):
    """Behaviours 42, 44 and 45: also when the server knows of the end before it answers the first."""

    async def test(memory, application):
        client = await memory.connect()
        client.send(b"1", b"2", b"3")
        client.send_bytes(PARTIAL)
        client.half_close()
        if is_closing:
            await wait_all_tasks_blocked()
        for payload in (b"1", b"2", b"3"):
            await wait_all_tasks_blocked()
            application.answer(payload)
        assert await client.receive_all() == [b"1", b"2", b"3"]
        await is_healthy(memory)

    run(test, mode=mode)


@both_modes
@pytest.mark.parametrize("is_closing", [False, True])
def test_requests_of_a_client_that_is_gone_are_handled_until_the_first_send_fails(mode, is_closing, monkeypatch):
    """Behaviours 29, 38, 43 and 46: in pipelined mode what was in flight already ends, and nothing is sent twice."""
    fail_sends(monkeypatch, 0, BrokenTransportError("gone"))

    async def test(memory, application):
        client, other = await memory.connect(), await memory.connect()
        client.send(b"1", b"2", b"3")
        if is_closing:
            client.half_close()
        await wait_all_tasks_blocked()
        requests = list(application.parked)
        application.answer(b"1")
        await wait_all_tasks_blocked()
        assert client.is_closed_by_server
        for request in requests[1:]:
            request.complete(Send(b"late"))
        await trio.sleep(1)
        assert len(application.handled) == started_at_once(mode, 3)
        other.send(b"s")
        assert await other.receive() == b"s"
        assert len(memory.server.processors[0].connections) == 1

    run(test, mode=mode)


@both_modes
@pytest.mark.parametrize("error", [BrokenTransportError("gone"), OSError("disk?"), RuntimeError("a bug")])
def test_of_two_responses_the_first_cannot_be_sent(mode, error, monkeypatch, caplog):
    """Behaviours 35, 36 and 37: only its connection is closed, whatever the error; a bug is logged."""
    fail_sends(monkeypatch, 0, error)

    async def test(memory, application):
        client, other = await memory.connect(), await memory.connect()
        client.send(b"1")
        other.send(b"2")
        await wait_all_tasks_blocked()
        application.answer(b"1")
        application.answer(b"2")
        assert await other.receive() == b"2"
        assert client.is_closed_by_server
        await is_healthy(memory)

    run(test, mode=mode)
    assert len(caplog.records) == (not isinstance(error, BrokenTransportError))


class Gone:
    """A timeline that records the end of each request."""

    samples_queues = times_requests = True

    def __init__(self):
        self.ended, self.dropped = [], []

    def request_ended(self, request):
        self.ended.append(bytes(request.frame))

    def request_dropped(self, request):
        self.dropped.append(bytes(request.frame))

    def __getattr__(self, name):
        return lambda *stamps: None


@both_modes
@pytest.mark.parametrize("size", [10, 1_000_000])
def test_a_client_that_is_gone_before_its_response_left_counts_all_the_same(mode, size):
    """Behaviour 27: a small response that was made and a large one that is half sent."""

    async def main():
        gone, application = Gone(), ByHand()
        async with open_memory_server(mode, application, timeline=gone, limits=limits()) as memory:
            client = await memory.connect(capacity_bytes=5)
            client.send(b"1")
            await wait_all_tasks_blocked()
            application.parked[0].complete(Send(bytes(size)))
            await wait_all_tasks_blocked()
            client.reset()
            await wait_all_tasks_blocked()
            assert (gone.ended, gone.dropped) == ([], [b"1"])

    trio.run(main, clock=MockClock(autojump_threshold=0))


@both_modes
def test_an_idle_connection_expires_with_requests_in_progress(mode):
    """Behaviours 10, 30 and testExpireConnectionWithPendingReceives: muted, and what is sent behind is not handled.

    The late response is dropped, and the request was counted.
    """

    async def main():
        gone, application = Gone(), ByHand()
        bounds = limits(idle_seconds_max=30.0)
        async with open_memory_server(mode, application, timeline=gone, limits=bounds) as memory:
            client = await memory.connect()
            client.send(*(b"%d" % number for number in range(mode.in_flight_max + 5)))
            assert await client.receive_all() == []
            assert 30 <= trio.current_time() <= 32
            assert len(application.handled) == mode.in_flight_max
            assert gone.dropped == application.handled
            application.answer(b"0")
            await wait_all_tasks_blocked()
            assert gone.dropped == application.handled
            assert gone.ended == []

    trio.run(main, clock=MockClock(autojump_threshold=0))


@both_modes
def test_a_connection_is_not_idle_while_its_client_reads_a_response_slowly(mode):
    async def test(memory, application):
        client = await memory.connect(capacity_bytes=5)
        client.send(b"1")
        await wait_all_tasks_blocked()
        application.parked[0].complete(Send(bytes(96)))
        received_bytes = 0
        while received_bytes < 100:
            await trio.sleep(20)
            received_bytes += len(await client.receive_bytes())
        last_sent = 19 * 20
        assert await client.receive_all() == []
        assert last_sent + 30 <= trio.current_time() <= last_sent + 32

    run(test, mode=mode, idle_seconds_max=30.0)


@both_modes
def test_a_connection_is_idle_after_its_last_response(mode):
    async def test(memory, application):
        client = await memory.connect()
        client.send(b"1")
        await trio.sleep(20)
        application.answer(b"1")
        assert await client.receive_all() == [b"1"]
        assert 50 <= trio.current_time() <= 52

    run(test, mode=mode, idle_seconds_max=30.0)


def test_the_connection_that_was_idle_for_longest_expires_first():
    """Behaviour testCloseOldestConnection: whichever came first."""

    async def test(memory, application):
        first, second = await memory.connect(), await memory.connect()
        await trio.sleep(10)
        first.send(b"s")
        await first.receive()
        assert await second.receive_all() == []
        assert not first.is_closed_by_server
        assert 30 <= trio.current_time() <= 32
        assert await first.receive_all() == []
        assert 40 <= trio.current_time() <= 42

    run(test, idle_seconds_max=30.0)


@both_modes
@pytest.mark.parametrize("step", ["begin", "end"])
def test_an_error_while_one_of_two_connections_is_muted_or_unmuted_closes_only_that(mode, step, monkeypatch, caplog):
    """Behaviours 49 and 50: the mute itself fails for the first connection."""
    original = getattr(Muting, step)

    def failing(muting, reason):
        if muting._index == 0:
            raise RuntimeError(step)
        original(muting, reason)

    monkeypatch.setattr(Muting, step, failing)

    async def test(memory, application):
        client, other = await memory.connect(), await memory.connect()
        payloads = [b"%d" % number for number in range(mode.in_flight_max)]
        client.send(*payloads)
        other.send(*payloads)
        await wait_all_tasks_blocked()
        if step == "end":
            for request in [one for one in application.parked if one.connection.index == 0]:
                request.complete(Send(b"x"))
        await wait_all_tasks_blocked()
        assert client.is_closed_by_server
        for request in [one for one in application.parked if one.connection.index == 1]:
            request.complete(Send(request.frame))
        assert await other.receive_count(len(payloads)) == payloads
        await is_healthy(memory)

    run(test, mode=mode)
    assert caplog.records


def test_an_error_while_resuming_a_connection_closes_only_that_one(monkeypatch, caplog):
    original = Muting.end

    def failing(muting, reason):
        if muting._index == 1:
            raise RuntimeError("end")
        original(muting, reason)

    monkeypatch.setattr(Muting, "end", failing)

    async def test(memory, application):
        go_on = paused_turns(memory)
        clients = [await memory.connect() for _ in range(3)]
        for client in clients:
            client.send(b"s")
            await wait_all_tasks_blocked()
        go_on.set()
        await wait_all_tasks_blocked()
        assert [client.is_closed_by_server for client in clients] == [False, True, False]
        assert [await clients[index].receive() for index in (0, 2)] == [b"s", b"s"]

    run(test, mode=ONE_QUEUE, requests_max=1)
    assert len(caplog.records) == 1


def test_an_error_while_ending_a_throttle_closes_only_that_connection(monkeypatch, caplog):
    original = Muting.end_throttle

    def failing(muting, now):
        if muting._index == 0:
            raise RuntimeError("end of the throttle")
        original(muting, now)

    monkeypatch.setattr(Muting, "end_throttle", failing)

    async def test(memory, application):
        client, other = await memory.connect(), await memory.connect()
        await wait_all_tasks_blocked()
        for index in range(2):
            connection_of(memory, index).throttle(1)
        await trio.sleep(1.1)
        assert client.is_closed_by_server
        assert not other.is_closed_by_server
        await is_healthy(memory)

    run(test)
    assert len(caplog.records) == 1


def test_the_end_of_a_connection_that_has_ended_does_nothing():
    """Behaviours 51 and 61: whoever wants to know of an end is told once, with the id that its requests came by."""

    class Told(ByHand):
        def handle(self, request):
            request.connection.session = request.connection.id
            return super().handle(request)

    async def test(memory, application):
        client, other = await memory.connect(), await memory.connect()
        client.send(b"s1")
        other.send(b"s2")
        await client.receive()
        await other.receive()
        connection, remaining = connection_of(memory), connection_of(memory, 1)
        connection.close()
        connection.close()
        await wait_all_tasks_blocked()
        assert application.closed == [connection.id]
        assert memory.server.statistics().processors[0].connections == 1
        remaining.close()
        assert application.closed == [connection.id, remaining.id]

    run(test, application=Told())


def test_an_error_in_connection_closed_affects_no_other_connection(caplog):
    class Failing(ByHand):
        def connection_closed(self, session):
            raise ValueError(session)

    async def test(memory, application):
        client = await memory.connect()
        client.send(b"s1")
        await client.receive()
        client.reset()
        await wait_all_tasks_blocked()
        await is_healthy(memory)

    run(test, application=Failing())
    assert "the application failed to clean up" in caplog.text


@pytest.mark.parametrize("error", [OSError("bad descriptor"), RuntimeError("a bug")])
def test_an_error_while_one_connection_waits_ends_that_one_only(error, monkeypatch, caplog):
    """Behaviour 52: a failing poll is here a failing wait of one connection; its processor goes on."""
    original = MemoryTransportLayer.wait_readable

    async def wait_readable(transport):
        if bytes(transport._wire.to_server) == b"fail":
            raise error
        await original(transport)
        if bytes(transport._wire.to_server) == b"fail":
            raise error

    monkeypatch.setattr(MemoryTransportLayer, "wait_readable", wait_readable)

    async def test(memory, application):
        client = await memory.connect()
        client.send_bytes(b"fail")
        assert await client.receive_all() == []
        await is_healthy(memory)

    run(test)
    assert len(caplog.records) == 1


def test_what_must_end_the_process_ends_the_server_and_closes_its_connections():
    """Behaviour 53: an exception that is no Exception is nobody's to swallow."""

    class Ending(ByHand):
        def handle(self, request):
            raise SystemExit(3)

    clients = []

    async def main():
        async with open_memory_server(PIPELINED, Ending(), limits=limits()) as memory:
            clients.extend([await memory.connect(), await memory.connect()])
            clients[0].send(b"1")
            await trio.sleep_forever()

    with pytest.raises(BaseExceptionGroup) as caught:
        trio.run(main, clock=MockClock(autojump_threshold=0))
    assert caught.group_contains(SystemExit)
    assert all(client.is_closed_by_server for client in clients)
