"""The object store of a broker: requests and their times, journal, lease and cache.

Names are those of the metrics. Quantiles come from a histogram, so each is an upper bound.
"""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, Any

import attrs

from pipeline_broker.broker.broker import Broker

if TYPE_CHECKING:
    from pipeline_broker.objects.store_figures import StoreTotals, Times

__all__ = ["store"]

QUANTILES = {"p50": 0.5, "p99": 0.99}
REASON_MAX = 300


def store(broker: Broker) -> dict[str, Any]:
    """Return the current figures of the store; only `has_store` if the broker has no store."""
    if broker.ports.store_figures is None:
        return {"has_store": False}
    from pipeline_broker.broker.store_view import store_view  # noqa: PLC0415 - only with a store

    shown = store_view(broker)
    assert shown is not None, "the store has figures"
    totals, journal = shown.totals, shown.journal
    lease = None if journal is None else journal.lease
    return {
        "has_store": True,
        "kinds": _kinds(totals),
        "requests": [
            {"operation": operation, "outcome": outcome, "count": count}
            for (operation, outcome), count in sorted(totals.requests.items())
        ],
        "sent_bytes": totals.sent_bytes,
        "received_bytes": totals.received_bytes,
        "retries": totals.retries,
        "outage_seconds": totals.outage_seconds,
        "is_out": totals.is_out,
        "reason": totals.reason[:REASON_MAX],
        "cache": attrs.asdict(shown.cache),
        "journal": None if journal is None else {**journal._asdict(), "lease": lease and lease._asdict()},
    }


def _kinds(totals: StoreTotals) -> list[dict[str, Any]]:
    return [
        {
            "kind": kind,
            "count": totals.of_kind(kind),
            "mean_ms": 1000 * times.total_seconds / count if (count := sum(times.counts)) else None,
            **{f"{name}_ms": _quantile_ms(times, share) for name, share in QUANTILES.items()},
        }
        for kind, times in totals.times.items()
    ]


def _quantile_ms(times: Times, share: float) -> float | None:
    """Return the smallest bound of the histogram that covers a share of the requests.

    The result is None without requests, or if the share exceeds the largest bound.
    """
    from pipeline_broker.objects.store_figures import BOUNDS_SECONDS  # noqa: PLC0415 - only with a store

    whole = sum(times.counts)
    for bound, passed in zip(BOUNDS_SECONDS, accumulate(times.counts), strict=False):
        if whole and passed >= share * whole:
            return bound * 1000
    return None
