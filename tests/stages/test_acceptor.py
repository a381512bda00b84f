"""An acceptor waits where its processors are behind, and serves on when they catch up."""

import socket

import trio
from trio.testing import wait_all_tasks_blocked

from stages.acceptor import Acceptor, open_listener
from stages.connection_quotas import ConnectionQuotaLimits, ConnectionQuotas
from stages.processor import NEW_CONNECTIONS_MAX


class Behind:
    """A processor that does not run: its queue of new connections only fills."""

    def __init__(self):
        self.send, self.receive = trio.open_memory_channel(NEW_CONNECTIONS_MAX)
        self.offer, self.put = self.send.send_nowait, self.send.send


def test_it_tries_every_processor_and_waits_at_the_last():
    async def main():
        listener = open_listener("PLAINTEXT", "127.0.0.1", 0)
        processors, quotas = [Behind(), Behind()], ConnectionQuotas(ConnectionQuotaLimits())
        numbers = iter(range(1000))
        acceptor = Acceptor(listener, processors, quotas, trio.lowlevel.ParkingLot(), lambda: next(numbers))
        clients, connections = [], []
        with trio.fail_after(20):
            async with trio.open_nursery() as nursery:
                await nursery.start(acceptor.run)
                for _ in range(2 * NEW_CONNECTIONS_MAX + 2):
                    clients.append(socket.create_connection(("127.0.0.1", listener.port)))
                    await wait_all_tasks_blocked(0.001)
                assert acceptor.statistics().accepted == 2 * NEW_CONNECTIONS_MAX
                waiting = [processor.receive.statistics().tasks_waiting_send for processor in processors]
                assert sorted(waiting) == [0, 1]
                connections.append(processors[waiting.index(1)].receive.receive_nowait())
                await wait_all_tasks_blocked(0.001)
                assert acceptor.statistics().accepted == 2 * NEW_CONNECTIONS_MAX + 1
                nursery.cancel_scope.cancel()
        assert quotas.total == 2 * NEW_CONNECTIONS_MAX + 1  # the one that waited at the end was released
        for processor in processors:
            while processor.receive.statistics().current_buffer_used:
                connections.append(processor.receive.receive_nowait())
        for connection in connections:
            connection.transport.close()
            connection.on_closed()
        for client in clients:
            client.close()
        assert quotas.total == 0

    trio.run(main)
