"""Quotas on a rate: bytes produced, bytes fetched, time of the handlers.

Rules of this file: sans-IO, time passed in, in milliseconds. What happened is recorded first, and who is above the
limit then waits until the rate is the limit again. What has no limit is not measured.
"""

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
    """One client that a quota measures, as it stands.

    Attributes:
        user, client_id: who; one of them is None where the quota is for the other alone.
        per_second: its rate.
        throttle_time_ms: the mean of the throttles that it was told in all windows, 0 for none.
    """

    user: str | None
    client_id: str | None
    per_second: float
    throttle_time_ms: float


class _Meter:
    """A rate, and the throttles that it came to."""

    __slots__ = ("rate", "throttles")

    def __init__(self, windows: Windows) -> None:
        self.rate = Rate(windows)
        self.throttles = Rate(windows)

    def is_idle(self, now_ms: int) -> bool:
        return self.rate.is_idle(now_ms) and self.throttles.is_idle(now_ms)


class RateQuota:
    """The quotas of one kind.

    Args:
        windows: over how long rates are taken.
        throttle_ms_max: nobody waits longer for one request; None for as long as the formula says.
    """

    def __init__(self, windows: Windows, throttle_ms_max: int | None = None) -> None:
        self.limits = Limits({})
        self.windows = windows
        self._throttle_ms_max = throttle_ms_max
        self._meters = Meters(lambda: _Meter(windows))

    def set_limits(self, quotas: Mapping[Entity, float]) -> None:
        """Take over what is set; what was measured stays measured."""
        self.limits = Limits(quotas)
        if not self.limits:
            self._meters.clear()

    def record(self, user: str, client_id: str, value: float, now_ms: int) -> int:
        """Add what a client did; for how many milliseconds it must be throttled, 0 for not at all."""
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
        """What was recorded did not happen after all."""
        limit = self.limits.find(user, client_id)
        if limit is not None:
            self._meters.of(limit, now_ms).rate.record(-value, now_ms)

    def total(self, user: str, client_id: str, now_ms: int) -> float:
        """All that was recorded in the windows that count."""
        limit = self.limits.find(user, client_id)
        return 0.0 if limit is None else self._meters.of(limit, now_ms).rate.total(now_ms)

    def value_max(self, user: str, client_id: str) -> float | None:
        """The most that may be recorded at once: more would be throttled though nothing else was; None for any."""
        limit = self.limits.find(user, client_id)
        if limit is None:
            return None
        return limit.per_second * (self.windows.count - 1) * self.windows.size_ms / 1000

    def statistics(self, now_ms: int) -> Iterator[ClientRate]:
        """All clients that are measured."""
        self._meters.forget_idle(now_ms)
        for measured, meter in self._meters.items():
            yield ClientRate(
                measured.user, measured.client_id, meter.rate.per_second(now_ms), meter.throttles.average(now_ms)
            )
