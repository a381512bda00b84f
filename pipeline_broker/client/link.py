"""One connection to a broker, on which many may ask at once.

Rules of this file: requests go out in the order in which they are asked, and answers come in that order, as Kafka
promises; so each caller waits for the answer with its own correlation id, and an id without a caller is the end
of the connection. Nothing is raised from the tasks of a link: whoever asks is told. Answers have a largest size.
"""

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
"""What every broker answers at once."""
ANSWER_BYTES_MAX = 256 << 20
"""A fetch gives at least one batch however large it is; no broker takes one that comes near to this."""
_API_VERSIONS_VERSION = 3
"""Every broker since Kafka 2.4 has it."""
_LENGTH = struct.Struct(">i")

Response = TypeVar("Response")


class _Waiting:
    """Somebody who waits for an answer."""

    __slots__ = ("answer", "answered")

    def __init__(self) -> None:
        self.answered = trio.Event()
        self.answer: bytes | None = None


class Link:
    """A connection whose versions are agreed on.

    Args:
        connection: authenticated; its writer runs elsewhere.
        place: HOST:PORT, for messages.

    Attributes:
        broken: set when nothing can be asked any more.
        why: the reason of that.
    """

    def __init__(self, connection: Connection, place: str) -> None:
        self.place = place
        self.broken = trio.Event()
        self._connection = connection
        self._ids = itertools.count()
        self._waiting: dict[int, _Waiting] = {}
        self._ranges: Mapping[int, range] = {}
        self.why = ""

    @property
    def is_broken(self) -> bool:
        """Whether nothing can be asked any more."""
        return self.broken.is_set()

    async def negotiate(self) -> None:
        """Learn which versions the broker has; comes before everything else."""
        answer = await self._send(HELLO, ApiVersionsResponse, _API_VERSIONS_VERSION)()
        check(answer.error_code, f"{self.place} does not say which versions it has")
        self._ranges = {api.api_key: range(api.min_version, api.max_version + 1) for api in answer.api_keys}

    def has_api(self, api_key: int) -> bool:
        """Whether the broker has any version of an API."""
        return api_key in self._ranges

    def version(self, request_type: type[Any], versions: range | None = None) -> int:
        """The newest version that both sides have, of those that are wanted.

        Raises:
            ClientError: there is none.
        """
        key = request_type.SCHEMA.key
        ours = versions_of(request_type) if versions is None else versions
        theirs = self._ranges.get(key, range(0))
        common = max((version for version in ours if version in theirs), default=None)
        if common is None:
            name = API_KEYS[ApiKey(key)].name
            raise ClientError(f"the broker at {self.place} has no version {ours[0]} to {ours[-1]} of {name}")
        return common

    async def ask(self, request: Any, response_type: type[Response], versions: range | None = None) -> Response:
        """The answer to a request.

        Args:
            request: of any version.
            response_type: what answers it.
            versions: those that may be used; None: all that are declared.

        Raises:
            ConnectionLost: there will be none.
            ClientError: it cannot be asked, or not be understood.
        """
        return await self.send(request, response_type, versions)()

    def tell(self, request: Any, versions: range | None = None) -> None:
        """Send a request that is never answered: Produce with acks=0."""
        if self.is_broken:
            raise ConnectionLost(self.why)
        try:
            self._connection.send_nowait(self._frame(request, self.version(type(request), versions), next(self._ids)))
        except ClientError as error:
            self.fail(str(error))
            raise ConnectionLost(self.why) from None

    def send(
        self, request: Any, response_type: type[Response], versions: range | None = None
    ) -> Callable[[], Awaitable[Response]]:
        """Send a request now and return a function that waits for the answer; it raises the errors of `ask`.

        Raises:
            ConnectionLost: the connection broke.
            ClientError: the broker has no such version, or the request cannot be encoded.
        """
        return self._send(request, response_type, self.version(type(request), versions))

    def _send(self, request: Any, response_type: type[Response], version: int) -> Callable[[], Awaitable[Response]]:
        if self.is_broken:
            raise ConnectionLost(self.why)
        correlation_id = next(self._ids)
        frame = self._frame(request, version, correlation_id)
        waiting = self._waiting[correlation_id] = _Waiting()
        try:
            self._connection.send_nowait(frame)
        except ClientError as error:
            self.fail(str(error))

        async def answer() -> Response:
            try:
                await waiting.answered.wait()
            except trio.Cancelled:
                # The answer may still come; without a waiting caller it would look like a mistake of the broker.
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
            raise ClientError(f"the answer of {self.place} to {type(request).__name__} is damaged: {error}") from None

    def _frame(self, request: Any, version: int, correlation_id: int) -> bytes:
        header = RequestHeader(request.SCHEMA.key, version, correlation_id, CLIENT_ID)
        try:
            return framed(b"".join((encode_request_header(header), *encode(request, version))))
        except EncodeError as error:
            raise ClientError(f"{type(request).__name__} cannot be sent to {self.place}: {error}") from None

    async def run_reader(self) -> None:
        """Read answers until the connection ends; raises nothing."""
        received = bytearray()
        try:
            while True:
                received += await self._connection.receive()
                self._answer(received)
        except ClientError as error:
            self.fail(f"{self.place}: {error}")

    async def run_writer(self) -> None:
        """Finish what the socket did not take at once; raises nothing."""
        try:
            await self._connection.run_writer()
        except ClientError as error:
            self.fail(f"{self.place}: {error}")

    def _answer(self, received: bytearray) -> None:
        """Hand out the answers that are whole."""
        position, size = 0, len(received)
        while size - position >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(received, position)
            if not _LENGTH.size <= length <= ANSWER_BYTES_MAX:
                raise ClientError(f"it sent an answer of {length} bytes: is it a Kafka broker, and does it want TLS?")
            end = position + _LENGTH.size + length
            if end > size:
                break
            answer = bytes(memoryview(received)[position + _LENGTH.size : end])
            (correlation_id,) = _LENGTH.unpack_from(answer)
            waiting = self._waiting.pop(correlation_id, None)
            if waiting is None:
                raise ClientError(f"it answered request {correlation_id}, which nobody asked")
            waiting.answer = answer
            waiting.answered.set()
            position = end
        del received[:position]

    def fail(self, why: str) -> None:
        """Tell everybody who waits that no answer will come."""
        self.why = self.why or why
        self.broken.set()
        for waiting in self._waiting.values():
            waiting.answered.set()
        self._waiting.clear()
