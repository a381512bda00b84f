"""Reads for the history what is more than a few counters: what topics got, and how far groups are behind.

Rules of this file: on Trio; others have their turns in between, and nothing that fails here ends anything.
"""

from __future__ import annotations

import logging
from collections.abc import Hashable
from itertools import islice

import trio

from pipeline_broker.broker.broker import Broker
from pipeline_broker.broker.group_views import offsets_of_groups
from pipeline_broker.dashboard.history import GROUPS_KEPT_MAX, SLOW_SECONDS, TOPICS_KEPT_MAX, History, Totals
from pipeline_broker.lag import total_lag

__all__ = ["keep_history"]

logger = logging.getLogger(__name__)

LOGS_PER_TURN = 256
OFFSETS_PER_TURN = 256
OFFSETS_READ_MAX = 2000
"""Of all groups together; those by name for whose offsets there is no room have no history."""


async def keep_history(history: History, broker: Broker) -> None:
    """Take note of topics and groups, every SLOW_SECONDS, until cancelled."""
    while True:
        try:
            history.add_totals(trio.current_time(), await _totals(broker))
            history.add_lags(trio.current_time(), await _lags(broker))
        except Exception:
            logger.exception("the dashboard could not take note of topics and groups")
        await trio.sleep(SLOW_SECONDS)


async def _totals(broker: Broker) -> dict[Hashable, Totals]:
    totals: dict[Hashable, Totals] = {}
    looked = 0
    for topic in sorted(broker.topics.all(), key=lambda each: each.name)[:TOPICS_KEPT_MAX]:
        logs = broker.logs.partitions(topic.name)
        totals[topic.topic_id] = Totals(
            sum(log.high_watermark for log in logs), sum(log.appended_bytes for log in logs)
        )
        looked += len(logs)
        if looked >= LOGS_PER_TURN:
            looked = 0
            await trio.lowlevel.checkpoint()
    return totals


async def _lags(broker: Broker) -> dict[str, int | None]:
    lags: dict[str, int | None] = {}
    read = turn = 0
    for group in islice(offsets_of_groups(broker), GROUPS_KEPT_MAX):
        if read + group.partitions > OFFSETS_READ_MAX:
            continue
        lags[group.group_id] = total_lag(each.lag for each in group.read())
        read += group.partitions
        turn += group.partitions
        if turn >= OFFSETS_PER_TURN:
            turn = 0
            await trio.lowlevel.checkpoint()
    return lags
