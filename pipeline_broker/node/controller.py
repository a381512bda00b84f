"""The controller of a cluster: registers the brokers of a machine, and sends them the metadata.

Counterpart in Kafka: `QuorumController`, `ControllerServer`, without a quorum: one broker of the machine is the
controller, and its journal holds the metadata.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import trio

from pipeline_broker.broker.broker import Broker
from pipeline_broker.log.partition.partition_log import PartitionLog
from pipeline_broker.node.assembly import AssembledBroker
from pipeline_broker.node.metadata_stream import APPLIED, BATCHES
from pipeline_broker.node.peer_server import serve_peers
from pipeline_broker.node.peer_socket import send_hello
from pipeline_broker.node.peers import Peers, Response
from pipeline_broker.records.batch import iterate_batches
from pipeline_broker.state.leadership.cluster_image import ClusterImage
from pipeline_broker.state.leadership.nodes import NodeState
from pipeline_broker.state.leadership.records import ListenerAddress, NodeRecord, node_record
from pipeline_broker.state.leadership.replication import Replication
from pipeline_broker.state.outcome import Write
from stages.request import Request, Result

__all__ = ["Controller"]

logger = logging.getLogger(__name__)

READ_BYTES_MAX = 1 << 20
APPLIED_SECONDS_MAX = 0.5
"""The longest wait of a change for members that have not applied it."""
REJOIN_SECONDS = 5.0
"""Time for the members to join again after the controller's start; the others are fenced then."""


class Controller:
    """The controller's end of all connections of its peers.

    Args:
        directory: directory of the cluster.
        controller_id: id of this broker.
        replication: see `ClusterPort`.
    """

    def __init__(self, directory: Path, controller_id: int, replication: Replication | None = None) -> None:
        self.replication = replication
        self.controller_id = controller_id
        self._directory = directory
        self._of_broker: Broker | None = None
        self.listeners: Mapping[str, ListenerAddress] = {}
        self._peers = Peers(directory)
        self._nursery: trio.Nursery | None = None
        self._metadata_grew = trio.lowlevel.ParkingLot()
        self._members: dict[int, int] = {}  # generations of the connected members
        self._applied: dict[int, int] = {}  # by member: the end of the metadata that it has applied
        self._has_applied = trio.lowlevel.ParkingLot()

    def metadata_durable(self) -> None:
        self._metadata_grew.unpark_all()

    def forward(self, request: Request) -> Result:
        raise AssertionError(f"the controller handles {request} itself")

    def ask(
        self, node_id: int, request: Any, response_type: type[Response], done: Callable[[Response | None], None]
    ) -> None:
        self._peers.ask(node_id, request, response_type, done)

    def connection_closed(self, session: object) -> None: ...  # the controller forwards no requests

    @property
    def _broker(self) -> Broker:
        assert self._of_broker is not None, "`run` sets the broker"
        return self._of_broker

    @property
    def _image(self) -> ClusterImage:
        members = self._broker.members
        assert members is not None, "the broker is in a cluster"
        return members.image

    async def join(self, listeners: Mapping[str, tuple[str, int]]) -> Iterable[tuple[bytes, bytes | None]]:
        """Return no records, because the journal of this broker has them, and gets that of this process at startup."""
        self.listeners = {name: ListenerAddress(*address) for name, address in listeners.items()}
        return ()

    async def run(
        self, assembled: AssembledBroker, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        self._of_broker = assembled.broker
        serve = functools.partial(
            serve_peers, self._directory, self.controller_id, assembled.server, self._serve_member
        )
        try:
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                nursery.start_soon(self._fence_absent)
                await nursery.start(self._peers.run)
                await nursery.start(serve)
                task_status.started()
        finally:
            self._nursery = None

    async def _serve_member(self, stream: trio.SocketStream, member: Mapping[str, Any]) -> None:
        node_id, position = int(member["node_id"]), int(member["position"])
        listeners = {name: ListenerAddress(*address) for name, address in member["listeners"].items()}
        known = self._image.nodes.get(node_id)
        generation = 1 if known is None else known.generation + 1
        self._members[node_id] = generation
        try:
            await self.commit_node(NodeRecord(node_id, generation, NodeState.JOINED, listeners))
            await send_hello(stream, {"generation": generation, "end": self._log.high_watermark})
            logger.info("broker %d joined the cluster", node_id)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._read_applied, stream, node_id, nursery.cancel_scope)
                await self._send_metadata(stream, position)
        finally:
            if self._members.get(node_id) == generation:
                del self._members[node_id]
                self._applied.pop(node_id, None)
                self._has_applied.unpark_all()
                self._fence(node_id, generation)

    @property
    def _log(self) -> PartitionLog:
        return self._broker.metadata_log

    async def _send_metadata(self, stream: trio.SocketStream, position: int) -> None:
        while True:
            while position >= self._log.high_watermark:
                await self._metadata_grew.park()
            result = self._log.read(max(position, self._log.log_start_offset), READ_BYTES_MAX, at_least_one=True)
            parts = result.parts if result.cold is None else await trio.to_thread.run_sync(result.cold)
            batches = b"".join(parts)
            end = _end_of(batches) if batches else self._log.high_watermark
            await stream.send_all(BATCHES.pack(len(batches), end) + batches)
            position = end

    async def _read_applied(self, stream: trio.SocketStream, node_id: int, scope: trio.CancelScope) -> None:
        received = b""
        async for chunk in stream:
            received += chunk
            whole = len(received) // APPLIED.size * APPLIED.size
            if whole:
                (self._applied[node_id],) = APPLIED.unpack_from(received, whole - APPLIED.size)
                received = received[whole:]
                self._has_applied.unpark_all()
        scope.cancel()

    def when_applied(self, go_on: Callable[[], None]) -> None:
        """Call `go_on` once all members have applied the metadata of now, or after APPLIED_SECONDS_MAX."""
        end = self._log.high_watermark
        if self._nursery is None or self._is_applied(end):
            go_on()
        else:
            self._nursery.start_soon(self._wait_applied, end, go_on)

    def _is_applied(self, end: int) -> bool:
        return all(self._applied.get(node, 0) >= end for node in self._members)

    async def _wait_applied(self, end: int, go_on: Callable[[], None]) -> None:
        with trio.move_on_after(APPLIED_SECONDS_MAX):
            while not self._is_applied(end):
                await self._has_applied.park()
        go_on()

    async def commit_node(self, record: NodeRecord) -> None:
        done = trio.Event()
        self._submit_node(record, done.set)
        await done.wait()

    def _submit_node(self, record: NodeRecord, then: Any = None) -> None:
        broker = self._broker
        write = Write("", (node_record(record),))

        def apply() -> None:
            broker.node_durable(write)
            if then is not None:
                then()

        broker.ports.submit([broker.append_metadata(write, broker.ports.clock_ms())], apply)

    def _fence(self, node_id: int, generation: int) -> None:
        known = self._image.nodes.get(node_id)
        if known is not None and known.generation == generation and known.state is NodeState.JOINED:
            logger.info("broker %d left the cluster", node_id)  # the supervisor logs each end
            self._submit_node(NodeRecord(node_id, generation, NodeState.FENCED, dict(known.listeners)))

    async def _fence_absent(self) -> None:
        await trio.sleep(REJOIN_SECONDS)
        for node_id, node in list(self._image.nodes.items()):
            if node_id not in self._members and node_id != self._broker.config.node_id:
                self._fence(node_id, node.generation)


def _end_of(batches: bytes) -> int:
    end = 0
    for header, _ in iterate_batches(batches):
        end = header.last_offset + 1
    return end
