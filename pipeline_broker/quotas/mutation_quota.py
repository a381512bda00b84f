"""Quotas on changes of metadata (KIP-599): partitions that are created or deleted, by token buckets.

Rules of this file: sans-IO, time passed in, in milliseconds. For a request whose version knows the error the quota is
strict: while there is a debt nothing is changed, but what is asked for in good standing is done, however much it is.
For older versions it is permissive: everything is done, and who has a debt then waits.
"""

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
    """One client that the quota measures, as it stands.

    Attributes:
        user, client_id: who; one of them is None where the quota is for the other alone.
        per_second: its rate.
        tokens: how many changes it may still ask for.
        throttle_time_ms: the mean of the throttles that it was told in all windows, 0 for none.
    """

    user: str | None
    client_id: str | None
    per_second: float
    tokens: float
    throttle_time_ms: float


class _Meter:
    """A bucket with the limit that it was last asked for, the rate of changes, and the throttles that it came to."""

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
    """See the rules of the file.

    Args:
        windows: a full bucket holds what the limit allows in all of them.
    """

    def __init__(self, windows: Windows) -> None:
        self.limits = Limits({})
        self._meters = Meters(lambda: _Meter(windows))

    def set_limits(self, quotas: Mapping[Entity, float]) -> None:
        """Take over what is set; debts stay debts."""
        self.limits = Limits(quotas)
        if not self.limits:
            self._meters.clear()

    def record(self, user: str, client_id: str, count: int, now_ms: int, *, strict: bool) -> tuple[bool, int]:
        """Ask for changes: whether they may be made, and for how many milliseconds the client must be throttled."""
        limit = self.limits.find(user, client_id)
        if limit is None:
            return True, 0
        meter = self._meter(limit, now_ms)
        if not strict:
            meter.take(count, now_ms)
        throttle_ms = meter.bucket.throttle_time_ms(limit.per_second, now_ms)
        if throttle_ms:
            meter.throttles.record(throttle_ms, now_ms)
            return not strict, throttle_ms
        if strict:
            meter.take(count, now_ms)
        return True, 0

    def statistics(self, now_ms: int) -> Iterator[ClientMutations]:
        """All clients that are measured."""
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
