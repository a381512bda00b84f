"""Kafka's metrics of fetches that wait and of fetch sessions.

Rules of this file: it reads what the broker keeps anyway, when somebody asks. Only fetches wait in a purgatory here:
produce requests wait for their commit, and groups have their own deadlines.
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
    """What is read of `broker.Broker`."""

    @property
    def fetches(self) -> _Waiting: ...
    @property
    def fetch_sessions(self) -> _Sessions: ...


def fetch_families(broker: FetchStates) -> Iterator[Family]:
    """As they stand."""
    waiting, sessions = broker.fetches, broker.fetch_sessions
    purgatory = "kafka_server_delayedoperationpurgatory"
    yield gauge(
        f"{purgatory}_numdelayedoperations",
        "Fetches that wait for records (NumDelayedOperations).",
        Sample(len(waiting), OF_FETCH),
    )
    yield gauge(
        f"{purgatory}_purgatorysize",
        "Partitions that they wait for, each fetch with all of its own (PurgatorySize).",
        Sample(waiting.watched, OF_FETCH),
    )
    yield counter(
        "kafka_server_delayedfetchmetrics_expires_total",
        "Fetches that waited until their deadline (ExpiresPerSec).",
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
        "Partitions in them (NumIncrementalFetchPartitionsCached).",
        Sample(sessions.partitions),
    )
    yield counter(
        f"{cache}_incrementalfetchsessionevictions_total",
        "Sessions that were closed to make room (IncrementalFetchSessionEvictionsPerSec).",
        Sample(sessions.evicted),
    )
