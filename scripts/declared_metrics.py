"""The metrics of a broker as it declares them: name, kind, help and Kafka's name.

The families are made for a broker without topics, groups and connections, so only their declarations are of use.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from pipeline_broker.base.steps import Steps
from pipeline_broker.telemetry.broker_metrics import BrokerMetrics
from pipeline_broker.telemetry.measurements import Measurements
from pipeline_broker.telemetry.partition_metrics import partition_families
from pipeline_broker.telemetry.store_metrics import store_families
from pipeline_broker.telemetry.topic_metrics import TopicMetrics
from stages.mode import PIPELINED

__all__ = ["SECTIONS", "DeclaredMetric", "declared_metrics", "section_of"]

SECTIONS = {
    "requests": "kafka_network_requestmetrics_ pipeline_broker_requests_ pipeline_broker_metrics_ "
    "pipeline_broker_loop_",
    "topics": "kafka_server_brokertopicmetrics_",
    "fetches": "kafka_server_delayed kafka_server_fetchsessioncache_",
    "partitions": "kafka_brokers kafka_topic_ kafka_log_log_ kafka_log_logmanager_ kafka_cluster_ kafka_controller_ "
    "kafka_server_replicamanager_ pipeline_broker_partitions_",
    "groups": "kafka_consumergroup_ pipeline_broker_consumergroup_",
    "state held by clients": "pipeline_broker_held_",
    "the object store": "pipeline_broker_store_ pipeline_broker_journal_",
    "the request log": "pipeline_broker_request_log_",
    "queues and handlers": "kafka_network_requestchannel_ kafka_server_kafkarequesthandlerpool_ "
    "pipeline_broker_request_ pipeline_broker_blocking_",
    "commits": "kafka_log_logflushstats_ pipeline_broker_commit pipeline_broker_writes_ pipeline_broker_disk_ "
    "pipeline_broker_topics_",
    "refusals": "pipeline_broker_failed_ pipeline_broker_denials_",
    "startup": "pipeline_broker_set_aside_",
    "connections": "kafka_network_ kafka_server_socket_ pipeline_broker_",
}
"""Sections of docs/reference/metrics.md, each with prefixes of names; the first match counts."""

KAFKA_NAME = re.compile(r" \(([A-Z]\w+|[a-z]+(?:-[a-z]+)*)\)\.$")
NAME_IN_TEXT = re.compile(r"(?<![\w`])(--[a-z]+|[a-z]+(?:[._][a-z]+)+)(?!\w)")


class DeclaredMetric(NamedTuple):
    """A metric as the page shows it."""

    name: str
    kind: str
    meaning: str
    kafka_name: str


class _Nothing(int):
    """The number 0, without elements; its attributes and results are the same."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return None if name == "disk_space" else self

    def __call__(self, *_arguments: object) -> Any:
        return self

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def __len__(self) -> int:
        return 0


class _Server(_Nothing):
    """A server at rest."""

    def loop_idle_ns(self) -> tuple[int, int]:
        return 0, 0


def _no_totals() -> Steps[Mapping[tuple[str, bytes], Any]]:
    yield from ()
    return {}


def declared_metrics() -> list[DeclaredMetric]:
    """Return all metrics in the order of a scrape."""
    nothing: Any = _Nothing()
    server: Any = _Server()
    metrics = BrokerMetrics(
        Measurements({}, PIPELINED),
        TopicMetrics(_no_totals, lambda _: None, lambda _: False),
        nothing,
        server,
        store=lambda: store_families(nothing),
        partitions=lambda: partition_families((), lambda _: (), nothing, partitions_of_all=0, can_write=True),
    )
    found = []
    for family in metrics._families():  # noqa: SLF001 - the text of a scrape omits metrics without a value
        if family is not None:
            kafka = KAFKA_NAME.search(family.explanation)
            meaning = KAFKA_NAME.sub("", family.explanation).removesuffix(".")
            meaning = NAME_IN_TEXT.sub(r"`\1`", meaning)
            found.append(DeclaredMetric(family.name, family.kind, meaning, kafka[1] if kafka else ""))
    return found


def section_of(name: str) -> str:
    """Return the section of the page that shows a metric."""
    return next(section for section, beginnings in SECTIONS.items() if name.startswith(tuple(beginnings.split())))
