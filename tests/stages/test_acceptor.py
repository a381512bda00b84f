"""An acceptor waits while its processors are busy, and continues afterwards."""

import contextlib
import errno
import ssl

import attrs
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from stages.acceptor import (
    EXHAUSTED_PAUSE_SECONDS,
    THROTTLED_MAX,
    WARNING_SECONDS,
    Acceptor,
    SocketSource,
    plain_ip,
)
from stages.connection_quotas import ConnectionQuotaLimits, ConnectionQuotas
from stages.listener import Listener, open_listener
from stages.processor import NEW_CONNECTIONS_MAX
from stages.testing.memory_listener import MemoryListener


class BusyProcessor:
    """A processor that does not run, so its queue of new connections fills up."""

    def __init__(self):
        self.send, self.receive = trio.open_memory_channel(NEW_CONNECTIONS_MAX)

    def offer(self, new):
        with contextlib.suppress(trio.WouldBlock, trio.BrokenResourceError):
            self.send.send_nowait(new)
            return True
        return False

    async def put(self, new):
        try:
            await self.send.send(new)
        except trio.BrokenResourceError:
            return False
        return True


@attrs.define
class Bench:
    listener: MemoryListener
    processors: list
    quotas: ConnectionQuotas
    acceptor: Acceptor

    def take(self, index):
        return self.processors[index].receive.receive_nowait()

    def close(self, new):
        new.transport.close()
        self.quotas.release(new.listener, new.peer)

    @property
    def waiting(self):
        return [processor.receive.statistics().tasks_waiting_send for processor in self.processors]


def run(test, processors=2, **limits):
    """Run `test(bench)` on a mock clock, and check that every connection is released at the end."""

    async def main():
        source, freed = MemoryListener(), trio.lowlevel.ParkingLot()
        quotas = ConnectionQuotas(ConnectionQuotaLimits(**limits), freed.unpark_all)
        quotas.add_listener("L")
        dealt_to = [BusyProcessor() for _ in range(processors)]
        acceptor = Acceptor(Listener("L"), source, dealt_to, quotas, freed, iter(range(10_000)).__next__)
        bench = Bench(source, dealt_to, quotas, acceptor)
        with trio.fail_after(3600):
            async with trio.open_nursery() as nursery:
                await nursery.start(acceptor.run)
                await test(bench)
                nursery.cancel_scope.cancel()
        for index, processor in enumerate(dealt_to):
            while processor.receive.statistics().current_buffer_used:
                bench.close(bench.take(index))
        assert quotas.total == 0
        assert source.is_closed

    trio.run(main, clock=MockClock(autojump_threshold=0))


def test_it_tries_every_processor_and_waits_at_the_last():
    """Behaviour 54: a full queue of new connections blocks the acceptor, which is measured."""

    async def test(bench):
        for _ in range(2 * NEW_CONNECTIONS_MAX + 2):
            bench.listener.connect()
        await wait_all_tasks_blocked()
        assert bench.acceptor.statistics().accepted == 2 * NEW_CONNECTIONS_MAX
        assert sorted(bench.waiting) == [0, 1]
        await trio.sleep(3)
        assert bench.acceptor.statistics().blocked_seconds == 3.0  # even during the wait
        bench.close(bench.take(bench.waiting.index(1)))
        await wait_all_tasks_blocked()
        assert bench.acceptor.statistics().accepted == 2 * NEW_CONNECTIONS_MAX + 1
        await trio.sleep(1)
        assert bench.acceptor.statistics().blocked_seconds == 4.0

    run(test)


def test_removing_the_processor_that_the_acceptor_waits_for_does_not_end_it():
    async def test(bench):
        for _ in range(2 * NEW_CONNECTIONS_MAX + 1):
            bench.listener.connect()
        await wait_all_tasks_blocked()
        gone = bench.processors.pop(bench.waiting.index(1))
        connections = [gone.receive.receive_nowait() for _ in range(2)]  # the waiting one is handed over, then closed
        await wait_all_tasks_blocked()
        bench.listener.connect()
        await wait_all_tasks_blocked()
        connections += [bench.take(0)]
        while gone.receive.statistics().current_buffer_used:
            connections.append(gone.receive.receive_nowait())
        gone.receive.close()
        await wait_all_tasks_blocked()
        assert bench.acceptor.statistics().accepted == 2 * NEW_CONNECTIONS_MAX + 2
        for connection in connections:
            bench.close(connection)

    run(test)


def test_a_connection_that_cannot_be_made_ready_is_closed_and_not_counted():
    """Behaviours 20 and 34: an error while a connection is configured closes it and restores the count."""

    async def test(bench):
        bench.listener.configure_faults.append(OSError(errno.ENOTCONN, "gone"))
        broken, served = bench.listener.connect(), bench.listener.connect()
        await wait_all_tasks_blocked()
        assert broken.is_closed_by_server
        assert not served.is_closed_by_server
        assert bench.quotas.total == 1
        assert bench.acceptor.statistics().failed == 1

    run(test)


def test_a_listener_with_unreadable_certificates_closes_new_connections_and_continues(caplog):
    calls = []

    def context():
        calls.append("called")
        if len(calls) == 1:
            raise ValueError("no certificate")
        return ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)

    async def test(bench):
        bench.acceptor.listener = attrs.evolve(bench.acceptor.listener, tls=context)
        broken, served = bench.listener.connect(), bench.listener.connect()
        await wait_all_tasks_blocked()
        assert [broken.is_closed_by_server, served.is_closed_by_server] == [True, False]
        assert bench.quotas.total == 1
        assert "could not set up a connection" in caplog.text

    run(test)


def test_an_ipv4_client_has_the_same_address_on_ipv4_and_ipv6_sockets():
    assert plain_ip("::ffff:192.0.2.1") == plain_ip("192.0.2.1") == "192.0.2.1"
    assert plain_ip("2001:db8::1") == "2001:db8::1"
    assert plain_ip("::ffff:0:1") == "::ffff:0:1"


def test_running_out_of_descriptors_pauses_accepting_only():
    async def test(bench):
        began = trio.current_time()
        bench.listener.accept_faults.extend(OSError(code, "none left") for code in (errno.EMFILE, errno.ENFILE))
        bench.listener.accept_faults.append(OSError(errno.ECONNABORTED, "gave up"))
        bench.listener.connect()
        while not bench.acceptor.statistics().accepted:
            await trio.sleep(EXHAUSTED_PAUSE_SECONDS)
        assert trio.current_time() - began >= 2 * EXHAUSTED_PAUSE_SECONDS
        assert bench.acceptor.statistics().exhausted == 2

    run(test)


def test_missing_descriptors_are_logged_once_a_minute(caplog):
    async def test(bench):
        times = int(1.5 * WARNING_SECONDS / EXHAUSTED_PAUSE_SECONDS)
        bench.listener.accept_faults.extend(OSError(errno.EMFILE, "none left") for _ in range(times))
        bench.listener.connect()
        while not bench.acceptor.statistics().accepted:
            await trio.sleep(1)

    run(test)
    assert [record.getMessage() for record in caplog.records] == [
        "listener L pauses accepting connections: none left"
    ] * 2


def test_a_client_that_disconnects_from_the_backlog_delays_no_other():
    async def test(bench):
        bench.listener.accept_faults.append(OSError(errno.ECONNABORTED, "gave up"))
        bench.listener.connect()
        await wait_all_tasks_blocked()
        assert trio.current_time() == 0
        assert (bench.acceptor.statistics().accepted, bench.acceptor.statistics().exhausted) == (1, 0)

    run(test)


def test_throttled_connections_are_kept_unserved_and_closed_after_their_throttle():
    """Behaviour 21: above the rate of its address a connection waits unserved, is closed, and later ones pass."""

    async def test(bench):
        clients = [bench.listener.connect() for _ in range(5)]
        await wait_all_tasks_blocked()
        assert [client.is_closed_by_server for client in clients] == [False] * 5
        assert bench.quotas.total == 2
        assert bench.acceptor.statistics().throttled == 3
        await trio.sleep(0.99)
        assert bench.acceptor.statistics().throttled_total == 3
        await trio.sleep(1)
        assert [client.is_closed_by_server for client in clients] == [False, False, True, True, True]
        assert bench.acceptor.statistics().throttled == 0
        assert bench.acceptor.statistics().blocked_seconds == 0
        later = bench.listener.connect()
        await trio.sleep(2)
        assert not later.is_closed_by_server
        assert bench.quotas.total == 3

    run(test, creation_rate_max_per_ip=2.0, windows=2)


def test_a_short_throttle_does_not_wait_for_the_end_of_a_longer_one():
    """One of the two addresses admits no connection."""

    async def test(bench):
        banned = bench.listener.connect("192.0.2.1")
        await wait_all_tasks_blocked()
        throttled = [bench.listener.connect("192.0.2.2") for _ in range(3)][-1]
        await trio.sleep(49)
        assert bench.acceptor.statistics().throttled == 2
        await trio.sleep(2)
        assert throttled.is_closed_by_server
        assert not banned.is_closed_by_server
        await trio.sleep(50)
        assert banned.is_closed_by_server

    run(test, creation_rate_max_by_ip={"192.0.2.1": 0.0, "192.0.2.2": 0.02}, windows=2, window_seconds=100.0)


def test_connections_that_waited_for_a_slot_are_not_throttled_for_arriving_together():
    async def test(bench):
        first = bench.listener.connect()
        await wait_all_tasks_blocked()
        waiting = bench.listener.connect()
        await trio.sleep(50)
        bench.close(bench.take(0))
        await wait_all_tasks_blocked()
        assert bench.acceptor.statistics().accepted == 2
        assert bench.acceptor.statistics().throttled_total == 0
        assert (first.is_closed_by_server, waiting.is_closed_by_server) == (True, False)

    run(test, connections_max=1, creation_rate_max_per_ip=1.0, windows=2)


def test_waiting_for_a_slot_does_not_lengthen_a_throttle():
    async def test(bench):
        bench.listener.connect("192.0.2.1")
        await wait_all_tasks_blocked()
        banned = bench.listener.connect("192.0.2.2")
        await trio.sleep(50)
        bench.close(bench.take(0))
        await wait_all_tasks_blocked()
        assert bench.acceptor.statistics().throttled == 1
        await trio.sleep(1.01)
        assert banned.is_closed_by_server

    run(test, connections_max=1, creation_rate_max_by_ip={"192.0.2.2": 0.0})


def test_throttled_connections_are_closed_at_the_end():
    """Behaviour 22: a shutdown closes what is throttled."""
    clients = []

    async def test(bench):
        clients.extend(bench.listener.connect() for _ in range(3))
        await wait_all_tasks_blocked()
        assert bench.acceptor.statistics().throttled == 2
        assert not any(client.is_closed_by_server for client in clients)

    run(test, creation_rate_max_per_ip=1.0, windows=2)
    assert all(client.is_closed_by_server for client in clients[1:])


def test_the_number_of_open_throttled_connections_is_bounded():
    """Beyond it, connections whose throttle would end first are closed."""

    async def test(bench):
        clients = [bench.listener.connect() for _ in range(THROTTLED_MAX + 11)]
        await wait_all_tasks_blocked()
        assert bench.acceptor.statistics().throttled == THROTTLED_MAX
        assert [client.is_closed_by_server for client in clients] == [False] + [True] * 10 + [False] * THROTTLED_MAX

    run(test, creation_rate_max_per_ip=1.0, windows=2)


def test_a_refused_connection_is_closed_at_once_and_counted_for_no_longer():
    async def test(bench):
        clients = [bench.listener.connect(ip) for ip in ("192.0.2.1", "192.0.2.1", "192.0.2.2")]
        await wait_all_tasks_blocked()
        assert [client.is_closed_by_server for client in clients] == [False, True, False]
        assert bench.quotas.total == 2
        assert bench.acceptor.statistics().rejected == 1

    run(test, connections_max_per_ip=1)


def test_raising_a_limit_wakes_the_acceptors_that_wait_for_it():
    async def test(bench):
        clients = [bench.listener.connect() for _ in range(3)]
        await wait_all_tasks_blocked()
        assert bench.quotas.total == 1
        await trio.sleep(5)
        bench.quotas.limits = ConnectionQuotaLimits(connections_max=2)
        await wait_all_tasks_blocked()
        assert bench.quotas.total == 2
        assert bench.acceptor.statistics().blocked_seconds == 5.0
        assert not clients[2].is_closed_by_server

    run(test, connections_max=1)


def test_a_listener_above_its_rate_waits_despite_free_slots():
    async def test(bench):
        for _ in range(5):
            bench.listener.connect()
        accepted = []
        for _ in range(5):
            await wait_all_tasks_blocked()
            accepted.append(bench.acceptor.statistics().accepted)
            await trio.sleep(1.01)
        assert accepted == [1, 2, 3, 4, 5]
        assert bench.acceptor.statistics().blocked_seconds == pytest.approx(4, abs=0.1)

    run(test, creation_rate_max_by_listener={"L": 1.0}, windows=2)


def test_a_client_waiting_for_a_slot_is_closed_when_the_acceptor_ends():
    clients = []

    async def test(bench):
        clients.extend(bench.listener.connect() for _ in range(2))
        await wait_all_tasks_blocked()

    run(test, connections_max=1)
    assert clients[1].is_closed_by_server


def test_closing_the_listening_socket_raises_in_a_waiting_task():
    async def waiting(source):
        with pytest.raises(trio.ClosedResourceError):
            await source.wait_readable()

    async def main():
        source = SocketSource(open_listener("L", "127.0.0.1", 0).sock)
        with trio.fail_after(10):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(waiting, source)
                await wait_all_tasks_blocked()
                source.close()

    trio.run(main)
