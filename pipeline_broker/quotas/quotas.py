"""All quotas of a broker: what is set, and what it comes to for a request.

Rules of this file: synchronous, on the event loop's thread; the one clock is given and does not run backwards. A change
counts when its record is durable. While nothing is set for users and client ids, `is_active` is false and nobody asks;
what is set for addresses is for whoever accepts connections.
"""

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
PERCENT_PER_NS = 100 / 1_000_000_000
"""One thread, busy for a second, is 100 percent."""
THROTTLE_MS_MAX = 2**31 - 1
"""What the int32 of an answer can tell: 25 days; limits far below what clients send come to more."""


class Quotas:
    """See the rules of the file.

    Args:
        config: over how long rates are taken.
        clock_ns: monotonic.

    Attributes:
        is_active: whether any quota is set for users or client ids.
        ip_rates: connections per second of single addresses.
        ip_rate_default: the same of each other address; None for any number.
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
        """What is set."""
        from pipeline_broker.quotas.client_quotas import ClientQuotas  # noqa: PLC0415 - for brokers that have quotas

        return ClientQuotas()

    @functools.cached_property
    def _kinds(self) -> QuotaKinds:
        from pipeline_broker.quotas.kinds import QuotaKinds  # noqa: PLC0415 - for brokers that have quotas

        return QuotaKinds(self._config)

    @functools.cached_property
    def produce(self) -> RateQuota:
        """Bytes that are produced."""
        return self._kinds.produce

    @functools.cached_property
    def fetch(self) -> RateQuota:
        """Bytes that are fetched."""
        return self._kinds.fetch

    @functools.cached_property
    def request(self) -> RateQuota:
        """Time of the handlers."""
        return self._kinds.request

    @functools.cached_property
    def mutation(self) -> MutationQuota:
        """Changes of metadata."""
        return self._kinds.mutation

    def now_ms(self) -> int:
        """The time of the meters."""
        return self.clock_ns() // NS_PER_MS

    # What is set

    def replay(self, key: bytes, value: bytes | None) -> None:
        """Take over one durable record, which counts once all are `replayed`; those of other subjects are read past."""
        if self.catalogue.replay(key, value):
            self._has_replayed = True

    def replayed(self) -> None:
        """All records were replayed: what they set counts from now on."""
        if self._has_replayed:
            self._has_replayed = False
            self._apply()

    def durable(self, write: Write) -> None:
        """The records of a change are durable: they count from now on."""
        self.catalogue.durable(write)
        self._apply()

    def _apply(self) -> None:
        self.is_active = self._kinds.set_limits(self.catalogue)
        rates, default = self._kinds.ip_rates(self.catalogue)
        if (rates, default) != (self.ip_rates, self.ip_rate_default):
            self.ip_rates, self.ip_rate_default = rates, default
            self._notify_ip_rates()

    # What is measured

    def begin(self, user: str, client_id: str | None) -> RequestQuota:
        """The handling of a request begins."""
        return RequestQuota(self, user, client_id or "")

    def statistics(self) -> QuotasStatistics:
        return self._kinds.statistics(self.now_ms())


class RequestQuota:
    """One request of a client, as quotas see it.

    Attributes:
        client_id: whose it is, together with the user.
        throttle_ms: the longest throttle that it came to so far.
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
        """A produce request of this size was handled."""
        quotas = self._quotas
        self._throttle(quotas.produce.record(self._user, self.client_id, size_bytes, quotas.now_ms()))

    def fetch_bytes_max(self) -> int | None:
        """The largest answer to a fetch that need not be throttled by itself; None for any."""
        value_max = self._quotas.fetch.value_max(self._user, self.client_id)
        return None if value_max is None else int(value_max)

    def fetched(self, size_bytes: int) -> bool:
        """Ask for a fetch to be answered with so many bytes; False: answer without any.

        A client that got nothing in all windows gets what it asks for even if that is too much, and waits afterwards:
        a batch larger than its quota allows would never come otherwise.
        """
        quotas, client = self._quotas, (self._user, self.client_id)
        now_ms = quotas.now_ms()
        is_first = not quotas.fetch.total(*client, now_ms)
        by_bytes_ms = quotas.fetch.record(*client, size_bytes, now_ms)
        by_time_ms = self.settle()
        self._throttle(by_bytes_ms)
        if by_time_ms or (by_bytes_ms and not is_first):
            quotas.fetch.take_back(*client, size_bytes, now_ms)
            return False
        return True

    def may_change(self, partitions: int, *, strict: bool, throttles: bool = True) -> bool:
        """Ask for so many partitions to be created or deleted; with `throttles` a debt throttles the client."""
        quotas = self._quotas
        allowed, throttle_ms = quotas.mutation.record(
            self._user, self.client_id, partitions, quotas.now_ms(), strict=strict
        )
        if throttles:
            self._throttle(throttle_ms)
        return allowed

    def pause(self) -> None:
        """Others have their turns: until `resume` that time is not the client's."""
        self._paused_ns = self._quotas.clock_ns()

    def resume(self) -> None:
        """The handler goes on."""
        self._started_ns += self._quotas.clock_ns() - self._paused_ns

    def handled(self) -> None:
        """The handler is done; if the answer comes later, that time is not the client's."""
        if self._local_ns is None:
            self._local_ns = self._quotas.clock_ns() - self._started_ns

    def settle(self) -> int:
        """The answer is made: record the time that it took, once; the longest of all throttles."""
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
