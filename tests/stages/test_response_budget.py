"""The bound over the unsent responses of all connections: who gives way when it is passed."""

from trio.testing import wait_all_tasks_blocked

from tests.stages.connection_bench import run

BIG = 10_004
"""Bytes of the response to `b...`, with its length."""


def test_a_client_that_has_taken_everything_does_not_give_way_to_others():
    async def test(memory, application):
        taking = await memory.connect(capacity_bytes=100)
        taking.send(b"b")
        await wait_all_tasks_blocked()
        assert len(await taking.receive()) == BIG - 4
        await wait_all_tasks_blocked()
        deaf = [await memory.connect(capacity_bytes=100) for _ in range(2)]
        for client in deaf:
            client.send(b"b")
            await wait_all_tasks_blocked()
        assert [client.is_closed_by_server for client in (taking, *deaf)] == [False, True, False]

    run(test, total_unsent_bytes_max=BIG + BIG // 2)
