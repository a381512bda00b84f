"""Changed limits also apply to open connections."""

from itertools import pairwise

import attrs
import pytest
import trio

from stages.connection_quotas import ConnectionQuotaLimits
from stages.excess_connections import CLOSED_MAX
from stages.listener import Listener
from stages.mode import MODES, PIPELINED
from stages.mute import MuteReason
from stages.processor import OVERDUE_CHECKS_MAX
from stages.request import Send
from stages.testing.memory_transport import memory_connection
from tests.stages.listening_bench import PATIENT, SETTLED, run

both_modes = pytest.mark.parametrize("mode", MODES.values(), ids=MODES)


def with_connection(server, **fields):
    return attrs.evolve(server.limits, connection=attrs.evolve(server.limits.connection, **fields))


@both_modes
def test_idle_connections_expire_only_after_a_limit_is_set(mode):
    async def test(serving):
        client = await serving.served()
        await trio.sleep(1000)
        assert not client.is_closed_by_server
        serving.server.set_limits(with_connection(serving.server, idle_seconds_max=1200.0))
        await trio.sleep(190)
        assert not client.is_closed_by_server
        await trio.sleep(20)
        assert client.is_closed_by_server
        assert serving.statistics("L").counters.expired == 1
        later = await serving.served()
        serving.server.set_limits(with_connection(serving.server, idle_seconds_max=float("inf")))
        await trio.sleep(2000)
        assert not later.is_closed_by_server

    run(test, mode=mode)


def test_each_listener_has_an_idle_expiry_of_its_own():
    async def test(serving):
        clients = [await serving.served(name) for name in ("L", "M")]
        await trio.sleep(12)
        assert [client.is_closed_by_server for client in clients] == [False, True]
        own = {"L": attrs.evolve(PATIENT, idle_seconds_max=20.0)}
        serving.server.set_limits(serving.server.limits, own)
        serving.server.set_limits(serving.server.limits)  # each keeps its own
        later = await serving.served("M")  # uses the server's limits now
        await trio.sleep(30)
        assert clients[0].is_closed_by_server
        assert not later.is_closed_by_server

    run(test, ("L", {}), ("M", {"limits": attrs.evolve(PATIENT, idle_seconds_max=10.0)}))


def test_all_of_many_idle_connections_expire():
    """More than one turn checks."""

    async def test(serving):
        clients = [serving.connect() for _ in range(1200)]
        await trio.sleep(5)
        assert serving.server.quotas.total == 1200
        await trio.sleep(6.5)  # to the first check after the bound, which checks all of them
        assert all(client.is_closed_by_server for client in clients)
        assert serving.statistics("L").counters.expired == 1200

    run(test, connection=attrs.evolve(PATIENT, idle_seconds_max=10.0))


def test_others_have_their_turns_while_many_idle_connections_are_closed():
    class Looking(trio.abc.Instrument):
        """Records the number of expired connections after each step of any task."""

        def __init__(self, counters):
            self.counters, self.seen = counters, [0]

        def after_task_step(self, task):
            self.seen.append(self.counters.expired)

    async def test(serving):
        count = 2 * OVERDUE_CHECKS_MAX + 1
        for _ in range(count):
            serving.connect()
        await trio.sleep(5)
        (processor,) = serving.server.processors
        trio.lowlevel.add_instrument(looking := Looking(processor.counters))
        await trio.sleep(8)
        trio.lowlevel.remove_instrument(looking)
        assert looking.seen[-1] == count
        assert max(later - earlier for earlier, later in pairwise(looking.seen)) == OVERDUE_CHECKS_MAX

    run(test, connection=attrs.evolve(PATIENT, idle_seconds_max=10.0))


def test_a_connection_that_ends_together_with_an_expired_one_does_not_count_as_expired():
    async def test(serving):
        clients = [await serving.served() for _ in range(2)]
        connections = serving.connections()
        for connection in connections:
            connection.session = connection.index
        serving.application.connection_closed = lambda index: connections[1 - index].close()
        await trio.sleep(20)
        assert all(client.is_closed_by_server for client in clients)
        assert serving.statistics("L").counters.expired == 1

    run(test, connection=attrs.evolve(PATIENT, idle_seconds_max=10.0))


def test_connections_waiting_for_bytes_resume_when_the_budget_grows():
    async def test(serving):
        first, second = await serving.served(), await serving.served()
        first.send(b"parked" + bytes(50))
        await SETTLED()
        second.send(b"held back")
        await SETTLED()
        assert MuteReason.QUEUED_BYTES in serving.connections()[1].mute
        serving.server.set_limits(attrs.evolve(serving.server.limits, bytes_max=1000))
        assert await second.receive() == b"held back"
        serving.application.parked[0].complete(Send(b"done"))

    run(test, bytes_max=50)


def test_limits_count_for_connections_of_processors_that_are_made_later():
    async def test(serving):
        serving.server.set_limits(with_connection(serving.server, idle_seconds_max=10.0))
        await serving.server.resize_processors(3)
        clients = [await serving.served() for _ in range(3)]
        await trio.sleep(20)
        assert all(client.is_closed_by_server for client in clients)

    run(test)


def test_limits_count_for_connections_of_processors_that_are_about_to_end():
    async def test(serving):
        clients = [await serving.served() for _ in range(2)]
        clients[1].send(b"parked")
        await SETTLED()
        await serving.server.resize_processors(1)
        serving.server.set_limits(with_connection(serving.server, idle_seconds_max=10.0))
        await trio.sleep(5)
        assert not clients[1].is_closed_by_server
        await trio.sleep(10)
        assert clients[1].is_closed_by_server

    run(test, processors=2, drain_seconds=1000.0)


def test_quotas_of_connections_are_among_the_limits():
    async def test(serving):
        serving.server.set_limits(attrs.evolve(serving.server.limits, quotas=ConnectionQuotaLimits(connections_max=7)))
        assert serving.server.quotas.limits.connections_max == 7

    run(test)


def test_the_bound_over_all_unsent_responses_may_be_changed():
    async def test(serving):
        serving.server.set_limits(attrs.evolve(serving.server.limits, total_unsent_bytes_max=123))
        assert serving.server.statistics().unsent_responses.bytes_max == 123

    run(test)


def test_the_in_flight_limit_stays_the_modes():
    async def test(serving):
        client = await serving.served()
        serving.server.set_limits(with_connection(serving.server, in_flight_max=1))
        client.send(*[b"p%d" % number for number in range(PIPELINED.in_flight_max + 1)])
        await SETTLED()
        assert len(serving.application.parked) == PIPELINED.in_flight_max
        for request in serving.application.parked:
            request.complete(Send(b"x"))

    run(test, drain_seconds=1.0)


# Above the maximum


def limited(connections_max):
    return {"connections_max": connections_max, "protected_listener": "PEERS"}


async def filled(serving, count=4):
    """Return clients, each active one second after the one before."""
    clients = []
    for _ in range(count):
        clients.append(await serving.served("L"))
        await trio.sleep(1)
    return clients


@both_modes
def test_for_the_protected_listener_the_least_recently_active_of_others_are_closed(mode):
    """Behaviour 82: one for each above the maximum, and none that is protected. Behaviour testLowestPriorityChannel."""

    async def test(serving):
        clients = await filled(serving)
        await serving.ask(clients[0], b"I am active")
        peer = await serving.served("PEERS")
        await SETTLED()
        assert [client.is_closed_by_server for client in clients] == [False, True, False, False]
        other = await serving.served("PEERS")
        await SETTLED()
        assert [client.is_closed_by_server for client in clients] == [False, True, True, False]
        assert serving.server.quotas.total == 4
        assert not peer.is_closed_by_server
        assert not other.is_closed_by_server

    run(test, ("L", {}), ("PEERS", {}), mode=mode, quotas=limited(4), processors=2)


def test_a_connection_that_ends_anyway_is_closed_first():
    """Behaviour testLowestPriorityChannel."""

    async def test(serving):
        clients = await filled(serving)
        clients[3].send(b"parked")
        clients[3].half_close()
        await SETTLED()
        await serving.served("PEERS")
        await SETTLED()
        assert [client.is_closed_by_server for client in clients] == [False, False, False, True]

    run(test, ("L", {}), ("PEERS", {}), quotas=limited(4))


def test_where_only_protected_connections_are_left_they_stay():
    async def test(serving):
        clients = await filled(serving, 2)
        peers = [await serving.served("PEERS") for _ in range(5)]
        await SETTLED()
        assert [client.is_closed_by_server for client in (*clients, *peers)] == [True, True, *[False] * 5]
        assert serving.server.statistics().connections_excess == 3

    run(test, ("L", {}), ("PEERS", {}), quotas=limited(2))


def test_a_lowered_maximum_closes_the_surplus():
    async def test(serving):
        clients = await filled(serving, 200)
        serving.server.quotas.limits = ConnectionQuotaLimits(**limited(30))
        closed = [0]
        for _ in range(20):
            await trio.lowlevel.checkpoint()  # other tasks have one or two turns in between
            closed.append(sum(client.is_closed_by_server for client in clients))
        assert max(after - before for before, after in pairwise(closed)) <= 2 * CLOSED_MAX
        assert closed[-1] == 170
        assert [client.is_closed_by_server for client in clients] == [True] * 170 + [False] * 30
        assert serving.server.statistics().connections_excess == 0
        waiting = serving.connect("L")
        await SETTLED()
        assert serving.server.quotas.total == 30
        serving.server.quotas.limits = ConnectionQuotaLimits(**limited(31))
        await serving.ask(waiting, b"at last")

    run(test, ("L", {}), ("PEERS", {}), quotas=limited(1000))


def test_connections_that_no_quota_counts_are_not_closed_for_those_that_are_too_many():
    async def test(serving):
        await serving.server.add_listener(Listener("MEMORY"))
        transport, uncounted = memory_connection()
        await serving.server.connect(transport, peer="p", listener="MEMORY")
        clients = [await serving.served() for _ in range(2)]
        serving.server.quotas.limits = ConnectionQuotaLimits(connections_max=1)
        await SETTLED()
        assert not uncounted.is_closed_by_server
        assert [client.is_closed_by_server for client in clients].count(True) == 1

    run(test)
