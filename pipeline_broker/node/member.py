"""The end of a member's connections to the controller: it joins, follows the metadata, and forwards requests.

Counterpart in Kafka: `BrokerLifecycleManager`, `MetadataPublisher`, `ForwardingManager`.
"""

from __future__ import annotations

import json
import logging
import struct
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import trio

from pipeline_broker.apis.call import Session
from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.base.first_cause import first_cause
from pipeline_broker.broker.broker import Broker
from pipeline_broker.node.assembly import AssembledBroker
from pipeline_broker.node.controller import BATCHES_HEADER, OFFSET
from pipeline_broker.node.peer_socket import HELLO_BYTES_MAX, PeerError, connect_peer
from pipeline_broker.records.batch import iterate_batches
from pipeline_broker.records.record import iterate_records
from stages.request import PARKED, Request, Result, Send

__all__ = ["Member", "MetadataRecords"]

logger = logging.getLogger(__name__)

BATCHES_BYTES_MAX = 256 << 20
RECONNECT_SECONDS = 0.2
RESPONSE_BYTES_MAX = 256 << 20
FORWARD_SECONDS = 5.0
_LENGTH = struct.Struct(">i")


class MetadataRecords(NamedTuple):
    """Records of the metadata, in order.

    Attributes:
        end: offset after the last one.
    """

    records: list[tuple[bytes, bytes | None]]
    end: int


class _Stream:
    """Reads whole frames of the controller's stream."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self._stream = stream
        self._received = b""

    async def line(self) -> Mapping[str, Any]:
        while b"\n" not in self._received:
            await self._more()
            if len(self._received) > HELLO_BYTES_MAX:
                raise PeerError("the controller's first line is too long")
        line, _, self._received = self._received.partition(b"\n")
        found = json.loads(line)
        if not isinstance(found, dict):
            raise PeerError("the controller's first line is not a JSON object")
        return found

    async def exactly(self, size: int) -> bytes:
        while len(self._received) < size:
            await self._more()
        taken, self._received = self._received[:size], self._received[size:]
        return taken

    async def _more(self) -> None:
        chunk = await self._stream.receive_some()
        if not chunk:
            raise PeerError("the controller closed the connection")
        self._received += chunk

    async def records(self) -> MetadataRecords:
        size, end = BATCHES_HEADER.unpack(await self.exactly(BATCHES_HEADER.size))
        if size > BATCHES_BYTES_MAX:
            raise PeerError(f"the controller sent {size} bytes of metadata at once")
        return MetadataRecords(list(_records_of(await self.exactly(size))), end)


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
    """

    def __init__(self, directory: Path, node_id: int, controller_id: int) -> None:
        self.controller_id = controller_id
        self._node_id = node_id
        self._directory = directory
        self._position = 0
        self._listeners: Mapping[str, tuple[str, int]] = {}
        self._stream: trio.SocketStream | None = None
        self._frames: _Stream | None = None
        self._nursery: trio.Nursery | None = None
        self._refuse: Callable[[Request, ErrorCode], Result] | None = None
        self._links: dict[Session, _Forwarding] = {}

    def metadata_durable(self) -> None:
        """Ignore records of the broker's own journal, which concern no other broker."""

    # Joining

    async def join(self, listeners: Mapping[str, tuple[str, int]]) -> list[tuple[bytes, bytes | None]]:
        """Join the cluster, and return the records of its metadata up to the one of this process (C1).

        Args:
            listeners: advertised addresses of this broker, by the names of listeners.

        Raises:
            PeerError, OSError, trio.BrokenResourceError: the controller is not reachable.
        """
        self._listeners = listeners
        found: list[tuple[bytes, bytes | None]] = []
        end = await self._connect()
        while self._position < end:
            found += await self._receive()
        return found

    async def _connect(self) -> int:
        hello = {"node_id": self._node_id, "listeners": self._listeners, "position": self._position}
        self._stream = await connect_peer(self._directory, {"member": hello})
        self._frames = _Stream(self._stream)
        return int((await self._frames.line())["end"])

    async def _receive(self) -> list[tuple[bytes, bytes | None]]:
        assert self._frames is not None, "connected first"
        received = await self._frames.records()
        self._position = received.end
        return received.records

    async def _acknowledge(self) -> None:
        assert self._stream is not None, "connected first"
        await self._stream.send_all(OFFSET.pack(self._position))

    # Following

    async def run(
        self, assembled: AssembledBroker, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Apply the metadata and forward requests until cancelled."""
        broker, self._refuse = assembled.broker, assembled.dispatcher.refuse
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            nursery.start_soon(self._follow, broker)
            task_status.started()

    async def _follow(self, broker: Broker) -> None:
        while True:
            try:
                await self._acknowledge()
                while True:
                    broker.apply_metadata(await self._receive(), broker.ports.clock_ms())
                    await self._acknowledge()
            except (PeerError, OSError, trio.BrokenResourceError, trio.ClosedResourceError) as error:
                logger.warning("lost the controller: %s", error)
            await self._reconnect()

    async def _reconnect(self) -> None:
        while True:
            try:
                await self._connect()
            except (PeerError, OSError, trio.BrokenResourceError, ValueError):
                await trio.sleep(RECONNECT_SECONDS)
            else:
                logger.info("joined the cluster again")
                return

    # Forwarding

    def forward(self, request: Request) -> Result:
        session = request.connection.session
        assert isinstance(session, Session), "the dispatcher has made it"
        assert self._nursery is not None, "requests arrive once the member runs"
        link = self._links.get(session)
        if link is None:
            link = self._links[session] = _Forwarding()
            self._nursery.start_soon(self._run_link, session, link)
        link.add(request)
        return PARKED

    def connection_closed(self, session: object) -> None:
        assert isinstance(session, Session), "the dispatcher passes its sessions"
        link = self._links.pop(session, None)
        if link is not None:
            link.scope.cancel()

    async def _run_link(self, session: Session, link: _Forwarding) -> None:
        hello = {
            "host": session.host,
            "listener": session.listener,
            "security_protocol": session.security_protocol,
            "principal": [session.principal.type, session.principal.name],
            "is_by_token": session.is_by_token,
            "is_privileged": session.is_privileged,
        }
        code = ErrorCode.NOT_CONTROLLER
        try:
            with link.scope:
                with trio.fail_after(FORWARD_SECONDS):
                    stream = await self._connect_client(hello)
                async with stream:
                    code = ErrorCode.REQUEST_TIMED_OUT
                    await link.run(stream)
        except* (PeerError, OSError, trio.BrokenResourceError, trio.ClosedResourceError, trio.TooSlowError) as errors:
            logger.warning("cannot forward requests to the controller: %s", first_cause(errors))
        finally:
            self._links.pop(session, None)
            assert self._refuse is not None, "the member runs"
            link.fail(self._refuse, code)

    async def _connect_client(self, hello: Mapping[str, Any]) -> trio.SocketStream:
        while True:
            try:
                return await connect_peer(self._directory, {"client": hello})
            except (OSError, trio.BrokenResourceError):
                await trio.sleep(RECONNECT_SECONDS)


class _Forwarding:
    """The forwarded requests of one client, whose responses arrive in their order."""

    def __init__(self) -> None:
        self.scope = trio.CancelScope()
        self._unsent: deque[Request] = deque()
        self._sent: deque[Request] = deque()
        self._added = trio.lowlevel.ParkingLot()

    def add(self, request: Request) -> None:
        self._unsent.append(request)
        self._added.unpark_all()

    async def run(self, stream: trio.SocketStream) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._send, stream)
            frames = _Stream(stream)
            while True:
                (size,) = _LENGTH.unpack(await frames.exactly(_LENGTH.size))
                if not 0 <= size <= RESPONSE_BYTES_MAX:
                    raise PeerError(f"the controller sent a response of {size} bytes")
                response = await frames.exactly(size)
                if not self._sent:
                    raise PeerError("the controller sent a response without a request")
                self._sent.popleft().complete(Send(response))

    async def _send(self, stream: trio.SocketStream) -> None:
        while True:
            while not self._unsent:
                await self._added.park()
            request = self._unsent.popleft()
            self._sent.append(request)
            frame = bytes(request.frame)
            await stream.send_all(_LENGTH.pack(len(frame)) + frame)

    def fail(self, refuse: Callable[[Request, ErrorCode], Result], code: ErrorCode) -> None:
        """Refuse the requests that got no response."""
        for request in (*self._sent, *self._unsent):
            request.complete(refuse(request, code))
        self._sent.clear()
        self._unsent.clear()
