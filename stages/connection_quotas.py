"""Connection quotas: maximum numbers and creation rates by address, by listener, and for the whole server.

The checks and their order are those of Apache Kafka's `ConnectionQuotas`:

1. `arrive` records a new connection in the rates of server and listener, and returns its throttle.
2. `has_slot`: the connection waits until listener and server have room.
3. `enter` checks the address. If its rate is too high, the connection is throttled and removed from all rates. If it
   has too many connections, the connection is refused, and counted until it is closed.

Counterpart in Kafka: `ConnectionQuotas`.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeAlias

import attrs

from stages.rate import Rate, Windows

__all__ = [
    "Admit",
    "ConnectionQuotaLimits",
    "ConnectionQuotaStatistics",
    "ConnectionQuotas",
    "Refuse",
    "Throttle",
    "UnknownConnectionError",
    "UnknownListenerError",
    "Verdict",
]

UNLIMITED = 2**31 - 1
RATED_ADDRESSES_MAX = 50_000
"""Maximum of addresses whose rate is remembered, about 300 bytes each; the least recently seen is forgotten first."""


class UnknownConnectionError(RuntimeError):
    """A connection was released that was never counted: a bug of the caller."""


class UnknownListenerError(LookupError):
    """The listener was never added, or has been removed: a bug of the caller."""


@attrs.frozen
class Admit:
    """A verdict for a connection that is counted; call `release` once it is closed."""


@attrs.frozen
class Throttle:
    """A verdict for a connection that is not counted. Keep it open and unserved for `seconds`, then close it.

    A client whose connection is closed at once would try again at once.
    """

    seconds: float


@attrs.frozen
class Refuse:
    """A verdict for a connection that is counted; close it and call `release`."""

    reason: str


Verdict: TypeAlias = Admit | Throttle | Refuse


def _above_zero(_: object, attribute: attrs.Attribute[Mapping[str, float]], value: Mapping[str, float]) -> None:
    for name, limit in value.items():
        if limit <= 0:
            raise ValueError(f"{attribute.name} of {name} must be above 0, not {limit}")


@attrs.frozen
class ConnectionQuotaLimits:
    """The limits, with Kafka's names.

    Attributes:
        connections_max: `max.connections` of the server.
        connections_max_by_listener: `listener.name.<l>.max.connections`; each above 0.
        connections_max_per_ip: `max.connections.per.ip`.
        connections_max_by_ip: `max.connections.per.ip.overrides`, by address.
        creation_rate_max: `max.connection.creation.rate` of the server, per second; above 0.
        creation_rate_max_by_listener: the same by listener; each above 0.
        creation_rate_max_per_ip: quota `connection_creation_rate` of any address; 0 admits no connection.
        creation_rate_max_by_ip: the same for single addresses, which overrides `creation_rate_max_per_ip`.
        protected_listener: listener that ignores the limits of the server if the server has other listeners.
        windows: number of windows of a rate (`quota.window.num`).
        window_seconds: their length (`quota.window.size.seconds`), and the longest wait for a rate.
    """

    connections_max: int = UNLIMITED
    connections_max_by_listener: Mapping[str, int] = attrs.field(factory=dict, validator=_above_zero)
    connections_max_per_ip: int = UNLIMITED
    connections_max_by_ip: Mapping[str, int] = attrs.field(factory=dict)
    creation_rate_max: float = attrs.field(default=UNLIMITED, validator=attrs.validators.gt(0))
    creation_rate_max_by_listener: Mapping[str, float] = attrs.field(factory=dict, validator=_above_zero)
    creation_rate_max_per_ip: float = attrs.field(default=UNLIMITED, validator=attrs.validators.ge(0))
    creation_rate_max_by_ip: Mapping[str, float] = attrs.field(factory=dict)
    protected_listener: str | None = None
    windows: int = 11
    window_seconds: float = 1.0

    def rate_max_of_ip(self, ip: str) -> float:
        return self.creation_rate_max_by_ip.get(ip, self.creation_rate_max_per_ip)

    def count_max_of_ip(self, ip: str) -> int:
        return self.connections_max_by_ip.get(ip, self.connections_max_per_ip)


class ConnectionQuotaStatistics(NamedTuple):
    """Statistics of one listener, or of the server.

    Attributes:
        connections: counted connections that were not released.
        creation_rate: connections per second over the windows.
        throttled_seconds: total wait of new connections for the rates of listener and server.
        ip_throttled: connections throttled because of the rate of their address.
        ip_throttled_seconds: total throttle of these connections.
    """

    connections: int
    creation_rate: float
    throttled_seconds: float
    ip_throttled: int
    ip_throttled_seconds: float


@attrs.define
class _Count:
    rate: Rate = attrs.field(factory=Rate)
    connections: int = 0
    throttled_seconds: float = 0.0
    ip_throttled: int = 0
    ip_throttled_seconds: float = 0.0

    def statistics(self, now: float, windows: Windows) -> ConnectionQuotaStatistics:
        return ConnectionQuotaStatistics(
            connections=self.connections,
            creation_rate=self.rate.observed(now, windows),
            throttled_seconds=self.throttled_seconds,
            ip_throttled=self.ip_throttled,
            ip_throttled_seconds=self.ip_throttled_seconds,
        )


class ConnectionQuotas:
    """The connection counts and rates of one server; sans-IO, times are in seconds.

    The server's limits do not hold back the protected listener, so that administrators can connect to a full server.
    The server may therefore exceed its maximum, by `excess`. The maximum of a listener applies to every listener.

    Args:
        limits: initial limits; set `limits` to change them.
        on_change: called when tasks that wait for a slot, or that close excess connections, should check again.
    """

    def __init__(self, limits: ConnectionQuotaLimits, on_change: Callable[[], None] = lambda: None) -> None:
        self._limits = limits
        self._on_change = on_change
        self._windows = Windows(limits.windows, limits.window_seconds)
        self._server = _Count()
        self._listeners: dict[str, _Count] = {}
        self._by_ip: Counter[str] = Counter()
        self._rate_by_ip: OrderedDict[str, Rate] = OrderedDict()  # ordered by last connection, the oldest first

    @property
    def limits(self) -> ConnectionQuotaLimits:
        return self._limits

    @limits.setter
    def limits(self, limits: ConnectionQuotaLimits) -> None:
        self._limits = limits
        self._windows = Windows(limits.windows, limits.window_seconds)
        self._on_change()

    def add_listener(self, listener: str) -> None:
        self._listeners.setdefault(listener, _Count())

    def remove_listener(self, listener: str) -> None:
        """Remove a listener all of whose connections were released."""
        assert not self._listeners[listener].connections, f"{listener} has connections"
        del self._listeners[listener]
        self._on_change()

    # Counts

    @property
    def total(self) -> int:
        return self._server.connections

    @property
    def excess(self) -> int:
        """Number of connections above the server's maximum, because of the protected listener or a lowered limit."""
        return max(self.total - self._limits.connections_max, 0)

    def count_of_listener(self, listener: str) -> int:
        return self._of(listener).connections

    def count_of_ip(self, ip: str) -> int:
        return self._by_ip[ip]

    @property
    def rated_addresses(self) -> int:
        return len(self._rate_by_ip)

    def is_protected(self, listener: str) -> bool:
        """Return whether a listener ignores the server's limits: it is the protected one, and others exist."""
        return listener == self._limits.protected_listener and len(self._listeners) > 1

    def _of(self, listener: str) -> _Count:
        try:
            return self._listeners[listener]
        except KeyError:
            raise UnknownListenerError(listener) from None

    # New connections

    def arrive(self, listener: str, now: float) -> float:
        """Record a new connection in the rates of listener and server, and return how many seconds it must wait.

        Raises:
            UnknownListenerError: if the listener is unknown.
        """
        of_listener, limits = self._of(listener), self._limits
        limit = limits.creation_rate_max_by_listener.get(listener, UNLIMITED)
        seconds = self._record(of_listener.rate, now, limit)
        if not self.is_protected(listener):
            seconds = max(seconds, self._record(self._server.rate, now, limits.creation_rate_max))
        of_listener.throttled_seconds += seconds
        self._server.throttled_seconds += seconds
        return seconds

    def _record(self, rate: Rate, now: float, limit: float) -> float:
        rate.record(now, self._windows)
        return rate.throttle_seconds(now, self._windows, limit)

    def has_slot(self, listener: str) -> bool:
        """Return whether listener and server have room for another connection.

        Raises:
            UnknownListenerError: if the listener is unknown.
        """
        count, limits = self.count_of_listener(listener), self._limits
        if count >= limits.connections_max_by_listener.get(listener, UNLIMITED):
            return False
        return self.is_protected(listener) or self.total < limits.connections_max

    def enter(self, listener: str, ip: str, now: float, arrived: float) -> Verdict:
        """Decide on a connection that has a slot, and count it unless it is throttled.

        Args:
            now: current time.
            arrived: time that `arrive` got; a throttled connection is removed from the rates of that time.

        Raises:
            UnknownListenerError: if the listener is unknown.
        """
        of_listener = self._of(listener)
        seconds = self._ip_throttle_seconds(ip, now)
        if seconds:
            self._take_back(listener, arrived, seconds)
            return Throttle(seconds)
        # Counted even if it is refused, like in Kafka: the caller releases it after closing it.
        before = self._by_ip[ip]
        self._server.connections += 1
        of_listener.connections += 1
        self._by_ip[ip] = before + 1
        if before >= self._limits.count_max_of_ip(ip):
            return Refuse(f"too many connections from {ip}")
        if self.excess:
            self._on_change()
        return Admit()

    def _ip_throttle_seconds(self, ip: str, now: float) -> float:
        limit = self._limits.rate_max_of_ip(ip)
        # Unlimited addresses are not measured, so they take no memory.
        if limit >= UNLIMITED:
            return 0.0
        rates = self._rate_by_ip
        # Removed and inserted again, which keeps the dict in the order of use.
        rate = rates.pop(ip, None) or Rate()
        seconds = self._record(rate, now, limit)
        if seconds:
            rate.take_back(now)  # a rejected connection must not delay the next one
        rates[ip] = rate
        self._forget_addresses(now)
        return seconds

    def _forget_addresses(self, now: float) -> None:
        """Drop unused rates, two for each that may have been added, so that they cannot accumulate."""
        rates = self._rate_by_ip
        for _ in range(2):
            ip, rate = next(iter(rates.items()))
            if len(rates) <= RATED_ADDRESSES_MAX and not rate.is_over(now, self._windows):
                return
            del rates[ip]
            if not rates:
                return

    def _take_back(self, listener: str, arrived: float, seconds: float) -> None:
        of_listener = self._of(listener)
        of_listener.rate.take_back(arrived)
        if not self.is_protected(listener):
            self._server.rate.take_back(arrived)
        for count in (of_listener, self._server):
            count.ip_throttled += 1
            count.ip_throttled_seconds += seconds

    def release(self, listener: str, ip: str) -> None:
        """Uncount a closed connection.

        Raises:
            UnknownConnectionError: if no counted connection has this listener and address.
        """
        count = self._listeners.get(listener)
        if not self._by_ip[ip] or count is None or not count.connections:
            raise UnknownConnectionError(f"cannot release a connection from {ip} on {listener}: none is counted")
        self._server.connections -= 1
        count.connections -= 1
        self._by_ip[ip] -= 1
        if not self._by_ip[ip]:
            # Addresses without connections take no memory.
            del self._by_ip[ip]
        self._on_change()

    # Statistics

    def statistics(self, now: float, listener: str | None = None) -> ConnectionQuotaStatistics:
        """Return the statistics of `listener`, or of the server if it is None.

        Raises:
            UnknownListenerError: if the listener is unknown.
        """
        count = self._server if listener is None else self._of(listener)
        return count.statistics(now, self._windows)

    def creation_rate_of_ip(self, ip: str, now: float) -> float:
        """Return the connections per second of an address; 0 if it is new or unlimited, and therefore not measured."""
        rate = self._rate_by_ip.get(ip)
        return 0.0 if rate is None else rate.observed(now, self._windows)
