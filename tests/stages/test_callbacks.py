"""Callbacks: work of a request that must run later, like a handler's."""

import threading

import attrs
import pytest
import trio
import trio.lowlevel
from trio.testing import MockClock, wait_all_tasks_blocked

from stages.mode import CLASSIC, PIPELINED
from stages.request import PARKED, Close, NoOp, Parked, Pending, Send
from stages.testing.memory_server import open_memory_server
from stages.testing.memory_storage import MemoryStorage
from stages.testing.scripted_commits import ScriptedCommits
from tests.stages.connection_bench import ONE_QUEUE, ByHand, connection_of, limits, paused_turns, run

both_modes = pytest.mark.parametrize("mode", [CLASSIC, PIPELINED], ids=lambda mode: mode.name)


class Calling(ByHand):
    """Parks `1`, `2`, ... for the test, and records the order of requests and callbacks; `i` calls back at once.

    Attributes:
        events: payloads as they are handled, and `callback of ...`.
    """

    def __init__(self):
        super().__init__()
        self.events = []

    def handle(self, request):
        self.events.append(bytes(request.frame))
        if request.frame[:1] == b"i":
            request.connection.call_back(request, lambda: self.called(request, Send(b"inline")))
            self.events.append(b"end of i")
            return PARKED
        return super().handle(request)

    def called(self, request, result):
        self.events.append(b"callback of " + bytes(request.frame))
        return result

    def post(self, payload, result):
        request = next(one for one in self.parked if bytes(one.frame) == payload)
        request.connection.call_back(request, lambda: self.called(request, result))
        return request

    def failed(self, request, error):
        return Send(type(error).__name__.encode())


@both_modes
@pytest.mark.parametrize("result", [Send(b"done"), NoOp(), Close("done"), Pending([b"x"], Send(b"done"))])
def test_the_result_of_a_callback_is_treated_like_a_handlers(mode, result):
    async def main():
        storage, application = MemoryStorage(), Calling()
        async with open_memory_server(mode, application, storage=storage, limits=limits()) as memory:
            client = await memory.connect()
            client.send(b"1", b"s2")
            await wait_all_tasks_blocked()
            application.post(b"1", result)
            expected = {Send: [b"done", b"s2"], NoOp: [b"s2"], Close: [], Pending: [b"done", b"s2"]}[type(result)]
            assert await client.receive_count(len(expected)) == expected
            await wait_all_tasks_blocked()
            assert client.is_closed_by_server == isinstance(result, Close)
            assert storage.durable == ([b"x"] if isinstance(result, Pending) else [])
            assert memory.server.statistics().handlers.called_back == 1

    trio.run(main, clock=MockClock(autojump_threshold=0))


def test_a_callback_may_ask_for_the_next_one_of_its_request():
    async def test(memory, application):
        client = await memory.connect()
        client.send(b"1")
        await wait_all_tasks_blocked()
        (request,) = application.parked

        def first():
            application.post(b"1", Send(b"from the second"))
            return PARKED

        request.connection.call_back(request, first)
        assert await client.receive() == b"from the second"
        assert memory.server.statistics().handlers.called_back == 2

    run(test, application=Calling())


def test_a_callback_may_park_its_request_again_and_call_back_once_more():
    async def test(memory, application):
        client = await memory.connect()
        client.send(b"1")
        await wait_all_tasks_blocked()
        application.post(b"1", PARKED)
        await wait_all_tasks_blocked()
        application.post(b"1", Parked(lambda: Send(b"from a thread")))
        assert await client.receive() == b"from a thread"

    run(test, application=Calling(), jumps=False)


@both_modes
@pytest.mark.parametrize("result", [Send(b"done"), NoOp(), Close("done"), Pending([b"x"], Send(b"done"))])
def test_then_of_parked_work_runs_on_the_loop_and_its_result_is_treated_like_a_handlers(mode, result):
    async def main():
        storage, application = MemoryStorage(), Calling()
        async with open_memory_server(mode, application, storage=storage, limits=limits()) as memory:
            client = await memory.connect()
            client.send(b"1", b"s2")
            await wait_all_tasks_blocked()
            (request,) = application.parked
            loop = threading.get_ident()
            seen = []

            def then(found):
                seen.append((found != loop, threading.get_ident() == loop))
                return result

            request.complete(Parked(threading.get_ident, then=then))
            expected = {Send: [b"done", b"s2"], NoOp: [b"s2"], Close: [], Pending: [b"done", b"s2"]}[type(result)]
            assert await client.receive_count(len(expected)) == expected
            while not seen:
                await trio.lowlevel.checkpoint()
            assert seen == [(True, True)]

    trio.run(main)


def test_callbacks_run_before_requests_that_wait():
    async def test(memory, application):
        client, other = await memory.connect(), await memory.connect()
        client.send(b"1", b"2")
        await wait_all_tasks_blocked()
        release = paused_turns(memory)
        other.send(b"s3", b"s4")
        await wait_all_tasks_blocked()
        application.post(b"2", Send(b"two"))
        application.post(b"1", Send(b"one"))
        assert memory.server.statistics().queues[0].depth == 2
        release.set()
        assert await client.receive_count(2) == [b"one", b"two"]
        assert await other.receive_count(2) == [b"s3", b"s4"]
        assert application.events == [b"1", b"2", b"callback of 2", b"callback of 1", b"s3", b"s4"]

    run(test, mode=ONE_QUEUE, application=Calling())


def test_100_a_callback_from_elsewhere_runs_on_the_queue_of_its_own_connection():
    """Behaviour 100: on that queue, not where it was posted; a paused queue holds only its own callbacks."""

    async def test(memory, application):
        channel = memory.server.channel
        clients = {}
        while len(clients) < 2:
            client = await memory.connect()
            await wait_all_tasks_blocked()
            newest = max(memory.server.processors[0].connections, key=lambda one: one.index)
            clients.setdefault(newest.admission.queue.index, client)
        clients[0].send(b"1")
        clients[1].send(b"2")
        await wait_all_tasks_blocked()
        release = paused_turns(memory, channel.queues[0])
        application.post(b"1", Send(b"one"))
        application.post(b"2", Send(b"two"))
        assert await clients[1].receive() == b"two"
        await wait_all_tasks_blocked()
        assert channel.queues[0].statistics().callbacks == 1
        assert clients[0].unread_bytes == 0
        release.set()
        assert await clients[0].receive() == b"one"

    run(test, mode=attrs.evolve(PIPELINED, queues=2), application=Calling())


@both_modes
def test_101_a_callback_within_handle_of_its_own_request_runs_at_once(mode):
    """Behaviour 101: it is not posted."""

    async def test(memory, application):
        client = await memory.connect()
        client.send(b"i")
        assert await client.receive() == b"inline"
        assert application.events == [b"i", b"callback of i", b"end of i"]
        assert memory.server.statistics().handlers.called_back == 0

    run(test, mode=mode, application=Calling())


def test_99_what_a_turn_of_callbacks_submits_is_one_commit_at_its_end():
    """Behaviour 99: actions that wait for the end of a handler's work are tried once after callbacks, too.

    Here the one such action is the start of a commit.
    """

    async def main():
        storage, application = MemoryStorage(), Calling()
        async with open_memory_server(ONE_QUEUE, application, storage=storage, limits=limits()) as memory:
            client = await memory.connect()
            client.send(b"1", b"2", b"3")
            await wait_all_tasks_blocked()
            for payload in (b"1", b"2", b"3"):
                application.post(payload, Pending([payload], Send(payload)))
            assert await client.receive_count(3) == [b"1", b"2", b"3"]
            assert (storage.durable, storage.syncs) == ([b"1", b"2", b"3"], 1)

    trio.run(main, clock=MockClock(autojump_threshold=0))


@both_modes
@pytest.mark.parametrize("problem", ["raises", "returns nothing"])
def test_a_failing_callback_is_treated_like_a_failing_handler(mode, problem):
    async def test(memory, application):
        client = await memory.connect()
        client.send(b"1", b"s2")
        await wait_all_tasks_blocked()
        request = application.parked[0]
        request.connection.call_back(request, lambda: int("x") if problem == "raises" else None)
        expected = b"ValueError" if problem == "raises" else b"TypeError"
        assert await client.receive_count(2) == [expected, b"s2"]
        assert memory.server.statistics().handlers.failed == 1

    run(test, mode=mode, application=Calling())


def test_a_request_has_one_callback_at_a_time_which_bounds_them():
    async def test(memory, application):
        client = await memory.connect()
        client.send(b"1")
        await wait_all_tasks_blocked()
        request = application.post(b"1", Send(b"one"))
        with pytest.raises(RuntimeError, match="already has a waiting callback"):
            application.post(b"1", Send(b"two"))
        assert request.has_callback
        assert await client.receive() == b"one"
        assert not request.has_callback

    run(test, application=Calling())


@pytest.mark.parametrize("is_resized", [False, True])
def test_a_callback_of_a_closed_connection_still_runs_and_its_entries_stay(is_resized):
    """Even if its queue was retired and has ended with its last connection."""

    async def main():
        storage, application = MemoryStorage(), Calling()
        async with open_memory_server(ONE_QUEUE, application, storage=storage, limits=limits()) as memory:
            client = await memory.connect()
            client.send(b"1")
            await wait_all_tasks_blocked()
            if is_resized:
                memory.server.handlers.resize_queues(3)
            client.reset()
            await wait_all_tasks_blocked()
            connection_of_request = application.parked[0].connection
            connection_of_request.close()
            await wait_all_tasks_blocked()
            assert len(memory.server.channel.retired) == 0
            application.post(b"1", Pending([b"x"], Send(b"late")))
            await wait_all_tasks_blocked()
            assert storage.durable == [b"x"]
            assert application.events == [b"1", b"callback of 1"]

    trio.run(main, clock=MockClock(autojump_threshold=0))


def test_a_callback_keeps_its_queue_when_the_number_of_queues_changes():
    async def test(memory, application):
        client = await memory.connect()
        client.send(b"1")
        await wait_all_tasks_blocked()
        old = connection_of(memory).admission.queue
        memory.server.handlers.resize_queues(3)
        turn, by = memory.server.handlers._turn, []

        async def noted(queue):
            by.append(queue)
            await turn(queue)

        memory.server.handlers._turn = noted
        application.post(b"1", Send(b"one"))
        assert await client.receive() == b"one"
        assert by == [old]
        client.send(b"s")
        assert await client.receive() == b"s"
        assert by[1] is not old
        await wait_all_tasks_blocked()
        assert memory.server.channel.retired == []

    run(test, mode=ONE_QUEUE, application=Calling())


def test_a_handler_that_waits_for_the_commit_of_a_callback_leaves_others_to_work():
    """In classic mode a request decided by a callback is a commit of its own."""

    async def main():
        application = Calling()
        executor = ScriptedCommits([5.0])
        mode = attrs.evolve(CLASSIC, handlers=2)
        async with open_memory_server(mode, application, executor=executor, limits=limits()) as memory:
            client, other = await memory.connect(), await memory.connect()
            client.send(b"1")
            await wait_all_tasks_blocked()
            application.post(b"1", Pending([b"x"], Send(b"one")))
            await wait_all_tasks_blocked()
            other.send(b"s")
            assert await other.receive() == b"s"
            assert trio.current_time() == 0
            assert await client.receive() == b"one"
            assert trio.current_time() == 5

    trio.run(main, clock=MockClock(autojump_threshold=0))


class Stamps:
    """A timeline that keeps the ended requests."""

    samples_queues = times_requests = True

    def __init__(self):
        self.ended = []

    def request_ended(self, request):
        self.ended.append(request)

    def __getattr__(self, name):
        return lambda *stamps: None


def stopped_clock(monkeypatch):
    """Replace the clock of stamps; the returned list holds its nanoseconds, which the test advances."""
    clock = [1]
    for module in ("admission", "connection", "request_handler", "response_output"):
        monkeypatch.setattr(f"stages.{module}.now_ns", lambda: clock[0])
    return clock


def test_98_the_time_of_callbacks_is_local_and_not_remote(monkeypatch):
    """Behaviour 98: 2 ms of handling, 1 ms of each of two callbacks, 4 ms and 5 ms elsewhere."""
    clock = stopped_clock(monkeypatch)

    class Timed(Calling):
        def handle(self, request):
            clock[0] += 2_000_000
            return super().handle(request)

        def called(self, request, result):
            clock[0] += 1_000_000
            return super().called(request, result)

    async def main():
        application, stamps = Timed(), Stamps()
        async with open_memory_server(PIPELINED, application, timeline=stamps, limits=limits()) as memory:
            client = await memory.connect()
            client.send(b"1")
            await wait_all_tasks_blocked()
            clock[0] += 4_000_000
            application.post(b"1", PARKED)
            await wait_all_tasks_blocked()
            clock[0] += 5_000_000
            application.post(b"1", Send(b"done"))
            await client.receive()
        (request,) = stamps.ended
        assert request.decided_ns - request.handled_ns == 2_000_000
        assert request.decided_ns - request.dequeued_ns == 4_000_000
        assert request.completed_ns - request.decided_ns == 9_000_000
        assert request.sent_ns - request.received_ns == 13_000_000

    trio.run(main, clock=MockClock(autojump_threshold=0))
