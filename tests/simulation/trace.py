"""What happened in a simulation, in order.

Rules of this file: an event is a name and numbers or texts that mean the same in every run of a seed, never an address
in memory. Two runs of a seed have equal traces; two schedules are equal when their traces without times are.
"""

import hashlib

import trio


class Trace:
    """Also a `stages.testing.schedules.Schedule` for those who take note of events."""

    def __init__(self):
        self.events = []

    def note(self, event, *facts):
        self.events.append((round(trio.current_time() * 1_000_000), event, *facts))

    @property
    def fingerprint(self):
        """Equal for equal schedules."""
        digest = hashlib.blake2b(digest_size=16)
        for _, *event in self.events:
            digest.update(repr(event).encode())
        return digest.hexdigest()
