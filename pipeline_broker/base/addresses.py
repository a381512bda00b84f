"""Normalized texts of IP addresses, so that two texts of the same address compare equal.

Java writes `0:0:0:0:0:0:0:1`, and `fe80:0:0:0:0:0:0:1%2` with the number of the interface. Python's sockets write `::1`
and `fe80::1%eth0`. An IPv6 socket writes the IPv4 client 192.0.2.1 as `::ffff:192.0.2.1`.
"""

from __future__ import annotations

import ipaddress
import socket

__all__ = ["normal_address"]

# An IPv6 address has at most 45 characters, an interface name 15. Python would copy a longer text into its error.
ADDRESS_CHARS_MAX = 100
INTERFACE_DIGITS_MAX = 9


def normal_address(text: str) -> str | None:
    """Return an IP address in the form in which connections show it; None if the text is not an address."""
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
    # Java writes the number of the interface; sockets write its name.
    if not (zone.isascii() and zone.isdigit() and len(zone) <= INTERFACE_DIGITS_MAX):
        return zone
    try:
        return socket.if_indextoname(int(zone))
    except OSError:
        return zone
