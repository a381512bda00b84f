"""A large frame keeps the room that it was given until it is a request, or the authenticator has had it."""

from trio.testing import wait_all_tasks_blocked

from tests.stages.connection_bench import run
from tests.stages.test_authentication import Guard

LARGE = 200_000


def partial_bytes(memory):
    return memory.server.statistics().partial_frames.bytes_held


def test_a_large_frame_that_waits_for_the_byte_budget_keeps_its_room():
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


def test_a_large_frame_that_waits_to_be_authenticated_keeps_its_room():
    """A client that authenticates once more, while a request is in flight."""

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
