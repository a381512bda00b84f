"""The end of a member's connections to the controller: it joins, follows the metadata, and forwards requests.

Counterpart in Kafka: `BrokerLifecycleManager`, `MetadataPublisher`, `ForwardingManager`.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import trio

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.broker.broker import Broker
from pipeline_broker.node.assembly import AssembledBroker
from pipeline_broker.node.errors import StartError
from pipeline_broker.node.metadata_stream import APPLIED, BATCHES, BATCHES_BYTES_MAX
from pipeline_broker.node.peer_link import FrameReader
from pipeline_broker.node.peer_server import serve_peers
from pipeline_broker.node.peer_socket import PeerError, connect_peer
from pipeline_broker.node.peers import Peers, Response
from pipeline_broker.records.batch import iterate_batches
from pipeline_broker.records.record import iterate_records
from pipeline_broker.state.leadership.records import ListenerAddress
from pipeline_broker.state.leadership.replication import Replication
from pipeline_broker.web.turns import in_turns
from stages.request import Request, Result

__all__ = ["Member"]

logger = logging.getLogger(__name__)

UNREACHABLE = (PeerError, OSError, trio.BrokenResourceError, trio.ClosedResourceError)
"""Errors of a connection to a controller that is starting or has ended."""
RECONNECT_SECONDS = 0.2
JOIN_SECONDS_MAX = 60.0
"""The longest wait of a start for the controller, which may be starting, too."""
CONTROLLER_DOWN_SECONDS = 2.0
"""After this time without the controller, its partitions have no leader. A restart takes less."""


def _records_of(batches: bytes) -> Iterator[tuple[bytes, bytes | None]]:
    for header, batch in iterate_batches(batches):
        if not header.is_control:
            for record in iterate_records(batch, header):
                yield record.key or b"", record.value


class Member:
    """A broker that is not the controller, as `ClusterPort`.

    Args:
        directory: directory of the cluster.
        controller_id: id of the controller.
        replication: see `ClusterPort`.
    """

    def __init__(
        self, directory: Path, node_id: int, controller_id: int, replication: Replication | None = None
    ) -> None:
        self.replication = replication
        self.controller_id = controller_id
        self._node_id = node_id
        self._directory = directory
        self._position = 0
        self._generation = 0
        self.listeners: Mapping[str, ListenerAddress] = {}
        self._stream: trio.SocketStream | None = None
        self._frames: FrameReader | None = None
        self._peers = Peers(directory)
        self._refuse: Callable[[Request, ErrorCode], Result] | None = None

    def metadata_durable(self) -> None: ...  # records of its own journal concern no other broker

    # Joining

    async def join(self, listeners: Mapping[str, tuple[str, int]]) -> list[tuple[bytes, bytes | None]]:
        """Join the cluster, and return the records of its metadata up to the one of this process (C1).

        Args:
            listeners: advertised addresses of this broker, by the names of listeners.

        Raises:
            StartError: the controller did not answer within JOIN_SECONDS_MAX.
        """
        self.listeners = {name: ListenerAddress(*address) for name, address in listeners.items()}
        found: list[tuple[bytes, bytes | None]] = []
        with trio.move_on_after(JOIN_SECONDS_MAX):
            while True:
                try:
                    end = await self._connect()
                    while self._position < end:
                        found += await self._receive()
                except UNREACHABLE:
                    await trio.sleep(RECONNECT_SECONDS)
                else:
                    return found
        raise StartError(f"the controller, broker {self.controller_id}, did not answer within {JOIN_SECONDS_MAX:g} s")

    async def _connect(self) -> int:
        self._disconnect()
        hello = {"node_id": self._node_id, "listeners": self.listeners, "position": self._position}
        self._stream = await connect_peer(self._directory, self.controller_id, {"member": hello})
        self._frames = FrameReader(self._stream)
        answer = await self._frames.line()
        self._generation = int(answer["generation"])
        return int(answer["end"])

    def _disconnect(self) -> None:
        if self._stream is not None:
            self._stream.socket.close()
            self._stream = None

    async def _receive(self) -> Iterable[tuple[bytes, bytes | None]]:
        assert self._frames is not None, "connected first"
        size, end = BATCHES.unpack(await self._frames.exactly(BATCHES.size))
        if size > BATCHES_BYTES_MAX:
            raise PeerError(f"the controller sent {size} bytes of metadata at once")
        batches = await self._frames.exactly(size)
        self._position = end
        return _records_of(batches)  # decoded one by one, in the turns of the caller

    async def _acknowledge(self) -> None:
        assert self._stream is not None, "connected first"
        await self._stream.send_all(APPLIED.pack(self._position))

    # Following

    async def run(
        self, assembled: AssembledBroker, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        broker, self._refuse = assembled.broker, assembled.dispatcher.refuse
        serve = functools.partial(serve_peers, self._directory, self._node_id, assembled.server)
        try:
            async with trio.open_nursery() as nursery:
                await nursery.start(self._peers.run)
                await nursery.start(serve)
                nursery.start_soon(self._follow, broker)
                task_status.started()
        finally:
            self._disconnect()

    async def _follow(self, broker: Broker) -> None:
        while True:
            try:
                await self._acknowledge()
                while True:
                    self._check_joined(broker)
                    await in_turns(broker.apply_metadata(await self._receive()))
                    is_open = trio.Event()
                    while broker.open_partitions(broker.ports.clock_ms(), is_open.set):
                        await is_open.wait()
                        is_open = trio.Event()
                    await self._acknowledge()
            except UNREACHABLE as error:
                logger.info("lost the controller: %s", error)
            await self._reconnect(broker)

    def _check_joined(self, broker: Broker) -> None:
        assert broker.members is not None, "a member is in a cluster"
        # The controller may serve the connection of an earlier process later than that of this one, and fence it then.
        if broker.members.is_replaced(self._generation):
            raise PeerError("another process of this broker has joined")

    async def _reconnect(self, broker: Broker) -> None:
        lost_at = trio.current_time()
        while True:
            if trio.current_time() - lost_at > CONTROLLER_DOWN_SECONDS:
                broker.controller_reached(is_reached=False)
            try:
                await self._connect()
            except UNREACHABLE:
                await trio.sleep(RECONNECT_SECONDS)
            else:
                logger.info("joined the cluster again")
                broker.controller_reached(is_reached=True)
                return

    # Requests to other brokers

    def forward(self, request: Request) -> Result:
        assert self._refuse is not None, "requests arrive once the member runs"
        return self._peers.forward(self.controller_id, request, self._refuse)

    def ask(
        self, node_id: int, request: Any, response_type: type[Response], done: Callable[[Response | None], None]
    ) -> None:
        self._peers.ask(node_id, request, response_type, done)

    def when_applied(self, go_on: Callable[[], None]) -> None:
        raise AssertionError(f"only the controller calls {go_on} after its changes")

    def connection_closed(self, session: object) -> None:
        self._peers.connection_closed(session)
