"""Notifications to the service manager that started the process, such as systemd (sd_notify)."""

from __future__ import annotations

import contextlib
import os
import socket

__all__ = ["NOTIFY_VARIABLE", "notify"]

NOTIFY_VARIABLE = "NOTIFY_SOCKET"


def notify(*assignments: str) -> None:
    """Send assignments such as "READY=1". Without a service manager, or if it is gone, do nothing."""
    address = os.environ.get(NOTIFY_VARIABLE, "")
    if not address:
        return
    # A name that begins with @ is in the abstract namespace of Linux.
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.settimeout(1.0)
        manager.sendto("\n".join(assignments).encode(), f"\0{address[1:]}" if address[0] == "@" else address)
