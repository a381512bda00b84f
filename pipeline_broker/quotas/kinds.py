"""The kinds of quotas of a broker, loaded with the first quota."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from pipeline_broker.quotas.entities import (
    CONNECTION_CREATION_RATE,
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    IP,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    Entity,
    normal_ip,
)
from pipeline_broker.quotas.mutation_quota import ClientMutations, MutationQuota
from pipeline_broker.quotas.rate import Windows
from pipeline_broker.quotas.rate_quota import ClientRate, RateQuota

if TYPE_CHECKING:
    from pipeline_broker.config.broker_config import BrokerConfig
    from pipeline_broker.quotas.client_quotas import ClientQuotas

__all__ = ["QuotaKinds", "QuotasStatistics"]


@attrs.frozen
class QuotasStatistics:
    """All measured clients by kind of quota.

    Attributes:
        produce, fetch: rates in bytes per second.
        request: percent of one thread.
        mutation: created and deleted partitions per second.
    """

    produce: tuple[ClientRate, ...]
    fetch: tuple[ClientRate, ...]
    request: tuple[ClientRate, ...]
    mutation: tuple[ClientMutations, ...]


class QuotaKinds:
    def __init__(self, config: BrokerConfig) -> None:
        windows = Windows(config.quota_window_num, config.quota_window_size_seconds * 1000)
        self.produce = RateQuota(windows)
        self.fetch = RateQuota(windows)
        self.request = RateQuota(windows, throttle_ms_max=windows.size_ms)
        self.mutation = MutationQuota(
            Windows(config.controller_quota_window_num, config.controller_quota_window_size_seconds * 1000)
        )

    def set_limits(self, catalogue: ClientQuotas) -> bool:
        """Apply the quotas that are set; return whether any is set for users or client ids."""
        self.produce.set_limits(_set_for(catalogue, PRODUCER_BYTE_RATE))
        self.fetch.set_limits(_set_for(catalogue, CONSUMER_BYTE_RATE))
        self.request.set_limits(_set_for(catalogue, REQUEST_PERCENTAGE))
        self.mutation.set_limits(_set_for(catalogue, CONTROLLER_MUTATION_RATE))
        return any(kind.limits for kind in (self.produce, self.fetch, self.request, self.mutation))

    @staticmethod
    def ip_rates(catalogue: ClientQuotas) -> tuple[dict[str, float], float | None]:
        """Return the maximum connections per second by address, and the maximum of each other address.

        The second part is None if other addresses have no limit.
        """
        by_name = {dict(entity)[IP]: rate for entity, rate in _set_for(catalogue, CONNECTION_CREATION_RATE).items()}
        default = by_name.pop(None, None)
        return {normal_ip(name) or name: rate for name, rate in by_name.items() if name is not None}, default

    def statistics(self, now_ms: int) -> QuotasStatistics:
        return QuotasStatistics(
            produce=tuple(self.produce.statistics(now_ms)),
            fetch=tuple(self.fetch.statistics(now_ms)),
            request=tuple(self.request.statistics(now_ms)),
            mutation=tuple(self.mutation.statistics(now_ms)),
        )


def _set_for(catalogue: ClientQuotas, key: str) -> dict[Entity, float]:
    return {entity: quotas[key] for entity, quotas in catalogue.all().items() if key in quotas}
