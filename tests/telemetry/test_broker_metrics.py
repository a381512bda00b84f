"""The text of a scrape is valid, whatever stands in it, and shows the server's statistics."""

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from pipeline_broker.telemetry.broker_metrics import BrokerMetrics
from pipeline_broker.telemetry.exposition import Sample, counter, gauge, render
from pipeline_broker.telemetry.measurements import Measurements
from pipeline_broker.telemetry.topic_metrics import TopicMetrics
from stages.acceptor import AcceptorStatistics
from stages.committer import CommitterStatistics
from stages.mode import PIPELINED
from stages.processor import ProcessorStatistics
from stages.request_channel import RequestQueueStatistics
from stages.request_handler import RequestHandlerStatistics
from stages.socket_server import SocketServerStatistics

SECOND_NS = 1_000_000_000


class Fetches(list):
    """Nobody waits, nothing is remembered."""

    watched = expired = partitions = evicted = 0


class Broker:
    fetches = fetch_sessions = Fetches()


def broker_metrics(loop_idle_ns, clock_ns):
    topics = TopicMetrics(dict, lambda topic_id: None)
    return BrokerMetrics(Measurements({}, PIPELINED), topics, Broker(), statistics, loop_idle_ns, clock_ns)


def statistics():
    return SocketServerStatistics(
        acceptors=(AcceptorStatistics("PLAINTEXT", accepted=5, rejected=1, blocked_seconds=0.25),),
        processors=(
            ProcessorStatistics(0, connections=2, connections_total=3, blocked=1, expired=1, new_waiting=0),
            ProcessorStatistics(1, connections=1, connections_total=2, blocked=0, expired=2, new_waiting=0),
        ),
        queues=(
            RequestQueueStatistics(0, depth=4, capacity=62, connections=2, put=9, depth_max=5, waiting_for_room=0),
            RequestQueueStatistics(1, depth=3, capacity=62, connections=1, put=9, depth_max=5, waiting_for_room=1),
        ),
        handlers=RequestHandlerStatistics(handlers=8, idle=8, handled=18, failed=1, blocking_works=2),
        committer=CommitterStatistics(
            commits=6, entries=18, size_bytes=1800, waiting=2, in_flight=1, entries_max=7, has_failed=False
        ),
    )


def samples_of(text):
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


class Time:
    """A clock, and how long the loop was idle."""

    now_ns = idle_ns = 0


def test_the_servers_statistics_are_under_kafkas_names():
    metrics = broker_metrics(lambda: 0, lambda: 0)
    samples = samples_of(metrics.render())

    assert samples["kafka_network_requestchannel_requestqueuesize",] == 7
    assert samples["pipeline_broker_request_queue_size", ("queue", "1")] == 3
    assert samples["kafka_server_socket_server_metrics_connection_count", ("networkprocessor", "0")] == 2
    assert samples["kafka_server_socket_server_metrics_connection_creation_total", ("networkprocessor", "1")] == 2
    assert samples["kafka_network_socketserver_expiredconnectionskilledcount",] == 3
    assert samples["kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent",] == 1.0
    assert samples["pipeline_broker_acceptor_blocked_seconds_total", ("listener", "PLAINTEXT")] == 0.25
    assert samples["pipeline_broker_commits_total",] == 6
    assert samples["pipeline_broker_commit_failed",] == 0


def test_the_loops_idle_share_follows_what_it_was_in_the_last_minutes():
    time = Time()
    metrics = broker_metrics(lambda: time.idle_ns, lambda: time.now_ns)
    name = ("kafka_network_socketserver_networkprocessoravgidle_percent",)
    assert samples_of(metrics.render())[name] == 1.0

    for _ in range(600):
        time.now_ns += SECOND_NS
        time.idle_ns += SECOND_NS // 4
        metrics.drain()

    assert abs(samples_of(metrics.render())[name] - 0.25) < 0.001


@given(st.text(), st.floats(allow_nan=False, allow_infinity=False), st.integers(-(2**70), 2**70))
def test_any_label_value_and_number_comes_back(text, real, whole):
    families = [
        gauge("a_gauge", "One.", Sample(real, (("label", text), ("other", "x"))), Sample(whole)),
        counter("a_counter_total", "Two.", Sample(abs(whole), (("label", text),))),
    ]
    samples = samples_of(render(families))

    assert samples == {
        ("a_gauge", ("label", text), ("other", "x")): real,
        ("a_gauge",): whole,
        ("a_counter_total", ("label", text)): abs(whole),
    }
