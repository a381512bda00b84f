"""How many connections, and how fast: per address, per listener, and for the whole server.

Rules of this room: sans-IO; time is passed in, in seconds; whoever was admitted is released exactly once. Counts make
an acceptor wait for a slot (server, listener) or reject (address); rates make it wait. A connection that must wait or
is rejected is not counted. The protected listener, if there is one, is not held back by the server's limits, so that
administration gets in when all else is full.
"""

from collections import Counter, deque
from collections.abc import Mapping
from typing import TypeAlias

import attrs

__all__ = ["Admit", "ConnectionQuotaLimits", "ConnectionQuotas", "Reject", "UnknownConnectionError", "Verdict", "Wait"]

UNLIMITED = 2**31 - 1
WINDOWS = 11
"""Kafka's `quota.window.num`."""
WINDOW_SECONDS = 1.0
"""Kafka's `quota.window.size.seconds`; a rate makes nobody wait longer than one window."""


class UnknownConnectionError(RuntimeError):
    """A connection was released that was never admitted: a bug of the caller."""


@attrs.frozen
class Admit:
    """It was counted; call `release` when it is closed."""


@attrs.frozen
class Wait:
    """Ask again when a connection was released, or after so many seconds."""

    seconds: float


@attrs.frozen
class Reject:
    """Close it."""

    reason: str


Verdict: TypeAlias = Admit | Wait | Reject


@attrs.frozen
class ConnectionQuotaLimits:
    """The limits, by Kafka's names.

    Attributes:
        connections_max: `max.connections` of the server.
        connections_max_by_listener: `listener.name.<l>.max.connections`.
        connections_max_per_ip: `max.connections.per.ip`.
        connections_max_by_ip: `max.connections.per.ip.overrides`, by address.
        creation_rate_max: `max.connection.creation.rate` of the server, per second.
        creation_rate_max_by_listener: the same per listener.
        creation_rate_max_per_ip: `connection_creation_rate` of any one address.
        protected_listener: the listener that ignores the server's limits.
    """

    connections_max: int = UNLIMITED
    connections_max_by_listener: Mapping[str, int] = attrs.field(factory=dict)
    connections_max_per_ip: int = UNLIMITED
    connections_max_by_ip: Mapping[str, int] = attrs.field(factory=dict)
    creation_rate_max: float = UNLIMITED
    creation_rate_max_by_listener: Mapping[str, float] = attrs.field(factory=dict)
    creation_rate_max_per_ip: float = UNLIMITED
    protected_listener: str | None = None


class _Rate:
    """Events per second over the last WINDOWS windows, the current one included."""

    __slots__ = ("_windows",)

    def __init__(self) -> None:
        self._windows: deque[tuple[int, int]] = deque()

    def record(self, now: float) -> None:
        window = int(now // WINDOW_SECONDS)
        if self._windows and self._windows[-1][0] == window:
            self._windows[-1] = (window, self._windows[-1][1] + 1)
        else:
            self._windows.append((window, 1))

    def seconds_to_wait(self, now: float, limit: float) -> float:
        """0 when one more event keeps to the limit; Kafka's (observed - limit) / limit * window otherwise, capped."""
        current = int(now // WINDOW_SECONDS)
        while self._windows and self._windows[0][0] <= current - WINDOWS:
            self._windows.popleft()
        if not self._windows:
            return 0.0  # also below one per window, or nobody would ever be the first
        elapsed = max(now - self._windows[0][0] * WINDOW_SECONDS, WINDOW_SECONDS)
        observed = (sum(count for _, count in self._windows) + 1) / elapsed
        if observed <= limit:
            return 0.0
        return min((observed - limit) / limit * elapsed, WINDOW_SECONDS)


class ConnectionQuotas:
    """The counts and rates of one server."""

    def __init__(self, limits: ConnectionQuotaLimits) -> None:
        self.limits = limits
        self._by_ip: Counter[str] = Counter()
        self._by_listener: Counter[str] = Counter()
        self._total = 0
        self._rate = _Rate()
        self._rate_by_listener: dict[str, _Rate] = {}
        self._rate_by_ip: dict[str, _Rate] = {}

    @property
    def total(self) -> int:
        """Connections that were admitted and not released."""
        return self._total

    def count_of_listener(self, listener: str) -> int:
        """The same of one listener."""
        return self._by_listener[listener]

    def count_of_ip(self, ip: str) -> int:
        """The same of one address."""
        return self._by_ip[ip]

    def ask(self, listener: str, ip: str, now: float) -> Verdict:
        """Whether a connection may be served; Admit counts it."""
        limits = self.limits
        is_protected = listener == limits.protected_listener
        if self._by_listener[listener] >= limits.connections_max_by_listener.get(listener, UNLIMITED):
            return Wait(WINDOW_SECONDS)
        if not is_protected and self._total >= limits.connections_max:
            return Wait(WINDOW_SECONDS)
        if self._by_ip[ip] >= limits.connections_max_by_ip.get(ip, limits.connections_max_per_ip):
            return Reject(f"too many connections from {ip}")
        of_listener = self._rate_by_listener.setdefault(listener, _Rate())
        of_ip = self._rate_by_ip.setdefault(ip, _Rate())
        seconds = max(
            0.0 if is_protected else self._rate.seconds_to_wait(now, limits.creation_rate_max),
            of_listener.seconds_to_wait(now, limits.creation_rate_max_by_listener.get(listener, UNLIMITED)),
        )
        if seconds:
            return Wait(seconds)
        if of_ip.seconds_to_wait(now, limits.creation_rate_max_per_ip):
            return Reject(f"connections from {ip} are created too fast")
        for rate in (self._rate, of_listener, of_ip):
            rate.record(now)
        self._total += 1
        self._by_listener[listener] += 1
        self._by_ip[ip] += 1
        return Admit()

    def release(self, listener: str, ip: str) -> None:
        """A connection that was admitted is closed.

        Raises:
            UnknownConnectionError: there is none of this listener and address.
        """
        if not self._by_ip[ip] or not self._by_listener[listener]:
            raise UnknownConnectionError(f"no connection from {ip} on {listener}")
        self._total -= 1
        self._by_listener[listener] -= 1
        self._by_ip[ip] -= 1
        if not self._by_ip[ip]:
            del self._by_ip[ip]
            if self.limits.creation_rate_max_per_ip >= UNLIMITED:
                self._rate_by_ip.pop(ip, None)  # nobody asks for it; a limited one must outlive its connections
