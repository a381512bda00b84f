"""The text of a scrape, and the metrics of queues, handlers and commits.

Names are Kafka's where Kafka has the metric, as the JMX exporter's usual rules spell them. Domain, type and name are in
lower case, `PerSec` becomes `_total` and `Percent` becomes `_percent`. Names of Kafka's own metrics library have
underscores:

    RequestChannel           RequestQueueSize               kafka_network_requestchannel_requestqueuesize
    KafkaRequestHandlerPool  RequestHandlerAvgIdlePercent
                                    kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent
    BrokerTopicMetrics       BytesInPerSec                  kafka_server_brokertopicmetrics_bytesin_total
    socket-server-metrics    connection-count               kafka_server_socket_server_metrics_connection_count
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from pipeline_broker.base.steps import Steps
from pipeline_broker.telemetry.exposition import Families, Family, Sample, counter, gauge, render
from pipeline_broker.telemetry.fetch_metrics import FetchStates, fetch_families
from pipeline_broker.telemetry.group_metrics import GroupOffsets, group_families
from pipeline_broker.telemetry.network_metrics import NetworkMetrics
from pipeline_broker.wire.registry import api_name
from stages.timeline import now_ns

if TYPE_CHECKING:
    from pipeline_broker.telemetry.measurements import Measurements
    from pipeline_broker.telemetry.server_shapes import Committer, ObservedServer, Queue, ServerStatistics
    from pipeline_broker.telemetry.topic_metrics import TopicMetrics

__all__ = ["BrokerMetrics"]

CHANNEL = "kafka_network_requestchannel_"
POOL = "kafka_server_kafkarequesthandlerpool_"
LOGIN_LABELS, DENIAL_LABELS = ("listener", "mechanism"), ("operation", "resource")


class _RequestLog(Protocol):
    @property
    def written(self) -> int: ...
    @property
    def dropped(self) -> int: ...


class Held(Protocol):
    """The amount of one kind of state that clients hold, and its limit (`broker.held_by_clients`)."""

    @property
    def name(self) -> str: ...
    @property
    def unit(self) -> str: ...
    @property
    def held(self) -> int: ...
    @property
    def limit(self) -> int: ...


class _SetAside(Protocol):
    @property
    def count(self) -> int: ...


class _Refusals(Protocol):
    @property
    def by_kind(self) -> Mapping[tuple[str, str], int]: ...


class _Logs(Protocol):
    @property
    def disk_space(self) -> tuple[int, int] | None: ...
    @property
    def topics_synced_later(self) -> int: ...


class _Broker(FetchStates, Protocol):
    @property
    def logs(self) -> _Logs: ...
    @property
    def failed_logins(self) -> _Refusals: ...
    @property
    def denials(self) -> _Refusals: ...
    @property
    def set_aside(self) -> _SetAside: ...
    @property
    def can_write(self) -> bool: ...


class BrokerMetrics:
    """All metrics of a broker.

    Args:
        measurements: the timeline that the server reports to; drained here.
        topics: the metrics of topics.
        broker: the broker whose state is read.
        server: the server whose stages are read.
        request_log: returns the request log, or None before its first line was wanted.
        held: returns the state that clients hold, by kind.
        clock_ns: the clock of the stamps.
        groups: returns the groups with their offsets.
        store: returns the metrics of an object store, if the broker has one.
        partitions: returns the metrics of partitions and of the cluster.
    """

    def __init__(
        self,
        measurements: Measurements,
        topics: TopicMetrics,
        broker: _Broker,
        server: ObservedServer,
        request_log: Callable[[], _RequestLog | None] = lambda: None,
        held: Callable[[], Sequence[Held]] = tuple,
        clock_ns: Callable[[], int] = now_ns,
        groups: Callable[[], Iterable[GroupOffsets | None]] = tuple,
        store: Callable[[], Iterable[Family]] = tuple,
        partitions: Callable[[], Iterable[Family | None]] = tuple,
    ) -> None:
        self._measurements = measurements
        self._topics = topics
        self._broker = broker
        self._server = server
        self._request_log = request_log
        self._held = held
        self._groups, self._store, self._partitions = groups, store, partitions
        self._clock_ns = clock_ns
        self._network = NetworkMetrics(server, clock_ns())
        self._is_draining = False

    def drain(self) -> Steps[None]:
        """Collect the events since the last call; call it every `request_metrics.DRAIN_SECONDS`.

        Do nothing while an earlier call has not finished.
        """
        # A scrape may start while the regular drain is between two of its steps.
        if self._is_draining:
            return
        self._is_draining = True
        try:
            at_ns = self._clock_ns()
            self._network.drain(at_ns)
            self._topics.drain()
            yield from self._measurements.drain(at_ns)
        finally:
            self._is_draining = False

    def render(self) -> Steps[bytes]:
        yield from self.drain()
        return (yield from render(self._families()))

    def _families(self) -> Families:
        statistics = self._server.statistics()
        yield from self._measurements.requests.families()
        yield from self._topics.families()
        yield from self._partitions()
        yield from fetch_families(self._broker)
        yield from _queue_families(statistics)
        yield from _turn_families(statistics)
        yield from self._handler_families(statistics)
        yield from self._network.families(statistics, self._clock_ns())
        yield from self._measurements.commits.families()
        yield from _committer_families(statistics.committer)
        yield gauge(
            "pipeline_broker_writes_refused",
            "1 while nothing can be written: full disk, missing file descriptors, or a store that does not answer.",
            Sample(int(not self._broker.can_write)),
        )
        yield from _disk_families(self._broker.logs.disk_space)
        yield gauge(
            "pipeline_broker_topics_synced_later",
            "Topics whose flush.messages and flush.ms promise less than --flush.",
            Sample(self._broker.logs.topics_synced_later),
        )
        yield from self._request_log_families()
        yield from _held_families(self._held())
        yield _refusal_family(
            "failed_logins",
            "Failed logins and reauthentications, by listener and mechanism.",
            self._broker.failed_logins,
            LOGIN_LABELS,
        )
        yield _refusal_family(
            "denials",
            "Denials by the authorizer, by operation and resource (its type).",
            self._broker.denials,
            DENIAL_LABELS,
        )
        yield from group_families(self._groups())
        yield from self._store()
        set_aside = Sample(self._broker.set_aside.count)
        yield gauge(
            "pipeline_broker_set_aside_records", "State records that the broker could not read at startup.", set_aside
        )

    def _handler_families(self, statistics: ServerStatistics) -> Iterator[Family]:
        pools = [statistics.handlers]
        if statistics.control_plane is not None:
            pools.append(statistics.control_plane.handlers)
        handlers = sum(pool.handlers for pool in pools)
        # Handlers are not threads: on a busy event loop, N of them are still idle for (N - 1) / N of their time.
        idle = Sample(self._measurements.requests.idle_share(handlers))
        share = "Idle share of the request handlers of all pools, 0 to 1, over about a minute"
        yield gauge(f"{POOL}requesthandleravgidle_percent", f"{share} (RequestHandlerAvgIdlePercent).", idle)
        yield gauge(
            f"{POOL}brokerrequesthandleravgidle_percent", f"{share} (BrokerRequestHandlerAvgIdlePercent).", idle
        )
        yield gauge("pipeline_broker_request_handlers", "Request handlers of all pools.", Sample(handlers))
        works = sum(pool.blocking_works for pool in pools)
        yield gauge("pipeline_broker_blocking_works", "Parked requests that wait for the disk.", Sample(works))
        failed = sum(pool.failed for pool in pools)
        yield counter(
            "pipeline_broker_requests_failed_total",
            "Requests whose handler raised an exception: a bug of the broker.",
            Sample(failed),
        )

    def _request_log_families(self) -> Iterator[Family]:
        log = self._request_log()
        lines, dropped = (0, 0) if log is None else (log.written, log.dropped)
        yield counter("pipeline_broker_request_log_lines_total", "Lines written to the request log.", Sample(lines))
        yield counter(
            "pipeline_broker_request_log_dropped_total",
            "Requests missing from the request log, because its queue was full or the disk failed.",
            Sample(dropped),
        )


def _disk_families(space: tuple[int, int] | None) -> Iterator[Family]:
    size, free = ((), ()) if space is None else ((Sample(each),) for each in space)
    yield gauge(
        "pipeline_broker_disk_size_bytes",
        "Size of the disk with the data directory, checked once a second; no sample if the system does not report it.",
        *size,
    )
    yield gauge("pipeline_broker_disk_free_bytes", "Free bytes on the disk with the data directory.", *free)


def _held_families(states: Sequence[Held]) -> Iterator[Family]:
    labels = [(("state", state.name), ("unit", state.unit)) for state in states]
    yield gauge(
        "pipeline_broker_held_by_clients",
        "Amount of each kind of state that clients hold, by state and unit.",
        *(Sample(state.held, each) for state, each in zip(states, labels, strict=True)),
    )
    yield gauge(
        "pipeline_broker_held_by_clients_limit",
        "Limit of each kind of state that clients hold.",
        *(Sample(state.limit, each) for state, each in zip(states, labels, strict=True)),
    )


def _refusal_family(name: str, explanation: str, refusals: _Refusals, labels: tuple[str, str]) -> Family:
    samples = [Sample(count, tuple(zip(labels, kind, strict=True))) for kind, count in sorted(refusals.by_kind.items())]
    return counter(f"pipeline_broker_{name}_total", explanation, *samples)


def _turn_families(statistics: ServerStatistics) -> Iterator[Family]:
    labels = [(("turn", api_name(turns.name)),) for turns in statistics.turns]
    yield gauge(
        "pipeline_broker_loop_turn_seconds_max",
        "Longest turn of the event loop since startup, by turn.",
        *(Sample(turns.longest_seconds, each) for turns, each in zip(statistics.turns, labels, strict=True)),
    )
    yield counter(
        "pipeline_broker_loop_long_turns_total",
        "Turns of the event loop longer than 5 ms, by turn.",
        *(Sample(turns.long_count, each) for turns, each in zip(statistics.turns, labels, strict=True)),
    )


def _queue_families(statistics: ServerStatistics) -> Iterator[Family]:
    queues = list(statistics.queues)
    yield gauge(
        f"{CHANNEL}requestqueuesize",
        "Requests waiting for a handler, in all queues of the data plane (RequestQueueSize).",
        Sample(sum(queue.depth for queue in queues)),
    )
    if statistics.control_plane is not None:
        of_control: Sequence[Queue] = statistics.control_plane.queues
        queues += of_control
        yield gauge(
            f"{CHANNEL}controlplanerequestqueuesize",
            "Requests waiting for the handler of the control plane (ControlPlaneRequestQueueSize).",
            Sample(sum(queue.depth for queue in of_control)),
        )
    yield gauge(
        "pipeline_broker_request_queue_size",
        "Requests waiting in each queue; -1 is the control plane.",
        *(Sample(queue.depth, (("queue", str(queue.index)),)) for queue in queues),
    )
    yield gauge(
        "pipeline_broker_request_queue_waiting_connections",
        "Connections that are not read because their queue is full.",
        *(Sample(queue.waiting_for_room, (("queue", str(queue.index)),)) for queue in queues),
    )


def _committer_families(committer: Committer) -> Iterator[Family]:
    yield counter("pipeline_broker_commits_total", "Durable commits.", Sample(committer.commits))
    yield counter(
        "pipeline_broker_committed_entries_total", "Record batches in durable commits.", Sample(committer.entries)
    )
    yield counter("pipeline_broker_committed_bytes_total", "Bytes in durable commits.", Sample(committer.size_bytes))
    yield gauge("pipeline_broker_commit_entries_max", "Most batches in one commit.", Sample(committer.entries_max))
    yield gauge(
        "pipeline_broker_commits_in_flight", "Commits that have begun and not ended.", Sample(committer.in_flight)
    )
    yield gauge(
        "pipeline_broker_commits_waiting", "Requests whose entries no commit has taken yet.", Sample(committer.waiting)
    )
    yield gauge(
        "pipeline_broker_commit_failed",
        "1 after a write or sync failed; the broker is ending.",
        Sample(int(committer.has_failed)),
    )
