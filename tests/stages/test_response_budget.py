"""The common bound of unsent responses, and the connections closed to keep it."""

import pytest
from trio.testing import wait_all_tasks_blocked

from stages.request import Parked, Send
from tests.stages.connection_bench import BIG_BYTES, ByHand, run


async def blocked(memory):
    """Return a client that reads nothing of a response larger than its socket buffer."""
    client = await memory.connect(capacity_bytes=100)
    client.send(b"b")
    await wait_all_tasks_blocked()
    assert memory.server.statistics().processors[0].blocked == 1
    return client


def test_a_client_that_has_read_everything_is_not_closed_for_others():
    async def test(memory, application):
        taking = await blocked(memory)
        assert len(await taking.receive()) == BIG_BYTES
        await wait_all_tasks_blocked()
        assert memory.server.statistics().processors[0].blocked == 0
        deaf = [await memory.connect(capacity_bytes=100) for _ in range(2)]
        for client in deaf:
            client.send(b"b")
            await wait_all_tasks_blocked()
        assert [client.is_closed_by_server for client in (taking, *deaf)] == [False, True, False]

    run(test, total_unsent_bytes_max=BIG_BYTES * 3 // 2)


@pytest.mark.parametrize(
    "end", [lambda request: request.connection.close(), lambda request: request.complete(Send(b""))]
)
def test_the_expected_response_of_an_ended_request_does_not_count(end):
    class Ending(ByHand):
        def handle(self, request):
            end(request)
            return Parked(response_bytes=BIG_BYTES)

    async def test(memory, application):
        client = await memory.connect()
        client.send(b"1")
        await wait_all_tasks_blocked()
        assert memory.server.statistics().unsent_responses.bytes_held == 0

    run(test, application=Ending())


def test_a_response_waiting_for_an_earlier_one_counts_in_addition_to_unsent_bytes():
    """Even if the waiting bytes equal those sent since the last count."""

    async def test(memory, application):
        def counted():
            return memory.server.statistics().unsent_responses.bytes_held

        client = await memory.connect(capacity_bytes=100)
        asked = [b"1" * 304, b"2", b"3" * 100]
        client.send(*asked)
        await wait_all_tasks_blocked()
        application.answer(asked[2])
        assert counted() == 104
        application.answer(asked[0])
        await wait_all_tasks_blocked()
        assert counted() == 208 + 104
        application.answer(asked[1])
        assert await client.receive_count(3) == asked

    run(test)


def test_a_disconnected_client_is_no_longer_a_candidate_for_closing():
    async def test(memory, application):
        gone = await blocked(memory)
        gone.reset()
        await wait_all_tasks_blocked()
        assert memory.server.statistics().processors[0].connections == 0
        slow = await memory.connect(capacity_bytes=100)
        slow.send(b"bb")
        await wait_all_tasks_blocked()
        assert not slow.is_closed_by_server, "the last one stays"
        assert memory.server.statistics().unsent_responses.closed == 0

    run(test, total_unsent_bytes_max=BIG_BYTES // 2)
