"""Where the batches of a partition lie in the journal.

Rules of this file: what the archive took over is dropped from its beginning. Five columns of plain integers, 40 bytes a
batch, no object per batch; every question is a bisection. Sizes are kept as running totals and timestamps as running
maxima: both only grow, so that "how far do so many bytes reach" and "the first batch at or after this time" are
bisections too. (The first batch whose running maximum reaches a time is also the first whose own maximum does.)
"""

from array import array
from bisect import bisect_left, bisect_right
from itertools import accumulate


class OffsetIndex:
    """Batches by number, in offset order."""

    __slots__ = ("bases", "own_timestamps", "places", "timestamps", "totals")

    def __init__(self) -> None:
        self.bases = array("q")
        self.places = array("q")
        self.totals = array("q", [0])  # one more than batches: totals[i] = bytes before batch i, dropped ones included
        self.timestamps = array("q")
        self.own_timestamps = array("q")

    def __len__(self) -> int:
        return len(self.bases)

    @property
    def size_bytes(self) -> int:
        """All batches together."""
        return self.totals[-1] - self.totals[0]

    def drop_before(self, offset: int) -> int:
        """Forget the batches in front of the one that begins at or after the offset; how many they were."""
        count = bisect_left(self.bases, offset)
        if not count:
            return 0
        dropped = self.timestamps[count - 1]
        for column in (self.bases, self.places, self.totals, self.timestamps, self.own_timestamps):
            del column[:count]
        if self.bases and dropped > self.own_timestamps[0]:  # else nothing in front of it counts any more
            self.timestamps = array("q", accumulate(self.own_timestamps, max))
        return count

    def append(self, base_offset: int, place: int, size_bytes: int, max_timestamp: int) -> None:
        """Add the batch behind the last one."""
        timestamps = self.timestamps
        self.own_timestamps.append(max_timestamp)
        self.bases.append(base_offset)
        self.places.append(place)
        self.totals.append(self.totals[-1] + size_bytes)
        timestamps.append(timestamps[-1] if timestamps and timestamps[-1] > max_timestamp else max_timestamp)

    def find(self, offset: int) -> int:
        """The batch that holds the offset, or else the last one before it; -1 when there is none."""
        return bisect_right(self.bases, offset) - 1

    def run_end(self, first: int, bytes_max: int, *, at_least_one: bool) -> int:
        """The batches first, first + 1, ... that fit in so many bytes end before this one."""
        end = bisect_right(self.totals, self.totals[first] + bytes_max, first) - 1
        return first + 1 if at_least_one and end == first else end

    def size_of(self, number: int) -> int:
        """The bytes of one batch."""
        return self.totals[number + 1] - self.totals[number]

    def first_since(self, timestamp: int, first: int = 0) -> int | None:
        """The first batch, of those from number `first` on, with a record at or after the time."""
        number = bisect_left(self.timestamps, timestamp)
        if number < first:  # the running maxima tell nothing of what lies behind; mostly the very next is the one
            own = self.own_timestamps
            return next((number for number in range(first, len(own)) if own[number] >= timestamp), None)
        return number if number < len(self.timestamps) else None

    def latest(self, offset: int) -> int | None:
        """The first batch with the largest timestamp of those that begin at or after the offset."""
        first = bisect_left(self.bases, offset)
        if first == len(self.bases):
            return None
        own = self.own_timestamps
        timestamp = self.timestamps[-1] if not first else max(own[first:])
        return self.first_since(timestamp, first)
