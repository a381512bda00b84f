"""Addresses of machines as texts: one address has many, and two texts are compared in one form.

Java writes `0:0:0:0:0:0:0:1` and numbers the interface of a link-local address, `fe80:0:0:0:0:0:0:1%2`. A socket here
shows `::1` and `fe80::1%eth0`. An IPv6 socket shows the IPv4 client 192.0.2.1 as `::ffff:192.0.2.1`.
"""

from __future__ import annotations

import ipaddress
import socket

__all__ = ["normal_address"]

ADDRESS_CHARS_MAX = 100
"""An IPv6 address has 45 and the name of an interface 15; Python would copy longer texts to refuse them."""
INTERFACE_DIGITS_MAX = 9


def normal_address(text: str) -> str | None:
    """Return an IP address as connections show it; None if the text is not an address."""
    if len(text) > ADDRESS_CHARS_MAX:
        return None
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    if address.version == 4:
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    plain, percent, zone = str(address).partition("%")
    return f"{plain}{percent}{_interface(zone)}"


def _interface(zone: str) -> str:
    """Return the name of an interface that is given by its number; any other text as it is."""
    if not (zone.isascii() and zone.isdigit() and len(zone) <= INTERFACE_DIGITS_MAX):
        return zone
    try:
        return socket.if_indextoname(int(zone))
    except OSError:
        return zone
