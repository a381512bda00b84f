"""A closed connection leaves no task, no bytes and no garbage, and takes nothing more."""

import gc

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from stages.authentication import Conversation, Reply
from stages.connection import CLOSE_FLUSH_SECONDS, Connection
from stages.mode import CLASSIC, PIPELINED
from stages.mute import MuteReason
from stages.request import Close, Pending, Send
from tests.stages.connection_bench import BIG_BYTES, ONE_QUEUE, connection_of, run, send_and_go


def test_bytes_received_after_a_request_are_freed_when_the_client_disconnects():
    """A request in flight may keep the connection object for long."""

    async def test(memory, application):
        client = await memory.connect()
        client.send(b"1")
        client.send_bytes((1000).to_bytes(4, "big") + bytes(900))
        await wait_all_tasks_blocked()
        reader = connection_of(memory).admission.reader
        assert reader.buffered_bytes == 904
        client.half_close()
        await wait_all_tasks_blocked()
        assert reader.buffered_bytes == 0
        application.answer(b"1")

    run(test)


def test_the_entries_of_a_disconnected_client_become_durable():
    """Entries appended after parked work already precede those of other requests."""

    async def test(memory, application):
        await send_and_go(memory, b"1")
        assert not memory.server.processors[0].connections
        durable = []
        (parked,) = application.parked
        parked.complete(Pending([b"entry"], Send(b"late"), on_durable=lambda: durable.append(b"entry")))
        await wait_all_tasks_blocked()
        assert durable == [b"entry"]

    run(test)


@pytest.mark.parametrize("mode", [CLASSIC, PIPELINED], ids=lambda mode: mode.name)
def test_a_connection_that_is_closed_while_it_is_muted_leaves_no_task(mode):
    async def test(memory, application):
        before = trio.lowlevel.current_statistics().tasks_living
        muted, throttled, draining = [await memory.connect() for _ in range(3)]
        untaken = await memory.connect(capacity_bytes=5)
        untaken.send(b"s" + bytes(100))
        untaken.half_close()
        muted.send(*[b"1"] * mode.in_flight_max)
        draining.send(b"2")
        draining.half_close()
        connection_of(memory, 1).throttle(1000)
        await wait_all_tasks_blocked()
        reasons = [connection_of(memory, index).statistics().mute_reasons for index in range(3)]
        assert connection_of(memory, 3).is_blocked
        assert reasons == [("IN_FLIGHT",), ("THROTTLED",), ("DRAINING",) if mode is PIPELINED else ("IN_FLIGHT",)]
        for client in (muted, throttled, draining, untaken):
            connection_of(memory).close()
            await wait_all_tasks_blocked()
            assert client.is_closed_by_server
        assert trio.lowlevel.current_statistics().tasks_living == before

    run(test, mode=mode)


def test_a_close_during_the_drain_of_a_half_closed_client_has_a_timeout_of_its_own():
    """It does not wait for later requests in flight."""

    async def test(memory, application):
        client = await memory.connect(capacity_bytes=5)
        client.send(b"1" * 100, b"2", b"3")
        client.half_close()
        await wait_all_tasks_blocked()
        application.answer(b"1" * 100)
        application.parked[0].complete(Close("enough"))
        await trio.sleep(CLOSE_FLUSH_SECONDS - 1)
        assert not client.is_closed_by_server
        await trio.sleep(2)
        assert client.is_closed_by_server

    run(test)


def test_a_half_closed_client_is_answered_however_long_its_request_is_parked():
    async def test(memory, application):
        client = await memory.connect()
        client.send(b"1")
        client.half_close()
        await trio.sleep(3 * CLOSE_FLUSH_SECONDS)
        application.answer(b"1")
        assert await client.receive_all() == [b"1"]

    run(test)


def test_requests_of_a_half_closed_client_wait_for_its_unfinished_one_as_long_as_it_takes():
    async def test(memory, application):
        client = await memory.connect()
        client.send(b"1")
        await wait_all_tasks_blocked()
        connection = connection_of(memory)
        connection.begin_work(print)
        client.send(b"s2")
        client.half_close()
        await trio.sleep(3 * CLOSE_FLUSH_SECONDS)
        assert application.handled == [b"1"]
        connection.end_work(print)
        await wait_all_tasks_blocked()
        application.answer(b"1")
        assert await client.receive_all() == [b"1", b"s2"]

    run(test)


def test_deferred_requests_of_a_slow_half_closed_client_are_answered_one_after_the_other():
    async def test(memory, application):
        client = await memory.connect(capacity_bytes=BIG_BYTES // 10)
        client.send(*[b"b"] * 10)
        await wait_all_tasks_blocked()
        assert connection_of(memory).unsent.first_waiting is not None
        client.half_close()
        for _ in range(10):
            assert len(await client.receive()) == BIG_BYTES
            await trio.sleep(CLOSE_FLUSH_SECONDS / 4)

    run(test, mode=ONE_QUEUE, unsent_bytes_max=BIG_BYTES // 2)


def test_a_connection_that_stops_reading_admits_nothing_received_at_the_same_time():
    async def test(memory, application):
        client = await memory.connect()
        client.send(b"1")
        await wait_all_tasks_blocked()
        client.send(b"s2")
        connection_of(memory).stop_reading()
        await wait_all_tasks_blocked()
        assert application.handled == [b"1"]
        application.answer(b"1")
        assert await client.receive_all() == [b"1"]

    run(test)


def test_a_connection_that_is_muted_or_closed_cannot_use_its_turn():
    """The next waiter gets it."""

    async def test(memory, application):
        await memory.connect()
        await wait_all_tasks_blocked()
        connection = connection_of(memory)
        assert connection.resume(MuteReason.QUEUE_FULL)
        connection.muting.begin(MuteReason.IN_FLIGHT)
        assert not connection.resume(MuteReason.QUEUE_FULL)
        connection.muting.end(MuteReason.IN_FLIGHT)
        connection.close()
        assert not connection.resume(MuteReason.QUEUE_FULL)

    run(test)


def connections():
    return sum(type(one) is Connection for one in gc.get_objects())


class Welcoming:
    """Authenticates every client at the first frame."""

    frame_bytes_max = 20

    def receive(self, frame):
        return Reply(Conversation.SUCCEEDED, (b"welcome",))

    def begins(self, frame):
        return False

    def has_expired(self):
        return False


@pytest.mark.parametrize(
    ("open_session", "answer"), [(None, b"s1"), (lambda *_: Welcoming(), b"welcome")], ids=["open", "authenticated"]
)
def test_a_connection_that_ended_is_freed_without_a_search_for_garbage(open_session, answer):
    async def test(memory, application):
        gc.collect()
        before = connections()
        gc.disable()
        try:
            client = await memory.connect(open_session=open_session)
            client.send(b"s1")
            assert await client.receive() == answer
            client.half_close()
            await wait_all_tasks_blocked()
            assert connections() == before
        finally:
            gc.enable()

    run(test)
