"""Control requests of the load client, which precede its records.

They use a connection of their own, so the measured connections carry only the measured requests. Callers bound the
waits.
"""

import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import Any, TypeVar

import attrs
import trio

from pipeline_broker.base.error_code import RETRIABLE, ErrorCode
from pipeline_broker.client.connection import Connection
from pipeline_broker.client.dialogue import CLIENT_ID, Dialogue, refuse
from pipeline_broker.client.errors import ClientError
from pipeline_broker.client.secure_connection import connect_securely
from pipeline_broker.client.security import PLAINTEXT, ClientSecurity
from pipeline_broker.wire.codec import versions_of
from pipeline_broker.wire.messages.cluster.api_versions import ApiVersionsRequest, ApiVersionsResponse
from pipeline_broker.wire.messages.data.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from pipeline_broker.wire.messages.groups.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from pipeline_broker.wire.messages.topics.create_topics import CreateTopicsRequest, CreateTopicsResponse
from pipeline_broker.wire.messages.topics.metadata import MetadataRequest, MetadataResponse
from pipeline_broker.wire.messages.transactions.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from pipeline_broker.wire.registry import API_KEYS, ApiKey

PRODUCE_VERSIONS = range(9, 13)  # flexible, and topics by name
FETCH_VERSIONS = range(12, 13)  # for the same reasons
_PRODUCE_KEY = 0
_FETCH_KEY = 1
_INIT_PRODUCER_ID_VERSIONS = range(2, 6)
_FIND_COORDINATOR_VERSIONS = range(1, 4)  # later versions have several keys per request
_TRANSACTION_KEY_TYPE = 1
# Errors of a coordinator that is loading. Apache Kafka names a coordinator before it has been elected.
_NOT_READY = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.NOT_COORDINATOR,
    }
)
TRANSACTION_TIMEOUT_MS = 60_000
_EARLIEST = -2
_METADATA_POLL_S = 0.02
_LEADER_SECONDS_MAX = 10.0

Response = TypeVar("Response")


@attrs.frozen(slots=True)
class Node:
    host: str
    port: int
    partitions: tuple[int, ...]


@attrs.frozen(slots=True)
class Target:
    """A topic that is ready for a load.

    Attributes:
        partitions: the number of partitions in use.
        nodes: the leaders of the partitions.
        fetch_version: the version for Fetch requests; None if client and broker have none in common.
    """

    topic: str
    partitions: int
    produce_version: int
    nodes: tuple[Node, ...] = ()
    fetch_version: int | None = None


@contextlib.asynccontextmanager
async def open_control(host: str, port: int, security: ClientSecurity = PLAINTEXT) -> AsyncIterator["Control"]:
    """Connect to a broker, negotiate versions, and close the connection at the end of the block.

    Raises:
        ClientError: the broker cannot be reached, or rejects the client.
    """
    async with connect_securely(host, port, security) as connection, trio.open_nursery() as nursery:
        nursery.start_soon(connection.run_writer)
        control = Control(connection)
        await control.negotiate()
        yield control
        nursery.cancel_scope.cancel()


async def prepare(host: str, port: int, topic: str, partitions: int, security: ClientSecurity = PLAINTEXT) -> Target:
    """Create a topic if it is missing, wait until its partitions have leaders, and return it.

    Args:
        partitions: the number of partitions of a new topic, and the most to use of an existing one.

    Raises:
        ClientError: the broker cannot be reached or rejects a request, or has no version of Produce in common.
    """
    async with open_control(host, port, security) as control:
        await control.create_topic(topic, partitions)
        leaders = await control.wait_until_led(topic)
    used = sorted(leaders)[:partitions]
    addresses = dict.fromkeys(leaders[partition] for partition in used)
    # A single leader is reached at the given address: through a tunnel or the mapped port of a container, the
    # advertised address does not work.
    nodes = tuple(
        Node(*((host, port) if len(addresses) == 1 else address), tuple(it for it in used if leaders[it] == address))
        for address in addresses
    )
    produce_version = control.version(_PRODUCE_KEY, PRODUCE_VERSIONS)
    return Target(topic, len(used), produce_version, nodes, control.common_version(_FETCH_KEY, FETCH_VERSIONS))


class Control:
    """A control connection, on which each request waits for the response to the previous one."""

    def __init__(self, connection: Connection) -> None:
        self._dialogue = Dialogue(connection)
        self._ranges: dict[int, range] = {}

    async def negotiate(self) -> None:
        request = ApiVersionsRequest(client_software_name=CLIENT_ID, client_software_version="1")
        response = await self._dialogue.ask(request, ApiVersionsResponse, 3)
        refuse(response.error_code, "ApiVersions")
        self._ranges = {api.api_key: range(api.min_version, api.max_version + 1) for api in response.api_keys}

    def version(self, api_key: int, ours: range) -> int:
        """Return the newest common version of an API.

        Raises:
            ClientError: client and broker have no version in common.
        """
        common = self.common_version(api_key, ours)
        if common is None:
            raise ClientError(
                f"the broker supports no version from {ours[0]} to {ours[-1]} of {API_KEYS[ApiKey(api_key)].name}"
            )
        return common

    def has_version(self, api_key: int, version: int) -> bool:
        return version in self._ranges.get(api_key, range(0))

    def common_version(self, api_key: int, ours: range) -> int | None:
        theirs = self._ranges.get(api_key, range(0))
        return max((version for version in ours if version in theirs), default=None)

    async def create_topic(self, topic: str, partitions: int) -> None:
        """Create a topic unless it exists.

        Does nothing if the broker has no CreateTopics; then a Metadata request with the name creates it.

        Raises:
            ClientError: the broker rejects the topic.
        """
        if CreateTopicsRequest.SCHEMA.key not in self._ranges:
            return
        creatable = CreateTopicsRequest.CreatableTopic(name=topic, num_partitions=partitions, replication_factor=1)
        request = CreateTopicsRequest(topics=[creatable], timeout_ms=10_000)
        response = await self._ask_newest(request, CreateTopicsResponse)
        for result in response.topics:
            if result.error_code != ErrorCode.TOPIC_ALREADY_EXISTS:
                refuse(result.error_code, f"creating topic {topic}")

    async def wait_until_led(self, topic: str) -> dict[int, tuple[str, int]]:
        """Wait until every partition has a leader, and return the host and port of each leader by partition.

        Raises:
            ClientError: the connection broke, or no common version of Metadata exists.
        """
        request = MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name=topic)])
        while True:
            response = await self._ask_newest(request, MetadataResponse)
            addresses = {broker.node_id: (broker.host, broker.port) for broker in response.brokers}
            for found in response.topics:
                leaders = {
                    partition.partition_index: addresses[partition.leader_id]
                    for partition in found.partitions
                    if partition.error_code == 0 and partition.leader_id in addresses
                }
                if found.error_code == 0 and leaders and len(leaders) == len(found.partitions):
                    return leaders
            await trio.sleep(_METADATA_POLL_S)

    async def new_producer(self, transactional_id: str | None = None) -> tuple[int, int]:
        """Return the id and epoch of a new producer: transactional with a `transactional_id`, idempotent without.

        Waits while the coordinator is loading.

        Raises:
            ClientError: the broker rejects the producer, or no common version of InitProducerId exists.
        """
        version = self.version(InitProducerIdRequest.SCHEMA.key or 0, _INIT_PRODUCER_ID_VERSIONS)
        timeout_ms = 0 if transactional_id is None else TRANSACTION_TIMEOUT_MS
        request = InitProducerIdRequest(transactional_id, timeout_ms)
        while True:
            response = await self._dialogue.ask(request, InitProducerIdResponse, version)
            if response.error_code not in _NOT_READY:
                refuse(response.error_code, f"an id for producer {transactional_id or ''}".rstrip())
                return response.producer_id, response.producer_epoch
            await trio.sleep(_METADATA_POLL_S)

    async def coordinator(self, transactional_id: str) -> tuple[str, int]:
        version = self.version(FindCoordinatorRequest.SCHEMA.key or 0, _FIND_COORDINATOR_VERSIONS)
        request = FindCoordinatorRequest(key=transactional_id, key_type=_TRANSACTION_KEY_TYPE)
        while True:
            response = await self._dialogue.ask(request, FindCoordinatorResponse, version)
            if response.error_code not in _NOT_READY:
                refuse(response.error_code, "the coordinator of transactions")
                return response.host, response.port
            await trio.sleep(_METADATA_POLL_S)

    async def log_starts(self, topic: str, partitions: Sequence[int]) -> list[int]:
        wanted = [ListOffsetsRequest.ListOffsetsPartition(partition_index=it, timestamp=_EARLIEST) for it in partitions]
        request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsRequest.ListOffsetsTopic(topic, wanted)])
        deadline = trio.current_time() + _LEADER_SECONDS_MAX
        while True:
            response = await self._ask_newest(request, ListOffsetsResponse)
            found = {each.partition_index: each for answered in response.topics for each in answered.partitions}
            # Apache Kafka names the leader of a new partition before that broker knows that it leads.
            is_led = not any(each.error_code in RETRIABLE for each in found.values())
            if is_led or trio.current_time() > deadline:
                break
            await trio.sleep(_METADATA_POLL_S)
        for partition, each in found.items():
            refuse(each.error_code, f"the log start offset of partition {partition}")
        return [found[partition].offset for partition in partitions]

    async def _ask_newest(self, request: Any, response_type: type[Response]) -> Response:
        version = self.version(request.SCHEMA.key, versions_of(type(request)))
        return await self._dialogue.ask(request, response_type, version)
