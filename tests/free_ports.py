"""Ports for those who must know one before they listen on it.

Rules: not from the range that the system gives out (ip_local_port_range), else a client of another test may have it a
moment later.
"""

import random
import socket

PORTS = range(15000, 30000)


def free_port():
    """A port that nothing listens on; never the same for two tests that begin at once."""
    dice = random.SystemRandom()
    while True:
        port = dice.choice(PORTS)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
