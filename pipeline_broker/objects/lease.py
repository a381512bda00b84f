"""The lease of a log, by which others see that its owner lives, and how long one of them has seen no life.

Rules of this file: values only, no I/O; a caller says what time it is, on its own monotonic clock. A lease decides who
is suspected, never what is true: who owns a log is decided by its fences (`fenced_log`). So a wrong clock, a store that
stands still or a lease that is lost cost a takeover that was not needed, and no record.

    <log>/lease   replaced where it is the one that was read; of several who claim a lease that they saw, one succeeds

An owner renews it. Its content says only whose it is and a number that rises, and never comes back. A log whose lease
shows the same content for a whole session has an owner that is gone, one that ended in order has given it back.
"""

import struct
from typing import NamedTuple

from pipeline_broker.records.checksum import crc32c

__all__ = ["LEASE_BYTES_MAX", "Lease", "LeaseTimes", "Sight", "Watch", "lease_name"]

LEASE_BYTES_MAX = 64
"""Longer than any lease: all of an object that is none is not needed."""
LOOK_SECONDS = 0.5
LOOKS_PER_SESSION = 12
GAPS_PER_SESSION = 3
"""Between two looks such a share of a session counts at most, however long the looker was away."""
RENEWALS_PER_SESSION_MIN = 3
SESSION_SECONDS_MIN = 1.0
RENEW_SECONDS_MIN = 0.1

_MAGIC = b"PBLE"
_LEASE = struct.Struct("<4s16sQ?")
_SUM = struct.Struct("<I")


def lease_name(log: str) -> str:
    """The name of the object that shows that the owner of a log lives."""
    return f"{log}/lease"


class LeaseTimes(NamedTuple):
    """How often an owner shows that it lives, and how long one that does not is waited for; in seconds."""

    renew_seconds: float
    session_seconds: float

    @classmethod
    def of(cls, heartbeat_ms: int, session_ms: int) -> "LeaseTimes":
        """Those of settings; a session has several renewals, also where the settings are others."""
        session_seconds = max(session_ms / 1000, SESSION_SECONDS_MIN)
        heartbeat_seconds = max(heartbeat_ms / 1000, RENEW_SECONDS_MIN)
        return cls(min(heartbeat_seconds, session_seconds / RENEWALS_PER_SESSION_MIN), session_seconds)

    @property
    def look_seconds(self) -> float:
        """How long one who watches the lease waits between two looks."""
        return min(LOOK_SECONDS, self.session_seconds / LOOKS_PER_SESSION)


class Lease(NamedTuple):
    """What an owner says.

    Attributes:
        nonce: of its life, 16 bytes.
        counter: one more at each writing.
        is_free: it has ended in order, and anybody may go on.
    """

    nonce: bytes
    counter: int = 0
    is_free: bool = False

    def renewed(self) -> "Lease":
        """What the owner says next."""
        return self._replace(counter=self.counter + 1)

    def given_back(self) -> "Lease":
        """What the owner says last."""
        return self._replace(counter=self.counter + 1, is_free=True)

    def encode(self) -> bytes:
        """Its object."""
        data = _LEASE.pack(_MAGIC, *self)
        return data + _SUM.pack(crc32c(data))

    @classmethod
    def decode(cls, data: bytes) -> "Lease | None":
        """What an object says; None where it is no lease, which is waited for as one that is not renewed."""
        fields, checksum = data[: _LEASE.size], data[_LEASE.size :]
        if len(fields) < _LEASE.size or checksum != _SUM.pack(crc32c(fields)):
            return None
        magic, nonce, counter, is_free = _LEASE.unpack(fields)
        return cls(nonce, counter, is_free) if magic == _MAGIC else None


class Sight(NamedTuple):
    """What a look at a lease has found.

    Attributes:
        content: of its object; empty where there is none.
        tag: of this content, to replace it; None where there is none.
    """

    content: bytes = b""
    tag: str | None = None

    @property
    def is_free(self) -> bool:
        """Whether the owner has ended in order."""
        lease = Lease.decode(self.content)
        return lease is not None and lease.is_free


class Watch(NamedTuple):
    """Life that has been looked for, by one who looks again and again.

    It counts from when the answer came that showed the content first, to when the last look was begun: so what takes
    long on the way, or was asked for before the looker itself was stopped, counts for nobody's death. Of the time
    between two looks only a share of a session counts: an owner that stood still with the looker has the rest to show
    its life. A looker that is hardly let run goes on all the same, after as many looks as there are shares.

    Attributes:
        session_seconds: how long a content must stand still.
        sight: what was seen last; None in front of the first look.
        since: when its content was seen first.
        away_seconds: what does not count of the time since then.
        asked_at, answered_at: of the last look.
    """

    session_seconds: float
    sight: Sight | None = None
    since: float = 0.0
    away_seconds: float = 0.0
    asked_at: float = 0.0
    answered_at: float = 0.0

    def see(self, sight: Sight, asked_at: float, answered_at: float) -> "Watch":
        """Take note of a look.

        Args:
            asked_at: when it was begun, on a monotonic clock, in seconds.
            answered_at: when it had ended.
        """
        since, away_seconds = answered_at, 0.0
        if self.sight is not None and sight.content == self.sight.content:
            since = self.since
            away_seconds = self.away_seconds + max(0.0, asked_at - self.answered_at - self._counted_seconds_max)
        return Watch(self.session_seconds, sight, since, away_seconds, asked_at, answered_at)

    def miss(self, failed_at: float) -> "Watch":
        """Take note of a look that the store did not answer.

        Where that lasts the next look begins anew, because the owner had no chance to show its life.
        """
        is_brief = failed_at - self.answered_at < self._counted_seconds_max
        return self if is_brief else Watch(self.session_seconds)

    @property
    def _counted_seconds_max(self) -> float:
        return self.session_seconds / GAPS_PER_SESSION

    @property
    def still_seconds(self) -> float:
        """For how long the same content has been seen, counted or not."""
        return self.asked_at - self.since

    @property
    def claimable(self) -> Sight | None:
        """The sight of a lease that may be claimed now: given back, or not renewed for a whole session."""
        if self.sight is None:
            return None
        is_still = self.still_seconds - self.away_seconds >= self.session_seconds
        return self.sight if is_still or self.sight.is_free else None
