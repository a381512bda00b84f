"""Kafka's metrics of topics (`BrokerTopicMetrics`), in total and by topic.

Appends are read from the logs at a scrape, so they cost nothing: offsets are dense, and a log knows its bytes and
batches. Refusals, fetches and sent bytes leave no trace in a log, so their callers report them.

| Kafka | `kafka_server_brokertopicmetrics_...` | counted |
|---|---|---|
| MessagesInPerSec | messagesin_total | durable records |
| BytesInPerSec | bytesin_total | bytes of their batches |
| BytesOutPerSec | bytesout_total | bytes of batches in sent fetch responses |
| BytesRejectedPerSec | bytesrejected_total | bytes of batches above max.message.bytes |
| TotalProduceRequestsPerSec | totalproducerequests_total | produced partitions, with duplicates and refusals |
| TotalFetchRequestsPerSec | totalfetchrequests_total | partitions that a fetch read, each time |
| FailedProduceRequestsPerSec | failedproducerequests_total | partitions refused because of their records |
| FailedFetchRequestsPerSec | failedfetchrequests_total | partitions that the disk failed to read |
| InvalidMessageCrcRecordsPerSec | invalidmessagecrcrecords_total | batches with a wrong checksum; in total only |
| InvalidMagicNumberRecordsPerSec | invalidmagicnumberrecords_total | batches with another magic; in total only |
| InvalidOffsetOrSequenceRecordsPerSec | invalidoffsetorsequencerecords_total | records out of order; in total only |
| NoKeyCompactedTopicRecordsPerSec | nokeycompactedtopicrecords_total | records without a key; in total only |
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

import attrs

from pipeline_broker.base.steps import THINGS_PER_STEP, Steps, finished, first_few
from pipeline_broker.records.errors import CHECKSUM, MAGIC, NO_KEY, ORDER
from pipeline_broker.telemetry.exposition import Families, Labels, Sample, counter

__all__ = ["TopicMetrics"]

TOPICS_MAX = 1000
"""Topics with metrics of their own, the first by name."""
PREFIX = "kafka_server_brokertopicmetrics_"


class _Totals(Protocol):
    @property
    def messages(self) -> int: ...
    @property
    def size_bytes(self) -> int: ...
    @property
    def batches(self) -> int: ...
    @property
    def duplicates(self) -> int: ...


class _Log(Protocol):
    @property
    def topic(self) -> str: ...


@attrs.define
class _Counts:
    bytes_out: int = 0
    bytes_rejected: int = 0
    fetches: int = 0
    fetches_failed: int = 0
    produces_refused: int = 0
    produces_failed: int = 0


@attrs.define
class _Appended:
    messages: int = 0
    size_bytes: int = 0
    batches: int = 0
    duplicates: int = 0

    def add(self, totals: _Totals, sign: int = 1) -> None:
        self.messages += sign * totals.messages
        self.size_bytes += sign * totals.size_bytes
        self.batches += sign * totals.batches
        self.duplicates += sign * totals.duplicates


class TopicMetrics:
    """The metrics of topics.

    Only existing topics have series of their own, at most TOPICS_MAX, the first by name. The metrics of all topics
    include the deleted ones.

    Args:
        totals: returns the totals of the logs by topic name and id, in steps; deleted topics together have an empty
            name.
        topic_name: returns the name of a topic id, or None if the topic was deleted.
        exists: returns whether a topic exists.
    """

    def __init__(
        self,
        totals: Callable[[], Steps[Mapping[tuple[str, bytes], _Totals]]],
        topic_name: Callable[[bytes], str | None],
        exists: Callable[[str], bool],
    ) -> None:
        self._totals = totals
        self._topic_name, self._exists = topic_name, exists
        # The logs hold records of earlier runs. Metrics count from the start of the broker.
        self._before = dict(finished(totals()))
        self._all = _Counts()
        self._by_topic: dict[str, _Counts] = {}
        self._faults = dict.fromkeys(_FAULTS, 0)

    # Events, on the event loop

    def _counts(self, topic: str) -> tuple[_Counts, ...]:
        """Return the counts to increase for an event of an existing topic: of all topics, and its own if it has any."""
        counts = self._by_topic.get(topic)
        if counts is None:
            # Clients create topics, so the number of counts must have a bound.
            if len(self._by_topic) >= TOPICS_MAX:
                return (self._all,)
            counts = self._by_topic[topic] = _Counts()
        return self._all, counts

    def drain(self) -> None:
        """Drop the counts of deleted topics if the number of topics has reached the bound; call it regularly."""
        if len(self._by_topic) >= TOPICS_MAX:
            self._by_topic = {name: counts for name, counts in self._by_topic.items() if self._exists(name)}

    def produce_refused(self, topic: str | None, *, is_failure: bool = False) -> None:
        """Count a partition of a produce request that was not appended.

        Args:
            topic: the topic; None if it is unknown.
            is_failure: whether Kafka counts the refusal as a failed request.
        """
        for counts in self._counts(topic) if topic is not None else (self._all,):
            counts.produces_refused += 1
            counts.produces_failed += is_failure

    def bytes_rejected(self, topic: str, count: int) -> None:
        for counts in self._counts(topic):
            counts.bytes_rejected += count

    def records_faulty(self, fault: str, count: int) -> None:
        """Count records or batches that were refused for a fault (`records.errors`); Kafka counts only some faults."""
        if fault in self._faults:
            self._faults[fault] += count

    def fetched(self, logs: Iterable[_Log | None]) -> None:
        """Count the partitions of a fetch; None stands for an unknown partition."""
        for log in logs:
            for counts in self._counts(log.topic) if log is not None else (self._all,):
                counts.fetches += 1

    def fetch_failed(self, topic: str) -> None:
        for counts in self._counts(topic):
            counts.fetches_failed += 1

    def fetch_sent(self, response: Any) -> None:
        for topic in response.responses:
            size_bytes = sum(
                sum(map(len, partition.records)) if isinstance(partition.records, list) else len(partition.records)
                for partition in topic.partitions
                if partition.records
            )
            # Newer versions of Fetch have only the id of a topic.
            name = topic.topic or self._topic_name(topic.topic_id)
            if size_bytes:
                for counts in self._counts(name) if name is not None else (self._all,):
                    counts.bytes_out += size_bytes

    # For a scrape

    def families(self) -> Families:
        rows = yield from self._rows()
        for name, kafka, explanation, value in _FAMILIES:
            samples = [Sample(value(counts, appended), labels) for labels, counts, appended in rows]
            yield counter(f"{PREFIX}{name}_total", f"{explanation} ({kafka}).", *samples)
        for fault, (name, kafka, explanation) in _FAULTS.items():
            yield counter(f"{PREFIX}{name}_total", f"{explanation} ({kafka}).", Sample(self._faults[fault]))

    def _rows(self) -> Steps[list[tuple[Labels, _Counts, _Appended]]]:
        whole = _Appended()
        by_topic: dict[str, _Appended] = {}
        now = yield from self._totals()
        for index, ((name, topic_id), totals) in enumerate(now.items()):
            if index % THINGS_PER_STEP == 0:
                yield
            appended = _Appended()
            appended.add(totals)
            before = self._before.get((name, topic_id))
            if before is not None:
                appended.add(before, -1)
            whole.add(appended)
            if name:
                by_topic[name] = appended
        for index, ((name, topic_id), before) in enumerate(self._before.items()):
            if index % THINGS_PER_STEP == 0:
                yield
            if name and (name, topic_id) not in now:
                # The topic was deleted since startup. The totals of deleted topics include all that it ever had.
                whole.add(before, -1)
        shown = yield from first_few(by_topic, TOPICS_MAX, str)
        of_topics = [((("topic", name),), self._by_topic.get(name, _Counts()), by_topic[name]) for name in shown]
        return [((), self._all, whole), *of_topics]


_Value = Callable[[_Counts, _Appended], int]
_FAMILIES: tuple[tuple[str, str, str, _Value], ...] = (
    ("messagesin", "MessagesInPerSec", "Records appended, once durable", lambda _, appended: appended.messages),
    ("bytesin", "BytesInPerSec", "Bytes appended", lambda _, appended: appended.size_bytes),
    (
        "bytesout",
        "BytesOutPerSec",
        "Bytes of batches in fetch responses that were sent",
        lambda counts, _: counts.bytes_out,
    ),
    (
        "bytesrejected",
        "BytesRejectedPerSec",
        "Bytes of batches above max.message.bytes",
        lambda counts, _: counts.bytes_rejected,
    ),
    (
        "totalproducerequests",
        "TotalProduceRequestsPerSec",
        "Partitions of produce requests, with duplicates and refusals",
        lambda counts, appended: appended.batches + appended.duplicates + counts.produces_refused,
    ),
    (
        "totalfetchrequests",
        "TotalFetchRequestsPerSec",
        "Partitions of fetches, counted at each read; a waiting fetch reads more than once",
        lambda counts, _: counts.fetches,
    ),
    (
        "failedproducerequests",
        "FailedProduceRequestsPerSec",
        "Partitions of produce requests refused for their records; damaged and too large batches do not count",
        lambda counts, _: counts.produces_failed,
    ),
    (
        "failedfetchrequests",
        "FailedFetchRequestsPerSec",
        "Partitions of fetches that the disk failed to read",
        lambda counts, _: counts.fetches_failed,
    ),
)
_FAULTS = {
    CHECKSUM: (
        "invalidmessagecrcrecords",
        "InvalidMessageCrcRecordsPerSec",
        "Batches with a wrong checksum, of all topics together",
    ),
    MAGIC: (
        "invalidmagicnumberrecords",
        "InvalidMagicNumberRecordsPerSec",
        "Batches in an older format, of all topics together",
    ),
    ORDER: (
        "invalidoffsetorsequencerecords",
        "InvalidOffsetOrSequenceRecordsPerSec",
        "Batches with offsets that do not count up, or an impossible sequence, of all topics together",
    ),
    NO_KEY: (
        "nokeycompactedtopicrecords",
        "NoKeyCompactedTopicRecordsPerSec",
        "Records without a key for compacted topics, of all topics together",
    ),
}
