"""Fingerprints of schedules: the interleavings that runs took, and the number of different ones that a test saw.

A property test of random schedules should count them, since a test that always runs the same schedule proves little.
"""

import hashlib

__all__ = ["Schedule", "ScheduleCount", "TooFewSchedulesError"]

DISTINCT_SHARE_MIN = 1 / 3
"""Minimum share of distinct schedules among the examples; below it the test itself has failed."""


class TooFewSchedulesError(AssertionError):
    pass


class Schedule:
    """The events of one run, in order.

    Name events by values that mean the same in every run: the index of a connection, never its id in memory.
    """

    __slots__ = ("_digest", "events")

    def __init__(self) -> None:
        self.events = 0
        self._digest = hashlib.blake2b(digest_size=16)

    def note(self, event: str, *numbers: int) -> None:
        self.events += 1
        self._digest.update(f"{event} {numbers};".encode())

    @property
    def fingerprint(self) -> str:
        """A hash that is equal for runs with the same events in the same order."""
        return self._digest.hexdigest()


class ScheduleCount:
    """The schedules of all examples of one test.

    Args:
        name: name of the test, for messages.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.examples = 0
        self._fingerprints: set[str] = set()

    @property
    def distinct(self) -> int:
        return len(self._fingerprints)

    def add(self, schedule: Schedule) -> None:
        self.examples += 1
        self._fingerprints.add(schedule.fingerprint)

    def check(self) -> None:
        """Check that the schedules of the examples differ enough.

        Raises:
            TooFewSchedulesError: if the share of distinct schedules is below DISTINCT_SHARE_MIN.
        """
        if self.distinct < DISTINCT_SHARE_MIN * self.examples:
            raise TooFewSchedulesError(str(self))

    def __str__(self) -> str:
        return f"{self.name}: {self.distinct} distinct schedules in {self.examples} examples"
