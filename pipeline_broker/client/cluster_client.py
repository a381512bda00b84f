"""Connections to the brokers of a cluster, and the routing of requests to leaders, coordinators and the controller.

A broken connection is reopened for the next request. Retriable errors are retried with growing pauses until the
cluster's timeout. The first connection is attempted only once, so a mistyped address fails at once.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any, TypeVar

import trio

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.client.errors import BrokerRefused, ClientError, ConnectionLost, check, with_hint
from pipeline_broker.client.link import Link
from pipeline_broker.client.rights import note_answered
from pipeline_broker.client.secure_connection import connect_securely
from pipeline_broker.client.security import PLAINTEXT, ClientSecurity
from pipeline_broker.client.topology import TopicPartition, Topology, topology_of, without_leader
from pipeline_broker.wire.messages.groups.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from pipeline_broker.wire.messages.topics.metadata import MetadataRequest, MetadataResponse
from pipeline_broker.wire.messages.transactions.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

__all__ = ["INIT_PRODUCER_ID_VERSIONS", "PARTITION_CHECK_S", "Address", "ClusterClient", "connected"]

Address = tuple[str, int]
Response = TypeVar("Response")
Result = TypeVar("Result")

RETRY_S_MIN = 0.05
"""First pause before a retry; each pause is twice the previous one."""
RETRY_S_MAX = 1.0
"""Longest pause before a retry."""
CREATION_S_MAX = 5.0
"""Longest wait for a topic that a broker creates automatically."""
PARTITION_CHECK_S = 10.0
"""Interval between checks for added partitions. Other clients use five minutes (metadata.max.age.ms), which is too long
for following a topic on a terminal."""
PROBE_S_MAX = 2.0
"""Longest wait for the probe of a broker that did not answer a request."""
INIT_PRODUCER_ID_VERSIONS = range(6)
_NOT_YET = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.LEADER_NOT_AVAILABLE})
# The key in `ClusterClient._links` of the connection to a bootstrap address; real keys are node ids.
_FOUND = -1
_NO_ANSWER = -2
# The error code of the probe explains why a broker does not answer another request.
_PROBE_RESULTS: dict[int, str] = {
    _NO_ANSWER: ", nor any other request",
    ErrorCode.KAFKA_STORAGE_ERROR: (
        ": it cannot write now, as on a full disk, and may carry out the request later. `cluster log-dirs` shows the"
        " free space; the broker's log says what to do"
    ),
}
_GROUP = 0
_KEY_TYPES = {_GROUP: "group", 1: "transaction"}  # the key types of FindCoordinator
_FIND_COORDINATOR_VERSIONS = range(1, 4)  # later versions have several keys per request
_NOT_COORDINATOR = frozenset(
    {ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
)


@contextlib.asynccontextmanager
async def connected(
    addresses: Sequence[Address], timeout_s: float, security: ClientSecurity = PLAINTEXT
) -> AsyncIterator[ClusterClient]:
    """Connect to a cluster, and close its connections at the end of the block.

    Args:
        addresses: bootstrap brokers, of which one must be reachable.
        timeout_s: the longest wait for an answer, and for all retries of a request.
        security: TLS and SASL of all connections.

    Raises:
        ClientError: no address can be reached, or the broker rejects the client.
    """
    async with trio.open_nursery() as nursery:
        cluster = ClusterClient(addresses, timeout_s, security, nursery)
        await cluster.link(None)
        yield cluster
        nursery.cancel_scope.cancel()


class ClusterClient:
    """The brokers of a cluster, and one connection to each of them that is in use. Made by `connected`."""

    def __init__(
        self, addresses: Sequence[Address], timeout_s: float, security: ClientSecurity, nursery: trio.Nursery
    ) -> None:
        self.timeout_s = timeout_s
        self._addresses = list(addresses)
        self._security = security
        self._nursery = nursery
        self._links: dict[int, Link] = {}
        self._opening: dict[int, trio.Lock] = {}
        self._topology: Topology | None = None
        self._coordinators: dict[tuple[int, str], int] = {}

    async def link(self, node: int | None) -> Link:
        """Return a connection to a broker, opened if necessary.

        Args:
            node: the id of the broker; None: any broker.

        Raises:
            ConnectionLost: the broker cannot be reached, or does not answer within the timeout.
            ClientError: the broker rejects the client, or the id is unknown.
        """
        place = self._place(node)
        # Tasks that need the same broker share one attempt to connect.
        async with self._opening.setdefault(place, trio.Lock()):
            link = self._links.get(place)
            if link is None or link.is_broken:
                link = self._links[place] = await self._open(place)
            return link

    def _place(self, node: int | None) -> int:
        # A single broker is reached at its bootstrap address, whatever it advertises: through a tunnel or the mapped
        # port of a container, the advertised address does not work.
        is_alone = self._topology is not None and self._topology.brokers.keys() <= {node}
        return _FOUND if node is None or is_alone else node

    async def _open(self, place: int) -> Link:
        if place == _FOUND:
            # The bootstrap brokers may be down; any known broker will do.
            known = self._topology.brokers.values() if self._topology else ()
            addresses = list(dict.fromkeys([*self._addresses, *((it.host, it.port) for it in known)]))
        else:
            topology = self._topology or await self.refresh(())
            if place not in topology.brokers:
                raise ClientError(f"unknown broker {place}. Use one of {', '.join(map(str, sorted(topology.brokers)))}")
            broker = topology.brokers[place]
            addresses = [(broker.host, broker.port)]
        errors: list[ClientError] = []
        for host, port in addresses:
            try:
                with trio.fail_after(self.timeout_s):
                    return await self._started(host, port)
            except ClientError as error:
                errors.append(error)
            except trio.TooSlowError:
                errors.append(ConnectionLost(f"{host}:{port} did not answer within {self.timeout_s:g} s"))
        why = "; ".join(with_hint(str(error)) for error in errors)
        # A wrong password or certificate stays wrong, so a client that may retry must not.
        raise (ConnectionLost if any(error.is_retriable for error in errors) else ClientError)(why)

    async def _started(self, host: str, port: int) -> Link:
        link: Link = await self._nursery.start(self._run_link, host, port)
        return link

    async def _run_link(self, host: str, port: int, *, task_status: trio.TaskStatus[Link]) -> None:
        async with connect_securely(host, port, self._security) as connection:
            link = Link(connection, f"{host}:{port}")
            refusal: ClientError | None = None
            async with trio.open_nursery() as nursery:
                nursery.start_soon(link.run_writer)
                nursery.start_soon(link.run_reader)
                try:
                    await link.negotiate()
                except ClientError as error:
                    refusal = error
                else:
                    task_status.started(link)
                    await link.broken.wait()
                nursery.cancel_scope.cancel()
            if refusal is not None:
                # Raised by `nursery.start` in `_started`, so only the caller that opens the connection gets it.
                raise refusal

    async def ask(
        self,
        request: Any,
        response_type: type[Response],
        *,
        node: int | None = None,
        versions: range | None = None,
        wait_s: float = 0.0,
    ) -> Response:
        """Send a request once, and return its response.

        Args:
            node: the id of the broker; None: any broker.
            versions: the versions that the client may use; None: all that are declared.
            wait_s: seconds that the broker may take on purpose, in addition to the timeout.

        Raises:
            ConnectionLost: the broker cannot be reached, or the connection broke.
            ClientError: the id is unknown, no common version exists, the request cannot be encoded, or the response is
                late or malformed.
        """
        link = await self.link(node)
        return await self.answer(link, request, link.send(request, response_type, versions), node=node, wait_s=wait_s)

    async def answer(
        self,
        link: Link,
        request: Any,
        answer: Callable[[], Awaitable[Response]],
        *,
        node: int | None = None,
        wait_s: float = 0.0,
    ) -> Response:
        """Wait for the response to a request, and return it.

        If the response is late, a small request to the probed broker finds the reason. It takes up to PROBE_S_MAX
        seconds.

        Args:
            link: the connection that carries the request.
            request: the request, for messages.
            answer: the function that `Link.send` returned.
            node: the id of the broker to probe; None: any broker.
            wait_s: seconds that the broker may take on purpose, in addition to the timeout.

        Raises:
            ConnectionLost: the connection broke.
            ClientError: the response is late or malformed.
        """
        with trio.move_on_after(self.timeout_s + wait_s):
            answered = await answer()
            note_answered(request)
            return answered
        silence = f"{link.address} did not answer {type(request).__name__} within {self.timeout_s + wait_s:g} s"
        raise ClientError(silence + await self._explain_silence(node))

    async def _explain_silence(self, node: int | None) -> str:
        # On a full disk the broker keeps the writes that it has begun, and rejects new ones at once. So the probe is a
        # small write, InitProducerId. It needs its own connection, because responses arrive in order.
        link, code = None, _NO_ANSWER
        with trio.move_on_after(PROBE_S_MAX), contextlib.suppress(ClientError):
            try:
                link = await self._open(self._place(node))
                code = (
                    await link.ask(InitProducerIdRequest(None, 0), InitProducerIdResponse, INIT_PRODUCER_ID_VERSIONS)
                ).error_code
            finally:
                if link is not None:
                    link.fail("the probe is done")
        if link is None:
            return ", and accepts no other connection"
        return _PROBE_RESULTS.get(code, ", but answers others: it may wait for its disk")

    async def retrying(self, attempt: Callable[[], Awaitable[Result]]) -> Result:
        """Return the result of an attempt, repeated after retriable errors until the cluster's timeout.

        Raises:
            ClientError: the error of the last attempt.
        """
        deadline = trio.current_time() + self.timeout_s
        pause_s = RETRY_S_MIN
        while True:
            try:
                return await attempt()
            except ClientError as error:
                if not error.is_retriable or trio.current_time() + pause_s > deadline:
                    raise
            await trio.sleep(pause_s)
            pause_s = min(2 * pause_s, RETRY_S_MAX)

    async def refresh(self, topics: Sequence[str] | None, *, creates: bool = False) -> Topology:
        """Fetch the metadata of the cluster, keep it for routing, and return it.

        Args:
            topics: the topics to describe; None: all.
            creates: let the broker create missing topics, where it allows that.

        Raises:
            ClientError: no broker has answered within the cluster's timeout.
        """
        wanted = None if topics is None else [MetadataRequest.MetadataRequestTopic(name=name) for name in topics]
        # Version 4 is the first with allow_auto_topic_creation.
        request = MetadataRequest(topics=wanted, allow_auto_topic_creation=creates)
        answer = await self.retrying(functools.partial(self.ask, request, MetadataResponse, versions=range(4, 13)))
        self._topology = topology_of(answer)
        return self._topology

    async def ready(self, topics: Sequence[str], *, creates: bool = False, is_new: bool = False) -> Topology:
        """Return the metadata once all topics exist; a new topic takes a moment.

        Args:
            creates: let the broker create missing topics.
            is_new: the topics were just created, so brokers may not know them yet.

        Raises:
            NoSuchTopic: a topic is missing. A topic that may still appear has CREATION_S_MAX seconds to do so.
            BrokerRefused: the client may not describe a topic, or a topic has no leader yet.
            ClientError: no broker has answered within the cluster's timeout.
        """
        deadline = trio.current_time() + min(self.timeout_s, CREATION_S_MAX)
        while True:
            topology = await self.refresh(topics, creates=creates)
            codes = {topology.topics[name].error_code for name in topics if name in topology.topics}
            # Only a topic that was just created may be unknown for a moment.
            waits = _NOT_YET if creates or is_new else _NOT_YET - {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
            if codes.isdisjoint(waits) or trio.current_time() > deadline:
                for name in topics:
                    topology.topic(name)
                return topology
            await trio.sleep(RETRY_S_MIN)

    async def at_leaders(
        self,
        partitions: Collection[TopicPartition],
        attempt: Callable[[int, list[TopicPartition]], Awaitable[Mapping[TopicPartition, Result]]],
    ) -> dict[TopicPartition, Result]:
        """Run an attempt at the leader of each partition, and return its results. Waits for leaders that are missing.

        Args:
            attempt: receives the id of a broker and the partitions that it leads; returns a result for each of them. A
                retry omits the partitions that already have a result.

        Raises:
            NoSuchTopic: a topic is unknown.
            NoSuchPartition: a topic has fewer partitions.
            ClientError: the error of the last attempt.
        """
        found: dict[TopicPartition, Result] = {}

        async def once() -> None:
            missing = [partition for partition in partitions if partition not in found]
            topology = await self.refresh(sorted({topic for topic, _ in missing}))
            for node, led in topology.by_leader(missing).items():
                found.update(await attempt(node, led))
            left = [partition for partition in missing if partition not in found]
            if left:
                raise BrokerRefused(without_leader(left), ErrorCode.LEADER_NOT_AVAILABLE)

        if partitions:
            await self.retrying(once)
        return found

    async def ask_controller(
        self, request: Any, response_type: type[Response], versions: range | None = None
    ) -> Response:
        """Send a request to the last known controller. A former controller answers NOT_CONTROLLER.

        Raises:
            ConnectionLost: the controller cannot be reached, or the connection broke.
            ClientError: as for `ask`.
        """
        topology = self._topology or await self.refresh(())
        # Without a known controller ask any broker; one that is not the controller answers NOT_CONTROLLER.
        node = topology.controller_id if topology.controller_id in topology.brokers else None
        return await self.ask(request, response_type, node=node, versions=versions)

    async def coordinator(self, key: str, key_type: int = _GROUP) -> int:
        """Return the id of the broker that coordinates a group or a transactional id, from a cache if possible.

        Args:
            key: the group or transactional id.
            key_type: 0: a group; 1: a transactional id.

        Raises:
            BrokerRefused: no coordinator is available, or the client may not ask for it.
            ClientError: no broker can be reached.
        """
        if (key_type, key) not in self._coordinators:
            request = FindCoordinatorRequest(key=key, key_type=key_type)
            answer = await self.ask(request, FindCoordinatorResponse, versions=_FIND_COORDINATOR_VERSIONS)
            check(answer.error_code, f"the coordinator of {_KEY_TYPES[key_type]} {key}", answer.error_message)
            # The coordinator may run on a broker that joined after the last refresh.
            if self._topology is None or answer.node_id not in self._topology.brokers:
                await self.refresh(())
            self._coordinators[key_type, key] = answer.node_id
        return self._coordinators[key_type, key]

    async def at_coordinator(
        self, key: str, attempt: Callable[[int], Awaitable[Result]], key_type: int = _GROUP
    ) -> Result:
        """Return the result of an attempt at a coordinator, repeated after retriable errors like by `retrying`.

        The coordinator is looked up again if it has moved or the connection broke.

        Args:
            key: the group or transactional id.
            attempt: receives the id of the broker; raises BrokerRefused for an error code in its response. A lost
                connection may hide a success, so it must be safe to repeat.
            key_type: 0: a group; 1: a transactional id.

        Raises:
            ClientError: the error of the last attempt.
        """

        async def once() -> Result:
            try:
                return await attempt(await self.coordinator(key, key_type))
            except ClientError as error:
                if isinstance(error, ConnectionLost) or error.code in _NOT_COORDINATOR:
                    self._coordinators.pop((key_type, key), None)
                raise

        return await self.retrying(once)
