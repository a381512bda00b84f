"""Kafka's metrics of topics (`BrokerTopicMetrics`), of all topics and of each.

Rules of this file: what was appended is read from the logs themselves when somebody asks, so that a record costs
nothing: offsets are dense, and a log knows its bytes and its batches. What leaves no trace in a log (refusals, reads,
bytes sent) is told by whoever sees it. Only topics that exist have metrics of their own, and only the TOPICS_MAX first
of them by name; the metrics of all topics keep what deleted ones had.

| Kafka | `kafka_server_brokertopicmetrics_...` | counted |
|---|---|---|
| MessagesInPerSec | messagesin_total | records, when they are durable |
| BytesInPerSec | bytesin_total | bytes of their batches |
| BytesOutPerSec | bytesout_total | bytes of batches in fetch responses that were sent |
| BytesRejectedPerSec | bytesrejected_total | bytes of batches above max.message.bytes |
| TotalProduceRequestsPerSec | totalproducerequests_total | partitions of produce requests, duplicates, refusals too |
| TotalFetchRequestsPerSec | totalfetchrequests_total | partitions that fetches looked at, each time |
| FailedProduceRequestsPerSec | failedproducerequests_total | of the first, those refused for what their records are |
| FailedFetchRequestsPerSec | failedfetchrequests_total | of the second, those that the disk failed |
| InvalidMessageCrcRecordsPerSec | invalidmessagecrcrecords_total | batches with a wrong checksum; all topics |
| InvalidMagicNumberRecordsPerSec | invalidmagicnumberrecords_total | batches of another magic; all topics |
| InvalidOffsetOrSequenceRecordsPerSec | invalidoffsetorsequencerecords_total | records out of order; all topics |
| NoKeyCompactedTopicRecordsPerSec | nokeycompactedtopicrecords_total | records without a key; all topics |
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
PREFIX = "kafka_server_brokertopicmetrics_"


class _Totals(Protocol):
    """What is read of `log.log_manager.LogTotals`."""

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
    """What was told of one topic, or of all."""

    bytes_out: int = 0
    bytes_rejected: int = 0
    fetches: int = 0
    fetches_failed: int = 0
    produces_refused: int = 0
    produces_failed: int = 0


@attrs.define
class _Appended:
    """What was appended to one topic, or to all, since the metrics began."""

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
    """See the rules of the file.

    Args:
        totals: what the logs of each topic hold, by name and id of the topic, in steps; those of deleted topics under
            no name.
        topic_name: the name of a topic by its id; None for one that is gone.
        exists: whether there is a topic of a name.
    """

    def __init__(
        self,
        totals: Callable[[], Steps[Mapping[tuple[str, bytes], _Totals]]],
        topic_name: Callable[[bytes], str | None],
        exists: Callable[[str], bool],
    ) -> None:
        self._totals = totals
        self._topic_name, self._exists = topic_name, exists
        self._before = dict(finished(totals()))
        self._all = _Counts()
        self._by_topic: dict[str, _Counts] = {}
        self._faults = dict.fromkeys(_FAULTS, 0)

    # Told on the event loop

    def _counts(self, topic: str) -> tuple[_Counts, ...]:
        """Of all topics and of this one, which exists."""
        counts = self._by_topic.get(topic)
        if counts is None:
            if len(self._by_topic) >= TOPICS_MAX:
                return (self._all,)
            counts = self._by_topic[topic] = _Counts()
        return self._all, counts

    def drain(self) -> None:
        """Make room for topics that have no counts of their own yet; call it now and then."""
        if len(self._by_topic) >= TOPICS_MAX:
            self._by_topic = {name: counts for name, counts in self._by_topic.items() if self._exists(name)}

    def produce_refused(self, topic: str | None, *, is_failure: bool = False) -> None:
        """One partition of a produce request was not appended to; without a topic when nobody knows it."""
        for counts in self._counts(topic) if topic is not None else (self._all,):
            counts.produces_refused += 1
            counts.produces_failed += is_failure

    def bytes_rejected(self, topic: str, count: int) -> None:
        """A batch of so many bytes is above the topic's limit."""
        for counts in self._counts(topic):
            counts.bytes_rejected += count

    def records_faulty(self, fault: str, count: int) -> None:
        """Records, or their batch, were refused for a fault; see `records.errors`. Kafka counts some of them."""
        if fault in self._faults:
            self._faults[fault] += count

    def fetched(self, logs: Iterable[_Log | None]) -> None:
        """A fetch looked at these partitions; None for one that does not exist."""
        for log in logs:
            for counts in self._counts(log.topic) if log is not None else (self._all,):
                counts.fetches += 1

    def fetch_failed(self, topic: str) -> None:
        """A partition could not be read."""
        for counts in self._counts(topic):
            counts.fetches_failed += 1

    def fetch_sent(self, response: Any) -> None:
        for topic in response.responses:
            size_bytes = sum(
                sum(map(len, partition.records)) if isinstance(partition.records, list) else len(partition.records)
                for partition in topic.partitions
                if partition.records
            )
            name = topic.topic or self._topic_name(topic.topic_id)
            if size_bytes:
                for counts in self._counts(name) if name is not None else (self._all,):
                    counts.bytes_out += size_bytes

    # For a scrape

    def families(self) -> Families:
        """Everything so far."""
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
        for place, ((name, topic_id), totals) in enumerate(now.items()):
            if place % THINGS_PER_STEP == 0:
                yield
            appended = _Appended()
            appended.add(totals)
            before = self._before.get((name, topic_id))
            if before is not None:
                appended.add(before, -1)
            whole.add(appended)
            if name:
                by_topic[name] = appended
        for place, ((name, topic_id), before) in enumerate(self._before.items()):
            if place % THINGS_PER_STEP == 0:
                yield
            if name and (name, topic_id) not in now:
                whole.add(before, -1)  # deleted since: it stands among the deleted ones as a whole
        shown = yield from first_few(by_topic, TOPICS_MAX, str)
        of_topics = [((("topic", name),), self._by_topic.get(name, _Counts()), by_topic[name]) for name in shown]
        return [((), self._all, whole), *of_topics]


_Value = Callable[[_Counts, _Appended], int]
_FAMILIES: tuple[tuple[str, str, str, _Value], ...] = (
    ("messagesin", "MessagesInPerSec", "Records appended", lambda _, appended: appended.messages),
    ("bytesin", "BytesInPerSec", "Bytes appended", lambda _, appended: appended.size_bytes),
    ("bytesout", "BytesOutPerSec", "Bytes fetched", lambda counts, _: counts.bytes_out),
    ("bytesrejected", "BytesRejectedPerSec", "Bytes of too large batches", lambda counts, _: counts.bytes_rejected),
    (
        "totalproducerequests",
        "TotalProduceRequestsPerSec",
        "Partitions of produce requests",
        lambda counts, appended: appended.batches + appended.duplicates + counts.produces_refused,
    ),
    ("totalfetchrequests", "TotalFetchRequestsPerSec", "Partitions of fetches", lambda counts, _: counts.fetches),
    (
        "failedproducerequests",
        "FailedProduceRequestsPerSec",
        "Of them, refused for what their records are",
        lambda counts, _: counts.produces_failed,
    ),
    (
        "failedfetchrequests",
        "FailedFetchRequestsPerSec",
        "Of them, failed by the disk",
        lambda counts, _: counts.fetches_failed,
    ),
)
_FAULTS = {
    CHECKSUM: (
        "invalidmessagecrcrecords",
        "InvalidMessageCrcRecordsPerSec",
        "Batches with a wrong checksum",
    ),
    MAGIC: (
        "invalidmagicnumberrecords",
        "InvalidMagicNumberRecordsPerSec",
        "Batches of another magic",
    ),
    ORDER: (
        "invalidoffsetorsequencerecords",
        "InvalidOffsetOrSequenceRecordsPerSec",
        "Records out of order",
    ),
    NO_KEY: (
        "nokeycompactedtopicrecords",
        "NoKeyCompactedTopicRecordsPerSec",
        "Records without a key for compacted topics",
    ),
}
