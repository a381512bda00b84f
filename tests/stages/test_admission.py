"""Waiting frames keep their memory, and stop waiting when their connection closes."""

from trio.testing import wait_all_tasks_blocked

from stages.mute import MuteReason
from tests.stages.connection_bench import ONE_QUEUE, connection_of, paused_turns, run
from tests.stages.test_authentication import Guard

LARGE = 200_000


def partial_bytes(memory):
    return memory.server.statistics().partial_frames.bytes_held


def test_a_large_frame_waiting_for_the_byte_budget_keeps_its_memory():
    async def test(memory, application):
        holding, client = await memory.connect(), await memory.connect()
        holding.send(b"1" * 100)
        await wait_all_tasks_blocked()
        client.send(b"s" + bytes(LARGE))
        await wait_all_tasks_blocked()
        assert partial_bytes(memory) > LARGE
        application.answer(b"1" * 100)
        await client.receive()
        await wait_all_tasks_blocked()
        assert partial_bytes(memory) == 0

    run(test, bytes_max=100)


def test_a_large_frame_waiting_for_the_authenticator_keeps_its_memory():
    """The client authenticates again while a request is in flight."""

    class Patient(Guard):
        def begins(self, frame):
            return bytes(frame[:5]) == b"again"

    async def test(memory, application):
        client = await memory.connect(open_session=Patient().open_session)
        client.send(b"in alice", b"1")
        assert await client.receive() == b"welcome"
        client.send(b"again" + bytes(LARGE))
        await wait_all_tasks_blocked()
        assert partial_bytes(memory) > LARGE
        application.answer(b"1")
        assert await client.receive_count(2) == [b"1", b"no"]
        await wait_all_tasks_blocked()
        assert partial_bytes(memory) == 0

    run(test)


def test_a_closed_connection_no_longer_waits_for_a_queue():
    async def test(memory, application):
        release = paused_turns(memory)
        clients = [await memory.connect() for _ in range(2)]
        for client in clients:
            client.send(b"s")
            await wait_all_tasks_blocked()
        (queue,), waiting = memory.server.channel.queues, connection_of(memory, 1)
        assert waiting.mute.reasons == {MuteReason.QUEUE_FULL}
        assert queue.statistics().waiting_for_room == 1
        waiting.close()
        assert queue.statistics().waiting_for_room == 0
        release.set()
        assert await clients[0].receive() == b"s"

    run(test, mode=ONE_QUEUE, requests_max=1)
