"""Unfinished requests: others are served between their turns, and everything keeps its order.

Longer than most files: one test for each rule of stages/unfinished.py.
"""

from itertools import pairwise

import attrs
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from stages.loop_turns import COMMIT
from stages.mode import CLASSIC, PIPELINED
from stages.request import (
    NO_OP,
    PARKED,
    TURN_SECONDS_MAX,
    Close,
    Parked,
    Pending,
    Send,
    Unfinished,
    Waiting,
    go_on,
)
from stages.testing.memory_server import open_memory_server
from stages.testing.memory_storage import MemoryStorage
from stages.testing.scripted_commits import ScriptedCommits
from stages.unfinished import PASSES_MAX
from tests.compiled import skip_if_compiled
from tests.stages.connection_bench import ONE_QUEUE, connection_of, limits, paused_turns, run
from tests.stages.stepping import Stepping, three_steps, unfinished_count, until_over, waiting

both_modes = pytest.mark.parametrize("mode", [CLASSIC, PIPELINED], ids=lambda mode: mode.name)
BIG = bytes(10_000)


@both_modes
def test_others_are_served_between_the_steps(mode):
    async def test(memory, application):
        slow, other = await memory.connect(), await memory.connect()
        slow.send(b"u")
        while application.events != [b"u"]:
            await trio.lowlevel.checkpoint()
        for number in range(5):
            other.send(b"s%d" % number)
            assert await other.receive() == b"s%d" % number
        assert unfinished_count(memory) == 1
        application.is_over = True
        assert await slow.receive() == b"done"

    run(test, mode=mode, application=Stepping(u=until_over), jumps=False)


def test_one_step_runs_in_each_pass_of_the_loop_and_requests_take_turns():
    steps_in_pass = []

    class Counting(trio.abc.Instrument):
        def before_io_wait(self, timeout):
            steps_in_pass.append(0)

    def counted(application, request):
        for _ in range(30):
            steps_in_pass[-1] += 1
            application.events.append(request.connection.index)
            yield None
        steps_in_pass[-1] += 1
        return Send(b"done")

    async def test(memory, application):
        clients = [await memory.connect() for _ in range(10)]
        for client in clients:
            client.send(b"u")
        trio.lowlevel.add_instrument(instrument := Counting())
        for client in clients:
            assert await client.receive() == b"done"
        trio.lowlevel.remove_instrument(instrument)
        turns = [event for event in application.events if event != b"u"]
        for start in range(100, 200):
            assert sorted(turns[start : start + 10]) == list(range(10)), "each has a step before one has its next"

    run(test, mode=ONE_QUEUE, application=Stepping(u=counted), jumps=False)
    assert max(steps_in_pass) <= 2, "a first step in the handler, a later one here"
    assert sum(steps_in_pass) == 310


@pytest.mark.parametrize(("turns", "passes"), [(0.5, 1), (3.5, 4), (1000, 1 + PASSES_MAX)])
def test_a_long_step_is_followed_by_one_pass_of_the_loop_for_each_turn_it_took(turns, passes):
    """A request of another client passes through several tasks, one in each pass, and should wait for one long step
    only.
    """
    began_in_pass = []

    class Counting(trio.abc.Instrument):
        passes = 0

        def before_io_wait(self, timeout):
            self.passes += 1

    instrument = Counting()

    def long_steps(application, request):
        for _ in range(5):
            yield None
            began_in_pass.append(instrument.passes)
            trio.lowlevel.current_clock().jump(turns * TURN_SECONDS_MAX)
        return Send(b"done")

    async def test(memory, application):
        client = await memory.connect()
        trio.lowlevel.add_instrument(instrument)
        client.send(b"u")
        assert await client.receive() == b"done"
        trio.lowlevel.remove_instrument(instrument)
        longest = next(one for one in memory.server.statistics().turns if one.name != COMMIT)
        assert longest.longest_seconds == pytest.approx(turns * TURN_SECONDS_MAX)

    run(test, mode=ONE_QUEUE, application=Stepping(u=long_steps), jumps=False)
    assert [later - earlier for earlier, later in pairwise(began_in_pass)] == [passes] * 4


@both_modes
def test_later_requests_of_the_connection_wait_and_start_in_their_order(mode):
    async def test(memory, application):
        client = await memory.connect()
        client.send(b"u", b"s1", b"u2", b"s2", b"s3")
        assert await client.receive_count(5) == [b"done u", b"s1", b"done u2", b"s2", b"s3"]
        assert application.events == [
            b"u", b"u step 1", b"u step 2", b"s1", b"u2", b"u2 step 1", b"u2 step 2", b"s2", b"s3",
        ]  # fmt: skip
        client.send(b"s4")
        assert await client.receive() == b"s4"

    run(test, mode=mode, application=Stepping(u=three_steps, u2=three_steps))


def test_an_earlier_request_may_complete_during_unfinished_steps():
    async def test(memory, application):
        client = await memory.connect()
        client.send(b"1", b"u", b"s")
        await wait_all_tasks_blocked()
        assert application.events[-1] == b"s"
        application.answer(b"1")
        assert await client.receive_count(3) == [b"1", b"done u", b"s"]

    run(test, application=Stepping(u=three_steps))


def test_then_of_parked_work_may_take_several_turns():
    application = Stepping(u=three_steps)

    async def test(memory, application):
        client = await memory.connect()
        client.send(b"1", b"s1")
        await wait_all_tasks_blocked()
        (request,) = application.parked
        request.complete(go_on(three_steps(application, request)))
        client.send(b"s2")
        assert await client.receive_count(3) == [b"done 1", b"s1", b"s2"]
        assert application.events.index(b"1 step 2") < application.events.index(b"s2")

    run(test, application=application)


def test_then_of_parked_work_may_wait_for_a_commit_which_starts_at_once():
    def steps():
        yield Pending([b"x"], NO_OP)
        return Send(b"durable")

    async def test(memory, application):
        client = await memory.connect()
        client.send(b"1")
        await wait_all_tasks_blocked()
        application.parked.pop().complete(go_on(steps()))
        assert await client.receive() == b"durable"

    run(test)


@both_modes
@pytest.mark.parametrize("result", [Send(b"done"), NO_OP, Close("done"), Pending([b"x"], Send(b"done")), PARKED, None])
def test_the_result_of_the_last_step_is_treated_as_a_handler_s(mode, result):
    def steps(application, request):
        yield None
        application.parked.append(request)
        return result

    async def main():
        storage, application = MemoryStorage(), Stepping(u=steps)
        async with open_memory_server(mode, application, storage=storage, limits=limits()) as memory:
            client = await memory.connect()
            client.send(b"u", b"s")
            await wait_all_tasks_blocked()
            if result is PARKED:
                application.parked.pop().complete(Send(b"done"))
            is_closed = isinstance(result, Close)
            first = [b"TypeError u"] if result is None else [b"done"]
            expected = [] if is_closed else [b"s"] if result is NO_OP else [*first, b"s"]
            assert await client.receive_count(len(expected)) == expected
            await wait_all_tasks_blocked()
            assert client.is_closed_by_server == is_closed
            assert storage.durable == ([b"x"] if isinstance(result, Pending) else [])
            assert unfinished_count(memory) == 0

    trio.run(main, clock=MockClock(autojump_threshold=0))


@both_modes
def test_yielded_entries_are_durable_before_the_next_step(mode):
    storage, told = MemoryStorage(), []

    def steps(application, request):
        for entry in (b"1", b"2"):
            assert (yield Pending([entry], NO_OP, lambda: told.append(list(storage.durable)))) is None
            assert storage.durable[-1] == entry
        return Pending([b"3"], Send(b"done"))

    async def main():
        commits = ScriptedCommits([0.005, 0.001])
        async with open_memory_server(
            mode, Stepping(u=steps), storage=storage, executor=commits, limits=limits(), commits_in_flight=3
        ) as memory:
            client = await memory.connect()
            client.send(b"u")
            assert await client.receive() == b"done"
            assert storage.durable == [b"1", b"2", b"3"]
            assert told == [[b"1"], [b"1", b"2"]]

    trio.run(main, clock=MockClock(autojump_threshold=0))


@pytest.mark.parametrize("fails_at", [0, 1])
def test_steps_whose_entries_do_not_become_durable_are_closed_and_nothing_is_answered(fails_at):
    storage = MemoryStorage()
    storage.sync_fault = 0
    application = Stepping(u=lambda application, request: waits_for_commits())

    def waits_for_commits():
        for _ in range(fails_at):
            yield None
        yield Pending([b"x"], NO_OP)
        return Send(b"done")

    async def main():
        async with open_memory_server(PIPELINED, application, storage=storage, limits=limits()) as memory:
            client = await memory.connect()
            client.send(b"u", b"s")
            assert await client.receive_all() == []
        assert memory.failure is not None

    trio.run(main, clock=MockClock(autojump_threshold=0))
    assert application.closed_steps == [b"u"]


def test_steps_get_the_value_or_error_of_their_work_in_a_thread():
    def steps(application, request):
        value = yield Parked(lambda: 41)
        try:
            yield Parked(lambda: [][value])
        except IndexError:
            return Send(b"%d" % (value + 1))

    async def test(memory, application):
        client = await memory.connect()
        client.send(b"u", b"s")
        assert await client.receive_count(2) == [b"42", b"s"]
        assert memory.server.statistics().handlers.blocking_works == 0

    run(test, application=Stepping(u=steps), jumps=False)


@both_modes
def test_steps_wait_until_their_callback_is_called(mode):
    over = []

    async def test(memory, application):
        client = await memory.connect()
        client.send(b"u", b"s")
        await wait_all_tasks_blocked()
        assert b"s" not in application.events
        over.pop()()
        assert await client.receive_count(2) == [b"called", b"s"]

    run(test, mode=mode, application=Stepping(u=waiting(over)))


def test_a_request_that_its_steps_complete_themselves_keeps_the_first_answer():
    def steps(application, request):
        yield None
        request.complete(Send(b"first"))
        yield None
        return Send(b"second")

    async def test(memory, application):
        client = await memory.connect()
        client.send(b"u", b"s")
        assert await client.receive_count(2) == [b"first", b"s"]

    run(test, application=Stepping(u=steps))


def test_an_answer_that_is_held_back_lets_later_requests_start():
    held = []

    def steps(application, request):
        request.before_answer = lambda request, result: held.append((request, result))
        yield None
        return Send(b"held")

    async def test(memory, application):
        client = await memory.connect()
        client.send(b"u", b"s")
        await wait_all_tasks_blocked()
        assert application.events == [b"u", b"s"]
        ((request, result),) = held
        request.complete(result)
        assert await client.receive_count(2) == [b"held", b"s"]

    run(test, application=Stepping(u=steps))


@both_modes
def test_deferred_requests_wait_for_the_client_too(mode):
    """Two reasons at once: the connection is full, and one of its requests is unfinished."""
    over = []

    async def test(memory, application):
        client = await memory.connect(capacity_bytes=100)
        client.send(b"b", b"u", b"b", b"b", b"s")
        await wait_all_tasks_blocked()
        if over:
            over.pop()()
            await wait_all_tasks_blocked()
        received = []
        for _ in range(5):
            received.append(await client.receive())
            await wait_all_tasks_blocked()
            if over:
                over.pop()()
        assert received == [BIG, b"called", BIG, BIG, b"s"]
        assert application.events == [b"b", b"u", b"b", b"b", b"s"]
        assert not connection_of(memory).mute.reasons

    run(test, mode=mode, application=Stepping(u=waiting(over)), unsent_bytes_max=15_000)


def test_a_request_that_finds_the_common_bound_reached_waits_until_its_client_has_read_everything():
    over = []

    def steps(application, request):
        yield Waiting(over.append)
        return Send(bytes(3000))

    async def test(memory, application):
        client, other = [await memory.connect(capacity_bytes=1000) for _ in range(2)]
        other.send(b"p")
        await wait_all_tasks_blocked()
        client.send(b"u", b"s")
        await wait_all_tasks_blocked()
        release = paused_turns(memory)
        over.pop()()
        await wait_all_tasks_blocked()
        assert connection_of(memory).unsent.is_scheduled
        application.parked[0].complete(Send(bytes(10_000 - 2 * 4 - 3000 + 2 * 1000)))
        await wait_all_tasks_blocked()
        assert memory.server.processors[0].response_budget.bytes_held == 10_000
        release.set()
        await wait_all_tasks_blocked()
        assert application.handled == [b"p"]
        assert len(await client.receive()) == 3000
        assert await client.receive() == b"s"
        assert len(await other.receive()) == 8992

    run(test, mode=ONE_QUEUE, application=Stepping(u=steps), unsent_bytes_max=5000, total_unsent_bytes_max=10_000)


def test_a_replaced_queue_serves_the_requests_in_flight_of_its_connections():
    over = []

    async def test(memory, application):
        client = await memory.connect()
        client.send(b"u", b"s1")
        await wait_all_tasks_blocked()
        memory.server.resize_handlers(3)
        client.send(b"s2")
        await wait_all_tasks_blocked()
        over.pop()()
        assert await client.receive_count(3) == [b"called", b"s1", b"s2"]
        client.send(b"s3")
        assert await client.receive() == b"s3"
        await wait_all_tasks_blocked()
        assert memory.server.channel.retired == []

    run(test, mode=attrs.evolve(PIPELINED, queues=2), application=Stepping(u=waiting(over)))


def test_the_time_of_every_step_is_local_time():
    class Observing:
        samples_queues, times_requests = False, True

        def __init__(self):
            self.ended = []

        def request_ended(self, request):
            self.ended.append(request)

        def __getattr__(self, name):
            return lambda *_: None

    ticks = iter(range(1, 10**6))
    timeline = Observing()

    def steps(application, request):
        for _ in range(10):
            next(ticks)
        yield Waiting(application.over.append)
        for _ in range(100):
            next(ticks)
        return Send(b"done")

    async def main():
        application = Stepping(u=steps)
        application.over = []
        async with open_memory_server(PIPELINED, application, limits=limits(), timeline=timeline) as memory:
            client = await memory.connect()
            client.send(b"u")
            await wait_all_tasks_blocked()
            for _ in range(1000):
                next(ticks)
            application.over.pop()()
            assert await client.receive() == b"done"

    modules = ("request_handler", "unfinished", "connection", "admission", "response_output", "committer")
    with TickingClock(ticks, modules):
        trio.run(main, clock=MockClock(autojump_threshold=0))
    (request,) = timeline.ended
    assert 110 <= request.decided_ns - request.dequeued_ns < 150
    assert request.completed_ns - request.decided_ns >= 1000


class TickingClock:
    """A monotonic clock on which each reading takes a nanosecond."""

    def __init__(self, ticks, modules):
        self._ticks, self._modules = ticks, modules

    def __enter__(self):
        import importlib

        self._found = [importlib.import_module(f"stages.{name}") for name in self._modules]
        self._originals = [module.now_ns for module in self._found]
        for module in self._found:
            skip_if_compiled(module, "now_ns")
            module.now_ns = lambda: next(self._ticks)

    def __exit__(self, *_):
        for module, original in zip(self._found, self._originals, strict=True):
            module.now_ns = original


def test_an_unfinished_request_ends_the_turn_of_a_handler():
    """Its first step may have taken a whole turn, so 32 of them would block the event loop for long."""
    passes = []

    class Counting(trio.abc.Instrument):
        def before_io_wait(self, timeout):
            passes.append(0)

    def steps(application, request):
        passes[-1] += 1
        yield Waiting(lambda go_on: go_on())
        return Send(b"done")

    async def test(memory, application):
        clients = [await memory.connect() for _ in range(20)]
        trio.lowlevel.add_instrument(instrument := Counting())
        passes.append(0)
        for client in clients:
            client.send(b"u")
        for client in clients:
            assert await client.receive() == b"done"
        trio.lowlevel.remove_instrument(instrument)

    run(test, mode=ONE_QUEUE, application=Stepping(u=steps))
    assert max(passes) == 1


def test_go_on_returns_a_result_or_unfinished():
    def steps():
        got = yield None
        return Send(got)

    unfinished = go_on(steps())
    assert type(unfinished) is Unfinished
    assert unfinished.first is None
    assert go_on(unfinished.steps, b"value").parts == (b"value",)
