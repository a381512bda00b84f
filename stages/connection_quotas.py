"""How many connections, and how fast: per address, per listener, and for the whole server.

Rules of this room: sans-IO; time is passed in, in seconds; whoever was counted is released exactly once. The order of
the checks is Apache Kafka's:

1. `arrive` records the newcomer in the rates of server and listener and says how long it waits for their sake.
2. `has_slot`: it waits until listener and server have room.
3. `enter`: an address that is too fast is throttled, which takes the newcomer out of all rates; an address that has
   too many connections is refused, counted until it is closed.

The protected listener, if there is one beside others, is not held back by the server's count and rate, so that
administration gets in when all else is full. It may push the server over its maximum: `excess` says how far. The
maximum of a listener holds back everybody.
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
"""Addresses whose rate is remembered, some 300 bytes each; whoever was seen last the longest ago is forgotten first."""


class UnknownConnectionError(RuntimeError):
    """A connection was released that was never counted: a bug of the caller."""


class UnknownListenerError(LookupError):
    """A connection came by a listener that was never added: a bug of the caller."""


@attrs.frozen
class Admit:
    """It was counted; call `release` when it is closed."""


@attrs.frozen
class Throttle:
    """It was not counted. Keep it open and unserved for so long, then close it: who comes too fast must wait."""

    seconds: float


@attrs.frozen
class Refuse:
    """It was counted. Close it, and call `release`."""

    reason: str


Verdict: TypeAlias = Admit | Throttle | Refuse


def _above_zero(_: object, attribute: attrs.Attribute[Mapping[str, float]], value: Mapping[str, float]) -> None:
    for name, limit in value.items():
        if limit <= 0:
            raise ValueError(f"{attribute.name} of {name} must be above 0, not {limit}")


@attrs.frozen
class ConnectionQuotaLimits:
    """The limits, by Kafka's names.

    Attributes:
        connections_max: `max.connections` of the server.
        connections_max_by_listener: `listener.name.<l>.max.connections`; each above 0.
        connections_max_per_ip: `max.connections.per.ip`.
        connections_max_by_ip: `max.connections.per.ip.overrides`, by address.
        creation_rate_max: `max.connection.creation.rate` of the server, per second; above 0.
        creation_rate_max_by_listener: the same per listener; each above 0.
        creation_rate_max_per_ip: the quota `connection_creation_rate` of any one address; 0 lets in nobody.
        creation_rate_max_by_ip: the same of single addresses, which wins.
        protected_listener: the listener that ignores the server's limits, where there is another one.
        windows: how many windows a rate is measured over (`quota.window.num`).
        window_seconds: their length (`quota.window.size.seconds`); nobody waits longer for a rate's sake.
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
        """Connections per second that one address may create."""
        return self.creation_rate_max_by_ip.get(ip, self.creation_rate_max_per_ip)

    def count_max_of_ip(self, ip: str) -> int:
        """Connections that one address may have."""
        return self.connections_max_by_ip.get(ip, self.connections_max_per_ip)


class ConnectionQuotaStatistics(NamedTuple):
    """One listener, or the server, as the quotas see it.

    Attributes:
        connections: counted and not released.
        creation_rate: per second, over the windows.
        throttled_seconds: waited for the sake of a rate, so far.
        ip_throttled: connections that were throttled because their address was too fast.
        ip_throttled_seconds: how long these were kept waiting.
    """

    connections: int
    creation_rate: float
    throttled_seconds: float
    ip_throttled: int
    ip_throttled_seconds: float


@attrs.define
class _Count:
    """Counts and rates of one listener, or of the server."""

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
    """The counts and rates of one server.

    Args:
        limits: to begin with; set `limits` to change them.
        on_change: called when somebody who waits for a slot, or who ends the excess, should look again.
    """

    def __init__(self, limits: ConnectionQuotaLimits, on_change: Callable[[], None] = lambda: None) -> None:
        self._limits = limits
        self._on_change = on_change
        self._windows = Windows(limits.windows, limits.window_seconds)
        self._server = _Count()
        self._listeners: dict[str, _Count] = {}
        self._by_ip: Counter[str] = Counter()
        self._rate_by_ip: OrderedDict[str, Rate] = OrderedDict()  # by last record, the oldest first

    @property
    def limits(self) -> ConnectionQuotaLimits:
        """The limits that hold now."""
        return self._limits

    @limits.setter
    def limits(self, limits: ConnectionQuotaLimits) -> None:
        self._limits = limits
        self._windows = Windows(limits.windows, limits.window_seconds)
        self._on_change()

    def add_listener(self, listener: str) -> None:
        """Connections may come by this listener from now on."""
        self._listeners.setdefault(listener, _Count())

    def remove_listener(self, listener: str) -> None:
        """They may not any more; all of its connections were released."""
        assert not self._listeners[listener].connections, f"{listener} has connections"
        del self._listeners[listener]
        self._on_change()

    # Counts

    @property
    def total(self) -> int:
        """Connections that were counted and not released."""
        return self._server.connections

    @property
    def excess(self) -> int:
        """How many connections the protected listener, or a lowered limit, has the server hold above its maximum."""
        return max(self.total - self._limits.connections_max, 0)

    def count_of_listener(self, listener: str) -> int:
        """The same of one listener."""
        return self._of(listener).connections

    def count_of_ip(self, ip: str) -> int:
        """The same of one address."""
        return self._by_ip[ip]

    @property
    def rated_addresses(self) -> int:
        """Addresses whose rate is remembered."""
        return len(self._rate_by_ip)

    def is_protected(self, listener: str) -> bool:
        """Whether the server's own limits do not hold it back."""
        return listener == self._limits.protected_listener and len(self._listeners) > 1

    def _of(self, listener: str) -> _Count:
        try:
            return self._listeners[listener]
        except KeyError:
            raise UnknownListenerError(listener) from None

    # A newcomer

    def arrive(self, listener: str, now: float) -> float:
        """Record a newcomer in the rates of listener and server; the seconds that it must wait for their sake."""
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
        """Whether listener and server have room for another connection."""
        count, limits = self.count_of_listener(listener), self._limits
        if count >= limits.connections_max_by_listener.get(listener, UNLIMITED):
            return False
        return self.is_protected(listener) or self.total < limits.connections_max

    def enter(self, listener: str, ip: str, now: float, arrived: float) -> Verdict:
        """Decide on a newcomer that arrived at that time and has a slot."""
        of_listener = self._of(listener)
        seconds = self._ip_throttle_seconds(ip, now)
        if seconds:
            self._take_back(listener, arrived, seconds)
            return Throttle(seconds)
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
        if limit >= UNLIMITED:
            return 0.0
        rates = self._rate_by_ip
        rate = rates.pop(ip, None) or Rate()
        seconds = self._record(rate, now, limit)
        if seconds:
            rate.take_back(now)  # it is not let in, so it must not keep out the next one
        rates[ip] = rate
        self._forget_addresses(now)
        return seconds

    def _forget_addresses(self, now: float) -> None:
        """Drop the rates that are over, two for each that may have been added, so that they cannot pile up."""
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
        """A connection that was counted is closed.

        Raises:
            UnknownConnectionError: there is none of this listener and address.
        """
        count = self._listeners.get(listener)
        if not self._by_ip[ip] or count is None or not count.connections:
            raise UnknownConnectionError(f"no connection from {ip} on {listener}")
        self._server.connections -= 1
        count.connections -= 1
        self._by_ip[ip] -= 1
        if not self._by_ip[ip]:
            del self._by_ip[ip]
        self._on_change()

    # As it stands

    def statistics(self, now: float, listener: str | None = None) -> ConnectionQuotaStatistics:
        """Of one listener, or of the server."""
        count = self._server if listener is None else self._of(listener)
        return count.statistics(now, self._windows)

    def creation_rate_of_ip(self, ip: str, now: float) -> float:
        """Connections per second of one address; 0 where nobody limits it, since nobody measures it then."""
        rate = self._rate_by_ip.get(ip)
        return 0.0 if rate is None else rate.observed(now, self._windows)
