"""Connections are closed whose large frames arrive too slowly while others wait for memory."""

import trio
from trio.testing import wait_all_tasks_blocked

from tests.stages.connection_bench import run

MEBIBYTE = 1 << 20


def test_a_slow_frame_is_not_closed_while_no_other_waits(caplog):
    async def test(memory, application):
        client = await memory.connect()
        payload = b"s" + bytes(200_000)
        stream = len(payload).to_bytes(4, "big") + payload
        for start in range(0, len(stream), 20_000):
            client.send_bytes(stream[start : start + 20_000])
            await trio.sleep(50)
        assert await client.receive() == payload

    run(test, partial_bytes_max=1)
    assert not caplog.records


def test_connections_closed_for_slow_frames_are_logged_once_a_minute(caplog):
    async def test(memory, application):
        for _ in range(5):
            for _ in range(3):
                stalled = await memory.connect()
                stalled.send_bytes((10 * MEBIBYTE).to_bytes(4, "big") + bytes(200_000))
            await trio.sleep(20)

    run(test, partial_bytes_max=MEBIBYTE // 4)
    lines = [record.getMessage() for record in caplog.records]
    assert 1 <= len(lines) <= 3
    assert "large requests arrived too slowly" in lines[0]


def test_all_slow_frames_are_closed_and_the_waiting_one_gets_their_memory():
    async def test(memory, application):
        stalled = [await memory.connect() for _ in range(2)]
        for client in stalled:
            client.send_bytes((10 * MEBIBYTE).to_bytes(4, "big") + bytes(200_000))
        await wait_all_tasks_blocked()
        honest = await memory.connect()
        honest.send(b"s" + bytes(MEBIBYTE))
        assert await honest.receive()
        assert [client.is_closed_by_server for client in stalled] == [True, True]
        assert memory.server.statistics().partial_frames.closed == 2

    run(test, partial_bytes_max=MEBIBYTE)
