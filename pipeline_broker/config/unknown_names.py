"""Detection of misspelled property names.

Kafka ignores unknown names, so that files for other releases, or with properties of plug-ins, start. But a broker that
ignores a misspelled name runs without the setting. A name that is at most EDITS_MAX edits away from a known one is
therefore refused, unless a release of Kafka had it.
"""

from __future__ import annotations

from collections.abc import Iterable

from pipeline_broker.config.properties import PREFIXED

__all__ = ["EDITS_MAX", "FORMER_NAMES", "edits", "misspelled"]

EDITS_MAX = 2
"""Largest distance of a misspelling, in characters inserted, deleted or replaced."""

FORMER_NAMES = frozenset({
    "advertised.host.name", "advertised.port", "auto.create.topics", "broker.id.generation.enable", "brokerid",
    "controlled.shutdown.max.retries", "controlled.shutdown.retry.backoff.ms", "controller.message.queue.size",
    "controller.quorum.voters", "default.flush.interval.ms", "delegation.token.master.key", "enable.zookeeper",
    "fetch.min.bytes", "group.coordinator.new.enable", "group.share.enable", "group.share.max.groups",
    "group.share.record.lock.partition.limit", "host.name", "hostname", "inter.broker.protocol.version",
    "kafka.csv.metrics.dir", "kafka.csv.metrics.reporter.enabled", "kafka.metrics.polling.interval.secs",
    "kafka.metrics.reporters", "leader.imbalance.check.interval.seconds", "leader.imbalance.per.broker.percentage",
    "log.cleaner.enable", "log.cleanup.interval.mins", "log.default.flush.interval.ms",
    "log.default.flush.scheduler.interval.ms", "log.dir", "log.file.size", "log.flush.interval",
    "log.flush.interval.ms.per.topic", "log.flush.intervals.ms.per.topic", "log.message.downconversion.enable",
    "log.message.format.version", "log.message.timestamp.difference.max.ms", "log.retention.bytes.per.topic",
    "log.retention.hours.per.topic", "log.retention.size", "log.roll.hours.per.topic", "log.segment.bytes.per.topic",
    "max.message.size", "max.socket.request.bytes", "monitoring.period.secs", "num.threads",
    "offsets.commit.required.acks", "port", "producer.purgatory.purge.interval.requests", "quota.consumer.default",
    "quota.producer.default", "replica.lag.max.messages", "reserved.broker.max.id", "socket.receive.buffer",
    "socket.send.buffer", "topic.flush.intervals.ms", "topic.log.retention.hours", "topic.partition.count.map",
    "transaction.partition.verification.enable", "unstable.api.versions.enable", "unstable.feature.versions.enable",
    "zk.connect", "zk.connectiontimeout.ms", "zk.sessiontimeout.ms", "zk.synctime.ms", "zookeeper.connect",
    "zookeeper.connection.timeout.ms", "zookeeper.max.in.flight.requests", "zookeeper.session.timeout.ms",
    "zookeeper.set.acl", "zookeeper.sync.time.ms",
})  # fmt: skip
# Names of former Kafka releases since 0.7, and of consumer settings that some server.properties contain. Only names
# that are close to a current one need to be listed.


def misspelled(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that `name` probably misspells, or None.

    A prefix such as `listener.name.internal.` is left out of the comparison and kept in the result.
    """
    if name in FORMER_NAMES:
        return None
    prefixed = PREFIXED.fullmatch(name)
    rest = name if prefixed is None else prefixed[1]
    near = [(edits(rest, each), each) for each in known if abs(len(rest) - len(each)) <= EDITS_MAX]
    distance, nearest = min(near, default=(EDITS_MAX + 1, ""))
    return name.removesuffix(rest) + nearest if 0 < distance <= EDITS_MAX else None


def edits(first: str, second: str) -> int:
    """Return the Levenshtein distance of two names, or any number above EDITS_MAX if it is larger than that."""
    before = list(range(len(second) + 1))
    for row, letter in enumerate(first, 1):
        now = [row]
        for column, other in enumerate(second, 1):
            now.append(min(before[column] + 1, now[-1] + 1, before[column - 1] + (letter != other)))
        if min(now) > EDITS_MAX:
            return EDITS_MAX + 1
        before = now
    return before[-1]
