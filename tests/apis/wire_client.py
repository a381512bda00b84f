"""A client on one connection that sends any version of any API as given."""

from __future__ import annotations

import socket
import struct
from typing import Any, Self

from pipeline_broker.wire.codec import decode, encode
from pipeline_broker.wire.header import RequestHeader, encode_request_header, read_response_header


class WireClient:
    """Sends requests and reads responses in order. `expect` reads a response to an earlier `send`."""

    def __init__(self, host: str, port: int, client_id: str | None = "wire-client") -> None:
        self.socket = socket.create_connection((host, port), timeout=20)
        self.client_id = client_id
        self.sent = 0
        self.received = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, request: Any, version: int) -> None:
        header = RequestHeader(type(request).SCHEMA.key, version, self.sent, self.client_id)
        self.sent += 1
        frame = b"".join([encode_request_header(header), *map(bytes, encode(request, version))])
        self.socket.sendall(struct.pack(">i", len(frame)) + frame)

    def expect(self, response: type, version: int) -> Any:
        """Read the next response, which must be the next in order."""
        (size,) = struct.unpack(">i", self._read(4))
        frame = self._read(size)
        correlation_id, position = read_response_header(response.SCHEMA.key, version, frame)
        assert correlation_id == self.received
        self.received += 1
        message, end = decode(response, version, frame, position)
        assert end == size
        return message

    def ask(self, request: Any, response: type, version: int) -> Any:
        self.send(request, version)
        return self.expect(response, version)

    def _read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            part = self.socket.recv(size - len(data))
            assert part, "the broker closed the connection"
            data += part
        return data
