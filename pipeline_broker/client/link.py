"""A multiplexed connection to a broker: concurrent requests, matched with their responses by correlation id."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

import trio

from pipeline_broker.client.connection import Connection
from pipeline_broker.client.dialogue import framed
from pipeline_broker.client.errors import ClientError, ConnectionLost, check
from pipeline_broker.wire.codec import DecodeError, EncodeError, decode, encode, versions_of
from pipeline_broker.wire.header import RequestHeader, encode_request_header, read_response_header
from pipeline_broker.wire.messages.cluster.api_versions import ApiVersionsRequest, ApiVersionsResponse
from pipeline_broker.wire.registry import API_KEYS, ApiKey

__all__ = ["CLIENT_ID", "HELLO", "Link"]

CLIENT_ID = "pipeline-broker"
HELLO = ApiVersionsRequest(client_software_name=CLIENT_ID, client_software_version="1")
"""A request that every broker answers at once."""
ANSWER_BYTES_MAX = 256 << 20
"""Largest response. A Fetch response has at least one batch, whatever its size; brokers reject batches this large."""
_API_VERSIONS_VERSION = 3  # since Kafka 2.4
_LENGTH = struct.Struct(">i")

Response = TypeVar("Response")


class _Waiting:
    __slots__ = ("answer", "answered")

    def __init__(self) -> None:
        self.answered = trio.Event()
        self.answer: bytes | None = None


class Link:
    """A connection with negotiated versions.

    Requests leave in the order of the calls, and responses arrive in that order, as Kafka guarantees. A response with
    an unknown correlation id breaks the link. The tasks `run_reader` and `run_writer` never raise: the callers of `ask`
    and `send` get the error.

    Args:
        connection: an authenticated connection.
        address: HOST:PORT, for messages.

    Attributes:
        broken: set when the link is unusable.
        why: the reason; "" until the link is broken.
    """

    def __init__(self, connection: Connection, address: str) -> None:
        self.address = address
        self.broken = trio.Event()
        self._connection = connection
        self._ids = itertools.count()
        self._waiting: dict[int, _Waiting] = {}
        self._ranges: Mapping[int, range] = {}
        self.why = ""

    @property
    def is_broken(self) -> bool:
        return self.broken.is_set()

    async def negotiate(self) -> None:
        """Fetch the versions of the broker. Call it before any other request.

        Raises:
            BrokerRefused: the broker rejects ApiVersions.
            ConnectionLost: the connection broke before the response.
            ClientError: the response is malformed.
        """
        answer = await self._send(HELLO, ApiVersionsResponse, _API_VERSIONS_VERSION)()
        check(answer.error_code, f"{self.address} rejects ApiVersions")
        self._ranges = {api.api_key: range(api.min_version, api.max_version + 1) for api in answer.api_keys}

    def has_api(self, api_key: int) -> bool:
        return api_key in self._ranges

    def version(self, request_type: type[Any], versions: range | None = None) -> int:
        """Return the newest common version of an API.

        Args:
            versions: the versions that the client may use; None: all that are declared.

        Raises:
            ClientError: client and broker have no version in common.
        """
        key = request_type.SCHEMA.key
        ours = versions_of(request_type) if versions is None else versions
        theirs = self._ranges.get(key, range(0))
        common = max((version for version in ours if version in theirs), default=None)
        if common is None:
            name = API_KEYS[ApiKey(key)].name
            raise ClientError(
                f"the broker at {self.address} supports no version from {ours[0]} to {ours[-1]} of {name}"
            )
        return common

    async def ask(self, request: Any, response_type: type[Response], versions: range | None = None) -> Response:
        """Send a request, and return its response.

        Args:
            versions: the versions that the client may use; None: all that are declared.

        Raises:
            ConnectionLost: the connection broke before the response.
            ClientError: the request cannot be encoded or the response not decoded, or no common version exists.
        """
        return await self.send(request, response_type, versions)()

    def send_oneway(self, request: Any, versions: range | None = None) -> None:
        """Send a request without a response: Produce with acks=0.

        Raises:
            ConnectionLost: the connection is broken.
            ClientError: client and broker have no version in common, or the request cannot be encoded.
        """
        if self.is_broken:
            raise ConnectionLost(self.why)
        frame = self._frame(request, self.version(type(request), versions), next(self._ids))
        try:
            self._connection.send_nowait(frame)
        except ConnectionLost as error:
            self.fail(str(error))
            raise

    def send(
        self, request: Any, response_type: type[Response], versions: range | None = None
    ) -> Callable[[], Awaitable[Response]]:
        """Send a request now, and return a function that waits for the response and raises the errors of `ask`.

        Raises:
            ConnectionLost: the connection is broken.
            ClientError: client and broker have no version in common, or the request cannot be encoded.
        """
        return self._send(request, response_type, self.version(type(request), versions))

    def _send(self, request: Any, response_type: type[Response], version: int) -> Callable[[], Awaitable[Response]]:
        if self.is_broken:
            raise ConnectionLost(self.why)
        correlation_id = next(self._ids)
        frame = self._frame(request, version, correlation_id)
        # Registered before the send: if it fails, `fail` wakes this caller too.
        waiting = self._waiting[correlation_id] = _Waiting()
        try:
            self._connection.send_nowait(frame)
        except ConnectionLost as error:
            self.fail(str(error))

        async def answer() -> Response:
            try:
                await waiting.answered.wait()
            except trio.Cancelled:
                # The response may still arrive. Without an entry for its id, it would break the link.
                self._waiting[correlation_id] = _Waiting()
                raise
            if waiting.answer is None:
                raise ConnectionLost(self.why)
            return self._decoded(request, response_type, version, waiting.answer)

        return answer

    def _decoded(self, request: Any, response_type: type[Response], version: int, answer: bytes) -> Response:
        try:
            _, position = read_response_header(request.SCHEMA.key, version, answer)
            return decode(response_type, version, answer, position)[0]
        except DecodeError as error:
            raise ClientError(
                f"{self.address} sent a malformed response to {type(request).__name__}: {error}"
            ) from None

    def _frame(self, request: Any, version: int, correlation_id: int) -> bytes:
        header = RequestHeader(request.SCHEMA.key, version, correlation_id, CLIENT_ID)
        try:
            return framed(b"".join((encode_request_header(header), *encode(request, version))))
        except EncodeError as error:
            raise ClientError(f"{type(request).__name__} cannot be sent to {self.address}: {error}") from None

    async def run_reader(self) -> None:
        received = bytearray()
        try:
            while True:
                received += await self._connection.receive()
                self._answer(received)
        except ClientError as error:
            self.fail(f"{self.address}: {error}")

    async def run_writer(self) -> None:
        """Send the bytes that the socket did not take at once, until the connection breaks."""
        try:
            await self._connection.run_writer()
        except ConnectionLost as error:
            self.fail(f"{self.address}: {error}")

    def _answer(self, received: bytearray) -> None:
        position, size = 0, len(received)
        while size - position >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(received, position)
            if not _LENGTH.size <= length <= ANSWER_BYTES_MAX:
                # A TLS alert, read as a length, is far beyond the bound.
                raise ClientError(
                    f"it sent a response of {length} bytes. Check that it is a Kafka broker, and whether it needs TLS"
                )
            end = position + _LENGTH.size + length
            if end > size:
                break
            # A copy, because decoded values may refer to it after `received` is trimmed.
            answer = bytes(memoryview(received)[position + _LENGTH.size : end])
            (correlation_id,) = _LENGTH.unpack_from(answer)
            waiting = self._waiting.pop(correlation_id, None)
            if waiting is None:
                raise ClientError(f"it answered request {correlation_id}, which this client did not send")
            waiting.answer = answer
            waiting.answered.set()
            position = end
        del received[:position]

    def fail(self, why: str) -> None:
        """Break the link, and fail all unanswered requests. The first reason stays."""
        # Closing the connection causes further errors, which would hide the first one.
        self.why = self.why or why
        self.broken.set()
        for waiting in self._waiting.values():
            waiting.answered.set()
        self._waiting.clear()
