"""One socket of the load client.

Rules of this file: raw non-blocking sockets; what is sent goes out at once and in one call if the kernel takes it, and
is finished by a task of its own if not, so that reading never waits for writing. The other side closing is a
ClientError that says how the connection stood.
"""

import contextlib
import errno
import os
import socket
import struct
from collections.abc import AsyncIterator

import trio

from pipeline_broker.client.errors import ClientError

Buffer = bytes | bytearray | memoryview

RECEIVE_SIZE = 1 << 16
_RESET = struct.pack("ii", 1, 0)
"""`struct linger`: on, for no time."""


class Connection:
    """A connected socket; `receive` and `run_writer` are called by one task each."""

    def __init__(self, raw_socket: socket.socket) -> None:
        self._socket = raw_socket
        self._unsent = bytearray()
        self._has_unsent = trio.Event()

    def send_nowait(self, data: Buffer) -> None:
        """Send now what the kernel takes; the rest follows as soon as it can."""
        if not self._unsent:
            try:
                sent = self._socket.send(data)
            except BlockingIOError:
                sent = 0
            except OSError as error:
                raise _broken(error) from None
            if sent == len(data):
                return
            data = memoryview(data)[sent:]
        self._unsent += data
        self._has_unsent.set()

    async def run_writer(self) -> None:
        """Finish what `send_nowait` could not; runs until cancelled."""
        while True:
            await self._has_unsent.wait()
            while self._unsent:
                await trio.lowlevel.wait_writable(self._socket)
                try:
                    sent = self._socket.send(self._unsent)
                except BlockingIOError:
                    continue
                except OSError as error:
                    raise _broken(error) from None
                del self._unsent[:sent]
            self._has_unsent = trio.Event()

    async def receive(self) -> bytes:
        """What has arrived, at least one byte."""
        while True:
            await trio.lowlevel.wait_readable(self._socket)
            try:
                data = self._socket.recv(RECEIVE_SIZE)
            except BlockingIOError:
                continue
            except OSError as error:
                raise _broken(error) from None
            if not data:
                raise ClientError("the broker closed the connection")
            return data

    @property
    def raw_socket(self) -> socket.socket:
        """What a connection that encrypts is made on."""
        return self._socket

    def close(self) -> None:
        """Close the socket; no task may be waiting for it any more."""
        self._socket.close()

    def reset_on_close(self) -> None:
        """Let it close with a reset: the other side then forgets what it has not read."""
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)


def _broken(error: OSError) -> ClientError:
    return ClientError(f"the connection to the broker broke: {error.strerror or error}")


@contextlib.asynccontextmanager
async def connect(host: str, port: int) -> AsyncIterator[Connection]:
    """A connection to a broker, closed at the end of the block."""
    try:
        addresses = await trio.socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise ClientError(f"cannot resolve {host}: {error.strerror or error}") from None
    family, kind, protocol, _, address = addresses[0]
    raw_socket = socket.socket(family, kind, protocol)
    try:
        raw_socket.setblocking(False)
        raw_socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        number = raw_socket.connect_ex(address)
        if number == errno.EINPROGRESS:
            await trio.lowlevel.wait_writable(raw_socket)
            number = raw_socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if number:
            raise ClientError(f"cannot connect to {host}:{port}: {os.strerror(number)}")
        yield Connection(raw_socket)
    finally:
        raw_socket.close()
