"""Which interleaving did a run take, and how many different ones did a test see?

Rules of this room: a schedule is the sequence of what happened, by names that mean the same in every run (the number of
a connection, never its address in memory); two runs with the same sequence took the same schedule. A property test that
draws schedules must count them: one that runs the same schedule every time proves next to nothing.
"""

import hashlib

__all__ = ["Schedule", "ScheduleCount", "TooFewSchedulesError"]

DISTINCT_SHARE_MIN = 1 / 3
"""Fewer distinct schedules than this share of the examples are a failure of the test, not of what is tested."""


class TooFewSchedulesError(AssertionError):
    """A test that is about schedules ran nearly always the same one."""


class Schedule:
    """What happened in one run, in order."""

    __slots__ = ("_digest", "events")

    def __init__(self) -> None:
        self.events = 0
        self._digest = hashlib.blake2b(digest_size=16)

    def note(self, event: str, *numbers: int) -> None:
        """Add one event."""
        self.events += 1
        self._digest.update(f"{event} {numbers};".encode())

    @property
    def fingerprint(self) -> str:
        """Equal for runs in which the same happened in the same order."""
        return self._digest.hexdigest()


class ScheduleCount:
    """The schedules of all examples of one test.

    Args:
        name: of the test, for the report.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.examples = 0
        self._fingerprints: set[str] = set()

    @property
    def distinct(self) -> int:
        """How many different schedules there were."""
        return len(self._fingerprints)

    def add(self, schedule: Schedule) -> None:
        """Count the schedule of one example."""
        self.examples += 1
        self._fingerprints.add(schedule.fingerprint)

    def check(self) -> None:
        """Fail below DISTINCT_SHARE_MIN.

        Raises:
            TooFewSchedulesError: see there.
        """
        if self.distinct < DISTINCT_SHARE_MIN * self.examples:
            raise TooFewSchedulesError(str(self))

    def __str__(self) -> str:
        return f"{self.name}: {self.distinct} distinct schedules in {self.examples} examples"
