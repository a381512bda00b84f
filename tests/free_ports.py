"""Ports for those who must know one before they listen on it.

Rules: not from the range that the system gives out (ip_local_port_range), else a client of another test may have it a
moment later.
"""

import random
import socket

PORTS = range(15000, 30000)


def free_port(*offsets: int) -> int:
    """A port that nothing listens on, nor on those so far above it; hardly ever the same for two tests."""
    dice = random.SystemRandom()
    while True:
        port = dice.choice(PORTS)
        if all(is_free(port + offset) for offset in (0, *offsets)):
            return port


def is_free(port: int) -> bool:
    """Whether somebody may listen on a port of the loopback."""
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True
