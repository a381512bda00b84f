"""Administration has a request queue and a handler of its own, and works while everything else is saturated."""

import attrs
import pytest
import trio

from stages.mode import CLASSIC, PIPELINED, Batching
from stages.mute import MuteReason
from stages.request import Send
from stages.request_plane import CONTROL_QUEUE_INDEX, CONTROL_REQUESTS_MAX
from stages.timeline import Timeline
from tests.stages.listening_bench import PATIENT, SETTLED, run

CONTROL = ("CONTROL", {"is_control_plane": True})
QUEUES_WITH_A_COMMIT_EACH = attrs.evolve(PIPELINED, name="queues, a commit per request", batching=Batching.REQUEST)
COMMIT_SECONDS = 10.0


async def one_held_back(serving, listener):
    """Return two clients of a server with a budget of 100 bytes: the first's request uses it up, the second's waits."""
    first, second = await serving.served(listener), await serving.served(listener)
    first.send(b"parked" + bytes(100))
    await SETTLED()
    second.send(b"held back")
    await SETTLED()
    assert MuteReason.QUEUED_BYTES in serving.connections(listener)[1].mute
    return first, second


@pytest.mark.parametrize("mode", [CLASSIC, QUEUES_WITH_A_COMMIT_EACH], ids=lambda mode: mode.name)
def test_administration_works_while_every_handler_waits_and_every_queue_is_full(mode):
    """Reads are answered at once. Writes wait for the commits in flight, and for nothing that is queued."""

    async def test(serving):
        clients = [await serving.served("L") for _ in range(100)]
        for index, client in enumerate(clients):
            client.send(*[b"c%d %d" % (index, number) for number in range(5)])
        await SETTLED()
        statistics = serving.server.statistics()
        assert all(queue.depth == queue.capacity for queue in statistics.queues)
        assert sum(queue.waiting_for_room for queue in statistics.queues) > 0
        assert statistics.handlers.idle == 0
        began = trio.current_time()
        admin = await serving.served("CONTROL")
        assert await serving.ask(admin, b"describe a topic") == b"describe a topic"
        assert trio.current_time() == began
        assert await serving.ask(admin, b"create a topic") == b"create a topic"  # by the same committer, in its order
        assert trio.current_time() - began <= 2 * COMMIT_SECONDS
        plane = serving.server.statistics().control_plane
        assert (plane.handlers.handlers, plane.handlers.handled) == (1, 3)
        for client in clients:
            assert len(await client.receive_count(5)) == 5
        assert trio.current_time() - began > 50 * COMMIT_SECONDS

    run(test, ("L", {}), CONTROL, mode=mode, commit_delays=(COMMIT_SECONDS,), requests_max=16)


@pytest.mark.parametrize("mode", [CLASSIC, PIPELINED], ids=lambda mode: mode.name)
def test_administration_works_while_unanswered_requests_hold_all_the_bytes(mode):
    async def test(serving):
        client, other = await one_held_back(serving, "L")
        admin = await serving.served("CONTROL")
        assert await serving.ask(admin, b"committed") == b"committed"
        assert other.unread_bytes == 0
        serving.application.parked[0].complete(Send(b"at last"))
        assert (await client.receive(), await other.receive()) == (b"at last", b"held back")

    run(test, ("L", {}), CONTROL, mode=mode, bytes_max=100)


@pytest.mark.parametrize("mode", [CLASSIC, PIPELINED], ids=lambda mode: mode.name)
def test_the_control_plane_has_one_queue_of_twenty_one_handler_and_one_processor(mode):
    async def test(serving):
        admin = await serving.served("CONTROL")
        statistics = serving.server.statistics()
        (queue,) = statistics.control_plane.queues
        assert (queue.index, queue.capacity, queue.put) == (CONTROL_QUEUE_INDEX, CONTROL_REQUESTS_MAX, 1)
        assert CONTROL_REQUESTS_MAX == 20
        assert serving.statistics("CONTROL").processors == 1
        assert sum(one.put for one in statistics.queues) == 0
        requests = [b"%d" % number for number in range(60)]
        admin.send(*requests)
        assert await admin.receive_count(60) == requests

    run(test, ("L", {}), CONTROL, mode=mode, processors=3)


def test_a_control_plane_exists_only_for_a_listener_that_needs_one():
    async def test(serving):
        await serving.served("L")
        assert serving.server.statistics().control_plane is None
        await serving.server.add_listener(serving.listener("CONTROL", is_control_plane=True))
        await serving.served("CONTROL")
        await serving.server.remove_listener("CONTROL")
        await serving.server.add_listener(serving.listener("OTHER", is_control_plane=True))
        await serving.served("OTHER")
        assert serving.server.statistics().control_plane.handlers.handled == 2

    run(test)


@pytest.mark.parametrize("mode", [CLASSIC, QUEUES_WITH_A_COMMIT_EACH], ids=lambda mode: mode.name)
def test_more_handlers_may_wait_for_more_commits_at_once(mode):
    """If handlers wait for their commits, twice the handlers commit twice as much in the same time."""

    async def test(serving):
        serving.server.resize_handlers(16)
        clients = [await serving.served("L", f"192.0.2.{number}") for number in range(200)]
        began = trio.current_time()
        for index, client in enumerate(clients):
            client.send(b"c%d" % index)
        for client in clients:
            await client.receive()
        seconds = trio.current_time() - began
        assert 200 / 17 <= seconds < 200 / 8  # hashing distributes connections unevenly

    run(test, mode=mode, commit_delays=(1.0,))


def test_an_idle_control_connection_expires_as_others_do():
    async def test(serving):
        client = await serving.served("CONTROL")
        await trio.sleep(12)
        assert client.is_closed_by_server

    run(test, ("L", {}), CONTROL, connection=attrs.evolve(PATIENT, idle_seconds_max=10.0))


@pytest.mark.parametrize("mode", [CLASSIC, PIPELINED], ids=lambda mode: mode.name)
def test_a_resize_under_load_loses_nothing_and_leaves_the_control_plane_alone(mode):
    async def load(serving, name, index):
        client = serving.connect(name, f"192.0.2.{index}")
        requests = [b"%c%d %d" % (b"cs"[number % 2], index, number) for number in range(60)]
        for request in requests:
            client.send(request)
            await trio.sleep(0.01)
        assert await client.receive_count(60) == requests

    async def test(serving):
        async with trio.open_nursery() as nursery:
            for index in range(6):
                nursery.start_soon(load, serving, "CONTROL" if index == 0 else "L", index)
            for count in (3, 1, 12, 12, 5):
                serving.server.resize_handlers(count)
                await trio.sleep(0.1)
        last = await serving.served("L")
        await serving.ask(last, b"again")
        statistics = serving.server.statistics()
        assert statistics.handlers.handlers == 5
        assert statistics.control_plane.handlers.handlers == 1
        (queue,) = statistics.control_plane.queues
        assert (queue.index, queue.put) == (CONTROL_QUEUE_INDEX, 60)

    run(test, ("L", {}), CONTROL, mode=mode, commit_delays=(0.02, 0.0, 0.05), requests_max=16)


def test_a_changed_byte_budget_applies_to_the_control_plane_too():
    async def test(serving):
        _, second = await one_held_back(serving, "CONTROL")
        serving.server.set_limits(attrs.evolve(serving.server.limits, bytes_max=1000))
        assert await second.receive() == b"held back"
        serving.application.parked[0].complete(Send(b"at last"))

    run(test, ("L", {}), CONTROL, bytes_max=100)


def test_an_observer_set_later_observes_the_control_plane_too():
    class Observer(Timeline):
        samples_queues = True

        def __init__(self):
            self.sampled = []

        def queue_sampled(self, queue, at_ns, depth):
            self.sampled.append((queue, depth))

    async def test(serving):
        observer = Observer()
        admin = await serving.served("CONTROL")
        serving.server.observe(observer)
        await serving.ask(admin, b"observed")
        serving.server.observe(None)
        await serving.ask(admin, b"not observed")
        assert observer.sampled == [(CONTROL_QUEUE_INDEX, 1)]

    run(test, ("L", {}), CONTROL)
