"""All quotas of a broker, and the throttling of single requests."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pipeline_broker.config.broker_config import BrokerConfig
    from pipeline_broker.quotas.client_quotas import ClientQuotas
    from pipeline_broker.quotas.kinds import QuotaKinds, QuotasStatistics
    from pipeline_broker.quotas.mutation_quota import MutationQuota
    from pipeline_broker.quotas.rate_quota import RateQuota
    from pipeline_broker.state.outcome import Write

__all__ = ["Quotas", "RequestQuota"]

NS_PER_MS = 1_000_000
# One thread, busy for a second, counts as 100 percent.
PERCENT_PER_NS = 100 / 1_000_000_000
# The largest int32, the type of throttle times in responses: 25 days. Very low limits would exceed it.
THROTTLE_MS_MAX = 2**31 - 1


class Quotas:
    """All quotas of a broker.

    Request handlers use it only while `is_active`. Acceptors of connections apply the rates of addresses.

    Args:
        config: provides the windows over which rates are measured.
        ip_rates_changed: called after a change of `ip_rates` or `ip_rate_default`.
        clock_ns: monotonic clock, in nanoseconds.

    Attributes:
        is_active: whether any quota is set for users or client ids.
        ip_rates: maximum connections per second of single addresses.
        ip_rate_default: the maximum of each other address; None for no limit.
    """

    def __init__(
        self,
        config: BrokerConfig,
        ip_rates_changed: Callable[[], None],
        clock_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._config = config
        self._notify_ip_rates = ip_rates_changed
        self.clock_ns = clock_ns
        self.is_active = False
        self.ip_rates: Mapping[str, float] = {}
        self.ip_rate_default: float | None = None
        self._has_replayed = False

    @functools.cached_property
    def catalogue(self) -> ClientQuotas:
        from pipeline_broker.quotas.client_quotas import ClientQuotas  # noqa: PLC0415 - for brokers that have quotas

        return ClientQuotas()

    @functools.cached_property
    def _kinds(self) -> QuotaKinds:
        from pipeline_broker.quotas.kinds import QuotaKinds  # noqa: PLC0415 - for brokers that have quotas

        return QuotaKinds(self._config)

    @functools.cached_property
    def produce(self) -> RateQuota:
        return self._kinds.produce

    @functools.cached_property
    def fetch(self) -> RateQuota:
        return self._kinds.fetch

    @functools.cached_property
    def request(self) -> RateQuota:
        return self._kinds.request

    @functools.cached_property
    def mutation(self) -> MutationQuota:
        return self._kinds.mutation

    def now_ms(self) -> int:
        return self.clock_ns() // NS_PER_MS

    # Configuration

    def replay(self, key: bytes, value: bytes | None) -> None:
        """Apply one durable record, with effect after `replayed`; ignore records of other types.

        Raises:
            CorruptStateRecordError: the record cannot be decoded.
        """
        if self.catalogue.replay(key, value):
            self._has_replayed = True

    def replayed(self) -> None:
        """Put the replayed quotas into effect, once all records are replayed."""
        if self._has_replayed:
            self._has_replayed = False
            self._apply()

    def durable(self, write: Write) -> None:
        self.catalogue.durable(write)
        self._apply()

    def _apply(self) -> None:
        self.is_active = self._kinds.set_limits(self.catalogue)
        rates, default = self._kinds.ip_rates(self.catalogue)
        if (rates, default) != (self.ip_rates, self.ip_rate_default):
            self.ip_rates, self.ip_rate_default = rates, default
            # Only real changes are reported: every change of any quota gets here.
            self._notify_ip_rates()

    # Measurement

    def begin(self, user: str, client_id: str | None) -> RequestQuota:
        """Begin the accounting of a request, and its handler time. A missing client id counts as the empty one."""
        return RequestQuota(self, user, client_id or "")

    def statistics(self) -> QuotasStatistics:
        return self._kinds.statistics(self.now_ms())


class RequestQuota:
    """The accounting of one request.

    Attributes:
        throttle_ms: the longest throttle time so far, at most THROTTLE_MS_MAX.
    """

    __slots__ = (
        "_is_settled",
        "_local_ns",
        "_paused_ns",
        "_quotas",
        "_started_ns",
        "_user",
        "client_id",
        "throttle_ms",
    )

    def __init__(self, quotas: Quotas, user: str, client_id: str) -> None:
        self._quotas = quotas
        self._user = user
        self.client_id = client_id
        self.throttle_ms = 0
        self._started_ns = quotas.clock_ns()
        self._paused_ns = 0
        self._local_ns: int | None = None
        self._is_settled = False

    def produced(self, size_bytes: int) -> None:
        quotas = self._quotas
        self._throttle(quotas.produce.record(self._user, self.client_id, size_bytes, quotas.now_ms()))

    def fetch_bytes_max(self) -> int | None:
        """Return the size in bytes of the largest fetch response that does not exceed the quota by itself.

        Returns None for no limit.
        """
        value_max = self._quotas.fetch.value_max(self._user, self.client_id)
        return None if value_max is None else int(value_max)

    def fetched(self, size_bytes: int) -> bool:
        """Record a fetch response and the handler time; return whether the response may be sent.

        Otherwise the client must get an empty response, and the recorded bytes are taken back.
        """
        quotas, client = self._quotas, (self._user, self.client_id)
        now_ms = quotas.now_ms()
        # A client without any bytes in all windows gets its response even beyond the quota, and is throttled
        # afterwards. Otherwise a batch larger than the quota could never be fetched.
        is_first = not quotas.fetch.total(*client, now_ms)
        by_bytes_ms = quotas.fetch.record(*client, size_bytes, now_ms)
        # A throttle for handler time empties the response, too.
        by_time_ms = self.settle()
        self._throttle(by_bytes_ms)
        if by_time_ms or (by_bytes_ms and not is_first):
            quotas.fetch.take_back(*client, size_bytes, now_ms)
            return False
        return True

    def may_change(self, partitions: int, *, strict: bool, throttles: bool = True) -> bool:
        """Return whether partitions may be created or deleted, and record them if so.

        Args:
            partitions: number of created or deleted partitions.
            strict: reject the change while the client has a debt; see `mutation_quota`.
            throttles: whether a debt throttles the client.
        """
        quotas = self._quotas
        allowed, throttle_ms = quotas.mutation.record(
            self._user, self.client_id, partitions, quotas.now_ms(), strict=strict
        )
        if throttles:
            self._throttle(throttle_ms)
        return allowed

    def pause(self) -> None:
        """Stop the handler time until `resume`, while the handler serves other requests."""
        self._paused_ns = self._quotas.clock_ns()

    def resume(self) -> None:
        self._started_ns += self._quotas.clock_ns() - self._paused_ns

    def handled(self) -> None:
        """End the handler time at the first call. The time until the response is ready is not charged."""
        if self._local_ns is None:
            self._local_ns = self._quotas.clock_ns() - self._started_ns

    def settle(self) -> int:
        """Record the handler time at the first call; return the longest throttle time in milliseconds."""
        if not self._is_settled:
            self._is_settled = True
            self.handled()
            assert self._local_ns is not None
            quotas = self._quotas
            percent = self._local_ns * PERCENT_PER_NS
            self._throttle(quotas.request.record(self._user, self.client_id, percent, quotas.now_ms()))
        return self.throttle_ms

    def _throttle(self, throttle_ms: int) -> None:
        self.throttle_ms = min(max(self.throttle_ms, throttle_ms), THROTTLE_MS_MAX)
