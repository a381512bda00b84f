"""Unfinished requests whose connection or server ends first."""

import gc
import threading
import weakref

import attrs
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from stages.loop_turns import LoopTurns
from stages.mode import CLASSIC, PIPELINED
from stages.request import NO_OP, Parked, Pending, Request, Send, Waiting, go_on
from stages.testing.memory_server import open_memory_server
from stages.testing.scripted_commits import ScriptedCommits
from stages.unfinished import UnfinishedRequests
from tests.stages.connection_bench import connection_of, limits, run, send_and_go
from tests.stages.sabotage import replaced
from tests.stages.stepping import Stepping, three_steps, unfinished_count, until_over, waiting

both_modes = pytest.mark.parametrize("mode", [CLASSIC, PIPELINED], ids=lambda mode: mode.name)
BIG = bytes(10_000)


@both_modes
def test_the_steps_of_a_closed_connection_are_closed_and_its_later_requests_never_start(mode):
    application = Stepping(u=until_over)

    async def test(memory, application):
        client, other = await memory.connect(), await memory.connect()
        client.send(b"u", b"s")
        while application.events != [b"u"]:
            await trio.lowlevel.checkpoint()
        connection_of(memory).close()
        while unfinished_count(memory):
            await trio.lowlevel.checkpoint()
        other.send(b"s other")
        assert await other.receive() == b"s other"
        assert application.closed_steps == [b"u"]
        assert application.events == [b"u", b"s other"]

    run(test, mode=mode, application=application, jumps=False)


def test_no_request_is_started_after_a_dropped_one_of_a_closed_connection():
    """Otherwise the log would contain the third batch of a producer without the second."""

    async def test(memory, application):
        client = await memory.connect()
        client.send(b"u", b"s1")
        await wait_all_tasks_blocked()
        connection = connection_of(memory)
        queue = connection.admission.queue
        client.send(b"s2")
        connection.admission.reader.receive_data(connection.transport.receive())
        connection.admission.admit()
        assert [bytes(request.frame) for request in queue.requests] == [b"s2"]
        connection.close()
        await wait_all_tasks_blocked()
        assert application.events == [b"u"]
        assert connection.unsent.first_waiting is None

    run(test, application=Stepping(u=waiting([])))


def test_waiting_steps_are_closed_with_their_connection_and_no_turn_is_lost():
    over = []

    async def test(memory, application):
        await send_and_go(memory, b"u")
        assert application.closed_steps == [b"u"]
        assert unfinished_count(memory) == 0
        over.pop()()
        await wait_all_tasks_blocked()

    run(test, application=Stepping(u=waiting(over)))


def test_steps_that_start_to_wait_after_their_connection_closed_are_closed():
    """The event that they wait for may never happen."""

    async def test(memory, application):
        await send_and_go(memory, b"1")
        (request,) = application.parked
        request.complete(go_on(waiting([])(application, request)))
        await wait_all_tasks_blocked()
        assert unfinished_count(memory) == 0

    run(test, application=Stepping())


def test_steps_of_a_closed_connection_are_not_closed_while_a_thread_works_for_them():
    """The thread may use objects that closing them would release."""
    begun, may_end, ends = threading.Event(), threading.Event(), []

    def work():
        begun.set()
        assert may_end.wait(10)

    def steps(application, request):
        try:
            yield Parked(work)
        finally:
            ends.append(may_end.is_set())

    async def test(memory, application):
        client = await memory.connect()
        client.send(b"u")
        try:
            while not begun.is_set():
                await trio.lowlevel.checkpoint()
            client.reset()
            await wait_all_tasks_blocked()
            assert not memory.server.processors[0].connections
            assert ends == []
        finally:
            may_end.set()
        while unfinished_count(memory):
            await trio.lowlevel.checkpoint()
        assert ends == [True]

    run(test, application=Stepping(u=steps), jumps=False)


@pytest.mark.parametrize("waits_for", ["turn", "commit", "thread", "others"])
def test_the_end_of_the_server_closes_all_steps(waits_for):
    blocked = trio.Event()
    found = {
        "turn": None,
        "commit": Pending([b"x"], NO_OP),
        "thread": Parked(lambda: None),
        "others": Waiting(lambda go_on: None),
    }

    def steps(application, request):
        while True:
            yield found[waits_for]

    application = Stepping(u=steps)

    async def main():
        fields = attrs.evolve(limits(), drain_seconds=0.01)
        async with open_memory_server(
            PIPELINED, application, executor=ScriptedCommits([1000.0]), limits=fields
        ) as memory:
            client = await memory.connect()
            client.send(b"u")
            while application.events != [b"u"]:
                await trio.lowlevel.checkpoint()

    async def never(*_, **__):
        await blocked.wait()

    with replaced(trio.to_thread, "run_sync", stand_in_for_threads(trio.to_thread.run_sync, never)):
        trio.run(main, clock=MockClock(rate=1000.0))
    assert application.closed_steps == [b"u"]


def test_an_unfinished_request_frees_its_memory_when_its_connection_ends():
    """Even if no other request follows, and without a garbage collection."""

    class Held:
        """State of a connection that the application keeps."""

    left = []

    def steps(application, request):
        request.connection.session = held = Held()
        left.append(weakref.ref(held))
        yield None
        return Send(b"done")

    async def test(memory, application):
        client = await memory.connect()
        application.connection_closed = lambda session: None
        gc.collect()
        gc.disable()
        try:
            client.send(b"u")
            assert await client.receive() == b"done"
            client.reset()
            await wait_all_tasks_blocked()
            assert [ref() for ref in left] == [None]
        finally:
            gc.enable()

    run(test, application=Stepping(u=steps))


def test_a_server_ends_although_a_thread_works_forever():
    begun, may_end, returned = threading.Event(), threading.Event(), []

    def work():
        begun.set()
        returned.append(may_end.wait(10))

    def steps(application, request):
        yield Parked(work)

    async def main():
        fields = attrs.evolve(limits(), drain_seconds=0.01)
        async with open_memory_server(PIPELINED, Stepping(u=steps), limits=fields) as memory:
            client = await memory.connect()
            client.send(b"u")
            while not begun.is_set():
                await trio.lowlevel.checkpoint()

    try:
        trio.run(main)
        assert returned == []
    finally:
        may_end.set()


def stand_in_for_threads(original, never):
    """Replace threads: blocking work of requests never ends, that of the server does."""

    async def run_sync(work, *arguments, **options):
        return await (never() if "limiter" in options else original(work, *arguments, **options))

    return run_sync


def test_steps_that_fail_to_close_affect_no_other_request(caplog):
    def steps(application, request):
        try:
            yield Waiting(lambda go_on: None)
        finally:
            raise ValueError("asked for")

    async def test(memory, application):
        client, other = await memory.connect(), await memory.connect()
        client.send(b"u")
        await wait_all_tasks_blocked()
        client.reset()
        other.send(b"s")
        assert await other.receive() == b"s"
        assert unfinished_count(memory) == 0

    run(test, application=Stepping(u=steps))
    assert "closing the steps of" in caplog.text


def test_a_client_that_ended_its_half_gets_all_its_answers():
    async def test(memory, application):
        client = await memory.connect()
        client.send(b"u", b"s1", b"u2", b"s2")
        client.half_close()
        assert await client.receive_all() == [b"done u", b"s1", b"done u2", b"s2"]

    run(test, application=Stepping(u=three_steps, u2=three_steps))


def test_a_stopping_server_finishes_unfinished_requests():
    async def test(memory, application):
        client = await memory.connect()
        client.send(b"u", b"s")
        while b"u" not in application.events:
            await trio.lowlevel.checkpoint()
        memory.server.stop()
        assert await client.receive_all() == [b"done u", b"s"]

    run(test, application=Stepping(u=three_steps))


def test_steps_that_start_after_the_server_has_ended_are_closed():
    class NoCommitter:
        """A committer that must not be used."""

    request = Request(None, 0, b"u", 0)
    steps = three_steps(Stepping(), request)
    unfinished = UnfinishedRequests(NoCommitter(), None, None, LoopTurns())
    result = go_on(steps)

    async def main():
        async with trio.open_nursery() as nursery:
            nursery.start_soon(unfinished.run)
            await wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
        unfinished.add(request, result)
        assert len(unfinished) == 0

    trio.run(main)
    with pytest.raises(StopIteration):
        next(steps)
