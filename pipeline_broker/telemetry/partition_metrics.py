"""Metrics of partitions and of the cluster, under the names that dashboards for Kafka ask for.

Rules of this file: it reads what the broker keeps anyway, when a client asks. The names are those of kafka_exporter
(`kafka_topic_...`, `kafka_brokers`) and those that the JMX exporter's usual rules give to Kafka's own (`kafka_log_...`,
`kafka_cluster_...`, `kafka_controller_...`, `kafka_server_replicamanager_...`). One broker has every partition, so it
leads all of them and no replica is missing; these values are constants. A scrape shows PARTITIONS_MAX partitions at
most, those of the first topics by name; a metric says how many are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, Protocol

from pipeline_broker.base.steps import THINGS_PER_STEP, first_few
from pipeline_broker.telemetry.exposition import Families, Family, Sample, counter, gauge

__all__ = ["PARTITIONS_MAX", "partition_families"]

PARTITIONS_MAX: Final = 1_000
"""Of one scrape: some 1.5 MB of text."""
PARTITIONS_PER_STEP: Final = 64
EXPORTER, LOG, PARTITION = "kafka_topic_partition_", "kafka_log_log_", "kafka_cluster_partition_"
REPLICAS, CONTROLLER = "kafka_server_replicamanager_", "kafka_controller_kafkacontroller_"


class _Log(Protocol):
    @property
    def partition(self) -> int: ...
    @property
    def log_start_offset(self) -> int: ...
    @property
    def high_watermark(self) -> int: ...
    @property
    def size_bytes(self) -> int: ...


_Value = Callable[[_Log], float]


def _constant(value: float) -> _Value:
    return lambda _: value


def _rows(node_id: int) -> tuple[tuple[str, str, _Value], ...]:
    """Name, explanation and value of what each partition has."""
    end: _Value = lambda log: log.high_watermark  # noqa: E731 - a row of a table
    return (
        (f"{EXPORTER}current_offset", "End of the partition.", end),
        (f"{EXPORTER}oldest_offset", "Start of the partition.", lambda log: log.log_start_offset),
        (f"{EXPORTER}leader", "Id of the broker that leads.", _constant(node_id)),
        (f"{EXPORTER}leader_is_preferred", "1: the preferred broker leads.", _constant(1)),
        (f"{EXPORTER}replicas", "Replicas.", _constant(1)),
        (f"{EXPORTER}in_sync_replica", "Replicas in sync.", _constant(1)),
        (f"{EXPORTER}under_replicated_partition", "1: a replica is not in sync.", _constant(0)),
        (f"{LOG}size", "Bytes of the log (Size).", lambda log: log.size_bytes),
        (f"{LOG}logstartoffset", "Its start (LogStartOffset).", lambda log: log.log_start_offset),
        (f"{LOG}logendoffset", "Its end (LogEndOffset).", end),
        (f"{PARTITION}underminisr", "1: too few replicas in sync (UnderMinIsr).", _constant(0)),
        (f"{PARTITION}atminisr", "1: just enough replicas in sync (AtMinIsr).", _constant(1)),
    )


def partition_families(
    topics: Sequence[str], logs_of: Callable[[str], Sequence[_Log]], node_id: int, *, can_write: bool
) -> Families:
    """As they stand.

    Args:
        topics: the names of all topics; a copy, which does not change between two steps.
        logs_of: returns the logs of a topic; none once it is deleted.
        node_id: of the broker.
        can_write: whether its disk, or its store, takes records.
    """
    partitions = 0
    for place, name in enumerate(topics, 1):
        partitions += len(logs_of(name))
        if place % THINGS_PER_STEP == 0:
            yield None
    rows = _rows(node_id)
    counts: list[Sample] = []
    samples: list[list[Sample]] = [[] for _ in rows]
    shown = 0
    for topic in (yield from first_few(topics, PARTITIONS_MAX, str)):
        logs = logs_of(topic)
        if shown + len(logs) > PARTITIONS_MAX:
            break
        counts.append(Sample(len(logs), (("topic", topic),)))
        for log in logs:
            labels = (("topic", topic), ("partition", str(log.partition)))
            for (_, _, value), found in zip(rows, samples, strict=True):
                found.append(Sample(value(log), labels))
            shown += 1
            if shown % PARTITIONS_PER_STEP == 0:
                yield None
    yield gauge("kafka_brokers", "Brokers of the cluster.", Sample(1))
    yield gauge("kafka_topic_partitions", "Partitions of a topic.", *counts)
    for (name, explanation, _), found in zip(rows, samples, strict=True):
        yield gauge(name, explanation, *found)
    yield gauge(
        "pipeline_broker_partitions_left_out", "Partitions that a scrape has no room for.", Sample(partitions - shown)
    )
    yield from _cluster_families(len(topics), partitions, can_write=can_write)


def _cluster_families(topics: int, partitions: int, *, can_write: bool) -> Iterator[Family]:
    offline = 0 if can_write else 1
    for name, explanation, value in (
        (f"{REPLICAS}partitioncount", "Partitions (PartitionCount).", partitions),
        (f"{REPLICAS}leadercount", "Of them, led by this broker (LeaderCount).", partitions),
        (f"{REPLICAS}underreplicatedpartitions", "Of them, with missing replicas (UnderReplicatedPartitions).", 0),
        (
            f"{REPLICAS}underminisrpartitioncount",
            "Partitions with too few replicas in sync (UnderMinIsrPartitionCount).",
            0,
        ),
        (f"{REPLICAS}atminisrpartitioncount", "Partitions with just enough (AtMinIsrPartitionCount).", partitions),
        (f"{REPLICAS}offlinereplicacount", "Replicas that are offline (OfflineReplicaCount).", partitions * offline),
        (f"{REPLICAS}reassigningpartitions", "Partitions being moved (ReassigningPartitions).", 0),
        (f"{CONTROLLER}activecontrollercount", "1: this broker is the controller (ActiveControllerCount).", 1),
        (f"{CONTROLLER}activebrokercount", "Brokers that serve (ActiveBrokerCount).", 1),
        (f"{CONTROLLER}fencedbrokercount", "Brokers that do not (FencedBrokerCount).", 0),
        (f"{CONTROLLER}globaltopiccount", "Topics (GlobalTopicCount).", topics),
        (f"{CONTROLLER}globalpartitioncount", "Partitions (GlobalPartitionCount).", partitions),
        (f"{CONTROLLER}offlinepartitionscount", "Partitions without a leader (OfflinePartitionsCount).", 0),
        (
            f"{CONTROLLER}preferredreplicaimbalancecount",
            "Partitions that another broker leads (PreferredReplicaImbalanceCount).",
            0,
        ),
        (
            "kafka_log_logmanager_offlinelogdirectorycount",
            "Log directories that take no records (OfflineLogDirectoryCount).",
            offline,
        ),
    ):
        yield gauge(name, explanation, Sample(value))
    for name, explanation in (
        (f"{REPLICAS}isrshrinks_total", "Replicas that fell behind (IsrShrinksPerSec)."),
        (f"{REPLICAS}isrexpands_total", "Replicas that caught up (IsrExpandsPerSec)."),
        (f"{REPLICAS}failedisrupdates_total", "Changes of replicas in sync that failed (FailedIsrUpdatesPerSec)."),
        (
            "kafka_controller_controllerstats_uncleanleaderelections_total",
            "Leaders that lost records (UncleanLeaderElectionsPerSec).",
        ),
    ):
        yield counter(name, explanation, Sample(0))
