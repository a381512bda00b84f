"""Everything that the metrics endpoint shows: the request metrics, and gauges of the server's live statistics.

Rules of this file: it reads, it keeps nothing of its own but moving averages; the server's statistics come in by their
shape, because this room does not know Trio. Names are Kafka's where Kafka has the metric, as the JMX exporter's usual
rules spell them:

    RequestChannel           RequestQueueSize               kafka_network_requestchannel_requestqueuesize
    KafkaRequestHandlerPool  RequestHandlerAvgIdlePercent
                                    kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent
    SocketServer             NetworkProcessorAvgIdlePercent kafka_network_socketserver_networkprocessoravgidle_percent
    SocketServer             ExpiredConnectionsKilledCount  kafka_network_socketserver_expiredconnectionskilledcount
    socket-server-metrics    connection-count               kafka_server_socket_server_metrics_connection_count
    socket-server-metrics    connection-creation-total
                                    kafka_server_socket_server_metrics_connection_creation_total

All processors live on one event loop, so the network's idle share is that of the loop, which is also the one to watch:
handlers are not threads here, and N of them on a busy loop are still idle for (N - 1) / N of their time.
ResponseQueueSize has no counterpart: a response that is released leaves in the same turn of the loop unless its client
does not read, and those connections are counted in `pipeline_broker_blocked_connections`.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from pipeline_broker.telemetry.exposition import Family, Sample, counter, gauge, render
from pipeline_broker.telemetry.fetch_metrics import FetchStates, fetch_families
from pipeline_broker.telemetry.measurements import Measurements
from pipeline_broker.telemetry.moving_average import MovingAverage
from pipeline_broker.telemetry.topic_metrics import TopicMetrics
from stages.timeline import now_ns

__all__ = ["BrokerMetrics", "ServerStatistics"]


class _Acceptor(Protocol):
    @property
    def listener(self) -> str: ...
    @property
    def accepted(self) -> int: ...
    @property
    def rejected(self) -> int: ...
    @property
    def blocked_seconds(self) -> float: ...


class _Processor(Protocol):
    @property
    def id(self) -> int: ...
    @property
    def connections(self) -> int: ...
    @property
    def connections_total(self) -> int: ...
    @property
    def blocked(self) -> int: ...
    @property
    def expired(self) -> int: ...


class _Queue(Protocol):
    @property
    def index(self) -> int: ...
    @property
    def depth(self) -> int: ...
    @property
    def waiting_for_room(self) -> int: ...


class _Handlers(Protocol):
    @property
    def handlers(self) -> int: ...
    @property
    def failed(self) -> int: ...
    @property
    def blocking_works(self) -> int: ...


class _Committer(Protocol):
    @property
    def commits(self) -> int: ...
    @property
    def entries(self) -> int: ...
    @property
    def size_bytes(self) -> int: ...
    @property
    def waiting(self) -> int: ...
    @property
    def in_flight(self) -> int: ...
    @property
    def entries_max(self) -> int: ...
    @property
    def has_failed(self) -> bool: ...


class ServerStatistics(Protocol):
    """What is read of `stages.socket_server.SocketServerStatistics`."""

    @property
    def acceptors(self) -> Sequence[_Acceptor]: ...  # noqa: D102 - explained in stages
    @property
    def processors(self) -> Sequence[_Processor]: ...  # noqa: D102 - explained in stages
    @property
    def queues(self) -> Sequence[_Queue]: ...  # noqa: D102 - explained in stages
    @property
    def handlers(self) -> _Handlers: ...  # noqa: D102 - explained in stages
    @property
    def committer(self) -> _Committer: ...  # noqa: D102 - explained in stages


class BrokerMetrics:
    """See the rules of the file.

    Args:
        measurements: told of requests and commits by the server; drained here.
        topics: of the topics.
        broker: whose fetches wait.
        statistics: the server's, as they stand.
        loop_idle_ns: how long the event loop had nothing to do since it began.
        clock_ns: the clock of the stamps.
    """

    def __init__(
        self,
        measurements: Measurements,
        topics: TopicMetrics,
        broker: FetchStates,
        statistics: Callable[[], ServerStatistics],
        loop_idle_ns: Callable[[], int],
        clock_ns: Callable[[], int] = now_ns,
    ) -> None:
        self._measurements = measurements
        self._topics = topics
        self._broker = broker
        self._statistics = statistics
        self._loop_idle_ns = loop_idle_ns
        self._clock_ns = clock_ns
        self._drained_at_ns = clock_ns()
        self._idle_seen_ns = loop_idle_ns()
        self._loop_idle_share = MovingAverage(1.0)

    def drain(self) -> None:
        """Take in what happened since the last call; call it every `request_metrics.DRAIN_SECONDS`."""
        at_ns, idle_ns = self._clock_ns(), self._loop_idle_ns()
        elapsed_ns = at_ns - self._drained_at_ns
        if elapsed_ns > 0:
            self._loop_idle_share.add(min(1.0, (idle_ns - self._idle_seen_ns) / elapsed_ns), elapsed_ns)
        self._drained_at_ns, self._idle_seen_ns = at_ns, idle_ns
        self._measurements.drain(at_ns)

    def render(self) -> str:
        """The text of a scrape."""
        self.drain()
        return render(self._families())

    def _families(self) -> Iterator[Family]:
        statistics = self._statistics()
        yield from self._measurements.requests.families()
        yield from self._topics.families()
        yield from fetch_families(self._broker)
        yield from self._queue_families(statistics)
        yield from self._network_families(statistics)
        yield from self._measurements.commits.families()
        yield from _committer_families(statistics.committer)

    def _queue_families(self, statistics: ServerStatistics) -> Iterator[Family]:
        queues, handlers = statistics.queues, statistics.handlers
        yield gauge(
            "kafka_network_requestchannel_requestqueuesize",
            "Requests that wait for a handler (RequestQueueSize).",
            Sample(sum(queue.depth for queue in queues)),
        )
        yield gauge(
            "pipeline_broker_request_queue_size",
            "Requests that wait in each queue.",
            *(Sample(queue.depth, (("queue", str(queue.index)),)) for queue in queues),
        )
        yield gauge(
            "pipeline_broker_request_queue_waiting_connections",
            "Connections that are not read because their queue is full.",
            *(Sample(queue.waiting_for_room, (("queue", str(queue.index)),)) for queue in queues),
        )
        yield gauge(
            "kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent",
            "Share of their time that the handlers were idle, 0 to 1 (RequestHandlerAvgIdlePercent).",
            Sample(self._measurements.requests.idle_share(handlers.handlers)),
        )
        yield gauge("pipeline_broker_request_handlers", "Handlers.", Sample(handlers.handlers))
        yield gauge(
            "pipeline_broker_blocking_works", "Parked requests that wait for a disk.", Sample(handlers.blocking_works)
        )
        yield counter(
            "pipeline_broker_requests_failed_total", "Requests whose handler raised.", Sample(handlers.failed)
        )

    def _network_families(self, statistics: ServerStatistics) -> Iterator[Family]:
        processors, acceptors = statistics.processors, statistics.acceptors
        yield gauge(
            "kafka_network_socketserver_networkprocessoravgidle_percent",
            "Share of its time that the event loop was idle, 0 to 1 (NetworkProcessorAvgIdlePercent).",
            Sample(self._loop_idle_share.value),
        )
        yield gauge(
            "kafka_network_socketserver_expiredconnectionskilledcount",
            "Connections that were closed for idleness (ExpiredConnectionsKilledCount).",
            Sample(sum(processor.expired for processor in processors)),
        )
        per_processor: tuple[tuple[Callable[..., Family], str, str, Callable[[_Processor], int]], ...] = (
            (
                gauge,
                "kafka_server_socket_server_metrics_connection_count",
                "Open connections.",
                lambda p: p.connections,
            ),
            (
                counter,
                "kafka_server_socket_server_metrics_connection_creation_total",
                "Connections ever.",
                lambda p: p.connections_total,
            ),
            (gauge, "pipeline_broker_blocked_connections", "Connections that do not read.", lambda p: p.blocked),
        )
        for family, name, explanation, value in per_processor:
            yield family(
                name, explanation, *(Sample(value(one), (("networkprocessor", str(one.id)),)) for one in processors)
            )
        per_acceptor: tuple[tuple[str, str, Callable[[_Acceptor], float]], ...] = (
            ("pipeline_broker_accepted_total", "Connections that were accepted.", lambda a: a.accepted),
            ("pipeline_broker_rejected_total", "Connections that a quota closed.", lambda a: a.rejected),
            ("pipeline_broker_acceptor_blocked_seconds_total", "Time an acceptor waited.", lambda a: a.blocked_seconds),
        )
        for name, explanation, waited in per_acceptor:
            yield counter(name, explanation, *(Sample(waited(one), (("listener", one.listener),)) for one in acceptors))


def _committer_families(committer: _Committer) -> Iterator[Family]:
    yield counter("pipeline_broker_commits_total", "Commits that are durable.", Sample(committer.commits))
    yield counter("pipeline_broker_committed_entries_total", "Record batches in them.", Sample(committer.entries))
    yield counter("pipeline_broker_committed_bytes_total", "Bytes in them.", Sample(committer.size_bytes))
    yield gauge("pipeline_broker_commit_entries_max", "The most batches in one commit.", Sample(committer.entries_max))
    yield gauge("pipeline_broker_commits_in_flight", "Commits between begin and end.", Sample(committer.in_flight))
    yield gauge("pipeline_broker_commits_waiting", "Requests that no commit took yet.", Sample(committer.waiting))
    yield gauge("pipeline_broker_commit_failed", "1 after a commit failed.", Sample(int(committer.has_failed)))
