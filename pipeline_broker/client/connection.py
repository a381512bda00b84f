"""A non-blocking TCP connection to a broker, on a raw socket.

A send is one system call if the kernel takes all bytes. A separate task sends the remaining bytes, so reading never
waits for writing.
"""

import contextlib
import errno
import os
import socket
import struct
from collections.abc import AsyncIterator

import trio

from pipeline_broker.base.buffer import Buffer
from pipeline_broker.client.errors import ConnectionLost

RECEIVE_SIZE = 1 << 16
# `struct linger` with a time of 0: close() sends RST instead of FIN.
_RESET = struct.pack("ii", 1, 0)


class Connection:
    """A connected socket. At most one task may call `receive`, and one `run_writer`."""

    def __init__(self, raw_socket: socket.socket) -> None:
        self._socket = raw_socket
        self._unsent = bytearray()
        self._has_unsent = trio.Event()

    def send_nowait(self, data: Buffer) -> None:
        """Send as many bytes as the kernel takes now, and leave the remaining ones to `run_writer`.

        Raises:
            ConnectionLost: the connection is broken.
        """
        # With unsent bytes, these must wait too: otherwise they would overtake them.
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
        """Send the remaining bytes of all `send_nowait`, until cancelled.

        Raises:
            ConnectionLost: the connection is broken.
        """
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
        """Wait for bytes, and return those that have arrived, at least one.

        Raises:
            ConnectionLost: the connection is broken, or the broker closed it.
        """
        while True:
            await trio.lowlevel.wait_readable(self._socket)
            try:
                data = self._socket.recv(RECEIVE_SIZE)
            except BlockingIOError:
                continue
            except OSError as error:
                raise _broken(error) from None
            if not data:
                raise ConnectionLost("the broker closed the connection")
            return data

    @property
    def raw_socket(self) -> socket.socket:
        return self._socket

    def close(self) -> None:
        self._socket.close()

    def reset_on_close(self) -> None:
        """Make `close` reset the connection, so the broker drops the bytes that it has not read."""
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)


def _broken(error: OSError) -> ConnectionLost:
    return ConnectionLost(f"the connection to the broker broke: {error.strerror or error}")


@contextlib.asynccontextmanager
async def connect(host: str, port: int) -> AsyncIterator[Connection]:
    """Connect to a broker, and close the connection at the end of the block.

    Raises:
        ConnectionLost: the name cannot be resolved, or the broker cannot be reached.
    """
    try:
        addresses = await trio.socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise ConnectionLost(f"cannot resolve {host}: {error.strerror or error}. Check the address") from None
    family, kind, protocol, _, address = addresses[0]
    raw_socket = socket.socket(family, kind, protocol)
    try:
        raw_socket.setblocking(False)
        # Nagle's algorithm would delay each request that follows an unacknowledged one.
        raw_socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        number = raw_socket.connect_ex(address)
        if number == errno.EINPROGRESS:
            await trio.lowlevel.wait_writable(raw_socket)
            number = raw_socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if number:
            raise ConnectionLost(f"cannot connect to {host}:{port}: {os.strerror(number)}")
        yield Connection(raw_socket)
    finally:
        raw_socket.close()
