"""Free ports, for programs that need a port number before they listen.

They are outside of the ephemeral range (ip_local_port_range): a client of another test could get an ephemeral port
first.
"""

import random
import socket

PORTS = range(15000, 30000)


def free_port(*offsets: int) -> int:
    """Return a free port, whose given offsets above it are free too. Two tests hardly ever get the same one."""
    dice = random.SystemRandom()
    while True:
        port = dice.choice(PORTS)
        if all(is_free(port + offset) for offset in (0, *offsets)):
            return port


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True
