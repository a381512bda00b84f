"""The mute of a connection: wakes its reader when the last reason ends, and reports each reason to the observer.

Counterpart in Kafka: `StartThrottlingAction`, `EndThrottlingAction`, `ChannelMuteState`.
"""

from __future__ import annotations

import trio

from stages.mute import Mute, MuteReason
from stages.timeline import Timeline, now_ns

__all__ = ["Muting"]


class Muting:
    """A `Mute` with a wake-up for the reader and times for the observer.

    Attributes:
        mute: the current reasons.
    """

    __slots__ = ("_began_ns", "_index", "_timeline", "_wakeup", "mute")

    def __init__(self, index: int, timeline: Timeline | None) -> None:
        self.mute = Mute()
        self._index = index
        self._timeline = timeline
        self._began_ns: dict[MuteReason, int] = {}
        self._wakeup = trio.lowlevel.ParkingLot()

    def observe(self, timeline: Timeline | None) -> None:
        self._timeline = timeline

    def begin(self, reason: MuteReason) -> None:
        if self.mute.add(reason) and self._timeline is not None:
            self._began_ns[reason] = now_ns()

    def end(self, reason: MuteReason) -> None:
        """Remove `reason`, and wake the reader if it was the last one."""
        self._record(reason)
        if self.mute.discard(reason):
            self.wake()

    def throttle(self, until: float) -> bool:
        """Stop reading until `until`, in seconds; return False if an earlier throttle lasts at least as long."""
        if not self.mute.throttle(until):
            return False
        if self._timeline is not None:
            # Overlapping throttles are reported as one mute.
            self._began_ns.setdefault(MuteReason.THROTTLED, now_ns())
        return True

    def end_throttle(self, now: float) -> None:
        """End the throttle if its latest deadline has passed, and wake the reader if that was the last reason."""
        if MuteReason.THROTTLED not in self.mute:
            return
        # A later throttle may have moved the deadline; its own timer ends it then.
        if self.mute.throttle_ended(now):
            self.wake()
        if MuteReason.THROTTLED not in self.mute:
            self._record(MuteReason.THROTTLED)

    def end_all(self) -> None:
        """Report all current reasons and wake all waiting tasks, because the connection is closed."""
        for reason in tuple(self._began_ns):
            self._record(reason)
        self.wake()

    def _record(self, reason: MuteReason) -> None:
        began_ns = self._began_ns.pop(reason, None)
        if began_ns is not None and self._timeline is not None:
            self._timeline.mute_ended(self._index, reason, began_ns, now_ns())

    def wake(self) -> None:
        self._wakeup.unpark_all()

    async def wait(self) -> None:
        """Wait until something has changed; the caller must check what."""
        await self._wakeup.park()
