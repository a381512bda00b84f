"""A cluster: connections to its brokers, opened when they are needed, and whom to ask for what.

Rules of this file: a connection that breaks is forgotten and made anew at the next question; what is worth trying again
is tried until the time is over, with pauses that grow. The first connection is tried once: whoever mistypes an address
should not wait. Every wait has the cluster's timeout as its bound.

A cluster of one broker is asked where it was found, whatever it advertises: behind a tunnel or a container's port there
is no other way.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any, TypeVar

import trio

from pipeline_broker.client.errors import BrokerRefused, ClientError, ConnectionLost, check, hinted
from pipeline_broker.client.link import Link
from pipeline_broker.client.secure_connection import connect_securely
from pipeline_broker.client.security import PLAINTEXT, ClientSecurity
from pipeline_broker.client.topology import TopicPartition, Topology, topology_of
from pipeline_broker.wire.error import ErrorCode
from pipeline_broker.wire.messages.groups.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from pipeline_broker.wire.messages.topics.metadata import MetadataRequest, MetadataResponse
from pipeline_broker.wire.messages.transactions.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

__all__ = ["GROWTH_S", "INIT_PRODUCER_ID_VERSIONS", "Address", "Cluster", "connected"]

Address = tuple[str, int]
Response = TypeVar("Response")
Result = TypeVar("Result")

RETRY_S_MIN = 0.05
RETRY_S_MAX = 1.0
"""Pauses between tries."""
CREATION_S_MAX = 5.0
"""How long a topic may take to come that a broker creates by itself."""
GROWTH_S = 10.0
"""Between looks for partitions that were added. Other clients look every five minutes (metadata.max.age.ms); who
follows a topic on a terminal should not wait so long, and one small request is cheap."""
WHY_S_MAX = 2.0
"""How long a broker that has left a request unanswered may take to show what else it does."""
INIT_PRODUCER_ID_VERSIONS = range(6)
_NOT_YET = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.LEADER_NOT_AVAILABLE})
_FOUND = -1
"""The place of the connection over which the cluster was found."""
_NO_ANSWER = -2
_SILENCES: dict[int, str] = {
    _NO_ANSWER: ", nor anything else",
    ErrorCode.KAFKA_STORAGE_ERROR: (
        ": it cannot write now, as on a full disk, and may do later what was asked for; `cluster log-dirs` shows what"
        " is free, its log what to do"
    ),
}
"""What its answer to another request says about a broker that leaves one unanswered."""
_GROUP = 0
_KEY_TYPES = {_GROUP: "group", 1: "transaction"}
"""What FindCoordinator is asked for."""
_FIND_COORDINATOR_VERSIONS = range(1, 4)  # those that ask for one
_NOT_COORDINATOR = frozenset(
    {ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
)


@contextlib.asynccontextmanager
async def connected(
    addresses: Sequence[Address], timeout_s: float, security: ClientSecurity = PLAINTEXT
) -> AsyncIterator[Cluster]:
    """A cluster that has been reached, its connections closed at the end of the block.

    Args:
        addresses: brokers of it, one of which must be there.
        timeout_s: the longest wait for an answer, and for what is tried again.
        security: of all connections.

    Raises:
        ClientError: none of them can be reached, or it refuses.
    """
    async with trio.open_nursery() as nursery:
        cluster = Cluster(addresses, timeout_s, security, nursery)
        await cluster.link(None)
        yield cluster
        nursery.cancel_scope.cancel()


class Cluster:
    """Asks brokers; see `connected`."""

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
        """A connection to a broker by its number; None: to any.

        Raises:
            ConnectionLost: it cannot be reached.
            ClientError: there is no such broker, or it refuses.
        """
        place = self._place(node)
        async with self._opening.setdefault(place, trio.Lock()):
            link = self._links.get(place)
            if link is None or link.is_broken:
                link = self._links[place] = await self._open(place)
            return link

    def _place(self, node: int | None) -> int:
        is_alone = self._topology is not None and self._topology.brokers.keys() <= {node}
        return _FOUND if node is None or is_alone else node

    async def _open(self, place: int) -> Link:
        if place == _FOUND:
            known = self._topology.brokers.values() if self._topology else ()
            addresses = list(dict.fromkeys([*self._addresses, *((it.host, it.port) for it in known)]))
        else:
            topology = self._topology or await self.refresh(())
            if place not in topology.brokers:
                raise ClientError(
                    f"there is no broker {place}: there are {', '.join(map(str, sorted(topology.brokers)))}"
                )
            broker = topology.brokers[place]
            addresses = [(broker.host, broker.port)]
        errors = []
        for host, port in addresses:
            try:
                with trio.fail_after(self.timeout_s):
                    return await self._started(host, port)
            except ClientError as error:
                errors.append(hinted(str(error)))
            except trio.TooSlowError:
                errors.append(f"{host}:{port} did not answer within {self.timeout_s:g} s")
        raise ConnectionLost("; ".join(errors))

    async def _started(self, host: str, port: int) -> Link:
        link: Link = await self._nursery.start(self._run_link, host, port)
        return link

    async def _run_link(self, host: str, port: int, *, task_status: trio.TaskStatus[Link]) -> None:
        """Open a connection and keep it until it breaks."""
        async with connect_securely(host, port, self._security) as connection:
            link = Link(connection, f"{host}:{port}")
            started = False
            async with trio.open_nursery() as nursery:
                nursery.start_soon(link.run_writer)
                nursery.start_soon(link.run_reader)
                try:
                    await link.negotiate()
                except ClientError as error:
                    link.fail(str(error))
                else:
                    task_status.started(link)
                    started = True
                    await link.broken.wait()
                nursery.cancel_scope.cancel()
            if not started:
                raise ClientError(link.why)

    async def ask(
        self,
        request: Any,
        response_type: type[Response],
        *,
        node: int | None = None,
        versions: range | None = None,
        wait_s: float = 0.0,
    ) -> Response:
        """Ask a broker once.

        Args:
            request: of any version.
            response_type: what answers it.
            node: the number of the broker; None: any.
            versions: those that may be used; None: all.
            wait_s: how long the broker may take on purpose, beside the timeout.

        Raises:
            ConnectionLost: it went away or cannot be reached.
            ClientError: no answer in time, or none that can be read.
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
        """Wait for the answer to a request that `Link.send` has sent; arguments and errors are those of `ask`."""
        with trio.move_on_after(self.timeout_s + wait_s):
            return await answer()
        silence = f"{link.place} did not answer {type(request).__name__} within {self.timeout_s + wait_s:g} s"
        raise ClientError(silence + await self._why_silent(node))

    async def _why_silent(self, node: int | None) -> str:
        """What to add to the news that a broker leaves a request unanswered.

        A write that it has begun waits while there is no room, and a later one is refused at once. So it is asked for
        a small one, over another connection, because answers come in order.
        """
        link, code = None, _NO_ANSWER
        with trio.move_on_after(WHY_S_MAX), contextlib.suppress(ClientError):
            try:
                link = await self._open(self._place(node))
                code = (
                    await link.ask(InitProducerIdRequest(None, 0), InitProducerIdResponse, INIT_PRODUCER_ID_VERSIONS)
                ).error_code
            finally:
                if link is not None:
                    link.fail("it was asked enough")
        if link is None:
            return ", and takes no other connection"
        return _SILENCES.get(code, ", but others: it may wait for its disk")

    async def retrying(self, attempt: Callable[[], Awaitable[Result]]) -> Result:
        """What an attempt gives, which is made again while that may help and there is time.

        Raises:
            ClientError: the last attempt's.
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
        """The cluster as it is now.

        Args:
            topics: to be told of; None: all.
            creates: a topic that is missing is created, where the broker allows it.
        """
        wanted = None if topics is None else [MetadataRequest.MetadataRequestTopic(name=name) for name in topics]
        # Version 4 is the first that can be told not to create topics; 12 knows no numbers of brokers that are gone.
        request = MetadataRequest(topics=wanted, allow_auto_topic_creation=creates)
        answer = await self.retrying(functools.partial(self.ask, request, MetadataResponse, versions=range(4, 13)))
        self._topology = topology_of(answer)
        return self._topology

    async def ready(self, topics: Sequence[str], *, creates: bool = False, is_new: bool = False) -> Topology:
        """The cluster once all these topics are there; one that was just created takes a moment.

        Args:
            topics: their names.
            creates: see `refresh`.
            is_new: they were created a moment ago, and need not be known yet.

        Raises:
            NoSuchTopic: one is not there, and does not come within CREATION_S_MAX.
            BrokerRefused: one may not be seen.
        """
        deadline = trio.current_time() + min(self.timeout_s, CREATION_S_MAX)
        while True:
            topology = await self.refresh(topics, creates=creates)
            codes = {topology.topics[name].error_code for name in topics if name in topology.topics}
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
        """What an attempt at the leader of each partition gives; one without a leader is waited for.

        Args:
            partitions: which.
            attempt: gets the number of a broker and partitions that it leads; returns a result for each of these.

        Raises:
            NoSuchTopic: one of the topics is not there.
            NoSuchPartition: it has no such partition.
            ClientError: the last attempt's.
        """
        found: dict[TopicPartition, Result] = {}

        async def once() -> None:
            missing = [partition for partition in partitions if partition not in found]
            topology = await self.refresh(sorted({topic for topic, _ in missing}))
            for node, led in topology.by_leader(missing).items():
                found.update(await attempt(node, led))
            if any(partition not in found for partition in missing):
                raise BrokerRefused("a partition has no leader (LEADER_NOT_AVAILABLE)", ErrorCode.LEADER_NOT_AVAILABLE)

        if partitions:
            await self.retrying(once)
        return found

    async def ask_controller(
        self, request: Any, response_type: type[Response], versions: range | None = None
    ) -> Response:
        """Ask the broker that changes topics; whether it still is that one, its answer tells."""
        topology = self._topology or await self.refresh(())
        node = topology.controller_id if topology.controller_id in topology.brokers else None
        return await self.ask(request, response_type, node=node, versions=versions)

    async def coordinator(self, key: str, key_type: int = _GROUP) -> int:
        """The number of the broker that coordinates a group, or a transactional id (1), as it was last found.

        Raises:
            BrokerRefused: there is none at the moment, or it may not be asked for.
        """
        if (key_type, key) not in self._coordinators:
            request = FindCoordinatorRequest(key=key, key_type=key_type)
            answer = await self.ask(request, FindCoordinatorResponse, versions=_FIND_COORDINATOR_VERSIONS)
            check(answer.error_code, f"the coordinator of {_KEY_TYPES[key_type]} {key}", answer.error_message)
            if self._topology is None or answer.node_id not in self._topology.brokers:
                await self.refresh(())
            self._coordinators[key_type, key] = answer.node_id
        return self._coordinators[key_type, key]

    async def at_coordinator(
        self, key: str, attempt: Callable[[int], Awaitable[Result]], key_type: int = _GROUP
    ) -> Result:
        """What an attempt at the coordinator of a group gives; it is looked for again when it moved.

        Args:
            key: the group, or the transactional id.
            attempt: gets the number of the broker; raises BrokerRefused with what it was answered.
            key_type: 0: a group; 1: a transactional id.
        """

        async def once() -> Result:
            try:
                return await attempt(await self.coordinator(key, key_type))
            except ClientError as error:
                if isinstance(error, ConnectionLost) or error.code in _NOT_COORDINATOR:
                    self._coordinators.pop((key_type, key), None)
                raise

        return await self.retrying(once)
