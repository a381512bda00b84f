"""A listener: where its connections come from, how each is served, and what bounds it.

Rules of this room: descriptions only; nothing here accepts, waits or imports Trio. A listener is bound when it is
described, also on a fixed port, so that a start fails before anything is served.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, TypeAlias

import attrs

if TYPE_CHECKING:
    import ssl

    from stages.authentication import Authenticator
    from stages.connection_limits import ConnectionLimits
    from stages.request import ConnectionHandle
    from stages.transport_layer import TransportLayer

__all__ = [
    "BACKLOG",
    "SYSTEM_DEFAULT",
    "AcceptSource",
    "Accepted",
    "HandshakeFailed",
    "Listener",
    "OpenSession",
    "open_listener",
]

BACKLOG = 50
"""Kafka's `socket.listen.backlog.size`."""
BUFFER_BYTES = 100 * 1024
"""Kafka's `socket.send.buffer.bytes` and `socket.receive.buffer.bytes`."""
SYSTEM_DEFAULT = -1
"""The size of a buffer that the system chooses."""


class Accepted(Protocol):
    """A connection that was accepted and is not served yet.

    Attributes:
        ip: the client's address, as the quotas count it.
    """

    ip: str

    def configure(self, send_buffer_bytes: int) -> tuple[TransportLayer, str]:
        """Make it ready to be served.

        Returns:
            its transport, and both ends as `local:port-remote:port`.

        Raises:
            OSError: the client is gone already; `close` is still to be called.
        """

    def close(self) -> None:
        """Close it unserved."""


class AcceptSource(Protocol):
    """What an acceptor accepts from: a listening socket, or one in memory."""

    async def wait_readable(self) -> None:
        """Wait until `accept` may succeed."""

    def accept(self) -> Accepted:
        """The next connection.

        Raises:
            BlockingIOError: there is none now.
            OSError: it could not be accepted.
        """

    def close(self) -> None:
        """Accept no more."""


OpenSession: TypeAlias = "Callable[[ConnectionHandle, TransportLayer], Authenticator | None]"
"""Begins the session of a connection: called once its transport is ready (after a TLS handshake) and before its first
frame. It sets `connection.session` and returns the authenticator, or None where clients need not say who they are."""
HandshakeFailed: TypeAlias = "Callable[[str, str], None]"
"""Told, with the client's address and the reason, of each TLS handshake that failed."""


@attrs.frozen
class Listener:
    """Where connections come from, and how they are served.

    Attributes:
        name: for quotas and statistics, as `PLAINTEXT`; unique in a server.
        sock: bound and listening; owned by the server from the moment that it is given to it.
        tls: asked for the server's context for every accepted connection, so that new certificates count from the next
            connection on; None for plaintext.
        send_buffer_bytes: of each connection; -1 leaves it to the system.
        open_session: see OpenSession; None leaves the session to the application.
        handshake_failed: see HandshakeFailed; None for nobody.
        processors: how many; None for the server's number.
        limits: bounds of each connection; None for the server's.
        is_control_plane: its requests have a queue and a handler of their own, and it has one processor, so that
            administration works while everything else is saturated.
        is_privileged: its clients are peers, not strangers; only the application gives it a meaning.
        source: accepts in place of a socket. With neither, connections come by `SocketServer.connect` only.
        host: the address it is bound to; empty for one without a socket.
        port: the port it is bound to; 0 for one without a socket.
    """

    name: str
    sock: socket.socket | None = None
    tls: Callable[[], ssl.SSLContext] | None = None
    send_buffer_bytes: int = BUFFER_BYTES
    open_session: OpenSession | None = None
    handshake_failed: HandshakeFailed | None = attrs.field(default=None, kw_only=True)
    processors: int | None = attrs.field(
        default=None, validator=attrs.validators.optional(attrs.validators.ge(1)), kw_only=True
    )
    limits: ConnectionLimits | None = attrs.field(default=None, kw_only=True)
    is_control_plane: bool = attrs.field(default=False, kw_only=True)
    is_privileged: bool = attrs.field(default=False, kw_only=True)
    source: AcceptSource | None = attrs.field(default=None, kw_only=True)

    # Asked for at once: a socket that is closed does not tell any more.
    host: str = attrs.field(init=False, default=attrs.Factory(lambda self: _address(self.sock)[0], takes_self=True))
    port: int = attrs.field(init=False, default=attrs.Factory(lambda self: _address(self.sock)[1], takes_self=True))


def _address(sock: socket.socket | None) -> tuple[str, int]:
    if sock is None:
        return "", 0
    host, port, *_ = sock.getsockname()
    return host, port


def open_listener(
    name: str,
    host: str,
    port: int,
    *,
    backlog: int = BACKLOG,
    tls: Callable[[], ssl.SSLContext] | None = None,
    send_buffer_bytes: int = BUFFER_BYTES,
    receive_buffer_bytes: int = BUFFER_BYTES,
) -> Listener:
    """Bind and listen; how connections are served beyond that is said by `attrs.evolve`.

    Args:
        name: the listener's name.
        host: an address or a name; empty for all interfaces, of IPv4 and, where the system has it, IPv6.
        port: 0 lets the system choose.
        backlog: connections that may wait to be accepted.
        tls: see Listener.
        send_buffer_bytes: of each connection; -1 leaves it to the system.
        receive_buffer_bytes: the same for what is received; connections inherit it from the listening socket.

    Raises:
        OSError: the address cannot be bound.
    """
    if not host and socket.has_dualstack_ipv6():
        host = "::"
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        if host == "::":
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        if not hasattr(socket, "SO_EXCLUSIVEADDRUSE"):  # Windows has it: there reuse would share the port with anybody
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, True)
        if receive_buffer_bytes != SYSTEM_DEFAULT:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
        sock.bind((host, port))
        sock.listen(backlog)
        sock.setblocking(False)
    except OSError:
        sock.close()
        raise
    return Listener(name, sock, tls, send_buffer_bytes)
