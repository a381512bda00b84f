"""Committed offsets and lag of groups, under the names that kafka_exporter made usual.

Rules of this file: it reads what the broker keeps anyway, when somebody asks. A scrape shows GROUPS_MAX groups and
PARTITIONS_MAX partitions at most, those of the first groups by name, because anybody may make groups; how many
partitions are left out is a metric.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from typing import Protocol

from pipeline_broker.base.steps import Steps
from pipeline_broker.lag import total_lag
from pipeline_broker.telemetry.exposition import Families, Labels, Sample, gauge

__all__ = ["PARTITIONS_MAX", "GroupOffsets", "group_families"]

GROUPS_MAX = 1000
PARTITIONS_MAX = 2000
PREFIX = "kafka_consumergroup_"


class _Offset(Protocol):
    """What is read of `broker.group_views.OffsetView`."""

    @property
    def topic(self) -> str: ...
    @property
    def partition(self) -> int: ...
    @property
    def committed(self) -> int | None: ...
    @property
    def lag(self) -> int | None: ...


class GroupOffsets(Protocol):
    """What is read of `broker.group_views.GroupOffsets`."""

    @property
    def group_id(self) -> str: ...
    @property
    def members(self) -> int: ...
    @property
    def partitions(self) -> int: ...
    @property
    def read(self) -> Callable[[], Steps[Sequence[_Offset]]]: ...


def group_families(groups: Iterable[GroupOffsets | None]) -> Families:
    """As they stand.

    Args:
        groups: by name, each with its offsets by topic and partition; None between two steps.
    """
    members: list[Sample] = []
    offsets: list[Sample] = []
    lags: list[Sample] = []
    sums: list[Sample] = []
    offset_sums: list[Sample] = []
    shown = left_out = 0
    for group in groups:
        yield None
        if group is None:
            continue
        shown += group.partitions
        if shown > PARTITIONS_MAX or len(members) >= GROUPS_MAX:  # counted and not read
            left_out += group.partitions
            continue
        of_group = (("consumergroup", group.group_id),)
        members.append(Sample(group.members, of_group))
        read = yield from group.read()
        for topic, of_topic in groupby(read, lambda each: each.topic):
            yield None
            labels = (*of_group, ("topic", topic))
            rows = list(of_topic)
            for each in rows:
                _add(offsets, each.committed, (*labels, ("partition", str(each.partition))))
                _add(lags, each.lag, (*labels, ("partition", str(each.partition))))
            _add(sums, total_lag(each.lag for each in rows), labels)
            committed = [each.committed for each in rows if each.committed is not None]
            _add(offset_sums, sum(committed) if committed else None, labels)
    yield gauge(f"{PREFIX}members", "Members of a group.", *members)
    yield gauge(f"{PREFIX}current_offset", "Offset that a group has committed.", *offsets)
    yield gauge(f"{PREFIX}current_offset_sum", "The same, over the partitions of a topic.", *offset_sums)
    yield gauge(f"{PREFIX}lag", "End of a partition minus what a group has committed in it.", *lags)
    yield gauge(f"{PREFIX}lag_sum", "The same, over the partitions of a topic.", *sums)
    yield gauge(
        "pipeline_broker_consumergroup_partitions_left_out",
        "Partitions of groups that a scrape has no room for.",
        Sample(left_out),
    )


def _add(samples: list[Sample], value: int | None, labels: Labels) -> None:
    """Add a sample if there is a value: what is not known is not 0."""
    if value is not None:
        samples.append(Sample(value, labels))
