"""Why a connection is not read.

Rules of this room: sans-IO; the reasons are independent of each other; reading resumes exactly when the last one is
gone, whichever it was (AutoMQ's single throttle bit let the first of two throttles end both).
"""

import enum

__all__ = ["Mute", "MuteReason"]


class MuteReason(enum.IntEnum):
    """A reason not to read; the values are those in traces."""

    IN_FLIGHT = 0
    """As many unanswered requests as the mode allows."""
    QUEUE_FULL = 1
    """The request queue of this connection has no room."""
    QUEUED_BYTES = 2
    """All requests in the broker hold as many bytes as they may."""
    UNSENT_BYTES = 3
    """The client does not read its responses."""
    THROTTLED = 4
    """A quota was exceeded (KIP-219)."""
    REAUTHENTICATION = 5
    """Requests in flight are drained before the principal may change."""
    DRAINING = 6
    """The server or the connection stops; never lifted again."""
    PARTIAL_BYTES = 7
    """The large frames that are arriving hold as many bytes as they may."""


class Mute:
    """The set of reasons why one connection is not read.

    Attributes:
        reasons: the reasons as they stand: always the same set, which only this room changes.
    """

    __slots__ = ("_throttled_until", "reasons")

    def __init__(self) -> None:
        self.reasons: set[MuteReason] = set()
        self._throttled_until = float("-inf")

    def __bool__(self) -> bool:
        """Whether the connection is not read."""
        return bool(self.reasons)

    def __contains__(self, reason: MuteReason) -> bool:
        return reason in self.reasons

    def add(self, reason: MuteReason) -> bool:
        """Add a reason; True when it was not there before."""
        if reason in self.reasons:
            return False
        self.reasons.add(reason)
        return True

    def discard(self, reason: MuteReason) -> bool:
        """Take a reason away; True when that was the last one, so that reading resumes now."""
        if reason not in self.reasons:
            return False
        self.reasons.remove(reason)
        return not self.reasons

    def throttle(self, until: float) -> bool:
        """Throttle until a time in seconds; True when this throttle ends later than any before it.

        One that ends no later adds nothing: the earlier one still mutes, or both are over already.
        """
        if until <= self._throttled_until:
            return False
        self._throttled_until = until
        self.reasons.add(MuteReason.THROTTLED)
        return True

    def throttle_ended(self, now: float) -> bool:
        """End the throttle if its latest deadline has passed; True when reading resumes now."""
        if now < self._throttled_until:
            return False
        return self.discard(MuteReason.THROTTLED)
