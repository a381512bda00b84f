"""Broker addresses in the form `HOST:PORT`."""

from __future__ import annotations

__all__ = ["PORT_DEFAULT", "host_and_port"]

PORT_DEFAULT = 9092


def host_and_port(text: str, port_default: int | None = None) -> tuple[str, int] | None:
    """Parse `HOST:PORT`, with brackets around an IPv6 host.

    Args:
        port_default: the port if the text has none; None if the port is required.

    Returns:
        the host without brackets, and the port from 1 to 65535; None if the text is not an address.
    """
    has_port = ":" in (text.rpartition("]")[2] if text.startswith("[") else text)
    if not has_port and port_default is not None:
        text = f"{text}:{port_default}"
    host, _, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    if not host or "[" in host or "]" in host or not port.isdecimal() or not 0 < int(port) < 1 << 16:
        return None
    return host, int(port)
