"""Where a port is served, and by which names it may be asked: the Host of a request, against DNS rebinding.

Rules of this file: sans-IO. A page of a stranger that a browser has open can send requests to this machine, under a
name of the stranger's that leads here. Such a request names the stranger's host, and never an address.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable

__all__ = ["LOOPBACK", "is_loopback", "is_own_name", "is_unspecified", "read_place", "split_authority"]

HTTP_PORT = 80
LOOPBACK = "127.0.0.1"
PORT_MAX = 65535


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address."""
    address = _address(host)
    return host == "localhost" or (address is not None and address.is_loopback)


def is_unspecified(host: str) -> bool:
    """Whether an address that is bound stands for all those of the machine."""
    address = _address(host)
    return address is not None and address.is_unspecified


def read_place(text: str) -> tuple[str, int]:
    """Where to serve: `PORT`, which is on this machine only, or `HOST:PORT`; raises ValueError with one line."""
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]") if colon else LOOPBACK
    if not host or not (port.isascii() and port.isdigit()) or int(port) > PORT_MAX:
        raise ValueError(f"{text!r} is not a PORT or HOST:PORT")
    return host, int(port)


def split_authority(authority: str) -> tuple[str, int | None]:
    """Host, in lower case, and port of an authority; the port is None where it is not a number."""
    host, colon, port = authority.rpartition(":")
    if not colon or port.endswith("]"):
        host, port = authority, str(HTTP_PORT)
    return host.removeprefix("[").removesuffix("]").lower(), int(port) if port.isascii() and port.isdigit() else None


def is_own_name(host: str, bound: str, names: Iterable[str] = (), *, any_address: bool) -> bool:
    """Whether a host of a request may be this server's.

    Args:
        host: as `split_authority` gives it.
        bound: the host that the server is bound to.
        names: further ones, in lower case.
        any_address: whether each address is right.
    """
    return is_loopback(host) or host == bound.lower() or host in names or (any_address and _address(host) is not None)
