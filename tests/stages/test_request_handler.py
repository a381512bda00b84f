"""A turn of a handler is bounded, and each failure is counted and answered."""

import attrs
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from stages.commit_place import COMMITS_MEASURED
from stages.loop_turns import COMMIT
from stages.mode import CLASSIC, PIPELINED, Batching
from stages.request import NOT_SET, TURN_SECONDS_MAX, Close, Pending, Send, go_on
from stages.request_handler import TURN_MAX, TURN_RESPONSE_BYTES_MAX
from stages.socket_server import ServerLimits
from stages.testing.memory_server import open_memory_server
from stages.testing.memory_storage import MemoryStorage
from stages.testing.schedules import Schedule
from stages.testing.scripted_commits import ScriptedCommits
from tests.stages.connection_bench import ONE_QUEUE, paused_turns


class Counting:
    """Counts the requests handled without another task running in between.

    Answers with the request once it is durable, or immediately with `response`.
    """

    def __init__(self, response=None):
        self.turns = [0]
        self.response = response

    def handle(self, request):
        if bytes(request.frame) == b"raise":
            raise ValueError
        self.turns[-1] += 1
        if self.response is not None:
            return Send(self.response)
        return Pending([request.frame], Send(request.frame))

    def failed(self, request, error):
        raise RuntimeError("the failure handler fails as well") from error

    def connection_closed(self, session):
        pass


def test_a_turn_is_bounded_and_other_tasks_run_between_turns():
    async def main():
        application = Counting()
        mode = attrs.evolve(ONE_QUEUE, in_flight_max=1000)

        async def tick():
            while True:
                await trio.lowlevel.checkpoint()
                if application.turns[-1]:
                    application.turns.append(0)

        async with open_memory_server(mode, application, limits=ServerLimits(requests_max=1000)) as memory:
            client = await memory.connect()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(tick)
                client.send(*[b"r"] * 500)
                await client.receive_count(500)
                nursery.cancel_scope.cancel()
        assert max(application.turns) <= 2 * TURN_MAX  # the ticking task may run first in one pass, last in the next
        assert sum(application.turns) == 500

    trio.run(main)


class OnLoop:
    """Runs each commit inside `wake`, and reports that commits suit the event loop."""

    ended_between_checks = 1

    def start(self, committer):
        self.committer = committer

    def wake(self, count=1):
        committer = self.committer
        if committer.place.suits_loop:
            committer.complete(committer.commit_nowait())
        else:
            commit = committer.begin_commit()
            committer.end_commit(commit)
            committer.complete(commit)

    def should_yield(self):
        return False

    def stop(self):
        pass


def test_a_commit_on_the_loop_includes_the_requests_of_other_handlers_in_the_same_pass():
    """Otherwise each handler would pay for its own sync."""

    async def main():
        storage = MemoryStorage()
        mode = attrs.evolve(PIPELINED, queues=4)
        async with open_memory_server(mode, Counting(), storage=storage, executor=OnLoop()) as memory:
            clients = [await memory.connect() for _ in range(8)]
            for number in range(COMMITS_MEASURED):
                clients[0].send(b"r")
                await clients[0].receive_count(1)
                assert storage.writes == number + 1
            await wait_all_tasks_blocked()
            for client in clients:
                client.send(b"a", b"b")
            for client in clients:
                assert await client.receive_count(2) == [b"a", b"b"]
            assert storage.writes == COMMITS_MEASURED + 1

    trio.run(main, clock=MockClock())  # a turn takes no time


def test_a_commit_on_the_loop_includes_the_next_turn_of_its_queue():
    """More requests wait than one turn takes, so the next turn runs in the next pass."""

    async def main():
        storage = MemoryStorage()
        mode = attrs.evolve(ONE_QUEUE, in_flight_max=2 * TURN_MAX)
        async with open_memory_server(mode, Counting(), storage=storage, executor=OnLoop()) as memory:
            client = await memory.connect()
            for _ in range(COMMITS_MEASURED):
                client.send(b"r")
                await client.receive_count(1)
            await wait_all_tasks_blocked()
            before = storage.writes
            client.send(*[b"r"] * (TURN_MAX + 1))
            assert await client.receive_count(TURN_MAX + 1) == [b"r"] * (TURN_MAX + 1)
            assert storage.writes == before + 1

    trio.run(main, clock=MockClock())  # a turn takes no time


@pytest.mark.parametrize(("response_bytes", "in_a_turn"), [(100, TURN_MAX), (TURN_RESPONSE_BYTES_MAX, 1)])
def test_a_large_response_ends_a_turn(response_bytes, in_a_turn):
    """So a client that requests much and reads little does not delay the others."""

    async def main():
        application = Counting(bytes(response_bytes))
        mode = attrs.evolve(ONE_QUEUE, in_flight_max=100)

        async def tick():
            while True:
                await trio.lowlevel.checkpoint()
                if application.turns[-1]:
                    application.turns.append(0)

        async with open_memory_server(mode, application) as memory:
            client = await memory.connect()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(tick)
                client.send(*[b"r"] * TURN_MAX)
                await client.receive_count(TURN_MAX)
                nursery.cancel_scope.cancel()
        assert max(application.turns) <= 2 * in_a_turn  # as above
        assert sum(application.turns) == TURN_MAX

    trio.run(main)


def test_slow_requests_end_a_turn():
    """So a burst of many clients does not delay another client until all of it is done."""
    clock = MockClock()

    class Slow(Counting):
        def handle(self, request):
            clock.jump(TURN_SECONDS_MAX / 2)
            return super().handle(request)

    async def main():
        application = Slow(b"done")

        async def tick():
            while True:
                await trio.lowlevel.checkpoint()
                if application.turns[-1]:
                    application.turns.append(0)

        async with open_memory_server(attrs.evolve(ONE_QUEUE, in_flight_max=100), application) as memory:
            client = await memory.connect()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(tick)
                client.send(*[b"r"] * TURN_MAX)
                await client.receive_count(TURN_MAX)
                nursery.cancel_scope.cancel()
            (longest, *_) = memory.server.statistics().turns
        assert max(application.turns) <= 4  # two turns, as above
        assert sum(application.turns) == TURN_MAX
        assert (longest.name, longest.long_count) == (NOT_SET, 0)
        assert longest.longest_seconds == pytest.approx(TURN_SECONDS_MAX / 2)

    trio.run(main, clock=clock)


def test_long_requests_and_steps_are_recorded_by_their_api():
    clock = MockClock()

    class Slow(Counting):
        def handle(self, request):
            request.api = 7
            clock.jump(0.006)
            return go_on(self.steps(request))

        def steps(self, request):
            yield None
            request.api = 8
            clock.jump(0.03)
            return Send(b"done")

    async def main():
        async with open_memory_server(ONE_QUEUE, Slow()) as memory:
            client = await memory.connect()
            client.send(b"r")
            await client.receive_count(1)
            turns = memory.server.statistics().turns
        assert [(it.name, it.long_count) for it in turns] == [(8, 1), (7, 1), (COMMIT, 0)]
        assert [it.longest_seconds for it in turns] == pytest.approx([0.03, 0.006, 0.0])

    trio.run(main, clock=clock)


def test_one_burst_becomes_one_commit():
    """A commit starts when the burst is handled, not at its first request."""

    async def main():
        storage = MemoryStorage()
        async with open_memory_server(PIPELINED, Counting(), storage=storage) as memory:
            client = await memory.connect()
            client.send(*[b"r"] * 5)
            await client.receive_count(5)
        assert storage.syncs == 1
        assert memory.server.statistics().committer.entries_max == 5

    trio.run(main, clock=MockClock())  # a turn takes no time


def test_a_failure_whose_handler_fails_closes_the_connection_and_is_counted():
    async def main():
        async with open_memory_server(PIPELINED, Counting()) as memory:
            client, other = await memory.connect(), await memory.connect()
            client.send(b"raise")
            assert await client.receive_all() == []
            other.send(b"r")
            assert await other.receive() == b"r"
            statistics = memory.server.statistics().handlers
            assert (statistics.failed, statistics.handled, statistics.handlers) == (1, 2, PIPELINED.queues)

    trio.run(main)


class Twice(Counting):
    """Completes a request itself, and returns another result."""

    def handle(self, request):
        request.complete(Send(b"first"))
        return Send(b"second")


def test_the_first_of_two_results_stands_and_the_second_is_counted():
    async def main():
        async with open_memory_server(PIPELINED, Twice()) as memory:
            client = await memory.connect()
            client.send(b"a", b"b")
            assert await client.receive_count(2) == [b"first"] * 2
            assert memory.server.statistics().handlers.failed == 2

    trio.run(main)


def test_a_surplus_handler_leaves_its_request_to_another():
    """The pool shrinks while requests arrive, so a handler woken for a request may be the one that ends."""

    async def main():
        schedule = Schedule()
        mode = attrs.evolve(ONE_QUEUE, queues=0, handlers=4)
        async with open_memory_server(mode, Counting(), executor=ScriptedCommits([0.01], schedule)) as memory:
            clients = [await memory.connect() for _ in range(4)]
            await wait_all_tasks_blocked()
            for client in clients[:2]:
                client.send(b"r")
            memory.server.handlers.resize_handlers(1)
            for client in clients[2:]:
                client.send(b"r")
            for client in clients:
                assert await client.receive() == b"r"
            assert memory.server.statistics().handlers.handlers == 1
            memory.server.handlers.resize_handlers(3)
            await wait_all_tasks_blocked()
            assert memory.server.statistics().handlers.idle == 3
            memory.server.handlers.resize_handlers(2)  # idle ones end without a request
            await wait_all_tasks_blocked()
            assert memory.server.statistics().handlers.handlers == 2

    trio.run(main, clock=MockClock(autojump_threshold=0))


@pytest.mark.parametrize(("first", "then"), [(1, 3), (3, 2)], ids=["more again", "even fewer"])
def test_the_last_resize_decides_about_surplus_handlers_that_have_not_ended(first, then):
    async def main():
        mode = attrs.evolve(ONE_QUEUE, queues=0, handlers=4, batching=Batching.REQUEST)
        async with open_memory_server(mode, Counting(), executor=ScriptedCommits([1.0], Schedule())) as memory:
            clients = [await memory.connect() for _ in range(4)]
            for client in clients:
                client.send(b"r")
            await wait_all_tasks_blocked()
            assert memory.server.statistics().handlers.idle == 0
            memory.server.handlers.resize_handlers(first)
            memory.server.handlers.resize_handlers(then)
            for client in clients:
                assert await client.receive() == b"r"
            await wait_all_tasks_blocked()
            assert memory.server.statistics().handlers.idle == memory.server.statistics().handlers.handlers == then

    trio.run(main, clock=MockClock(autojump_threshold=0))


def test_earlier_responses_of_a_turn_that_waits_for_a_commit_leave_at_once():
    class Mixed(Counting):
        def handle(self, request):
            return Send(request.frame) if bytes(request.frame) == b"s" else super().handle(request)

    async def main():
        mode = attrs.evolve(CLASSIC, handlers=1)
        async with open_memory_server(mode, Mixed(), executor=ScriptedCommits([1.0], Schedule())) as memory:
            first, second = await memory.connect(), await memory.connect()
            release = paused_turns(memory)
            first.send(b"s")
            await wait_all_tasks_blocked()
            second.send(b"w")
            await wait_all_tasks_blocked()
            release.set()
            began = trio.current_time()
            assert await first.receive() == b"s"
            assert trio.current_time() == began
            assert await second.receive() == b"w"
            assert trio.current_time() == began + 1.0

    trio.run(main, clock=MockClock(autojump_threshold=0))


def test_close_is_a_result_of_failed_too():
    class Closing(Counting):
        def failed(self, request, error):
            return Close("as asked")

    async def main():
        async with open_memory_server(PIPELINED, Closing()) as memory:
            client = await memory.connect()
            client.send(b"r", b"raise", b"r")
            assert await client.receive_all() == [b"r"]

    trio.run(main)
