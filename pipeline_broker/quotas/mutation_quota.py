"""Quotas on metadata changes (KIP-599): partitions that are created or deleted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import attrs

from pipeline_broker.quotas.entities import Entity
from pipeline_broker.quotas.limits import Limit, Limits
from pipeline_broker.quotas.meters import Meters
from pipeline_broker.quotas.rate import Rate, Windows
from pipeline_broker.quotas.token_bucket import TokenBucket

__all__ = ["ClientMutations", "MutationQuota"]


@attrs.frozen
class ClientMutations:
    """The current measurement of a client.

    Attributes:
        user, client_id: the client; None for a part that the quota does not depend on.
        per_second: the measured rate of changes.
        tokens: number of changes that the client may still request; negative for a debt.
        throttle_time_ms: mean throttle time in all windows; 0 without throttling.
    """

    user: str | None
    client_id: str | None
    per_second: float
    tokens: float
    throttle_time_ms: float


class _Meter:
    __slots__ = ("bucket", "limit", "rate", "throttles")

    def __init__(self, windows: Windows) -> None:
        self.bucket = TokenBucket(windows)
        self.rate = Rate(windows)
        self.throttles = Rate(windows)
        self.limit = 0.0

    def take(self, count: int, now_ms: int) -> None:
        self.bucket.take(count, self.limit, now_ms)
        self.rate.record(count, now_ms)

    def is_idle(self, now_ms: int) -> bool:
        return self.rate.is_idle(now_ms) and self.throttles.is_idle(now_ms) and self.bucket.is_full(self.limit, now_ms)


class MutationQuota:
    """Token buckets of all clients.

    The quota is strict for request versions that know its error: while the client has a debt, its changes are rejected.
    Without a debt any number of changes is made. For older versions the quota is permissive: all changes are made, and
    a client with a debt is throttled.

    Args:
        windows: a full bucket holds the changes that the limit allows in all windows.
    """

    def __init__(self, windows: Windows) -> None:
        self.limits = Limits({})
        self._meters = Meters(lambda: _Meter(windows))

    def set_limits(self, quotas: Mapping[Entity, float]) -> None:
        """Replace all limits. Debts remain, unless the quotas are empty."""
        self.limits = Limits(quotas)
        if not self.limits:
            self._meters.clear()

    def record(self, user: str, client_id: str, count: int, now_ms: int, *, strict: bool) -> tuple[bool, int]:
        """Return whether `count` changes are allowed, and the throttle time in milliseconds.

        Allowed changes are recorded. Without a limit, all changes are allowed, and nothing is recorded.
        """
        limit = self.limits.find(user, client_id)
        if limit is None:
            return True, 0
        meter = self._meter(limit, now_ms)
        if not strict:
            meter.take(count, now_ms)
        throttle_ms = meter.bucket.throttle_time_ms(limit.per_second, now_ms)
        # A rejected request takes no tokens. Otherwise a client that keeps retrying could never pay off its debt.
        if throttle_ms:
            meter.throttles.record(throttle_ms, now_ms)
            return not strict, throttle_ms
        if strict:
            meter.take(count, now_ms)
        return True, 0

    def statistics(self, now_ms: int) -> Iterator[ClientMutations]:
        self._meters.forget_idle(now_ms)
        for measured, meter in self._meters.items():
            yield ClientMutations(
                measured.user,
                measured.client_id,
                meter.rate.per_second(now_ms),
                meter.bucket.tokens(meter.limit, now_ms),
                meter.throttles.average(now_ms),
            )

    def _meter(self, limit: Limit, now_ms: int) -> _Meter:
        meter = self._meters.of(limit, now_ms)
        meter.limit = limit.per_second
        return meter
