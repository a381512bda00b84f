"""Quotas on rates: produced bytes, fetched bytes, handler time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import attrs

from pipeline_broker.quotas.entities import Entity
from pipeline_broker.quotas.limits import Limits
from pipeline_broker.quotas.meters import Meters
from pipeline_broker.quotas.rate import Rate, Windows, throttle_time_ms

__all__ = ["ClientRate", "RateQuota"]


@attrs.frozen
class ClientRate:
    """The current measurement of a client.

    Attributes:
        user, client_id: the client; None for a part that the quota does not depend on.
        per_second: the measured rate.
        throttle_time_ms: mean throttle time in all windows; 0 without throttling.
    """

    user: str | None
    client_id: str | None
    per_second: float
    throttle_time_ms: float


class _Meter:
    __slots__ = ("rate", "throttles")

    def __init__(self, windows: Windows) -> None:
        self.rate = Rate(windows)
        self.throttles = Rate(windows)

    def is_idle(self, now_ms: int) -> bool:
        return self.rate.is_idle(now_ms) and self.throttles.is_idle(now_ms)


class RateQuota:
    """The quotas of one kind.

    Values are recorded first, and a client above its limit is throttled afterwards, until its rate falls to the limit.
    Clients without a limit are not measured.

    Args:
        windows: windows over which rates are measured.
        throttle_ms_max: longest throttle time of one request; None for no maximum.
    """

    def __init__(self, windows: Windows, throttle_ms_max: int | None = None) -> None:
        self.limits = Limits({})
        self.windows = windows
        self._throttle_ms_max = throttle_ms_max
        self._meters = Meters(lambda: _Meter(windows))

    def set_limits(self, quotas: Mapping[Entity, float]) -> None:
        """Replace all limits. Measurements remain, unless the quotas are empty."""
        self.limits = Limits(quotas)
        if not self.limits:
            self._meters.clear()

    def record(self, user: str, client_id: str, value: float, now_ms: int) -> int:
        """Record a value of a client; return its throttle time in milliseconds, 0 within the limit or without one."""
        limit = self.limits.find(user, client_id)
        if limit is None:
            return 0
        meter = self._meters.of(limit, now_ms)
        meter.rate.record(value, now_ms)
        throttle_ms = throttle_time_ms(meter.rate, limit.per_second, now_ms)
        if not throttle_ms:
            return 0
        if self._throttle_ms_max is not None:
            throttle_ms = min(throttle_ms, self._throttle_ms_max)
        meter.throttles.record(throttle_ms, now_ms)
        return throttle_ms

    def take_back(self, user: str, client_id: str, value: float, now_ms: int) -> None:
        limit = self.limits.find(user, client_id)
        if limit is not None:
            self._meters.of(limit, now_ms).rate.record(-value, now_ms)

    def total(self, user: str, client_id: str, now_ms: int) -> float:
        limit = self.limits.find(user, client_id)
        return 0.0 if limit is None else self._meters.of(limit, now_ms).rate.total(now_ms)

    def value_max(self, user: str, client_id: str) -> float | None:
        """Return the largest single value that stays within the limit of an idle client; None for no limit."""
        limit = self.limits.find(user, client_id)
        if limit is None:
            return None
        return limit.per_second * (self.windows.count - 1) * self.windows.size_ms / 1000

    def statistics(self, now_ms: int) -> Iterator[ClientRate]:
        self._meters.forget_idle(now_ms)
        for measured, meter in self._meters.items():
            yield ClientRate(
                measured.user, measured.client_id, meter.rate.per_second(now_ms), meter.throttles.average(now_ms)
            )
