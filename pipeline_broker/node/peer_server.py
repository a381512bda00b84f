"""The connections that a broker accepts from the other brokers of its machine."""

from __future__ import annotations

import functools
import logging
import socket
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import trio

from pipeline_broker.apis.call import Session
from pipeline_broker.node.peer_socket import PeerError, is_same_user, open_peer_listener, read_hello
from pipeline_broker.security.principal import KafkaPrincipal
from stages.request import ConnectionHandle
from stages.socket_server import SocketServer
from stages.transport_layer import PlaintextTransportLayer, TransportLayer

__all__ = ["serve_peers"]

logger = logging.getLogger(__name__)

CONNECTIONS_MAX = 4_096
"""Connections whose first line is awaited, and members that follow the metadata."""

OnMember: TypeAlias = Callable[[trio.SocketStream, Mapping[str, Any]], Awaitable[None]]
"""Serves the conversation of a member, given its part of the first line."""


async def serve_peers(
    directory: Path,
    node_id: int,
    server: SocketServer,
    on_member: OnMember | None = None,
    *,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Accept the connections of peers until cancelled.

    Args:
        directory: directory of the cluster.
        server: serves requests of peers, and requests that they forward for their clients.
        on_member: serves brokers that join; None on a broker that is not the controller.
    """
    listener = open_peer_listener(directory, node_id)
    try:
        async with trio.open_nursery() as nursery:
            task_status.started()
            while True:
                await trio.lowlevel.wait_readable(listener)
                try:
                    sock, _ = listener.accept()
                except BlockingIOError:
                    continue
                if len(nursery.child_tasks) >= CONNECTIONS_MAX or not is_same_user(sock):
                    sock.close()
                    continue
                sock.setblocking(False)
                nursery.start_soon(_serve, sock, server, on_member)
    finally:
        trio.lowlevel.notify_closing(listener)
        listener.close()


async def _serve(sock: socket.socket, server: SocketServer, on_member: OnMember | None) -> None:
    try:
        hello = await read_hello(sock)
        session = None if "member" in hello and on_member is not None else _session_of(hello["client"])
    except (PeerError, OSError, KeyError, TypeError, AttributeError) as error:
        logger.warning("a peer was rejected: %s", error)
        sock.close()
        return
    except trio.Cancelled:
        sock.close()
        raise
    if session is not None:
        open_session = functools.partial(_open_session, session)
        await server.connect(PlaintextTransportLayer(sock), peer=session.host, listener="", open_session=open_session)
        return
    assert on_member is not None, "checked above"
    stream = trio.SocketStream(trio.socket.from_stdlib_socket(sock))
    try:
        await on_member(stream, hello["member"])
    except* (trio.BrokenResourceError, trio.ClosedResourceError):
        pass
    except* (PeerError, KeyError, TypeError, ValueError, AttributeError) as errors:
        logger.warning("a peer was rejected: %s", errors.exceptions[0])
    finally:
        await trio.aclose_forcefully(stream)


def _session_of(client: Mapping[str, Any]) -> Session:
    return Session(
        host=str(client["host"]),
        listener=str(client["listener"]),
        security_protocol=str(client["security_protocol"]),
        principal=KafkaPrincipal(*map(str, client["principal"])),
        is_by_token=bool(client["is_by_token"]),
        is_privileged=bool(client["is_privileged"]),
        is_trusted=bool(client["is_trusted"]),
    )


def _open_session(session: Session, connection: ConnectionHandle, transport: TransportLayer) -> None:
    del transport
    connection.session = session
