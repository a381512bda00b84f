"""Connections that wait for room in a queue, or for bytes in the budget, all get their turn."""

import attrs
import trio
from trio.testing import wait_all_tasks_blocked

from stages.mode import CLASSIC, PIPELINED
from stages.mute import MuteReason
from stages.request import Pending, Send
from tests.stages.connection_bench import ONE_QUEUE, ByHand, paused_turns, run


def test_a_full_queue_stops_reading_and_every_waiting_connection_gets_its_turn():
    async def test(memory, application):
        release = paused_turns(memory)
        clients = [await memory.connect() for _ in range(6)]
        for client in clients:
            client.send(b"s1", b"s2", b"s3")
        await wait_all_tasks_blocked()
        assert memory.server.statistics().queues[0].depth == 2
        assert memory.server.statistics().queues[0].waiting_for_room >= 5
        clients[-1].reset()
        release.set()
        for client in clients[:-1]:
            assert await client.receive_count(3) == [b"s1", b"s2", b"s3"]

    run(test, mode=ONE_QUEUE, requests_max=2)


def test_neither_a_new_waiter_nor_an_unused_turn_changes_the_order_of_waiters():
    """Two requests are taken before any connection runs, so three waiters are resumed for two slots, and another one
    asks.
    """

    async def once(memory, queue, number):
        in_line = [await memory.connect() for _ in range(6)]
        for place, client in enumerate(in_line):
            client.send(b"%d" % place)
            await wait_all_tasks_blocked()
        newcomer = await memory.connect()
        await wait_all_tasks_blocked()
        taken = []

        def take():
            request = queue.requests.popleft()
            taken.append(bytes(request.frame))
            request.complete(Send(b""))
            queue.resume_waiters()

        take()
        take()
        newcomer.send(b"new")
        for _ in range(5):
            await wait_all_tasks_blocked()
            take()
        assert set(taken[:2]) == {b"0", b"1"}
        assert set(taken[2:5]) == {b"2", b"3", b"4"}
        assert taken[5:] == [b"5", b"new"], number

    async def test(memory, application):
        async def idle(queue):
            await trio.sleep_forever()

        memory.server.handlers._turn = idle  # the test takes from the queue itself
        queue = memory.server.channel.queues[0]
        for number in range(10):  # Trio draws which of the resumed tasks runs first
            await once(memory, queue, number)

    run(test, mode=ONE_QUEUE, requests_max=2, drain_seconds=1.0)


async def four_that_wait(memory, of):
    """Return clients, four of which wait for room in the first queue, and the event that resumes its turns."""
    release = paused_turns(memory)
    clients = [await memory.connect() for _ in range(of)]
    for client in clients:
        client.send(b"s")
    await wait_all_tasks_blocked()
    assert memory.server.statistics().queues[0].waiting_for_room == 4
    return release, clients


def test_connections_waiting_for_a_retired_queue_are_resumed():
    """The first resumed one moves to the new queue, and must not leave the others waiting for the old one."""

    async def test(memory, application):
        release, clients = await four_that_wait(memory, of=5)
        memory.server.handlers.resize_queues(2)
        release.set()
        for client in clients:
            assert await client.receive() == b"s"
        assert len(memory.server.statistics().queues) == 3  # the busy connection still uses the old one

    run(test, mode=ONE_QUEUE, requests_max=1)


def test_a_connection_moves_to_another_queue_only_when_it_has_nothing_in_flight():
    """Otherwise a later request could be handled before a waiting one."""

    async def test(memory, application):
        clients = [await memory.connect() for _ in range(10)]
        channel = memory.server.channel
        (old,) = channel.queues

        async def ask(payload):
            for client in clients:
                client.send(payload)
            await wait_all_tasks_blocked()
            return {connection.admission.queue for connection in memory.server.processors[0].connections}

        await ask(b"first")
        memory.server.handlers.resize_queues(3)
        assert await ask(b"later") == {old}
        for request in tuple(application.parked):
            request.complete(Send(b""))
        assert await ask(b"s") <= set(channel.queues)
        for client in clients:
            assert await client.receive_count(3) == [b"", b"", b"s"]

    run(test, mode=ONE_QUEUE)


def test_a_connection_passes_on_its_turn_for_bytes_if_its_queue_is_full():
    """Otherwise a paused queue would delay another one through the byte budget."""

    async def test(memory, application):
        channel = memory.server.channel
        by_queue = {}
        while len(by_queue) < 2 or len(by_queue[channel.queues[0]]) < 3:
            client = await memory.connect()
            await wait_all_tasks_blocked()
            newest = max(memory.server.processors[0].connections, key=lambda one: one.index)
            by_queue.setdefault(newest.admission.queue, []).append((client, newest))
        (slow, slow_connection), (filler, _), (waiting, waiting_connection), *_ = by_queue[channel.queues[0]]
        other, other_connection = by_queue[channel.queues[1]][0]
        release = paused_turns(memory, channel.queues[0])
        channel.hold_bytes(10)  # held by others
        waiting.send(b"s")
        await wait_all_tasks_blocked()
        other.send(b"s")
        await wait_all_tasks_blocked()
        assert {MuteReason.QUEUED_BYTES} == waiting_connection.mute.reasons == other_connection.mute.reasons
        # the budget is free for a moment, and the queue of the first that waits for it fills up before it runs
        channel.release_bytes(10)
        for client, connection in ((slow, slow_connection), (filler, None)):
            client.send(b"")
            assert connection is None or not connection.mute
        with trio.fail_after(5):
            assert await other.receive() == b"s"
        release.set()
        assert await waiting.receive() == b"s"

    run(test, mode=attrs.evolve(PIPELINED, queues=2), requests_max=2, bytes_max=10)


def test_a_waiting_connection_gets_room_in_classic_mode_too():
    class Committing(ByHand):
        def handle(self, request):
            return Pending([request.frame], Send(request.frame))

    async def test(memory, application):
        release, clients = await four_that_wait(memory, of=6)
        release.set()
        for client in clients:
            assert await client.receive() == b"s"

    run(test, mode=attrs.evolve(CLASSIC, handlers=1), application=Committing(), requests_max=2)
