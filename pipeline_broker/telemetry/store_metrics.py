"""Metrics of an object store: requests, times, outages, and the journal and its lease in the store.

No label holds the name of an object, so the number of series is bounded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import accumulate
from typing import Protocol

from pipeline_broker.objects.store_figures import BOUNDS_SECONDS, KINDS, StoreTotals
from pipeline_broker.objects.watched_store import Outcome
from pipeline_broker.telemetry.exposition import Family, Sample, counter, gauge

__all__ = ["StoreShape", "store_families"]

STORE = "pipeline_broker_store_"
JOURNAL = "pipeline_broker_journal_"


class _Cache(Protocol):
    @property
    def hits(self) -> int: ...
    @property
    def misses(self) -> int: ...
    @property
    def size_bytes(self) -> int: ...


class _Lease(Protocol):
    @property
    def is_held(self) -> bool: ...
    @property
    def age_seconds(self) -> float: ...


class _Journal(Protocol):
    @property
    def generation(self) -> int: ...
    @property
    def slots(self) -> int: ...
    @property
    def size_bytes(self) -> int: ...
    @property
    def in_flight(self) -> int: ...
    @property
    def is_fenced(self) -> bool: ...
    @property
    def lease(self) -> _Lease | None: ...


class StoreShape(Protocol):
    """The attributes of `broker.store_view` that these metrics read."""

    @property
    def totals(self) -> StoreTotals: ...
    @property
    def cache(self) -> _Cache: ...
    @property
    def journal(self) -> _Journal | None: ...


def store_families(shown: StoreShape) -> Iterator[Family]:
    yield from _request_families(shown.totals)
    cache = shown.cache
    yield counter(
        f"{STORE}cache_hits_total", "Blocks of the archive found in memory, or already requested.", Sample(cache.hits)
    )
    yield counter(
        f"{STORE}cache_misses_total",
        "Blocks of the archive read from the store.",
        Sample(cache.misses),
    )
    yield gauge(f"{STORE}cache_bytes", "Bytes of blocks in memory.", Sample(cache.size_bytes))
    if shown.journal is not None:
        yield from _journal_families(shown.journal)


def _request_families(totals: StoreTotals) -> Iterator[Family]:
    requests = sorted(totals.requests.items())
    yield counter(
        f"{STORE}requests_total",
        "Requests to the store, as a bill counts them: an upload in n parts counts n + 2.",
        *(
            Sample(count, (("kind", KINDS[operation]), ("operation", operation), ("outcome", outcome)))
            for (operation, outcome), count in requests
        ),
    )
    yield _histogram(totals)
    yield counter(f"{STORE}sent_bytes_total", "Content bytes written to the store.", Sample(totals.sent_bytes))
    yield counter(f"{STORE}received_bytes_total", "Content bytes read from the store.", Sample(totals.received_bytes))
    yield counter(
        f"{STORE}unsure_total",
        "Requests whose answer was lost; the broker checks if they were done.",
        Sample(totals.with_outcome(Outcome.UNSURE)),
    )
    yield counter(
        f"{STORE}retries_total", "Requests that were sent again, because they got no answer.", Sample(totals.retries)
    )
    yield counter(
        f"{STORE}outage_seconds_total",
        "Time without answers from the store: from an unanswered request to the next answered one.",
        Sample(totals.outage_seconds),
    )
    yield gauge(f"{STORE}is_out", "1 while the store does not answer, else 0.", Sample(int(totals.is_out)))


def _histogram(totals: StoreTotals) -> Family:
    samples: list[Sample] = []
    bounds = (*(f"{bound:g}" for bound in BOUNDS_SECONDS), "+Inf")
    for kind, times in totals.times.items():
        label = (("kind", kind),)
        for bound, count in zip(bounds, accumulate(times.counts), strict=True):
            samples.append(Sample(count, (*label, ("le", bound)), "_bucket"))
        samples += [Sample(sum(times.counts), label, "_count"), Sample(times.total_seconds, label, "_sum")]
    explanation = "Duration of answered requests, by kind."
    return Family(f"{STORE}request_seconds", "histogram", explanation, samples)


def _journal_families(journal: _Journal) -> Iterator[Family]:
    values: Mapping[str, tuple[str, float]] = {
        "generation": ("Number of this owner of the journal; each takeover adds one.", journal.generation),
        "unarchived_slots": ("Journal objects that are not archived yet; a takeover reads them.", journal.slots),
        "unarchived_bytes": ("Bytes in journal objects that are not archived yet.", journal.size_bytes),
        "slots_in_flight": ("Journal objects being written.", journal.in_flight),
        "is_fenced": ("1 after another broker took over the journal; this broker ends.", int(journal.is_fenced)),
    }
    for name, (explanation, value) in values.items():
        yield gauge(f"{JOURNAL}{name}", explanation, Sample(value))
    if journal.lease is not None:
        yield gauge(
            f"{JOURNAL}lease_is_held", "1 while this broker holds the lease.", Sample(int(journal.lease.is_held))
        )
        age = Sample(journal.lease.age_seconds)
        yield gauge(
            f"{JOURNAL}lease_age_seconds",
            "Seconds since the lease was written; after broker.session.timeout.ms a standby takes over.",
            age,
        )
