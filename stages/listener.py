"""Listeners: the sockets that a server accepts from, and the settings of their connections."""

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
    "SYSTEM_DEFAULT",
    "SYSTEM_MAXIMUM",
    "AcceptSource",
    "Accepted",
    "HandshakeFailed",
    "Listener",
    "OpenSession",
    "open_listener",
]

SYSTEM_MAXIMUM = 2**31 - 1
"""Backlog that the system lowers to its own maximum. With Kafka's 50, clients of a burst wait for seconds."""
BUFFER_BYTES = 100 * 1024
"""Kafka's default of `socket.send.buffer.bytes`. A larger one leaves the processor's caches: 0.75 of the rate."""
SYSTEM_DEFAULT = -1
"""Buffer size that leaves the choice to the system. It takes half of the CPU to receive large requests."""


class Accepted(Protocol):
    """An accepted connection that is not served yet.

    Attributes:
        ip: address of the client, as the quotas count it.
    """

    ip: str

    def configure(self, send_buffer_bytes: int) -> tuple[TransportLayer, str]:
        """Prepare the connection to be served.

        Returns:
            its transport, and both ends as `local:port-remote:port`.

        Raises:
            OSError: if the client has disconnected; the caller must still call `close`.
        """

    def close(self) -> None: ...


class AcceptSource(Protocol):
    """A source of connections: a listening socket, or one in memory."""

    @property
    def overflows(self) -> int:
        """Number of attempts to connect that the system dropped because the backlog was full."""

    async def wait_readable(self) -> None: ...

    def accept(self) -> Accepted:
        """Return the next connection.

        Raises:
            BlockingIOError: if no connection waits.
            OSError: if the connection could not be accepted.
        """

    def close(self) -> None: ...


OpenSession: TypeAlias = "Callable[[ConnectionHandle, TransportLayer], Authenticator | None]"
"""Starts the session of a connection.

The server calls it once the transport is ready (after a TLS handshake) and before the first frame. It sets
`connection.session` and returns the authenticator, or None without authentication."""
HandshakeFailed: TypeAlias = "Callable[[str, str], None]"
"""Receives the client's address and the reason of each failed TLS handshake."""


@attrs.frozen
class Listener:
    """A named source of connections, and the settings of these connections.

    Attributes:
        name: name in quotas and statistics, such as `PLAINTEXT`; unique in a server.
        sock: a bound and listening socket; owned by the server that gets the listener.
        tls: returns the server's TLS context; called for every connection, so that new certificates apply to the next
            one. None for plaintext.
        send_buffer_bytes: send buffer of each connection; SYSTEM_DEFAULT leaves it to the system.
        open_session: see OpenSession; None leaves sessions to the application.
        handshake_failed: see HandshakeFailed.
        processors: number of processors; None for the server's number.
        limits: bounds of each connection; None for the server's.
        is_control_plane: whether its requests have a queue, a handler and a processor of their own, so that
            administration works while everything else is saturated.
        is_privileged: whether its clients are trusted peers; used by the application only.
        source: accepts connections in place of a socket. With neither, connections arrive by `SocketServer.connect`
            only.
        host: bound address; empty without a socket.
        port: bound port; 0 without a socket.
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

    # Read now, because a closed socket no longer knows its address.
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
    backlog: int = SYSTEM_MAXIMUM,
    tls: Callable[[], ssl.SSLContext] | None = None,
    send_buffer_bytes: int = BUFFER_BYTES,
    receive_buffer_bytes: int = SYSTEM_DEFAULT,
) -> Listener:
    """Bind and listen on a TCP socket; use `attrs.evolve` for further settings.

    Call this before the server runs, so that a port in use fails the startup before anything is served.

    Args:
        host: an address or a name; empty for all interfaces, of IPv4 and, if available, IPv6.
        port: 0 lets the system choose.
        backlog: maximum of connections that wait to be accepted.
        tls: see Listener.
        send_buffer_bytes: send buffer of each connection; SYSTEM_DEFAULT leaves it to the system.
        receive_buffer_bytes: the same for the receive buffer, which connections inherit from the listening socket.

    Raises:
        OSError: if the address cannot be bound.
    """
    if not host and socket.has_dualstack_ipv6():
        host = "::"
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        if host == "::":
            # The default of this option depends on the system; 0 accepts IPv4 clients on the same socket.
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        if not hasattr(socket, "SO_EXCLUSIVEADDRUSE"):  # on Windows, SO_REUSEADDR would let any process share the port
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
