"""What the load client asks of a broker before it sends records.

Rules of this file: a connection of its own, so that the measured ones carry produce requests only; every wait is
bounded by the caller; whatever the broker refuses is one LoadError.
"""

import struct
from collections.abc import Iterator
from typing import Any, TypeVar

import attrs
import trio

from pipeline_broker.load.connection import Connection, connect
from pipeline_broker.load.exchange import RESPONSE_SIZE_MAX, LoadError
from pipeline_broker.wire.codec import DecodeError, decode, encode, versions_of
from pipeline_broker.wire.error import ErrorCode
from pipeline_broker.wire.header import RequestHeader, encode_request_header, read_response_header
from pipeline_broker.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from pipeline_broker.wire.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from pipeline_broker.wire.messages.metadata import MetadataRequest, MetadataResponse

CLIENT_ID = "pipeline-broker-load"
PRODUCE_VERSIONS = range(9, 13)  # flexible, and topics by name
_PRODUCE_KEY = 0
_METADATA_POLL_S = 0.02
_LENGTH = struct.Struct(">i")

Response = TypeVar("Response")


@attrs.frozen(slots=True)
class Target:
    """A topic ready to be written to."""

    topic: str
    partitions: int
    produce_version: int


async def prepare(host: str, port: int, topic: str, partitions: int) -> Target:
    """Agree on versions, and see to it that the topic exists."""
    async with connect(host, port) as connection, trio.open_nursery() as nursery:
        nursery.start_soon(connection.run_writer)
        control = Control(connection)
        await control.negotiate()
        await control.create_topic(topic, partitions)
        count = await control.wait_until_led(topic)
        nursery.cancel_scope.cancel()
    return Target(topic, min(partitions, count), control.version(_PRODUCE_KEY, PRODUCE_VERSIONS))


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
        theirs = self._ranges.get(api_key, range(0))
        common = [version for version in ours if version in theirs]
        if not common:
            raise LoadError(f"the broker has no version {ours[0]} to {ours[-1]} of API {api_key}")
        return common[-1]

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

    async def wait_until_led(self, topic: str) -> int:
        """Wait until every partition has a leader; the number of partitions."""
        request = MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name=topic)])
        while True:
            response = await self._ask_newest(request, MetadataResponse)
            for found in response.topics:
                leaders = [partition.leader_id for partition in found.partitions if partition.error_code == 0]
                if found.error_code == 0 and leaders and len(leaders) == len(found.partitions) and min(leaders) >= 0:
                    return len(leaders)
            await trio.sleep(_METADATA_POLL_S)

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
