"""Committed offsets and lag of groups, under the names of kafka_exporter.

A scrape shows at most GROUPS_MAX groups and PARTITIONS_MAX partitions, because every client may create groups. The
first groups by name are shown, and a metric counts the omitted partitions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from typing import Protocol

from pipeline_broker.base.lag import total_lag
from pipeline_broker.base.steps import Steps
from pipeline_broker.telemetry.exposition import Families, Labels, Sample, gauge

__all__ = ["PARTITIONS_MAX", "GroupOffsets", "group_families"]

GROUPS_MAX = 1000
"""Groups in one scrape."""
PARTITIONS_MAX = 2000
"""Partitions of groups in one scrape."""
PREFIX = "kafka_consumergroup_"


class _Offset(Protocol):
    @property
    def topic(self) -> str: ...
    @property
    def partition(self) -> int: ...
    @property
    def committed(self) -> int | None: ...
    @property
    def lag(self) -> int | None: ...


class GroupOffsets(Protocol):
    """The attributes of `broker.group_views.GroupOffsets` that these metrics read."""

    @property
    def group_id(self) -> str: ...
    @property
    def members(self) -> int: ...
    @property
    def partitions(self) -> int: ...
    @property
    def read(self) -> Callable[[], Steps[Sequence[_Offset]]]: ...


def group_families(groups: Iterable[GroupOffsets | None]) -> Families:
    """Yield the metrics of groups; None where other tasks may run.

    Args:
        groups: the groups, sorted by name; None where other tasks may run. The offsets of a group are sorted by topic.
    """
    members: list[Sample] = []
    offsets: list[Sample] = []
    lags: list[Sample] = []
    sums: list[Sample] = []
    offset_sums: list[Sample] = []
    shown = omitted = 0
    for group in groups:
        yield None
        if group is None:
            continue
        shown += group.partitions
        if shown > PARTITIONS_MAX or len(members) >= GROUPS_MAX:  # count the group without reading its offsets
            omitted += group.partitions
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
    yield gauge(f"{PREFIX}current_offset", "Committed offset of a group.", *offsets)
    yield gauge(f"{PREFIX}current_offset_sum", "Sum of the committed offsets of a group in a topic.", *offset_sums)
    yield gauge(f"{PREFIX}lag", "End offset of a partition minus the committed offset of a group.", *lags)
    yield gauge(f"{PREFIX}lag_sum", "Sum of the lag of a group in a topic; a negative lag counts as 0.", *sums)
    yield gauge(
        "pipeline_broker_consumergroup_partitions_left_out",
        "Partitions of groups beyond the limit of a scrape.",
        Sample(omitted),
    )


def _add(samples: list[Sample], value: int | None, labels: Labels) -> None:
    """Append a sample if the value is known: an unknown offset or lag is not 0."""
    if value is not None:
        samples.append(Sample(value, labels))
