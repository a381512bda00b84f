"""Addresses to listen on, and the `Host` header of a request (a defence against DNS rebinding).

A page of another site that a browser shows can send requests to this machine, under a name that its owner made resolve
to it. The `Host` of such a request is that name, and never an address.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable

__all__ = [
    "HTTPS_PORT",
    "HTTP_PORT",
    "LOOPBACK",
    "is_loopback",
    "is_own_name",
    "is_unspecified",
    "parse_host_port",
    "split_authority",
]

HTTP_PORT = 80
HTTPS_PORT = 443
LOOPBACK = "127.0.0.1"
PORT_MAX = 65535


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


def is_loopback(host: str) -> bool:
    address = _address(host)
    return host == "localhost" or (address is not None and address.is_loopback)


def is_unspecified(host: str) -> bool:
    """Return whether a host, such as `0.0.0.0`, binds all addresses of the machine."""
    address = _address(host)
    return address is not None and address.is_unspecified


def parse_host_port(text: str) -> tuple[str, int]:
    """Return the host and the port in `HOST:PORT`, or in `PORT`, which means loopback.

    Raises:
        ValueError: the text has another form, or the port exceeds PORT_MAX. The message is one line.
    """
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]") if colon else LOOPBACK
    if not host or not (port.isascii() and port.isdigit()) or int(port) > PORT_MAX:
        raise ValueError(f"{text!r} is not a PORT or HOST:PORT")
    return host, int(port)


def split_authority(authority: str, port_default: int = HTTP_PORT) -> tuple[str, int | None]:
    """Split an authority into its host, in lower case, and its port.

    The port is `port_default` if the authority has none, and None if it is not a number.
    """
    host, colon, port = authority.rpartition(":")
    if not colon or port.endswith("]"):
        host, port = authority, str(port_default)
    return host.removeprefix("[").removesuffix("]").lower(), int(port) if port.isascii() and port.isdigit() else None


def is_own_name(host: str, bound: str, names: Iterable[str] = (), *, any_address: bool) -> bool:
    """Return whether the host of a request names this server; a loopback host always does.

    Args:
        host: as returned by `split_authority`.
        bound: the host that the server is bound to.
        names: further names of the server, in lower case.
        any_address: whether every IP address is accepted.
    """
    return is_loopback(host) or host == bound.lower() or host in names or (any_address and _address(host) is not None)
