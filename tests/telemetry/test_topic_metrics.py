"""Metrics of topics: appends are read from the logs, other events are reported, and the number of series is bounded."""

import attrs
import pytest
from prometheus_client.parser import text_string_to_metric_families

from pipeline_broker.base.steps import finished
from pipeline_broker.records.errors import CHECKSUM, NO_KEY
from pipeline_broker.telemetry import topic_metrics
from pipeline_broker.telemetry.exposition import render
from pipeline_broker.telemetry.topic_metrics import TopicMetrics
from pipeline_broker.wire.messages.data.fetch import FetchResponse

ONE, OTHER = bytes([1]) * 16, bytes([2]) * 16


@attrs.define
class Totals:
    messages: int = 0
    size_bytes: int = 0
    batches: int = 0
    duplicates: int = 0


@attrs.define
class Log:
    topic: str


class Logs:
    """The logs of some topics."""

    def __init__(self, **topics):
        self.totals = {("", b""): Totals(), **{(name, name.encode()): totals for name, totals in topics.items()}}

    def delete(self, name):
        gone = self.totals.pop((name, name.encode()))
        deleted = self.totals["", b""]
        for field in attrs.fields(Totals):
            setattr(deleted, field.name, getattr(deleted, field.name) + getattr(gone, field.name))

    def metrics(self):
        return TopicMetrics(self._in_steps, {ONE: "t"}.get, lambda name: (name, name.encode()) in self.totals)

    def _in_steps(self):
        yield
        return {key: attrs.evolve(totals) for key, totals in self.totals.items()}


def scrape(metrics):
    """Values by Kafka's name in lower case and topic; None for all topics."""
    return {
        (sample.name.removeprefix("kafka_server_brokertopicmetrics_"), sample.labels.get("topic")): sample.value
        for family in text_string_to_metric_families(finished(render(metrics.families())).decode())
        for sample in family.samples
    }


def test_appends_since_the_metrics_began_are_read_from_the_logs():
    logs = Logs(t=Totals(messages=100, size_bytes=5000, batches=10), u=Totals())
    metrics = logs.metrics()
    logs.totals["t", b"t"] = Totals(messages=107, size_bytes=5300, batches=12, duplicates=1)
    logs.totals["u", b"u"] = Totals(messages=1, size_bytes=70, batches=1)
    samples = scrape(metrics)

    assert [samples["messagesin_total", topic] for topic in ("t", "u", None)] == [7, 1, 8]
    assert [samples["bytesin_total", topic] for topic in ("t", "u", None)] == [300, 70, 370]
    assert [samples["totalproducerequests_total", topic] for topic in ("t", "u", None)] == [3, 1, 4]


def test_a_deleted_topic_has_no_metrics_but_stays_in_those_of_all_topics():
    logs = Logs(t=Totals(messages=100), u=Totals(messages=5))
    metrics = logs.metrics()
    logs.totals["t", b"t"].messages = 107
    logs.delete("t")
    samples = scrape(metrics)

    assert ("messagesin_total", "t") not in samples
    assert samples["messagesin_total", None] == 7


def test_a_scrape_reads_all_logs_once_whatever_the_number_of_topics_at_the_start():
    looks = []

    def totals():
        looks.append(1)
        yield
        return {("", b""): Totals(), **{(f"t{number}", bytes([number])): Totals() for number in range(50)}}

    metrics = TopicMetrics(totals, {}.get, lambda _: True)
    looks.clear()
    scrape(metrics)
    assert len(looks) == 1


def test_refusals_are_produce_requests_and_some_of_them_failures():
    metrics = Logs(t=Totals(batches=2)).metrics()
    metrics.produce_refused("t")
    metrics.produce_refused("t", is_failure=True)
    metrics.produce_refused(None)
    metrics.bytes_rejected("t", 5000)
    metrics.records_faulty(CHECKSUM, 1)
    metrics.records_faulty(NO_KEY, 3)
    metrics.records_faulty("of another kind", 1)
    samples = scrape(metrics)

    assert [samples["totalproducerequests_total", topic] for topic in ("t", None)] == [2, 3]
    assert [samples["failedproducerequests_total", topic] for topic in ("t", None)] == [1, 1]
    assert [samples["bytesrejected_total", topic] for topic in ("t", None)] == [5000, 5000]
    assert samples["invalidmessagecrcrecords_total", None] == 1
    assert samples["nokeycompactedtopicrecords_total", None] == 3
    assert samples["invalidmagicnumberrecords_total", None] == 0


@pytest.mark.parametrize("named", [{"topic": "t"}, {"topic_id": ONE}], ids=["by name", "by id"])
def test_sent_bytes_are_those_of_the_response(named):
    metrics = Logs(t=Totals()).metrics()
    partitions = [
        FetchResponse.PartitionData(index, records=parts) for index, parts in enumerate(([b"ab", b"cde"], b""))
    ]
    gone = FetchResponse.FetchableTopicResponse(
        topic_id=OTHER, partitions=[FetchResponse.PartitionData(0, records=[b"123"])]
    )
    metrics.fetch_sent(
        FetchResponse(responses=[FetchResponse.FetchableTopicResponse(**named, partitions=partitions), gone])
    )
    samples = scrape(metrics)

    assert [samples["bytesout_total", topic] for topic in ("t", None)] == [5, 8]


def test_partitions_of_a_fetch_are_counted_and_so_are_failed_ones():
    metrics = Logs(t=Totals()).metrics()
    metrics.fetched([Log("t"), Log("t"), None])
    metrics.fetch_failed("t")
    samples = scrape(metrics)

    assert [samples["totalfetchrequests_total", topic] for topic in ("t", None)] == [2, 3]
    assert [samples["failedfetchrequests_total", topic] for topic in ("t", None)] == [1, 1]


def test_the_number_of_topics_with_metrics_of_their_own_is_bounded(monkeypatch):
    """The first topics by name are shown. Events of others count for all topics, and deleted topics free their
    series.
    """
    monkeypatch.setattr(topic_metrics, "TOPICS_MAX", 2)
    logs = Logs(a=Totals(), b=Totals(), c=Totals())
    metrics = logs.metrics()
    for name in ("a", "b", "c"):
        metrics.fetch_failed(name)
    samples = scrape(metrics)
    assert [samples.get(("failedfetchrequests_total", topic)) for topic in ("a", "b", "c", None)] == [1, 1, None, 3]

    logs.delete("a")
    metrics.drain()
    metrics.fetch_failed("c")
    samples = scrape(metrics)
    assert [samples.get(("failedfetchrequests_total", topic)) for topic in ("a", "b", "c", None)] == [None, 1, 1, 4]
