"""A stop under load, in both modes: accepted requests are answered or their connections closed, within the deadline."""

import threading

import attrs
import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from trio.testing import MockClock, wait_all_tasks_blocked

from stages.committer import CommitFailedError, Submission
from stages.listener import Listener
from stages.mode import MODES, PIPELINED
from stages.socket_server import ServerLimits, ServerNotRunningError, SocketServer
from stages.testing.memory_listener import MemoryListener
from stages.testing.memory_server import open_memory_server
from stages.testing.memory_storage import MemoryStorage
from stages.testing.order_checks import WatchedApplication, check_response_order, watched_response_order
from stages.testing.schedules import Schedule, ScheduleCount
from stages.testing.scripted_commits import ScriptedCommits
from tests.stages.listening_bench import PATIENT, ByFirstByte, first_word

DRAIN_SECONDS = 5.0
CLOCK_SECONDS = 1e-6  # precision of a difference of two times
LIMITS = ServerLimits(connection=PATIENT, requests_max=16, processors=2, drain_seconds=DRAIN_SECONDS)


@attrs.define
class Outcome:
    clients: list = attrs.field(factory=list)
    handled: list = attrs.field(factory=list)
    storage: MemoryStorage = None
    stopped_at: float = 0.0
    ended_at: float = 0.0
    schedule: Schedule = attrs.field(factory=Schedule)


async def load(outcome, client, index, kinds, gap, nursery):
    """Send requests without waiting, and read responses, until the server closes the connection."""

    async def send():
        try:
            for number, kind in enumerate(kinds * 10):
                client.send(b"%c%d %d" % (kind, index, number))
                await trio.sleep(gap)
        except trio.BrokenResourceError:
            pass

    nursery.start_soon(send)
    await client.receive_all()
    outcome.ended_at = trio.current_time()


async def run_once(mode, outcome, clients, kinds, gaps, stop_after, commit_delays):
    application = WatchedApplication(ByFirstByte(), outcome.schedule)
    outcome.storage = MemoryStorage(key_of=first_word)
    sources = {"L": MemoryListener(), "CONTROL": MemoryListener()}
    server = SocketServer(
        mode,
        application,
        outcome.storage,
        limits=LIMITS,
        executor=ScriptedCommits(commit_delays, outcome.schedule),
        response_order=watched_response_order(outcome.schedule),
    )
    listeners = [Listener(name, source=sources[name], is_control_plane=name == "CONTROL") for name in sources]
    async with trio.open_nursery() as serving:
        await serving.start(server.run, listeners)
        with trio.fail_after(1000):
            async with trio.open_nursery() as nursery:
                for index in range(clients):
                    client = sources["CONTROL" if index == 0 else "L"].connect(f"192.0.2.{index}")
                    outcome.clients.append(client)
                    nursery.start_soon(load, outcome, client, index, kinds, gaps[index % len(gaps)], nursery)
                await trio.sleep(stop_after)
                outcome.stopped_at = trio.current_time()
                server.stop()
    outcome.handled = [len(application.starts[index]) for index in range(clients)]
    assert server.quotas.total == server.channel.bytes_held == 0


def stopped_under_load(mode, count, kinds, check, drain_bound):
    """Draw a load, a time to stop and commit times, and `check` the outcome."""

    @settings(max_examples=30, deadline=None)
    @given(
        clients=st.integers(1, 12),
        gaps=st.lists(st.sampled_from([0.0, 0.01, 0.3]), min_size=1, max_size=4),
        stop_after=st.floats(0, 2),
        commit_delays=st.lists(st.sampled_from([0.0, 0.01, 0.2]), min_size=1, max_size=5),
        _randomness=st.random_module(),
    )
    def example(clients, gaps, stop_after, commit_delays, _randomness):
        outcome = Outcome()
        trio.run(
            run_once,
            mode,
            outcome,
            clients,
            kinds,
            gaps,
            stop_after,
            commit_delays,
            clock=MockClock(autojump_threshold=0),
        )
        assert outcome.ended_at - outcome.stopped_at <= drain_bound + CLOCK_SECONDS
        for client in outcome.clients:
            assert client.is_closed_by_server
            check_response_order(client.sent, client.received, is_whole=False)
            committed = [payload for payload in client.received if payload.startswith(b"c")]
            assert set(committed) <= set(outcome.storage.durable)  # acknowledged entries are durable
        check(outcome)
        count.add(outcome.schedule)

    example()
    print(count)
    count.check()


@pytest.mark.parametrize("mode", MODES.values(), ids=MODES)
def test_what_was_accepted_is_answered_when_there_is_time(mode):
    """Behaviour 16: open connections end with the server, after the answers to all that was handled."""

    def check(outcome):
        by_connection = sorted(len(client.received) for client in outcome.clients)
        assert by_connection == sorted(outcome.handled)

    count = ScheduleCount(f"stop, {mode.name}")
    stopped_under_load(mode, count, b"cs", check, DRAIN_SECONDS)


@pytest.mark.parametrize("mode", MODES.values(), ids=MODES)
def test_unanswered_requests_delay_a_stop_until_its_deadline_only(mode):
    """Requests are parked and never completed: earlier ones are answered, and the connections are closed."""

    def check(outcome):
        for client in outcome.clients:
            assert len(client.received) <= 2

    count = ScheduleCount(f"stop with parked requests, {mode.name}")
    stopped_under_load(mode, count, b"scp", check, DRAIN_SECONDS)


@pytest.mark.parametrize("mode", MODES.values(), ids=MODES)
def test_a_failed_commit_without_a_request_ends_a_stop_at_once(mode):
    """No request that the drain waits for could be answered."""

    async def main():
        storage = MemoryStorage()
        storage.sync_fault = 0
        began = trio.current_time()
        async with open_memory_server(
            mode, ByFirstByte(), storage=storage, limits=LIMITS, executor=ScriptedCommits([1.0])
        ) as memory:
            client = await memory.connect()
            client.send(b"parked")
            memory.server.submit(Submission([b"entry"]))
            await wait_all_tasks_blocked()
        assert isinstance(memory.failure, CommitFailedError)
        assert client.is_closed_by_server
        assert trio.current_time() - began == 1.0

    trio.run(main, clock=MockClock(autojump_threshold=0))


def test_a_server_that_ends_calls_stop_waiting_of_its_storage():
    """A commit that waits for space on a full disk would keep the threads, and the end waits for these."""

    class Storage:
        def __init__(self):
            self.inner, self.is_told = MemoryStorage(), False

        def __getattr__(self, name):
            return getattr(self.inner, name)

        def fail_waiting_writes(self):
            self.is_told = True

    async def main():
        storage = Storage()
        server = SocketServer(PIPELINED, ByFirstByte(), storage)
        async with trio.open_nursery() as nursery:
            await nursery.start(server.run, [])
            assert not storage.is_told
            server.stop()
        assert storage.is_told

    trio.run(main)


CHANGES = {
    "more processors": lambda server: server.resize_processors(8),
    "fewer processors": lambda server: server.resize_processors(1),
    "another listener": lambda server: server.add_listener(Listener("NEW", is_control_plane=True)),
    "one listener less": lambda server: server.remove_listener("B"),
}
TICKS_MAX = 60
"""More turns of the event loop than the longest change takes, so each also completes once."""


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_during_a_stop_succeeds_or_raises_server_not_running(change):
    """In whichever turn the stop happens; the code that applies settings knows no other error."""

    async def main(ticks):
        server = SocketServer(PIPELINED, ByFirstByte(), MemoryStorage(), limits=attrs.evolve(LIMITS, processors=3))
        async with trio.open_nursery() as nursery:
            await nursery.start(server.run, [Listener("A"), Listener("B")])
            nursery.start_soon(make_change, server)
            for _ in range(ticks):
                await trio.lowlevel.checkpoint()
            server.stop()

    async def make_change(server):
        try:
            await CHANGES[change](server)
            outcomes.append("done")
        except ServerNotRunningError:
            outcomes.append("ends")

    outcomes = []
    for ticks in range(TICKS_MAX):
        trio.run(main, ticks)
    assert len(outcomes) == TICKS_MAX
    assert outcomes[-1] == "done"
    assert ("ends" in outcomes) == (change != "one listener less")  # removing a listener succeeds during the shutdown


@pytest.mark.parametrize("mode", MODES.values(), ids=MODES)
def test_a_last_commit_that_resizes_handlers_is_acknowledged(mode):
    """A setting becomes durable after all handlers have ended; that must not count as a failed commit."""
    ends, is_written = threading.Event(), threading.Event()

    def sync(number):
        is_written.set()
        ends.wait()

    async def main():
        server = SocketServer(
            mode, ByFirstByte(), MemoryStorage(on_sync=sync), limits=attrs.evolve(LIMITS, drain_seconds=0.0)
        )
        async with trio.open_nursery() as nursery:
            await nursery.start(server.run, [])
            server.submit(
                Submission(
                    [b"entry"],
                    on_durable=lambda: server.resize_handlers(20),
                    on_ended=lambda submission, error: outcomes.append(error),
                )
            )
            await trio.to_thread.run_sync(is_written.wait)
            server.stop()
            while server.statistics().handlers.handlers:
                await trio.lowlevel.checkpoint()
            await wait_all_tasks_blocked()
            ends.set()

    outcomes = []
    trio.run(main)
    assert outcomes == [None]


class Asked(ScriptedCommits):
    """Records the injected delay of the last commits."""

    def stop(self):
        self.delay_ns_at_end = self._committer.delay_ns
        super().stop()


def test_the_last_commits_have_no_injected_delay():
    executor = Asked()
    server = SocketServer(PIPELINED, ByFirstByte(), MemoryStorage(), executor=executor, commit_delay_seconds=3600.0)

    async def main():
        async with trio.open_nursery() as nursery:
            await nursery.start(server.run, ())
            assert server.committer.delay_ns > 0
            server.stop()

    trio.run(main)
    assert executor.delay_ns_at_end == 0


def test_is_stopping_after_a_stop():
    async def main():
        async with open_memory_server(PIPELINED, ByFirstByte()) as memory:
            assert not memory.server.is_stopping
            memory.server.stop()
            assert memory.server.is_stopping

    trio.run(main, clock=MockClock(autojump_threshold=0))
