"""The text of a scrape is valid whatever labels contain, and shows the server's statistics."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from pipeline_broker.apis.call import Session
from pipeline_broker.base.steps import finished
from pipeline_broker.broker.held_by_clients import HeldState
from pipeline_broker.security.refusals import Refusals
from pipeline_broker.state.set_aside import SetAside
from pipeline_broker.telemetry.broker_metrics import BrokerMetrics
from pipeline_broker.telemetry.exposition import Sample, counter, gauge, render
from pipeline_broker.telemetry.measurements import Measurements
from pipeline_broker.telemetry.network_metrics import SOFTWARE_MAX
from pipeline_broker.telemetry.topic_metrics import TopicMetrics
from stages.acceptor import AcceptorStatistics
from stages.committer import CommitterStatistics
from stages.connection_quotas import ConnectionQuotaStatistics
from stages.loop_turns import TurnsOf
from stages.mode import PIPELINED
from stages.network_counters import NetworkCounters
from stages.processor import ProcessorStatistics
from stages.request_channel import RequestQueueStatistics
from stages.request_handler import RequestHandlerStatistics
from stages.request_plane import RequestPlaneStatistics
from stages.served_listener import ListenerStatistics
from stages.server_statistics import SocketServerStatistics

SECOND_NS = 1_000_000_000


class Fetches(list):
    """Fetch states without waiting fetches or sessions."""

    watched = expired = partitions = evicted = 0


class Logs:
    disk_space = None
    topics_synced_later = 0


class Broker:
    logs = Logs()
    failed_logins, denials = Refusals(lambda: 0), Refusals(lambda: 0)
    fetches = fetch_sessions = Fetches()
    set_aside = SetAside()
    can_write = True


class Memory:
    bytes_max, bytes_held, depleted_ns = 1000, 300, 7


class Server:
    """A server as `statistics` tells, whose loop is idle as `time` says."""

    memory = Memory()

    def __init__(self, time, statistics, sessions=()):
        self._time = time
        self.statistics = statistics
        self._sessions = sessions

    def connections(self):
        return [("PLAINTEXT", 0, session) for session in self._sessions]

    def accept_rate(self):
        return 3.5

    def loop_idle_ns(self):
        return self._time.idle_ns, self._time.observed_ns


class Time:
    """A clock, and the idle and observed time of an event loop."""

    now_ns = idle_ns = observed_ns = 0


def nothing_in_steps():
    yield
    return {}


def broker_metrics(time=None, statistics=None, sessions=(), request_log=lambda: None):
    time = time or Time()
    server = Server(time, statistics or default_statistics, sessions)
    topics = TopicMetrics(nothing_in_steps, lambda topic_id: None, lambda _: True)
    measurements = Measurements({}, PIPELINED)
    held = [HeldState("groups", "bytes", 7, 1000, "pipeline.group.bytes")]
    return BrokerMetrics(measurements, topics, Broker(), server, request_log, lambda: held, lambda: time.now_ns)


def default_statistics():
    return SocketServerStatistics(
        acceptors=(
            AcceptorStatistics("PLAINTEXT", accepted=5, rejected=1, blocked_seconds=0.25, overflows=3),
            AcceptorStatistics("ADMIN", accepted=1, rejected=0, blocked_seconds=0.0),
        ),
        processors=(
            processor(0, connections=2, blocked=1, unsent=4, created=3, closed=1, bytes_in=100, authenticated=2),
            processor(1, connections=1, blocked=0, unsent=0, created=2, closed=1, authentication_expired=1, expired=7),
            processor(2, "ADMIN", connections=1, blocked=0, unsent=1, created=1, requests_in=9, responses_out=8),
        ),
        queues=(
            RequestQueueStatistics(0, depth=4, capacity=62, connections=2, put=9, depth_max=5, waiting_for_room=0),
            RequestQueueStatistics(1, depth=3, capacity=62, connections=1, put=9, depth_max=5, waiting_for_room=1),
        ),
        handlers=RequestHandlerStatistics(handlers=8, idle=8, handled=18, failed=1, blocking_works=2),
        committer=CommitterStatistics(
            commits=6,
            entries=18,
            size_bytes=1800,
            duration_ns=9_000,
            waiting=2,
            in_flight=1,
            entries_max=7,
            has_failed=False,
        ),
        control_plane=RequestPlaneStatistics(
            queues=(RequestQueueStatistics(-1, 2, capacity=20, connections=1, put=2, depth_max=2, waiting_for_room=0),),
            handlers=RequestHandlerStatistics(handlers=1, idle=0, handled=3, failed=1, blocking_works=0),
        ),
        listeners=(
            ListenerStatistics(
                "PLAINTEXT", 9092, 2, 3, NetworkCounters(), ConnectionQuotaStatistics(3, 2.5, 4, 1, 0.5)
            ),
            ListenerStatistics("ADMIN", 9093, 1, 1, NetworkCounters(), None),
        ),
        turns=(TurnsOf(3, 0.024, 2), TurnsOf(999, 0.002, 0), TurnsOf("commit", 0.001, 0)),
    )


def processor(number, listener="PLAINTEXT", *, connections, blocked, unsent, expired=0, **counters):
    return ProcessorStatistics(
        number,
        connections=connections,
        connections_total=counters["created"],
        blocked=blocked,
        expired=expired,
        new_waiting=0,
        listener=listener,
        counters=NetworkCounters(expired=expired, **counters),
        unsent_responses=unsent,
    )


def samples_of(steps):
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(finished(steps).decode())
        for sample in family.samples
    }


PLAIN = (("listener", "PLAINTEXT"), ("networkprocessor", "0"))
ADMIN = (("listener", "ADMIN"), ("networkprocessor", "2"))
SOCKETS = "kafka_server_socket_server_metrics_"


def test_the_servers_statistics_are_under_kafkas_names():
    samples = samples_of(broker_metrics().render())

    assert samples["kafka_network_requestchannel_requestqueuesize",] == 7
    assert samples["kafka_network_requestchannel_controlplanerequestqueuesize",] == 2
    assert [samples["pipeline_broker_request_queue_size", ("queue", queue)] for queue in ("-1", "0", "1")] == [2, 4, 3]
    assert samples["kafka_network_requestchannel_responsequeuesize",] == 5
    assert samples["kafka_network_requestchannel_responsequeuesize", ("processor", "0")] == 4
    assert samples["kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent",] == 1.0
    assert samples["pipeline_broker_acceptor_blocked_seconds_total", ("listener", "PLAINTEXT")] == 0.25
    assert samples["pipeline_broker_accept_overflows_total", ("listener", "PLAINTEXT")] == 3
    assert samples["pipeline_broker_commits_total",] == 6
    assert samples["pipeline_broker_commit_failed",] == 0
    assert samples["pipeline_broker_writes_refused",] == 0
    assert samples["pipeline_broker_requests_failed_total",] == 2


def test_refusals_are_counted_by_kind():
    Broker.failed_logins.add(("SASL", "PLAIN"), ("10.0.0.1",), "alice")
    Broker.denials.add(("READ", "Topic"), ("User:alice", "10.0.0.1"), "orders")
    samples = samples_of(broker_metrics().render())
    assert samples["pipeline_broker_failed_logins_total", ("listener", "SASL"), ("mechanism", "PLAIN")] == 1
    assert samples["pipeline_broker_denials_total", ("operation", "READ"), ("resource", "Topic")] == 1


def test_turns_of_the_event_loop_have_a_series_by_api_or_by_kind():
    samples = samples_of(broker_metrics().render())
    found = [
        tuple(
            samples[f"pipeline_broker_loop_{name}", ("turn", turn)] for name in ("turn_seconds_max", "long_turns_total")
        )
        for turn in ("Metadata", "999", "commit")
    ]
    assert found == [(0.024, 2), (0.002, 0), (0.001, 0)]


def test_metrics_of_sockets_tell_the_listener_and_those_of_processors_do_not():
    """Behaviour 33: socket-server-metrics carry `listener`, the gauge of a processor's idleness does not."""
    samples = samples_of(broker_metrics().render())

    assert [samples[f"{SOCKETS}connection_count", *tags] for tags in (PLAIN, ADMIN)] == [2, 1]
    assert samples[f"{SOCKETS}connection_creation_total", *PLAIN] == 3
    assert samples[f"{SOCKETS}connection_close_total", *PLAIN] == 1
    assert samples[f"{SOCKETS}incoming_byte_total", *PLAIN] == 100
    assert samples[f"{SOCKETS}successful_authentication_total", *PLAIN] == 2
    assert [samples[f"{SOCKETS}{name}_total", *ADMIN] for name in ("request", "response")] == [8, 9]
    assert samples["kafka_network_processor_idle_percent", ("networkprocessor", "2")] == 1.0


def test_expired_connections_are_those_that_did_not_authenticate_again():
    """As in Apache Kafka; connections closed because they were idle have a metric of their own."""
    samples = samples_of(broker_metrics().render())
    tags = (("listener", "PLAINTEXT"), ("networkprocessor", "1"))

    assert samples["kafka_network_socketserver_expiredconnectionskilledcount",] == 1
    assert samples[f"{SOCKETS}expired_connections_killed_count", *tags] == 1
    assert samples["pipeline_broker_overdue_connections_total", *tags] == 7


def test_the_byte_budget_is_kafkas_memory_pool():
    samples = samples_of(broker_metrics().render())

    assert samples["kafka_network_socketserver_memorypoolavailable",] == 700
    assert samples["kafka_network_socketserver_memorypoolused",] == 300
    assert samples[f"{SOCKETS}memorypooldepletedtimetotal",] == 7


def test_new_connections_are_counted_by_listeners_with_quotas():
    samples = samples_of(broker_metrics().render())

    assert samples[f"{SOCKETS}broker_connection_accept_rate",] == 3.5
    assert samples[f"{SOCKETS}connection_accept_rate", ("listener", "PLAINTEXT")] == 2.5
    assert (f"{SOCKETS}connection_accept_rate", ("listener", "ADMIN")) not in samples
    assert samples["pipeline_broker_connection_accept_throttle_seconds_total", ("listener", "PLAINTEXT")] == 4


def test_connections_are_counted_by_the_software_of_the_client():
    """A connection that has told nothing is unknown; kinds beyond the bound are one."""
    sessions = [Session("h", "L", software_name="lib", software_version=str(number)) for number in range(SOFTWARE_MAX)]
    known = Session("h", "L", software_name="lib", software_version="0")
    late = [Session("h", "L", software_name=name, software_version="1") for name in ("later", "last")]
    samples = samples_of(broker_metrics(sessions=[None, *sessions, known, *late]).render())

    found = {
        (dict(key[1:])["clientsoftwarename"], dict(key[1:])["clientsoftwareversion"]): value
        for key, value in samples.items()
        if key[0] == f"{SOCKETS}connections"
    }
    assert found["unknown", "unknown"] == 1
    assert found["lib", "0"] == 2
    assert found["other", "other"] == 3
    assert len(found) == SOFTWARE_MAX + 1


def test_the_idle_share_of_the_loop_follows_the_last_minutes():
    time = Time()
    metrics = broker_metrics(time)
    name = ("kafka_network_socketserver_networkprocessoravgidle_percent",)
    assert samples_of(metrics.render())[name] == 1.0

    for _ in range(600):
        time.now_ns += SECOND_NS
        time.observed_ns += SECOND_NS // 8
        time.idle_ns += SECOND_NS // 32
        finished(metrics.drain())

    assert abs(samples_of(metrics.render())[name] - 0.25) < 0.001


def test_an_observation_of_the_loop_stands_for_the_time_since_the_previous_one():
    """Idle in the look after nine seconds, busy in the one a second later; between the two nothing is known."""
    time = Time()
    metrics = broker_metrics(time)
    for seconds, looked_ns, idle_ns in ((8, 0, 0), (1, 100, 100), (1, 100, 0)):
        time.now_ns += seconds * SECOND_NS
        time.observed_ns += looked_ns
        time.idle_ns += idle_ns
        finished(metrics.drain())

    name = ("kafka_network_socketserver_networkprocessoravgidle_percent",)
    assert samples_of(metrics.render())[name] == pytest.approx(0.9)


def test_an_acceptors_blocked_share_is_of_the_time_between_scrapes():
    time, blocked = Time(), [0.0]

    def statistics():
        acceptor = AcceptorStatistics("PLAINTEXT", accepted=0, rejected=0, blocked_seconds=blocked[0])
        return default_statistics()._replace(acceptors=(acceptor,))

    metrics = broker_metrics(time, statistics)
    for _ in range(2):
        time.now_ns += 10 * SECOND_NS
        blocked[0] += 4.0
        samples = samples_of(metrics.render())

    assert samples["kafka_network_acceptor_acceptorblocked_percent", ("listener", "PLAINTEXT")] == pytest.approx(0.4)


def test_a_removed_listener_has_no_blocked_share():
    time, names = Time(), ["PLAINTEXT", "EXTRA"]

    def statistics():
        acceptors = tuple(AcceptorStatistics(name, accepted=0, rejected=0, blocked_seconds=0.0) for name in names)
        return default_statistics()._replace(acceptors=acceptors)

    def shown():
        time.now_ns += SECOND_NS
        name = "kafka_network_acceptor_acceptorblocked_percent"
        return [labels[0][1] for metric, *labels in samples_of(metrics.render()) if metric == name]

    metrics = broker_metrics(time, statistics)
    assert sorted(shown()) == ["EXTRA", "PLAINTEXT"]
    names.remove("EXTRA")
    assert shown() == ["PLAINTEXT"]


def test_after_the_end_of_the_server_the_gauges_read_as_at_rest():
    """Behaviour 32: without acceptors, processors or handlers a collection succeeds, and what was idle is idle."""
    empty = default_statistics()._replace(
        acceptors=(),
        processors=(),
        listeners=(),
        queues=(),
        control_plane=None,
        handlers=RequestHandlerStatistics(handlers=0, idle=0, handled=18, failed=1, blocking_works=0),
    )
    samples = samples_of(broker_metrics(statistics=lambda: empty).render())

    assert samples["kafka_network_socketserver_networkprocessoravgidle_percent",] == 1.0
    assert samples["kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent",] == 1.0
    assert samples["kafka_network_requestchannel_responsequeuesize",] == 0
    assert samples["kafka_network_socketserver_expiredconnectionskilledcount",] == 0


def test_free_disk_space_is_shown_if_the_disk_reports_it(monkeypatch):
    named = {"pipeline_broker_disk_size_bytes": 1000, "pipeline_broker_disk_free_bytes": 300}
    samples = samples_of(broker_metrics().render())
    assert not any((name,) in samples for name in named)
    monkeypatch.setattr(Logs, "disk_space", (1000, 300))
    samples = samples_of(broker_metrics().render())
    assert {name: samples[name,] for name in named} == named


def test_handlers_of_all_pools_share_one_idle_gauge(answered):
    """Behaviour 102: the aggregate follows the pools as they grow and shrink: 4 + 4, 2 + 4, 2 + 6 handlers."""
    pools = [4, 4]

    def statistics():
        data, control = (
            RequestHandlerStatistics(count, idle=0, handled=0, failed=0, blocking_works=0) for count in pools
        )
        base = default_statistics()
        return base._replace(handlers=data, control_plane=base.control_plane._replace(handlers=control))

    time = Time()
    measurements = Measurements({0: "Produce"}, PIPELINED)
    topics = TopicMetrics(nothing_in_steps, lambda topic_id: None, lambda _: True)
    metrics = BrokerMetrics(measurements, topics, Broker(), Server(time, statistics), clock_ns=lambda: time.now_ns)
    time.now_ns = 1
    finished(metrics.drain())
    for _ in range(1000):
        time.now_ns += SECOND_NS
        measurements.request_ended(answered(stamps=[0, 0, 0, *[500_000] * 7]))  # half a second in a handler
        finished(metrics.drain())
    for pools[:] in ([4, 4], [2, 4], [2, 6]):
        samples = samples_of(metrics.render())
        for name in ("requesthandleravgidle_percent", "brokerrequesthandleravgidle_percent"):
            share = samples[f"kafka_server_kafkarequesthandlerpool_{name}",]
            assert share == pytest.approx(1 - 0.5 / sum(pools), abs=1e-3)
        assert samples["pipeline_broker_request_handlers",] == sum(pools)


def test_the_request_log_counts_its_written_and_lost_lines():
    class Log:
        written, dropped = 5, 2

    samples = samples_of(broker_metrics(request_log=Log).render())
    assert samples["pipeline_broker_request_log_lines_total",] == 5
    assert samples["pipeline_broker_request_log_dropped_total",] == 2
    assert samples_of(broker_metrics().render())["pipeline_broker_request_log_lines_total",] == 0


@given(st.text(), st.floats(allow_nan=False, allow_infinity=False), st.integers(-(2**70), 2**70))
def test_any_label_value_and_number_can_be_parsed(text, real, whole):
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
