"""An in-memory index from offsets to journal positions, one per partition."""

from array import array
from bisect import bisect_left, bisect_right
from itertools import accumulate


class OffsetIndex:
    """The batches of a partition that are in the journal, in offset order.

    Five columns of integers take 40 bytes a batch, with no object per batch. Sizes are kept as running totals and
    timestamps as running maxima. Both never decrease, so a bisection finds the batches within a number of bytes and the
    first batch at or after a time. (The first batch whose running maximum reaches a time is also the first whose own
    maximum does.) Archived batches are dropped from the beginning.
    """

    __slots__ = ("bases", "own_timestamps", "places", "timestamps", "totals")

    def __init__(self) -> None:
        self.bases = array("q")
        self.places = array("q")
        self.totals = array("q", [0])  # totals[i] = bytes before batch i, including dropped ones; one more than batches
        self.timestamps = array("q")
        self.own_timestamps = array("q")

    def __len__(self) -> int:
        return len(self.bases)

    @property
    def size_bytes(self) -> int:
        return self.totals[-1] - self.totals[0]

    def drop_before(self, offset: int) -> int:
        """Drop the batches before the first one whose base is at or above the offset; return their number."""
        count = bisect_left(self.bases, offset)
        if not count:
            return 0
        dropped = self.timestamps[count - 1]
        for column in (self.bases, self.places, self.totals, self.timestamps, self.own_timestamps):
            del column[:count]
        # A dropped batch may still dominate the running maxima. Otherwise they are correct without it.
        if self.bases and dropped > self.own_timestamps[0]:
            self.timestamps = array("q", accumulate(self.own_timestamps, max))
        return count

    def append(self, base_offset: int, place: int, size_bytes: int, max_timestamp: int) -> None:
        timestamps = self.timestamps
        self.own_timestamps.append(max_timestamp)
        self.bases.append(base_offset)
        self.places.append(place)
        self.totals.append(self.totals[-1] + size_bytes)
        timestamps.append(timestamps[-1] if timestamps and timestamps[-1] > max_timestamp else max_timestamp)

    def find(self, offset: int) -> int:
        """Return the index of the last batch with a base at or below the offset; -1 without one."""
        return bisect_right(self.bases, offset) - 1

    def run_end(self, first: int, bytes_max: int, *, at_least_one: bool) -> int:
        """Return the end (exclusive) of the batches from `first` that fit in `bytes_max` bytes together.

        The result contains the first batch in any case if `at_least_one`.
        """
        end = bisect_right(self.totals, self.totals[first] + bytes_max, first) - 1
        return first + 1 if at_least_one and end == first else end

    def size_of(self, number: int) -> int:
        return self.totals[number + 1] - self.totals[number]

    def first_since(self, timestamp: int, first: int = 0) -> int | None:
        """Return the index of the first batch with a record at or after the timestamp; None without one.

        Batches before the index `first` are skipped.
        """
        number = bisect_left(self.timestamps, timestamp)
        if number < first:  # an earlier batch dominates the running maxima; the next batch or two usually match
            own = self.own_timestamps
            return next((number for number in range(first, len(own)) if own[number] >= timestamp), None)
        return number if number < len(self.timestamps) else None

    def latest(self, offset: int) -> int | None:
        """Return the index of the first batch with the largest timestamp.

        Only batches with a base at or above the offset count; None without one.
        """
        first = bisect_left(self.bases, offset)
        if first == len(self.bases):
            return None
        own = self.own_timestamps
        timestamp = self.timestamps[-1] if not first else max(own[first:])
        return self.first_since(timestamp, first)
