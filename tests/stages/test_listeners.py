"""A server has several listeners, which are added and removed while it runs.

Longer than most files: the tests of what listeners count use the same servers.
"""

import socket

import attrs
import pytest
import trio

from stages.listener import Listener, open_listener
from stages.mode import MODES, PIPELINED
from stages.processor import NewConnection
from stages.request import Send
from stages.socket_server import ListenerNameError, ServerNotRunningError, SocketServer
from stages.testing.memory_listener import MemoryListener
from stages.testing.memory_storage import MemoryStorage
from stages.testing.memory_transport import memory_connection
from tests.stages.listening_bench import PATIENT, SETTLED, ByFirstByte, run

both_modes = pytest.mark.parametrize("mode", MODES.values(), ids=MODES)


def test_each_listener_has_processors_and_limits_of_its_own():
    async def test(serving):
        small, large = await serving.served("SMALL"), await serving.served("LARGE")
        await serving.ask(large, bytes(200))
        small.send(bytes(11))
        await SETTLED()
        assert small.is_closed_by_server
        statistics = serving.server.statistics()
        assert [(one.id, one.listener, one.connections) for one in statistics.processors] == [
            (0, "SMALL", 0),
            (1, "LARGE", 1),
            (2, "LARGE", 0),
            (3, "LARGE", 0),
        ]
        assert [one.processors for one in statistics.listeners] == [1, 3]

    small = {"limits": attrs.evolve(PATIENT, frame_bytes_max=10), "processors": 1}
    run(test, ("SMALL", small), ("LARGE", {}), processors=3)


def test_counters_sum_the_work_of_every_processor():
    async def test(serving):
        clients = [await serving.served() for _ in range(3)]
        await serving.ask(clients[0], b"once more")
        clients[1].half_close()
        await SETTLED()
        counters = serving.statistics("L").counters
        assert (counters.created, counters.closed, counters.requests_in, counters.responses_out) == (3, 1, 4, 4)
        assert counters.bytes_in == counters.bytes_out == 4 * 4 + 3 * len("hello") + len("once more")
        assert serving.server.statistics().processors[0].counters == counters
        assert serving.statistics("L").connections == serving.statistics("L").quotas.connections == 2

    run(test)


def test_statistics_are_a_snapshot():
    async def test(serving):
        client = await serving.served()
        of_processor, of_listener = serving.server.statistics().processors[0], serving.statistics("L")
        before = repr((of_processor, of_listener))
        await serving.ask(client, b"once more")
        assert repr((of_processor, of_listener)) == before
        assert serving.server.statistics().processors[0] != of_processor

    run(test)


def counted(value, path=""):
    """Return all statistics that are not 0, by path."""
    if isinstance(value, int | float):
        return {path[1:]: value} if value else {}
    fields = value._asdict() if hasattr(value, "_fields") else attrs.asdict(value) if attrs.has(type(value)) else None
    if fields is None:
        fields = dict(enumerate(value)) if isinstance(value, tuple) else {}
    found = {}
    for name, each in fields.items():
        found |= counted(each, f"{path}.{name}")
    return found


def test_statistics_count_the_actions_of_one_client_and_nothing_else():
    async def test(serving):
        await SETTLED()
        before = counted(serving.server.statistics())
        client = await serving.served()
        await serving.ask(client, b"commit")
        (connection,) = serving.connections()
        assert counted(connection.statistics()) == {"received": 2, "released": 2}
        (queue,) = (
            number for number in range(8) if connection.admission.queue is serving.server.channel.queues[number]
        )
        after = counted(serving.server.statistics())
        times = {name for name in after if name.endswith(("_ns", "_seconds", "_rate"))}
        network = {"created": 1, "bytes_in": 19, "bytes_out": 19, "requests_in": 2, "responses_out": 2}
        changed = {
            "acceptors.0.accepted": 1,
            "processors.0.connections": 1,
            "processors.0.connections_total": 1,
            "listeners.0.connections": 1,
            "listeners.0.quotas.connections": 1,
            f"queues.{queue}.connections": 1,
            f"queues.{queue}.put": 2,
            f"queues.{queue}.depth_max": 1,
            "handlers.handled": 2,
            "committer.commits": 1,
            "committer.entries": 1,
            "committer.entries_max": 1,
            "committer.size_bytes": 6,
            **{f"{place}.0.counters.{name}": n for place in ("processors", "listeners") for name, n in network.items()},
        }
        assert {name: after[name] for name in after.keys() - times} == before | changed
        assert {name.split(".", 2)[-1] for name in before} == {
            "bytes_max",
            "capacity",
            "handlers",
            "idle",
            "index",
            "processors",
        }

    run(test)


async def is_stopping(serving):
    """Start to stop the server, which waits for a parked request."""
    client = await serving.served()
    client.send(b"p")
    await SETTLED()
    serving.server.stop()
    await SETTLED()


def test_a_stopping_server_serves_no_new_listener():
    """It would be added after the others were stopped, and never end."""

    async def test(serving):
        await is_stopping(serving)
        with pytest.raises(ServerNotRunningError):
            await serving.server.add_listener(serving.listener("LATE"))
        serving.sources.pop("LATE").close()  # still owned by the caller
        serving.application.parked[0].complete(Send(b"done"))

    run(test)


def test_a_stopping_server_accepts_no_connection():
    async def test(serving):
        await is_stopping(serving)
        assert serving.sources["L"].is_closed
        serving.application.parked[0].complete(Send(b"done"))

    run(test)


def test_a_server_that_was_cancelled_serves_no_further_listener_and_has_no_further_processors():
    async def main():
        server = SocketServer(PIPELINED, ByFirstByte(), MemoryStorage())
        async with trio.open_nursery() as nursery:
            await nursery.start(server.run, ())
            nursery.cancel_scope.cancel()
        for late in (lambda: server.add_listener(Listener("L")), lambda: server.resize_processors(2)):
            with pytest.raises(ServerNotRunningError):
                await late()

    trio.run(main)


def test_connections_closed_at_the_deadline_of_a_removed_processor_are_counted():
    async def test(serving):
        clients = [await serving.served() for _ in range(4)]
        for client in clients:
            client.send(b"p")
        await SETTLED()
        await serving.server.resize_processors(1)
        await trio.sleep(6.0)
        found = serving.statistics("L")
        assert (found.connections, found.counters.created, found.counters.closed) == (2, 4, 2)

    run(test, processors=2, drain_seconds=5.0)


def test_a_connection_in_memory_counts_for_its_named_listener_or_the_first():
    async def test(serving):
        for listener in ("M", "none of this name"):
            transport, _ = memory_connection()
            await serving.server.connect(transport, peer="within", listener=listener)
        await SETTLED()
        named = [[one.id.split("-")[0] for one in serving.connections(name)] for name in "LM"]
        assert named == [["none of this name"], ["M"]]

    run(test, ("L", {}), ("M", {}))


def test_a_late_connection_in_memory_changes_no_quota():
    """Neither if a processor starts it while ending, nor if it never does."""

    async def test(serving):
        client = await serving.served()
        _, ending = serving.server.processors
        ending.stop_reading()
        late = [memory_connection() for _ in range(3)]
        for index, (transport, _) in enumerate(late):
            assert ending.offer(NewConnection(transport, "address", "192.0.2.1", "L", index, is_counted=False))
        ending.end()
        await ending.wait_ended()
        assert [client.is_closed_by_server for _, client in late] == [True] * 3
        assert ending.statistics().connections_total == 1, "otherwise none was begun, or each"
        assert serving.server.quotas.total == 1
        await serving.ask(client, b"still served")

    run(test, processors=2)


def test_statistics_outlive_the_end_of_serving():
    """Behaviour 31: what was counted is still told once the server has ended, with nothing left open."""

    async def main():
        source, server = MemoryListener(), SocketServer(PIPELINED, ByFirstByte(), MemoryStorage())
        async with trio.open_nursery() as nursery:
            await nursery.start(server.run, [Listener("L", source=source)])
            client = source.connect()
            client.send(b"one", b"two")
            assert await client.receive_count(2) == [b"one", b"two"]
            server.stop()
        statistics = server.statistics()
        assert sum(one.connections for one in statistics.processors) == 0
        counters = statistics.listeners[0].counters
        assert (counters.created, counters.closed, counters.requests_in, counters.responses_out) == (1, 1, 2, 2)
        assert statistics.handlers.handled == 2

    trio.run(main)


def test_a_connections_id_tells_its_ends_its_processor_and_its_place():
    """Behaviour 9: processor 0 and index 0 to 4 in the ids of five connections."""
    application = ByFirstByte()

    async def main():
        server = SocketServer(PIPELINED, application, MemoryStorage())
        listener = open_listener("PLAINTEXT", "127.0.0.1", 0)
        await_processors = attrs.evolve(listener, processors=1)
        port, local_ports = listener.port, []
        with trio.fail_after(20):
            async with trio.open_nursery() as nursery:
                await nursery.start(server.run, [await_processors])
                for _ in range(5):
                    async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
                        local_ports.append(stream.socket.getsockname()[1])
                        await stream.send_all(b"\0\0\0\1s")
                        assert await stream.receive_some() == b"\0\0\0\1s"
                server.stop()
        assert application.ids == [f"127.0.0.1:{port}-127.0.0.1:{one}-0-{i}" for i, one in enumerate(local_ports)]

    trio.run(main)


def test_no_id_is_used_twice():
    """Behaviour 11: also where the same two ends connect again and again, the index makes the ids differ."""

    async def test(serving):
        source = serving.sources["L"]
        for _ in range(3):
            source._number = 0  # the same port again
            client = await serving.served()
            client.reset()
            await SETTLED()
        assert len(set(serving.application.ids)) == 3

    run(test)


@both_modes
def test_a_listener_is_added_while_the_server_runs(mode):
    async def test(serving):
        first = await serving.served("L")
        await serving.server.add_listener(serving.listener("NEW", processors=2))
        second = await serving.served("NEW")
        assert await serving.ask(second, b"c from NEW") == b"c from NEW"
        await serving.ask(first, b"still")
        assert len(serving.server.acceptors) == 2
        with pytest.raises(ListenerNameError):
            await serving.server.add_listener(Listener("NEW"))

    run(test, mode=mode)


@both_modes
def test_a_removed_listener_answers_requests_in_flight_and_frees_everything(mode):
    async def test(serving):
        server, application = serving.server, serving.application
        gone, kept = await serving.served("GONE"), await serving.served("L")
        gone.send(b"parked")
        await SETTLED()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(server.remove_listener, "GONE")
            await SETTLED()
            with pytest.raises(ConnectionRefusedError):
                serving.connect("GONE")
            for change in (lambda: server.add_listener(Listener("GONE")), lambda: server.remove_listener("GONE")):
                with pytest.raises(ListenerNameError):
                    await change()
            assert not gone.is_closed_by_server
            application.parked[0].complete(Send(b"in time"))
        assert await gone.receive_all() == [b"in time"]
        await serving.ask(kept, b"still")
        assert [one.name for one in server.statistics().listeners] == ["L"]
        assert len(server.processors) == 1
        with pytest.raises(ListenerNameError):
            await server.remove_listener("GONE")
        await server.add_listener(serving.listener("GONE"))
        await serving.served("GONE")

    run(test, ("L", {}), ("GONE", {"processors": 2}), mode=mode)


def test_removing_a_listener_takes_no_longer_than_a_drain():
    async def test(serving):
        client = await serving.served("GONE")
        client.send(b"parked for ever")
        await SETTLED()
        began = trio.current_time()
        await serving.server.remove_listener("GONE")
        assert trio.current_time() - began == 3.0
        assert client.is_closed_by_server
        assert serving.server.quotas.total == 0

    run(test, ("L", {}), ("GONE", {}), drain_seconds=3.0)


def test_a_removed_listener_ends_its_retiring_processors_too():
    async def test(serving):
        clients = [await serving.served("GONE") for _ in range(2)]
        for client in clients:
            client.send(b"parked for ever")
        await SETTLED()
        server = serving.server
        await server.resize_processors(1, "GONE")
        server.set_limits(attrs.evolve(server.limits, drain_seconds=3.0))
        began = trio.current_time()
        await server.remove_listener("GONE")
        assert trio.current_time() - began == 3.0
        assert [client.is_closed_by_server for client in clients] == [True, True]
        assert server.quotas.total == 0

    run(test, ("L", {}), ("GONE", {"processors": 2}), drain_seconds=100.0)


def test_removing_a_listener_closes_its_throttled_connections():
    async def test(serving):
        clients = [serving.connect("GONE") for _ in range(3)]
        await SETTLED()
        assert serving.server.acceptors[1].statistics().throttled == 2
        await serving.server.remove_listener("GONE")
        assert all(client.is_closed_by_server for client in clients)

    run(test, ("L", {}), ("GONE", {}), quotas={"creation_rate_max_per_ip": 1.0, "windows": 2})


def test_one_listener_gets_other_processors_than_the_rest():
    async def test(serving):
        server = serving.server
        await server.resize_processors(4, "M")
        assert [one.processors for one in server.statistics().listeners] == [1, 4, 1]
        await server.resize_processors(2)
        assert [one.processors for one in server.statistics().listeners] == [2, 4, 1]
        await server.add_listener(serving.listener("NEW"))
        assert serving.statistics("NEW").processors == 2
        clients = [await serving.served("M") for _ in range(4)]
        before = serving.statistics("M").counters
        await server.resize_processors(1, "M")
        await SETTLED()
        assert [client.is_closed_by_server for client in clients].count(True) == 3
        after = serving.statistics("M").counters
        assert (before.created, before.closed, after.created, after.closed) == (4, 0, 4, 3)
        for name in ("CONTROL", "NONE"):
            with pytest.raises(ListenerNameError):
                await server.resize_processors(2, name)

    run(test, ("L", {}), ("M", {}), ("CONTROL", {"is_control_plane": True}))


def test_the_last_of_overlapping_resizes_wins():
    async def test(serving):
        async with trio.open_nursery() as nursery:
            for count in (5, 1, 7, 3):
                nursery.start_soon(serving.server.resize_processors, count)
                await trio.sleep(0.01)
        await SETTLED()
        assert serving.statistics("L").processors == len(serving.server.processors) == 3

    run(test)


def test_whoever_comes_by_a_privileged_listener_is_known_by_it():
    """Behaviour 55: requests of the listener of peers are told apart from those of clients."""

    def opening(listener):
        def open_session(connection, transport):
            connection.session = f"{listener} {connection.listener}"

        return open_session

    async def test(serving):
        clients = [await serving.served(name) for name in ("L", "PEERS")]
        assert [await serving.ask(client, b"who?") for client in clients] == [b"client L", b"peer PEERS"]

    peers = Listener("PEERS", is_privileged=True)
    assert peers.is_privileged
    assert not Listener("L").is_privileged
    run(test, ("L", {"open_session": opening("client")}), ("PEERS", {"open_session": opening("peer")}))


def test_a_listener_is_bound_before_it_is_served_and_clients_wait_in_its_backlog():
    """Behaviours 56 and 60: 128 clients connect to a backlog of 128 before anybody accepts; then all are served."""

    async def main():
        listener = open_listener("PLAINTEXT", "127.0.0.1", 0, backlog=128)
        clients = [socket.create_connection(("127.0.0.1", listener.port), timeout=10) for _ in range(128)]
        server = SocketServer(PIPELINED, ByFirstByte(), MemoryStorage())
        with trio.fail_after(20):
            async with trio.open_nursery() as nursery:
                await nursery.start(server.run, [listener])
                for client in clients:
                    client.sendall(b"\0\0\0\1s")
                for client in clients:
                    stream = trio.SocketStream(trio.socket.from_stdlib_socket(client))
                    assert await stream.receive_some() == b"\0\0\0\1s"
                    await stream.aclose()
                server.stop()

    trio.run(main)


def test_a_late_connection_is_closed():
    async def main():
        server = SocketServer(PIPELINED, ByFirstByte(), MemoryStorage())
        async with trio.open_nursery() as nursery:
            await nursery.start(server.run, ())
            server.stop()
        transport, client = memory_connection()
        await server.connect(transport, peer="late", listener="MEMORY")
        assert client.is_closed_by_server
        with pytest.raises(RuntimeError):
            await server.add_listener(Listener("LATE"))

    trio.run(main)


def test_a_connection_to_a_server_without_listeners_is_closed():
    async def main():
        server = SocketServer(PIPELINED, ByFirstByte(), MemoryStorage())
        async with trio.open_nursery() as nursery:
            await nursery.start(server.run, (Listener("ONLY"),))
            await server.remove_listener("ONLY")
            transport, client = memory_connection()
            await server.connect(transport, peer="late", listener="ONLY")
            assert client.is_closed_by_server
            server.stop()

    trio.run(main)


class ClosedOnce(MemoryListener):
    """A listening socket that must be closed only once, since its descriptor may be reused."""

    def close(self):
        assert not self.is_closed
        super().close()


def test_a_server_that_is_stopped_before_it_serves_closes_its_sockets():
    """Behaviour 28: a stop that comes first."""

    async def main():
        sources = [ClosedOnce(), ClosedOnce()]
        waiting = sources[1].connect()
        server = SocketServer(PIPELINED, ByFirstByte(), MemoryStorage())
        server.stop()
        with trio.fail_after(20):
            await server.run([Listener(f"L{index}", source=source) for index, source in enumerate(sources)])
        assert [source.is_closed for source in sources] == [True, True]
        assert waiting.is_closed_by_server

    trio.run(main)


def test_a_server_that_is_cancelled_before_it_accepts_closes_its_sockets_where_it_has_any():
    async def main():
        source = MemoryListener()
        server = SocketServer(PIPELINED, ByFirstByte(), MemoryStorage())
        async with trio.open_nursery() as nursery:
            nursery.start_soon(server.run, [Listener("SOCKET", source=source), Listener("NONE")])
            while len(server._listeners) < 2:
                await trio.lowlevel.checkpoint()
            nursery.cancel_scope.cancel()
        assert source.is_closed

    trio.run(main)


class BrokenSource(MemoryListener):
    """A listener whose acceptor fails."""

    async def wait_readable(self):
        await trio.lowlevel.checkpoint()
        raise RuntimeError("broken")


def test_an_acceptor_that_breaks_ends_the_server_which_closes_every_listener():
    """Behaviours 58 and 59: what is needed to serve and fails is told to whoever started the server."""

    async def main():
        sources = [MemoryListener(), BrokenSource()]
        server = SocketServer(PIPELINED, ByFirstByte(), MemoryStorage())
        with trio.fail_after(20), pytest.raises(ExceptionGroup) as raised:
            await server.run([Listener(f"L{index}", source=source) for index, source in enumerate(sources)])
        assert raised.group_contains(RuntimeError, match="broken", depth=None)
        assert [source.is_closed for source in sources] == [True, True]

    trio.run(main)


@both_modes
def test_a_stop_ends_also_with_queues_of_new_connections_that_are_full(mode):
    """Behaviour 4: two listeners, more newcomers than their processors have begun; all are closed."""
    clients = []

    async def test(serving):
        clients.extend(serving.connect(name) for name in ("L", "M") for _ in range(50))

    run(test, ("L", {}), ("M", {}), mode=mode)
    assert all(client.is_closed_by_server for client in clients)
