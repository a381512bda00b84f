"""Metrics of partitions and of the cluster, under the names that dashboards for Kafka query.

These are the names of kafka_exporter (`kafka_topic_...`, `kafka_brokers`), and the names that the JMX exporter's usual
rules give to Kafka's metrics (`kafka_log_...`, `kafka_cluster_...`, `kafka_controller_...`,
`kafka_server_replicamanager_...`).

Each partition has one replica and none is missing. Most values about leaders and replicas are constants.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Final, Protocol

from pipeline_broker.base.steps import THINGS_PER_STEP, first_few
from pipeline_broker.telemetry.exposition import Families, Family, Sample, counter, gauge

__all__ = ["PARTITIONS_MAX", "partition_families"]

PARTITIONS_MAX: Final = 1_000
"""Partitions in one scrape: about 1.5 MB of text."""
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


class _Leadership(Protocol):
    @property
    def broker_id(self) -> int: ...
    @property
    def members(self) -> Collection[int]: ...
    def is_there(self, node_id: int) -> bool: ...
    def controller_id(self) -> int: ...
    def offline_partitions(self) -> int: ...


_Value = Callable[[_Log], float]


def _constant(value: float) -> _Value:
    return lambda _: value


def _rows(node_id: int) -> tuple[tuple[str, str, _Value], ...]:
    end: _Value = lambda log: log.high_watermark  # noqa: E731 - a row of a table
    return (
        (f"{EXPORTER}current_offset", "End offset of a partition.", end),
        (f"{EXPORTER}oldest_offset", "Start offset of a partition.", lambda log: log.log_start_offset),
        (f"{EXPORTER}leader", "Id of the leader of a partition: this broker.", _constant(node_id)),
        (f"{EXPORTER}leader_is_preferred", "1, because the preferred broker leads.", _constant(1)),
        (f"{EXPORTER}replicas", "Replicas of a partition: 1.", _constant(1)),
        (f"{EXPORTER}in_sync_replica", "In-sync replicas of a partition: 1.", _constant(1)),
        (f"{EXPORTER}under_replicated_partition", "1 if a replica is not in sync: always 0.", _constant(0)),
        (f"{LOG}size", "Bytes in a log (Size).", lambda log: log.size_bytes),
        (f"{LOG}logstartoffset", "Start offset of a log (LogStartOffset).", lambda log: log.log_start_offset),
        (f"{LOG}logendoffset", "End offset of a log (LogEndOffset).", end),
        (f"{PARTITION}underminisr", "1 if too few replicas are in sync: always 0 (UnderMinIsr).", _constant(0)),
        (f"{PARTITION}atminisr", "1, because just enough replicas are in sync (AtMinIsr).", _constant(1)),
    )


def partition_families(
    topics: Sequence[str],
    logs_of: Callable[[str], Sequence[_Log]],
    leadership: _Leadership,
    *,
    partitions_of_all: int,
    can_write: bool,
) -> Families:
    """Yield the metrics of at most PARTITIONS_MAX partitions, and of the cluster; None where other tasks may run.

    The partitions of the first topics by name are shown, and a metric counts the omitted ones.

    Args:
        topics: the names of all topics; a copy, which must not change between two steps.
        logs_of: returns the logs of a topic; empty if the topic was deleted.
        leadership: the brokers of the cluster, as this broker knows them.
        partitions_of_all: number of the partitions of all brokers.
        can_write: whether the disk or the store accepts records.
    """
    partitions = 0
    for number, name in enumerate(topics, 1):
        partitions += len(logs_of(name))
        if number % THINGS_PER_STEP == 0:
            yield None
    rows = _rows(leadership.broker_id)
    counts: list[Sample] = []
    samples: list[list[Sample]] = [[] for _ in rows]
    shown = 0
    for topic in (yield from first_few(topics, PARTITIONS_MAX, str)):
        logs = logs_of(topic)
        # Stop before a topic that does not fit, so that every shown topic is complete.
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
    active = sum(map(leadership.is_there, leadership.members))
    yield gauge("kafka_brokers", "Brokers of the cluster that are up.", Sample(active))
    yield gauge("kafka_topic_partitions", "Partitions of a topic.", *counts)
    for (name, explanation, _), found in zip(rows, samples, strict=True):
        yield gauge(name, explanation, *found)
    yield gauge(
        "pipeline_broker_partitions_left_out", "Partitions beyond the limit of a scrape.", Sample(partitions - shown)
    )
    yield from _broker_families(leadership, active)
    yield from _cluster_families(len(topics), partitions, partitions_of_all, can_write=can_write)


def _broker_families(leadership: _Leadership, active: int) -> Iterator[Family]:
    is_controller = leadership.controller_id() == leadership.broker_id
    for name, explanation, value in (
        ("activecontrollercount", "1 on the controller, 0 on other brokers (ActiveControllerCount).", is_controller),
        ("activebrokercount", "Brokers of the cluster that are up (ActiveBrokerCount).", active),
        (
            "fencedbrokercount",
            "Brokers of the cluster that are down (FencedBrokerCount).",
            len(leadership.members) - active,
        ),
        (
            "offlinepartitionscount",
            "Partitions of the cluster whose leaders are down (OfflinePartitionsCount).",
            leadership.offline_partitions(),
        ),
    ):
        yield gauge(f"{CONTROLLER}{name}", explanation, Sample(int(value)))


def _cluster_families(topics: int, partitions: int, of_all: int, *, can_write: bool) -> Iterator[Family]:
    offline = 0 if can_write else 1
    for name, explanation, value in (
        (f"{REPLICAS}partitioncount", "Partitions on this broker (PartitionCount).", partitions),
        (f"{REPLICAS}leadercount", "Partitions that this broker leads: all (LeaderCount).", partitions),
        (f"{REPLICAS}underreplicatedpartitions", "Partitions with missing replicas: 0 (UnderReplicatedPartitions).", 0),
        (
            f"{REPLICAS}underminisrpartitioncount",
            "Partitions with too few replicas in sync: 0 (UnderMinIsrPartitionCount).",
            0,
        ),
        (
            f"{REPLICAS}atminisrpartitioncount",
            "Partitions with just enough replicas in sync: all (AtMinIsrPartitionCount).",
            partitions,
        ),
        (
            f"{REPLICAS}offlinereplicacount",
            "Offline replicas: all while nothing can be written, else 0 (OfflineReplicaCount).",
            partitions * offline,
        ),
        (f"{REPLICAS}reassigningpartitions", "Partitions under reassignment: 0 (ReassigningPartitions).", 0),
        (f"{CONTROLLER}globaltopiccount", "Topics (GlobalTopicCount).", topics),
        (f"{CONTROLLER}globalpartitioncount", "Partitions of all brokers (GlobalPartitionCount).", of_all),
        (
            f"{CONTROLLER}preferredreplicaimbalancecount",
            "Partitions that another broker leads: 0 (PreferredReplicaImbalanceCount).",
            0,
        ),
        (
            "kafka_log_logmanager_offlinelogdirectorycount",
            "Log directories that cannot be written: 1 or 0 (OfflineLogDirectoryCount).",
            offline,
        ),
    ):
        yield gauge(name, explanation, Sample(value))
    for name, explanation in (
        (f"{REPLICAS}isrshrinks_total", "Replicas that left the in-sync replicas: 0 (IsrShrinksPerSec)."),
        (f"{REPLICAS}isrexpands_total", "Replicas that joined the in-sync replicas: 0 (IsrExpandsPerSec)."),
        (f"{REPLICAS}failedisrupdates_total", "Failed updates of in-sync replicas: 0 (FailedIsrUpdatesPerSec)."),
        (
            "kafka_controller_controllerstats_uncleanleaderelections_total",
            "Elections of a leader that lost records: 0 (UncleanLeaderElectionsPerSec).",
        ),
    ):
        yield counter(name, explanation, Sample(0))
