"""One request at a time on a connection, for control requests and SASL."""

import itertools
import struct
from typing import Any, TypeVar

from pipeline_broker.client.connection import Connection
from pipeline_broker.client.errors import ClientError, error_name
from pipeline_broker.client.rights import missing_right
from pipeline_broker.wire.codec import DecodeError, decode, encode
from pipeline_broker.wire.header import RequestHeader, encode_request_header, read_response_header

CLIENT_ID = "pipeline-broker-load"
RESPONSE_SIZE_MAX = 1 << 20
_LENGTH = struct.Struct(">i")

Response = TypeVar("Response")


class Dialogue:
    """A connection on which each request waits for the response to the previous one. Callers bound the waits."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._ids = itertools.count()
        self._received = b""

    async def ask(self, request: Any, response_type: type[Response], version: int) -> Response:
        """Send a request in the given version, and return its response.

        Raises:
            ConnectionLost: the connection is broken.
            ClientError: the response is malformed.
        """
        key = request.SCHEMA.key
        header = encode_request_header(RequestHeader(key, version, next(self._ids), CLIENT_ID))
        frame = await self.ask_framed(framed(b"".join((header, *encode(request, version)))))
        try:
            _, position = read_response_header(key, version, frame)
            return decode(response_type, version, frame, position)[0]
        except DecodeError as error:
            raise ClientError(f"the broker's answer to {type(request).__name__} cannot be read: {error}") from None

    async def ask_framed(self, frame: bytes) -> bytes:
        """Send a framed request, and return its response without the length prefix.

        Raises:
            ConnectionLost: the connection is broken.
            ClientError: the response is empty, or larger than RESPONSE_SIZE_MAX bytes.
        """
        self._connection.send_nowait(frame)
        while True:
            if len(self._received) >= _LENGTH.size:
                (length,) = _LENGTH.unpack_from(self._received)
                if not 0 < length <= RESPONSE_SIZE_MAX:
                    raise ClientError(f"the broker sent a response of {length} bytes. Check that it is a Kafka broker")
                end = _LENGTH.size + length
                if len(self._received) >= end:
                    answer, self._received = self._received[_LENGTH.size : end], self._received[end:]
                    return answer
            self._received += await self._connection.receive()


def framed(body: bytes) -> bytes:
    return _LENGTH.pack(len(body)) + body


def refuse(error_code: int, what: str, remedy: str = "") -> None:
    """Raise ClientError if an error code of the broker is not 0.

    Args:
        what: the subject of the message.
        remedy: advice for the user; "" stands for the advice about a missing permission, if one is missing.
    """
    if error_code:
        remedy = remedy or missing_right(error_code)
        raise ClientError(f"{what}: the broker answered {error_name(error_code)}" + (f": {remedy}" if remedy else ""))
