"""What the load client asks of a broker before it sends records.

Rules of this file: a connection of its own, so that the measured ones carry produce requests only; every wait is
bounded by the caller; whatever the broker refuses is one LoadError.
"""

import contextlib
import struct
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any, TypeVar

import attrs
import trio

from pipeline_broker.load.connection import Connection, connect
from pipeline_broker.load.errors import LoadError
from pipeline_broker.load.exchange import RESPONSE_SIZE_MAX
from pipeline_broker.wire.codec import DecodeError, decode, encode, versions_of
from pipeline_broker.wire.error import ErrorCode
from pipeline_broker.wire.header import RequestHeader, encode_request_header, read_response_header
from pipeline_broker.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from pipeline_broker.wire.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from pipeline_broker.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from pipeline_broker.wire.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from pipeline_broker.wire.messages.metadata import MetadataRequest, MetadataResponse

CLIENT_ID = "pipeline-broker-load"
PRODUCE_VERSIONS = range(9, 13)  # flexible, and topics by name
FETCH_VERSIONS = range(12, 13)  # the same
_PRODUCE_KEY = 0
_FETCH_KEY = 1
_INIT_PRODUCER_ID_VERSIONS = range(2, 6)
_EARLIEST = -2
_METADATA_POLL_S = 0.02
_LENGTH = struct.Struct(">i")

Response = TypeVar("Response")


@attrs.frozen(slots=True)
class Node:
    """A broker that leads partitions of a topic."""

    host: str
    port: int
    partitions: tuple[int, ...]


@attrs.frozen(slots=True)
class Target:
    """A topic ready to be written to.

    Attributes:
        topic: its name.
        partitions: how many of them are used.
        produce_version: of the API.
        nodes: who leads them.
        fetch_version: of the API; None where it has none that this client speaks.
    """

    topic: str
    partitions: int
    produce_version: int
    nodes: tuple[Node, ...] = ()
    fetch_version: int | None = None


@contextlib.asynccontextmanager
async def controlling(host: str, port: int) -> AsyncIterator["Control"]:
    """A connection on which one thing after the other is asked, versions agreed on."""
    async with connect(host, port) as connection, trio.open_nursery() as nursery:
        nursery.start_soon(connection.run_writer)
        control = Control(connection)
        await control.negotiate()
        yield control
        nursery.cancel_scope.cancel()


async def prepare(host: str, port: int, topic: str, partitions: int) -> Target:
    """Agree on versions, and see to it that the topic exists."""
    async with controlling(host, port) as control:
        await control.create_topic(topic, partitions)
        leaders = await control.wait_until_led(topic)
    used = sorted(leaders)[:partitions]
    addresses = dict.fromkeys(leaders[partition] for partition in used)
    # A broker alone is where it was found, whatever it advertises.
    nodes = tuple(
        Node(*((host, port) if len(addresses) == 1 else address), tuple(it for it in used if leaders[it] == address))
        for address in addresses
    )
    produce_version = control.version(_PRODUCE_KEY, PRODUCE_VERSIONS)
    return Target(topic, len(used), produce_version, nodes, control.common_version(_FETCH_KEY, FETCH_VERSIONS))


class Control:
    """Asks one thing after the other on one connection."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._ids: Iterator[int] = iter(range(1 << 31))
        self._ranges: dict[int, range] = {}
        self._received = b""

    async def negotiate(self) -> None:
        """Learn which versions the broker has."""
        request = ApiVersionsRequest(client_software_name=CLIENT_ID, client_software_version="1")
        response = await self._ask(request, ApiVersionsResponse, 3)
        _refuse(response.error_code, "ApiVersions")
        self._ranges = {api.api_key: range(api.min_version, api.max_version + 1) for api in response.api_keys}

    def version(self, api_key: int, ours: range) -> int:
        """The newest version that both sides have."""
        common = self.common_version(api_key, ours)
        if common is None:
            raise LoadError(f"the broker has no version {ours[0]} to {ours[-1]} of API {api_key}")
        return common

    def common_version(self, api_key: int, ours: range) -> int | None:
        """The same; None where there is none."""
        theirs = self._ranges.get(api_key, range(0))
        return max((version for version in ours if version in theirs), default=None)

    async def create_topic(self, topic: str, partitions: int) -> None:
        """Create the topic, which may exist; where that is not offered, asking for it by name creates it."""
        if CreateTopicsRequest.SCHEMA.key not in self._ranges:
            return
        creatable = CreateTopicsRequest.CreatableTopic(name=topic, num_partitions=partitions, replication_factor=1)
        request = CreateTopicsRequest(topics=[creatable], timeout_ms=10_000)
        response = await self._ask_newest(request, CreateTopicsResponse)
        for result in response.topics:
            if result.error_code != ErrorCode.TOPIC_ALREADY_EXISTS:
                _refuse(result.error_code, f"creating topic {topic}")

    async def wait_until_led(self, topic: str) -> dict[int, tuple[str, int]]:
        """Wait until every partition has a leader; the address of each partition's."""
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

    async def new_producer(self) -> tuple[int, int]:
        """The id and epoch of a new idempotent producer."""
        version = self.version(InitProducerIdRequest.SCHEMA.key or 0, _INIT_PRODUCER_ID_VERSIONS)
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0)
        response = await self._ask(request, InitProducerIdResponse, version)
        _refuse(response.error_code, "an id for an idempotent producer")
        return response.producer_id, response.producer_epoch

    async def log_starts(self, topic: str, partitions: Sequence[int]) -> list[int]:
        """The first offset of partitions that this broker leads."""
        wanted = [ListOffsetsRequest.ListOffsetsPartition(partition_index=it, timestamp=_EARLIEST) for it in partitions]
        request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsRequest.ListOffsetsTopic(topic, wanted)])
        response = await self._ask_newest(request, ListOffsetsResponse)
        starts = {}
        for found in (partition for answered in response.topics for partition in answered.partitions):
            _refuse(found.error_code, f"the start of partition {found.partition_index}")
            starts[found.partition_index] = found.offset
        return [starts[partition] for partition in partitions]

    async def _ask_newest(self, request: Any, response_type: type[Response]) -> Response:
        return await self._ask(request, response_type, self.version(request.SCHEMA.key, versions_of(type(request))))

    async def _ask(self, request: Any, response_type: type[Response], version: int) -> Response:
        key = request.SCHEMA.key
        header = encode_request_header(RequestHeader(key, version, next(self._ids), CLIENT_ID))
        body = b"".join((header, *encode(request, version)))
        self._connection.send_nowait(_LENGTH.pack(len(body)) + body)
        frame = await self._receive_frame()
        try:
            _, position = read_response_header(key, version, frame)
            return decode(response_type, version, frame, position)[0]
        except DecodeError as error:
            raise LoadError(f"the broker's answer to {type(request).__name__} cannot be read: {error}") from None

    async def _receive_frame(self) -> bytes:
        while True:
            if len(self._received) >= _LENGTH.size:
                (length,) = _LENGTH.unpack_from(self._received)
                if not 0 < length <= RESPONSE_SIZE_MAX:
                    raise LoadError(f"the broker sent a response of {length} bytes: is it a Kafka broker?")
                end = _LENGTH.size + length
                if len(self._received) >= end:
                    frame, self._received = self._received[_LENGTH.size : end], self._received[end:]
                    return frame
            self._received += await self._connection.receive()


def _refuse(error_code: int, what: str) -> None:
    if error_code:
        raise LoadError(f"{what}: the broker answered {error_name(error_code)}")


def error_name(error_code: int) -> str:
    """Kafka's name of an error code."""
    try:
        return ErrorCode(error_code).name
    except ValueError:
        return f"error {error_code}"
