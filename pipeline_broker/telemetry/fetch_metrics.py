"""Kafka's metrics of waiting fetches and of fetch sessions.

Only fetches wait in a purgatory: produce requests wait for their commit, and groups have their own deadlines.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from pipeline_broker.telemetry.exposition import Family, Sample, counter, gauge

__all__ = ["FetchStates", "fetch_families"]

OF_FETCH = (("delayedoperation", "Fetch"),)
OF_CONSUMERS = (("fetchertype", "consumer"),)


class _Waiting(Protocol):
    @property
    def watched(self) -> int: ...
    @property
    def expired(self) -> int: ...
    def __len__(self) -> int: ...


class _Sessions(Protocol):
    @property
    def partitions(self) -> int: ...
    @property
    def evicted(self) -> int: ...
    def __len__(self) -> int: ...


class FetchStates(Protocol):
    """The attributes of `broker.Broker` that these metrics read."""

    @property
    def fetches(self) -> _Waiting: ...
    @property
    def fetch_sessions(self) -> _Sessions: ...


def fetch_families(broker: FetchStates) -> Iterator[Family]:
    waiting, sessions = broker.fetches, broker.fetch_sessions
    purgatory = "kafka_server_delayedoperationpurgatory"
    yield gauge(
        f"{purgatory}_numdelayedoperations",
        "Fetches waiting for records (NumDelayedOperations).",
        Sample(len(waiting), OF_FETCH),
    )
    yield gauge(
        f"{purgatory}_purgatorysize",
        "Partitions of waiting fetches, counted once for each fetch (PurgatorySize).",
        Sample(waiting.watched, OF_FETCH),
    )
    yield counter(
        "kafka_server_delayedfetchmetrics_expires_total",
        "Waiting fetches that reached their deadline (ExpiresPerSec).",
        Sample(waiting.expired, OF_CONSUMERS),
    )
    cache = "kafka_server_fetchsessioncache"
    yield gauge(
        f"{cache}_numincrementalfetchsessions",
        "Fetch sessions (NumIncrementalFetchSessions).",
        Sample(len(sessions)),
    )
    yield gauge(
        f"{cache}_numincrementalfetchpartitionscached",
        "Partitions in fetch sessions (NumIncrementalFetchPartitionsCached).",
        Sample(sessions.partitions),
    )
    yield counter(
        f"{cache}_incrementalfetchsessionevictions_total",
        "Fetch sessions evicted for new sessions (IncrementalFetchSessionEvictionsPerSec).",
        Sample(sessions.evicted),
    )
