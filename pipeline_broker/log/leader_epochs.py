"""The leader epochs of a log, like Kafka's `LeaderEpochFileCache`: the offset at which each leader began to append."""

from __future__ import annotations

from bisect import bisect_right
from typing import Final

import attrs

__all__ = ["FIRST_EPOCH", "NO_EPOCH", "UNKNOWN_END", "LeaderEpochs"]

NO_EPOCH: Final = -1
UNKNOWN_END: Final = (NO_EPOCH, -1)
"""The answer of `end_of` for an epoch that the log does not know."""


@attrs.frozen
class LeaderEpochs:
    """An immutable list of epochs, at least one.

    Attributes:
        starts: each epoch with its first offset. Both rise strictly; a leader that appended nothing is left out.
    """

    starts: tuple[tuple[int, int], ...]

    @property
    def latest(self) -> int:
        return self.starts[-1][0]

    def begun(self, epoch: int, offset: int) -> LeaderEpochs:
        """Return the epochs after a new leader has begun at the end of the log.

        Args:
            epoch: higher than the latest one.
            offset: the first offset that this leader assigns.
        """
        assert epoch > self.latest, "leader epochs of a partition only rise"
        return LeaderEpochs((*(each for each in self.starts if each[1] < offset), (epoch, offset)))

    def since(self, offset: int) -> LeaderEpochs:
        """Return the epochs without those that end at or below an offset (Kafka's `truncateFromStart`)."""
        first = self._number_at(offset)
        return LeaderEpochs(self.starts[first:]) if first else self

    def until(self, offset: int) -> LeaderEpochs:
        """Return the epochs that begin at or below an offset, at least the first."""
        return self if self.starts[-1][1] <= offset else LeaderEpochs(self.starts[: self._number_at(offset) + 1])

    def epoch_at(self, offset: int) -> int:
        starts = self.starts
        return starts[0][0] if len(starts) == 1 else starts[self._number_at(offset)][0]

    def _number_at(self, offset: int) -> int:
        return max(0, bisect_right(self.starts, offset, key=_offset_of) - 1)

    def end_of(self, epoch: int, start_offset: int, end_offset: int) -> tuple[int, int]:
        """Return the last epoch that is not above the given one, and its end offset (Kafka's `endOffsetFor`).

        For an epoch below all known ones, the result is this epoch and the start of the log.

        Args:
            epoch: an epoch that a client or follower has seen.
            start_offset: start of the log; epochs that end at or below it are unknown.
            end_offset: end of the log, which is the end of the latest epoch.

        Returns:
            UNKNOWN_END for -1, and for an epoch above the latest one.
        """
        if epoch == self.latest:
            return epoch, end_offset
        if epoch == NO_EPOCH or epoch > self.latest:
            return UNKNOWN_END
        known = self.since(start_offset).starts
        following = bisect_right(known, epoch, key=_epoch_of)
        found = known[following - 1][0] if following else epoch
        return found, max(known[following][1], start_offset)


def _epoch_of(start: tuple[int, int]) -> int:
    return start[0]


def _offset_of(start: tuple[int, int]) -> int:
    return start[1]


FIRST_EPOCH: Final = LeaderEpochs(((0, 0),))
"""Of a log whose leader never changed."""
