"""The Unix sockets through which the brokers of a machine talk to each other.

A connection begins with a line of JSON with its purpose:

    {"client": {...}}   requests under this identity: a broker's own, or those of a client that it forwards; see `peers`
    {"member": {...}}   a broker joins the controller and follows the metadata; see `member`

Only processes of the same user can connect: the directory has mode 0700, and the system tells the user of the other end
(SO_PEERCRED). The brokers answer such requests nowhere else.
"""

from __future__ import annotations

import json
import os
import socket
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import trio

from pipeline_broker.node.unix_socket import listen_in, short_path

__all__ = ["PeerError", "connect_peer", "is_same_user", "open_peer_listener", "read_hello", "send_hello"]

SOCKET_SUFFIX = ".socket"
HELLO_BYTES_MAX = 64 * 1024
HELLO_SECONDS = 5.0
BACKLOG = 128
_CREDENTIALS = struct.Struct("3i")


class PeerError(Exception):
    """The other end broke the protocol, or closed the connection."""


def open_peer_listener(directory: Path, node_id: int) -> socket.socket:
    """Listen in the directory of the cluster. Raises OSError if that is not possible."""
    return listen_in(directory, f"{node_id}{SOCKET_SUFFIX}", BACKLOG)


def is_same_user(sock: socket.socket) -> bool:
    """Return whether the process at the other end runs as the same user, or as root."""
    _, user, _ = _CREDENTIALS.unpack(sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
    return user in {0, os.geteuid()}


async def connect_peer(directory: Path, node_id: int, hello: Mapping[str, Any]) -> trio.SocketStream:
    """Connect to another broker and say what the connection is for.

    Raises:
        OSError: the broker does not listen.
        trio.BrokenResourceError: it closed the connection.
    """
    sock = trio.socket.socket(trio.socket.AF_UNIX, trio.socket.SOCK_STREAM)
    try:
        with short_path(directory, f"{node_id}{SOCKET_SUFFIX}") as path:
            await sock.connect(path)
        stream = trio.SocketStream(sock)
    except BaseException:
        sock.close()
        raise
    try:
        await send_hello(stream, hello)
    except BaseException:
        await trio.aclose_forcefully(stream)
        raise
    return stream


async def send_hello(stream: trio.SocketStream, hello: Mapping[str, Any]) -> None:
    await stream.send_all(json.dumps(hello).encode() + b"\n")


async def read_hello(sock: socket.socket) -> Mapping[str, Any]:
    """Read the first line of a connection and no byte after it.

    Raises:
        PeerError: the line is missing, too long or not a JSON object.
    """
    line = b""
    with trio.move_on_after(HELLO_SECONDS):
        while not line.endswith(b"\n") and len(line) < HELLO_BYTES_MAX:
            await trio.lowlevel.wait_readable(sock)
            seen = sock.recv(HELLO_BYTES_MAX, socket.MSG_PEEK)
            if not seen:
                break
            end = seen.find(b"\n") + 1
            line += sock.recv(end or len(seen))
    try:
        hello = json.loads(line) if line.endswith(b"\n") else None
    except (ValueError, RecursionError):
        hello = None
    if not isinstance(hello, dict):
        raise PeerError("the first line is not a JSON object")
    return hello
