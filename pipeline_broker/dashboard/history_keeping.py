"""A task that records topic totals and group lags for the history."""

from __future__ import annotations

import logging
from collections.abc import Hashable

import trio

from pipeline_broker.base.steps import THINGS_PER_STEP, Steps, first_few
from pipeline_broker.broker.broker import Broker
from pipeline_broker.broker.group_views import count_offsets, first_groups, lag_of_group
from pipeline_broker.dashboard.history import GROUPS_KEPT_MAX, SLOW_SECONDS, TOPICS_KEPT_MAX, History, Totals
from pipeline_broker.dashboard.origins import FULL_NAME_CHARACTERS_MAX
from pipeline_broker.web.turns import in_turns

__all__ = ["keep_history"]

logger = logging.getLogger(__name__)

# Offsets of all groups together. Groups are read by name, and one that would exceed the limit has no history.
OFFSETS_READ_MAX = 2000


async def keep_history(history: History, broker: Broker) -> None:
    """Record topic totals and group lags every SLOW_SECONDS, until cancelled. Errors are logged."""
    while True:
        try:
            history.add_totals(trio.current_time(), await in_turns(_totals(broker)))
            history.add_lags(trio.current_time(), await in_turns(_lags(broker)))
        except Exception:
            logger.exception("the dashboard could not record the history of topics and groups")
        await trio.sleep(SLOW_SECONDS)


def _totals(broker: Broker) -> Steps[dict[Hashable, Totals]]:
    totals: dict[Hashable, Totals] = {}
    for topic in (yield from first_few(list(broker.topics.all()), TOPICS_KEPT_MAX, lambda each: each.name)):
        records = size_bytes = 0
        for place, log in enumerate(broker.logs.partitions(topic.name)):
            records += log.high_watermark
            size_bytes += log.appended_bytes
            if place % THINGS_PER_STEP == THINGS_PER_STEP - 1:
                yield
        totals[topic.topic_id] = Totals(records, size_bytes)
        yield
    return totals


def _lags(broker: Broker) -> Steps[dict[str, int | None]]:
    lags: dict[str, int | None] = {}
    read = 0
    _, groups = yield from first_groups(broker, GROUPS_KEPT_MAX)
    for group in groups:
        yield
        partitions = count_offsets(broker, group.group_id)
        if read + partitions <= OFFSETS_READ_MAX and len(group.group_id) <= FULL_NAME_CHARACTERS_MAX:
            lags[group.group_id] = yield from lag_of_group(broker, group.group_id)
            read += partitions
    return lags
