"""The reasons for which a connection is not read (Kafka's muted channel, with more reasons).

Counterpart in Kafka: `StartThrottlingAction`, `EndThrottlingAction`, `ChannelMuteState`; each throttle is a reason of
its own, so overlapping throttles end with the last one.
"""

import enum

__all__ = ["Mute", "MuteReason"]


class MuteReason(enum.IntEnum):
    """A reason not to read a connection; its value appears in traces."""

    IN_FLIGHT = 0
    """The connection has the maximum of unanswered requests of its mode."""
    QUEUE_FULL = 1
    """The request queue of the connection is full."""
    QUEUED_BYTES = 2
    """The unanswered requests of all connections have used up their byte budget."""
    UNSENT_BYTES = 3
    """The client does not read its responses."""
    THROTTLED = 4
    """A quota was exceeded (KIP-219)."""
    REAUTHENTICATION = 5
    """The connection answers its requests in flight before its principal may change."""
    DRAINING = 6
    """The server or the connection is closing; never lifted."""
    PARTIAL_BYTES = 7
    """The large frames that are still arriving have used up their byte budget."""


class Mute:
    """The set of reasons for which one connection is not read; reading resumes when the last one is removed.

    Reasons are independent of each other. AutoMQ's single throttle bit let the first of two throttles end both.

    Attributes:
        reasons: the current reasons, always the same set object, so callers may keep a reference. Only this class
            changes it.
    """

    __slots__ = ("_throttled_until", "reasons")

    def __init__(self) -> None:
        self.reasons: set[MuteReason] = set()
        self._throttled_until = float("-inf")

    def __bool__(self) -> bool:
        return bool(self.reasons)

    def __contains__(self, reason: MuteReason) -> bool:
        return reason in self.reasons

    def add(self, reason: MuteReason) -> bool:
        if reason in self.reasons:
            return False
        self.reasons.add(reason)
        return True

    def discard(self, reason: MuteReason) -> bool:
        """Remove a reason, and return True if it was the last one, so that reading resumes."""
        if reason not in self.reasons:
            return False
        self.reasons.remove(reason)
        return not self.reasons

    def throttle(self, until: float) -> bool:
        """Throttle until `until` (seconds), and return True if that is later than every earlier deadline.

        A throttle that ends no later changes nothing: the earlier one still mutes, or both are over.
        """
        if until <= self._throttled_until:
            return False
        self._throttled_until = until
        self.reasons.add(MuteReason.THROTTLED)
        return True

    def throttle_ended(self, now: float) -> bool:
        """End the throttle if its latest deadline has passed, and return True if reading resumes."""
        if now < self._throttled_until:
            return False
        return self.discard(MuteReason.THROTTLED)
