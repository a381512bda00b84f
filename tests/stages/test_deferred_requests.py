"""Deferred requests start when their client has read enough."""

import attrs
from trio.testing import wait_all_tasks_blocked

from stages.frames import LENGTH_BYTES
from stages.mute import MuteReason
from stages.request import Parked, Send
from tests.stages.connection_bench import BIG_BYTES, ONE_QUEUE, connection_of, run

CAPACITY_BYTES = 1000
LEFT_BYTES = LENGTH_BYTES + BIG_BYTES - CAPACITY_BYTES
"""Bytes of the framed response to `b` that a client with CAPACITY_BYTES leaves unread."""


async def blocked_with_unfinished(memory):
    """Return a client that reads nothing more and has sent `s2` during an unfinished request of its connection."""
    client = await memory.connect(capacity_bytes=CAPACITY_BYTES)
    client.send(b"b")
    await wait_all_tasks_blocked()
    connection = connection_of(memory)
    assert connection.unsent_bytes == LEFT_BYTES
    connection.begin_work(print)
    client.send(b"s2")
    await wait_all_tasks_blocked()
    return client, connection


async def check_it_waits_for_its_own_client(application, client, connection, other):
    """Check that `s2` starts when its client has read everything, whatever the other client reads."""
    await wait_all_tasks_blocked()
    assert b"s2" not in application.handled
    assert [len(response) for response in await client.receive_count(2)] == [BIG_BYTES, 2]
    await wait_all_tasks_blocked()
    assert not connection.mute
    assert await other.receive_count(1)


def test_a_request_deferred_for_the_common_bound_starts_when_its_own_client_has_read_everything():
    async def test(memory, application):
        client, connection = await blocked_with_unfinished(memory)
        other = await memory.connect(capacity_bytes=CAPACITY_BYTES)
        other.send(b"b")
        await wait_all_tasks_blocked()
        assert not connection.mute
        connection.end_work(print)
        assert connection.mute.reasons == {MuteReason.UNSENT_BYTES}
        await check_it_waits_for_its_own_client(application, client, connection, other)

    run(test, total_unsent_bytes_max=2 * LEFT_BYTES)


def test_a_request_without_room_at_its_turn_starts_when_its_client_has_read_everything():
    async def test(memory, application):
        client, connection = await blocked_with_unfinished(memory)
        other = await memory.connect(capacity_bytes=CAPACITY_BYTES)
        other.send(b"1")
        await wait_all_tasks_blocked()
        connection.end_work(print)
        assert not connection.mute, "a handler is about to start it"
        application.parked[0].complete(Send(bytes(BIG_BYTES)))
        await check_it_waits_for_its_own_client(application, client, connection, other)

    run(test, total_unsent_bytes_max=2 * LEFT_BYTES)


def test_a_client_without_deferred_requests_is_read_although_others_have_used_up_the_bound():
    """No flush would find a request to start, so none would end a mute."""

    async def test(memory, application):
        client, other = [await memory.connect(capacity_bytes=CAPACITY_BYTES) for _ in range(2)]
        client.send(b"b")
        await wait_all_tasks_blocked()
        connection = connection_of(memory)
        connection.begin_work(print)
        other.send(b"b")
        await wait_all_tasks_blocked()
        connection.end_work(print)
        assert not connection.mute
        assert len(await client.receive()) == BIG_BYTES
        client.send(b"s2")
        assert await client.receive() == b"s2"
        assert await other.receive_count(1)

    run(test, total_unsent_bytes_max=2 * LEFT_BYTES)


def test_a_client_is_read_while_its_requests_wait_for_another_unfinished_one():
    async def test(memory, application):
        client = await memory.connect()
        client.send(b"1")
        await wait_all_tasks_blocked()
        connection = connection_of(memory)
        for abandon in (print, repr):
            connection.begin_work(abandon)
        client.send(b"s2")
        await wait_all_tasks_blocked()
        connection.end_work(print)
        assert not connection.mute
        client.send(b"s3")
        await wait_all_tasks_blocked()
        assert connection.statistics().received == 3
        assert application.handled == [b"1"]
        connection.end_work(repr)
        await wait_all_tasks_blocked()
        application.answer(b"1")
        assert await client.receive_count(3) == [b"1", b"s2", b"s3"]

    run(test)


def test_a_deferred_request_starts_even_with_the_maximum_of_requests_in_flight(monkeypatch):
    """Otherwise a write after a read that waits for it would wait until the read times out."""
    monkeypatch.setattr("tests.stages.connection_bench.PARKED", Parked(response_bytes=4000))

    async def test(memory, application):
        client = await memory.connect(capacity_bytes=1000)
        client.send(b"1")
        await wait_all_tasks_blocked()
        application.parked.pop().complete(Send(bytes(4000)))
        client.send(b"2", b"s")
        await wait_all_tasks_blocked()
        assert application.handled == [b"1", b"2"]
        assert connection_of(memory).statistics().in_flight == 2
        assert len(await client.receive()) == 4000
        await wait_all_tasks_blocked()
        assert application.handled == [b"1", b"2", b"s"]
        application.answer(b"2")
        assert await client.receive_count(2) == [b"2", b"s"]

    run(test, mode=attrs.evolve(ONE_QUEUE, in_flight_max=2), unsent_bytes_max=5000)
