"""Topics, groups and records without those of stopped brokers, for the reports of failed tests.

Each function also reads a broker that has ended: its parts stay as they were.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from pipeline_broker.base.lag import total_lag
from pipeline_broker.embedded.brokers import Brokers
from pipeline_broker.embedded.core import Core
from pipeline_broker.embedded.errors import EmbeddedBrokerError, RefusedError
from pipeline_broker.embedded.groups import describe_group, lags
from pipeline_broker.embedded.record_reader import RecordReader
from pipeline_broker.embedded.shown import Group

__all__ = ["FoundGroup", "Overview", "overview", "read_batches"]


class FoundGroup(NamedTuple):
    group_id: str
    group: Group | None  # None: `problem` has the reason
    lag: int | None  # of all partitions together; None if it is unknown
    problem: str


class Overview(NamedTuple):
    topics: Collection[str]  # without internal ones
    groups: Sequence[FoundGroup]  # of the wanted ones, those that exist
    ahead_ms: int
    stopped: Sequence[int]  # the brokers of a cluster that do not serve
    problem: str  # the reason for missing topics and groups, or an empty text


async def overview(core: Core, group_ids: Iterable[str]) -> Overview:
    brokers, ahead_ms = core.brokers, core.clock.ahead_ms
    stopped = [each.node_id for each in brokers if each.is_stopped]
    try:
        broker = brokers.running.broker
    except EmbeddedBrokerError as error:  # all are stopped
        return Overview((), (), ahead_ms, stopped, str(error))
    topics = [topic.name for topic in broker.topics.all() if topic.name not in broker.reserved_topics]
    found = (_find_group(brokers, group_id) for group_id in sorted(group_ids))
    groups = [each for each in found if each.group is not None or each.problem]
    return Overview(topics, groups, ahead_ms, stopped, "")


def _find_group(brokers: Brokers, group_id: str) -> FoundGroup:
    try:
        group = describe_group("groups()", brokers, group_id)
    except RefusedError as error:
        return FoundGroup(group_id, None, None, error.reason)
    try:
        lag = total_lag(lags("lag", brokers, group_id).values())
    except RefusedError:
        lag = None
    return FoundGroup(group_id, group, lag, "")


async def read_batches(core: Core, topic: str) -> tuple[list[tuple[int, int, bytes]], list[tuple[int, str]]]:
    # The batches as in `RecordReader`, and the partitions that cannot be read, each with the reason.
    brokers = core.brokers
    known = brokers.running.broker.topics.get(topic)
    problems = []
    for partition in range(0 if known is None else known.partitions):
        try:
            brokers.leader("records()", topic, partition)
        except RefusedError as error:
            problems.append((partition, error.reason))
    reader = RecordReader([each.broker for each in brokers.all_running], topic, None, is_committed=False)
    await reader.read()
    return reader.batches, problems
