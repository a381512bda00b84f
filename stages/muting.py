"""The mute of one connection and what follows from it: its reader waits, and the trace knows for how long.

Rules of this room: why a connection is not read is decided elsewhere; here a reason begins, ends, wakes the reader when
it was the last, and is timed if anybody observes.
"""

from __future__ import annotations

import trio

from stages.mute import Mute, MuteReason
from stages.timeline import Timeline, now_ns

__all__ = ["Muting"]


class Muting:
    """See the rules of the room.

    Attributes:
        mute: the reasons as they stand.
    """

    __slots__ = ("_began_ns", "_index", "_timeline", "_wakeup", "mute")

    def __init__(self, index: int, timeline: Timeline | None) -> None:
        self.mute = Mute()
        self._index = index
        self._timeline = timeline
        self._began_ns: dict[MuteReason, int] = {}
        self._wakeup = trio.lowlevel.ParkingLot()

    def observe(self, timeline: Timeline | None) -> None:
        """Report to this timeline, or to nobody, from now on."""
        self._timeline = timeline

    def begin(self, reason: MuteReason) -> None:
        """Stop reading until the reason is gone."""
        if self.mute.add(reason) and self._timeline is not None:
            self._began_ns[reason] = now_ns()

    def end(self, reason: MuteReason) -> None:
        """A reason is gone: read again, unless another is left."""
        self._record(reason)
        if self.mute.discard(reason):
            self.wake()

    def throttle(self, until: float) -> bool:
        """Stop reading until a time; False when that adds nothing, because an earlier throttle lasts as long."""
        if not self.mute.throttle(until):
            return False
        if self._timeline is not None:
            self._began_ns.setdefault(MuteReason.THROTTLED, now_ns())
        return True

    def end_throttle(self, now: float) -> None:
        """End the throttle if the latest of its deadlines has passed."""
        if MuteReason.THROTTLED not in self.mute:
            return
        if self.mute.throttle_ended(now):
            self.wake()
        if MuteReason.THROTTLED not in self.mute:
            self._record(MuteReason.THROTTLED)

    def end_all(self) -> None:
        """The connection is closed: record what there is, and let every wait look at it."""
        for reason in tuple(self._began_ns):
            self._record(reason)
        self.wake()

    def _record(self, reason: MuteReason) -> None:
        began_ns = self._began_ns.pop(reason, None)
        if began_ns is not None and self._timeline is not None:
            self._timeline.mute_ended(self._index, reason, began_ns, now_ns())

    def wake(self) -> None:
        """Let whoever waits look again."""
        self._wakeup.unpark_all()

    async def wait(self) -> None:
        """Wait until something changed; the caller looks for itself what."""
        await self._wakeup.park()
