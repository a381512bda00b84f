"""Leases: how the owner of a log shows other brokers that it is alive, and how a standby measures its silence.

Values only: no I/O. Callers pass in times of their own monotonic clock. A lease only decides when a takeover is tried.
Fences decide who owns the log (`fenced_log`). So a wrong clock, a hanging store or a lost lease can cost an unnecessary
takeover, but no record.

    <log>/lease   replaced only if unchanged since it was read, so one of several brokers that claim it succeeds

The owner renews the lease, which holds the owner's nonce and a rising counter, so no content repeats. If the content
stays the same for a whole session, the owner is presumed dead. An owner that shuts down cleanly gives the lease back.
"""

import struct
from typing import NamedTuple

from pipeline_broker.records.checksum import crc32c

__all__ = ["LEASE_BYTES_MAX", "Lease", "LeaseTimes", "Sight", "Watch", "lease_name"]

LEASE_BYTES_MAX = 64
"""Limit for reading a lease, longer than any valid one."""
POLL_SECONDS = 0.5
POLLS_PER_SESSION = 12
# Between two polls at most 1/3 of a session counts as silence. So after both machines stood still (a suspended host),
# a live owner has the other two thirds to renew its lease. A standby that gets hardly any CPU still claims the lease
# after three polls; it used to start over forever.
GAPS_PER_SESSION = 3
RENEWALS_PER_SESSION_MIN = 3
SESSION_SECONDS_MIN = 1.0
RENEW_SECONDS_MIN = 0.1

_MAGIC = b"PBLE"
_LEASE = struct.Struct("<4s16sQ?")
_SUM = struct.Struct("<I")


def lease_name(log: str) -> str:
    return f"{log}/lease"


class LeaseTimes(NamedTuple):
    """Renewal interval of a lease, and the silence after which a standby may claim it."""

    renew_seconds: float
    session_seconds: float

    @classmethod
    def of(cls, heartbeat_ms: int, session_ms: int) -> "LeaseTimes":
        """Return the times for two settings in milliseconds.

        They are raised to minimums, and a session always has at least `RENEWALS_PER_SESSION_MIN` renewals.
        """
        session_seconds = max(session_ms / 1000, SESSION_SECONDS_MIN)
        heartbeat_seconds = max(heartbeat_ms / 1000, RENEW_SECONDS_MIN)
        return cls(min(heartbeat_seconds, session_seconds / RENEWALS_PER_SESSION_MIN), session_seconds)

    @property
    def look_seconds(self) -> float:
        return min(POLL_SECONDS, self.session_seconds / POLLS_PER_SESSION)


class Lease(NamedTuple):
    """The content of a lease.

    Attributes:
        nonce: 16 bytes that identify this run of the owner.
        counter: increases with each write.
        is_free: the owner has shut down cleanly, and any broker may take over.
    """

    nonce: bytes
    counter: int = 0
    is_free: bool = False

    def renewed(self) -> "Lease":
        return self._replace(counter=self.counter + 1)

    def given_back(self) -> "Lease":
        return self._replace(counter=self.counter + 1, is_free=True)

    def encode(self) -> bytes:
        data = _LEASE.pack(_MAGIC, *self)
        return data + _SUM.pack(crc32c(data))

    @classmethod
    def decode(cls, data: bytes) -> "Lease | None":
        """Decode the content of a lease object; None if it is not a lease.

        A standby treats such an object like a lease that is never renewed.
        """
        fields, checksum = data[: _LEASE.size], data[_LEASE.size :]
        if len(fields) < _LEASE.size or checksum != _SUM.pack(crc32c(fields)):
            return None
        magic, nonce, counter, is_free = _LEASE.unpack(fields)
        return cls(nonce, counter, is_free) if magic == _MAGIC else None


class Sight(NamedTuple):
    """A lease object as read from the store.

    Attributes:
        content: empty if the object is missing.
        tag: the tag for replacing the object; None if the object is missing.
    """

    content: bytes = b""
    tag: str | None = None

    @property
    def is_free(self) -> bool:
        lease = Lease.decode(self.content)
        return lease is not None and lease.is_free


class Watch(NamedTuple):
    """Observations of a lease by a standby that reads it again and again.

    Silence is measured from the answer that first showed the content to the start of the latest read. So a slow answer,
    or a read that began before the standby itself was suspended, never counts as silence of the owner. Of the time
    between two reads, at most a third of a session counts (`GAPS_PER_SESSION`).

    Attributes:
        session_seconds: the silence after which the lease may be claimed.
        sight: the latest reading; None before the first.
        since: time of the first answer with this content.
        away_seconds: the part of the time since then that does not count.
        asked_at, answered_at: start and end of the latest read.
    """

    session_seconds: float
    sight: Sight | None = None
    since: float = 0.0
    away_seconds: float = 0.0
    asked_at: float = 0.0
    answered_at: float = 0.0

    def see(self, sight: Sight, asked_at: float, answered_at: float) -> "Watch":
        """Add a reading.

        Args:
            sight: the lease as read.
            asked_at: start of the read on a monotonic clock, in seconds.
            answered_at: end of the read.
        """
        since, away_seconds = answered_at, 0.0
        if self.sight is not None and sight.content == self.sight.content:
            since = self.since
            away_seconds = self.away_seconds + max(0.0, asked_at - self.answered_at - self._counted_seconds_max)
        return Watch(self.session_seconds, sight, since, away_seconds, asked_at, answered_at)

    def miss(self, failed_at: float) -> "Watch":
        """Record a read that failed at `failed_at`.

        If reads fail for long, the next one starts a new measurement: the owner could not renew its lease either.
        """
        is_brief = failed_at - self.answered_at < self._counted_seconds_max
        return self if is_brief else Watch(self.session_seconds)

    @property
    def _counted_seconds_max(self) -> float:
        return self.session_seconds / GAPS_PER_SESSION

    @property
    def still_seconds(self) -> float:
        """Time for which the content has not changed, including the part that does not count."""
        return self.asked_at - self.since

    @property
    def claimable(self) -> Sight | None:
        """The latest reading if the lease may be claimed now, otherwise None.

        The lease may be claimed if it was given back, or not renewed for a whole session.
        """
        if self.sight is None:
            return None
        is_still = self.still_seconds - self.away_seconds >= self.session_seconds
        return self.sight if is_still or self.sight.is_free else None
