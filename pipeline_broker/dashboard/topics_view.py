"""Topics, partitions and configuration as JSON.

Sensitive values are omitted, as in DescribeConfigs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol, TypeAlias

from pipeline_broker.base.steps import THINGS_PER_STEP, Steps, anything, first_few, selected
from pipeline_broker.broker.broker import Broker
from pipeline_broker.config.resolution import Entry, broker_entries, topic_entries
from pipeline_broker.log.partition.partition_log import PartitionLog
from pipeline_broker.state.metadata_records import Topic

__all__ = ["configuration", "topic", "topics"]

TOPICS_SHOWN_MAX = 1000
PARTITIONS_SHOWN_MAX = 1000


class _Rates(Protocol):
    @property
    def records_per_s(self) -> float: ...
    @property
    def bytes_per_s(self) -> float: ...


# Returns the rates of a topic by its id, or None while they are unknown.
RatesOf: TypeAlias = Callable[[bytes], _Rates | None]


def topics(broker: Broker, rates_of: RatesOf, is_shown: Callable[[str], bool] = anything) -> Steps[dict[str, Any]]:
    """Return the number of shown topics, the first TOPICS_SHOWN_MAX by name, and the space of the disk, in steps.

    Each topic has the sums of its partitions.
    """
    every = yield from selected([*broker.topics.all()], lambda topic: is_shown(topic.name))
    rows = []
    for each in (yield from first_few(every, TOPICS_SHOWN_MAX, lambda topic: topic.name)):
        rows.append((yield from _topic_row(broker, each, rates_of)))
        yield
    return {
        "count": len(every),
        "topics": rows,
        "disk": broker.logs.disk_space and dict(zip(("size_bytes", "free_bytes"), broker.logs.disk_space, strict=True)),
    }


def _topic_row(broker: Broker, found: Topic, rates_of: RatesOf) -> Steps[dict[str, Any]]:
    logs, rates = broker.logs.partitions(found.name), rates_of(found.topic_id)
    offsets = size_bytes = 0
    for place, log in enumerate(logs):
        offsets += log.high_watermark - log.log_start_offset
        size_bytes += log.size_bytes
        if place % THINGS_PER_STEP == THINGS_PER_STEP - 1:
            yield
    return {
        "name": found.name,
        "is_internal": found.name in broker.internal_topics,
        "partitions": found.partitions,
        "offsets": offsets,
        "bytes": size_bytes,
        "records_per_s": rates and round(rates.records_per_s, 1),
        "bytes_per_s": rates and round(rates.bytes_per_s, 1),
        "settings": len(found.configs),
    }


def topic(
    broker: Broker, name: str, rates_of: RatesOf, *, has_configuration: bool = True
) -> Steps[dict[str, Any] | None]:
    """Return a topic with its configuration and first PARTITIONS_SHOWN_MAX partitions, in steps; None if unknown."""
    found = broker.topics.get(name)
    if found is None:
        return None
    logs = broker.logs.partitions(name)
    row = yield from _topic_row(broker, found, rates_of)
    yield
    return {
        **row,
        "id": found.topic_id.hex(),
        "partition_rows": [_partition(log) for log in logs[:PARTITIONS_SHOWN_MAX]],
        "configuration": _entries(topic_entries(found.configs, broker.settings)) if has_configuration else None,
    }


def _partition(log: PartitionLog) -> dict[str, Any]:
    return {
        "partition": log.partition,
        "start": log.log_start_offset,
        "stable": log.last_stable_offset,
        "end": log.high_watermark,
        "bytes": log.size_bytes,
    }


def configuration(broker: Broker) -> dict[str, Any]:
    return {"configuration": _entries(broker_entries(broker.settings))}


def _entries(entries: Iterable[Entry]) -> list[dict[str, Any]]:
    return [
        {
            "name": entry.definition.name,
            "value": None if entry.definition.sensitive else entry.value,
            "is_secret": entry.definition.sensitive,
            "is_read_only": entry.definition.read_only,
            "source": entry.source.name.lower().replace("_", " "),
            "is_default": entry.source.name == "DEFAULT",
            "documentation": entry.definition.documentation or "",
        }
        for entry in entries
    ]
