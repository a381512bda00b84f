"""Metrics of sockets: connections, bytes, authentication, acceptors and the idle share of the network side.

Kafka has a thread and a selector for each processor. Here all processors share one event loop, so each is idle exactly
as long as the loop. Kafka's select and I/O times of a selector have no equivalent but that share.

Kafka's selector was written for clients, so it counts a broker's responses as `request` and its requests as `response`.
The names are kept: `request-total` counts released responses.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from pipeline_broker.base.steps import THINGS_PER_STEP
from pipeline_broker.telemetry.exposition import Families, Family, Labels, Sample, counter, gauge
from pipeline_broker.telemetry.moving_average import MovingAverage

if TYPE_CHECKING:
    from pipeline_broker.telemetry.server_shapes import ObservedServer, Processor, ServerStatistics

__all__ = ["NetworkMetrics"]

SOFTWARE_MAX = 100
"""Combinations of client software, listener and processor with a series of their own; the others are `other`."""
UNKNOWN, OTHER = "unknown", "other"
SOCKETS = "kafka_server_socket_server_metrics_"
SECONDS_IN_NS = 1_000_000_000

_OF_ACCEPTORS: tuple[tuple[Callable[..., Family], str, str, str], ...] = (
    (counter, "accepted_total", "Accepted connections, by listener.", "accepted"),
    (
        counter,
        "rejected_total",
        "Connections closed because their address has too many, by listener.",
        "rejected",
    ),
    (
        counter,
        "acceptor_blocked_seconds_total",
        "Time that an acceptor waited, by listener.",
        "blocked_seconds",
    ),
    (counter, "accept_failed_total", "Connections that broke before they were served, by listener.", "failed"),
    (
        counter,
        "accept_exhausted_total",
        "Failures to accept connections for lack of file descriptors or memory, by listener.",
        "exhausted",
    ),
    (
        counter,
        "accept_overflows_total",
        "Attempts to connect that the system dropped because the backlog was full, by listener.",
        "overflows",
    ),
    (
        gauge,
        "throttled_connections",
        "Connections kept unserved because their address exceeds its rate, by listener.",
        "throttled",
    ),
    (
        counter,
        "throttled_connections_total",
        "Connections kept unserved since startup, by listener.",
        "throttled_total",
    ),
)
_OF_PROCESSORS: tuple[tuple[Callable[..., Family], str, str, Callable[[Processor], int]], ...] = (
    (gauge, "connection_count", "Open connections (connection-count).", lambda one: one.connections),
    (
        counter,
        "connection_creation_total",
        "Connections opened since startup (connection-creation-total).",
        lambda one: one.counters.created,
    ),
    (
        counter,
        "connection_close_total",
        "Connections closed since startup (connection-close-total).",
        lambda one: one.counters.closed,
    ),
    (
        counter,
        "successful_authentication_total",
        "Successful authentications (successful-authentication-total).",
        lambda one: one.counters.authenticated,
    ),
    (
        counter,
        "failed_authentication_total",
        "Failed authentications, including TLS handshakes (failed-authentication-total).",
        lambda one: one.counters.authentication_failed,
    ),
    (
        counter,
        "successful_reauthentication_total",
        "Successful reauthentications (successful-reauthentication-total).",
        lambda one: one.counters.reauthenticated,
    ),
    (
        counter,
        "failed_reauthentication_total",
        "Failed reauthentications (failed-reauthentication-total).",
        lambda one: one.counters.reauthentication_failed,
    ),
    (
        gauge,
        "expired_connections_killed_count",
        "Connections closed because they did not reauthenticate in time (expired-connections-killed-count).",
        lambda one: one.counters.authentication_expired,
    ),
    (counter, "incoming_byte_total", "Bytes received (incoming-byte-total).", lambda one: one.counters.bytes_in),
    (counter, "outgoing_byte_total", "Bytes sent (outgoing-byte-total).", lambda one: one.counters.bytes_out),
    (
        counter,
        "request_total",
        "Responses released, including those without bytes (request-total).",
        lambda one: one.counters.responses_out,
    ),
    (counter, "response_total", "Requests received (response-total).", lambda one: one.counters.requests_in),
)
_OF_PROCESSORS_OWN: tuple[tuple[Callable[..., Family], str, str, Callable[[Processor], int]], ...] = (
    (gauge, "blocked_connections", "Connections whose client does not read its responses.", lambda one: one.blocked),
    (
        counter,
        "overdue_connections_total",
        "Connections closed because they were idle, or had an unanswered request, for too long.",
        lambda one: one.counters.expired,
    ),
)


def _tags(processor: Processor) -> Labels:
    return (("listener", processor.listener), ("networkprocessor", str(processor.id)))


class NetworkMetrics:
    """Metrics of the network side of a server.

    Args:
        at_ns: the current time, on the clock of `drain` and `families`.
    """

    def __init__(self, server: ObservedServer, at_ns: int) -> None:
        self._server = server
        self._began_ns = self._drained_at_ns = at_ns
        self._idle_seen_ns, self._observed_seen_ns = server.loop_idle_ns()
        self._idle_share = MovingAverage(1.0)
        self._blocked_seen: dict[str, float] = {}
        self._blocked_shares: dict[str, MovingAverage] = {}

    def drain(self, at_ns: int) -> None:
        """Add the idle share of the event loop since the last call to the moving average.

        The server observes the loop only part of the time. The observed share stands for the whole interval.
        """
        idle_ns, observed_ns = self._server.loop_idle_ns()
        interval_ns, elapsed_ns = observed_ns - self._observed_seen_ns, at_ns - self._drained_at_ns
        if interval_ns <= 0 or elapsed_ns <= 0:
            return
        self._drained_at_ns = at_ns
        self._idle_share.add(min(1.0, (idle_ns - self._idle_seen_ns) / interval_ns), elapsed_ns)
        self._idle_seen_ns, self._observed_seen_ns = idle_ns, observed_ns

    def _drain_acceptors(self, statistics: ServerStatistics, at_ns: int) -> None:
        """Add the share of the time since the last scrape that each acceptor was blocked."""
        elapsed_ns, self._began_ns = at_ns - self._began_ns, at_ns
        if elapsed_ns <= 0:
            return
        shares = {}
        for acceptor in statistics.acceptors:
            name, blocked = acceptor.listener, acceptor.blocked_seconds
            waited_ns = (blocked - self._blocked_seen.get(name, 0.0)) * SECONDS_IN_NS
            share = shares[name] = self._blocked_shares.get(name) or MovingAverage(0.0)
            share.add(min(1.0, max(0.0, waited_ns / elapsed_ns)), elapsed_ns)
            self._blocked_seen[name] = blocked
        self._blocked_shares = shares  # without the listeners that were removed

    def families(self, statistics: ServerStatistics, at_ns: int) -> Families:
        self._drain_acceptors(statistics, at_ns)
        yield from self._idle_families(statistics)
        yield from self._memory_families()
        yield from _processor_families(statistics.processors)
        yield from self._software_family()
        yield from self._acceptor_families(statistics)
        yield from self._accept_rate_families(statistics)

    def _idle_families(self, statistics: ServerStatistics) -> Iterator[Family]:
        idle = self._idle_share.value
        yield gauge(
            "kafka_network_socketserver_networkprocessoravgidle_percent",
            "Idle share of the event loop, 0 to 1, over about a minute (NetworkProcessorAvgIdlePercent).",
            Sample(idle),
        )
        yield gauge(
            "kafka_network_processor_idle_percent",
            "Idle share of each processor, which is that of the event loop (IdlePercent).",
            *(Sample(idle, (("networkprocessor", str(one.id)),)) for one in statistics.processors),
        )
        yield gauge(
            "kafka_network_socketserver_expiredconnectionskilledcount",
            "Connections closed because they did not reauthenticate in time (ExpiredConnectionsKilledCount).",
            Sample(sum(one.counters.authentication_expired for one in statistics.processors)),
        )
        unsent = [(one.id, one.unsent_responses) for one in statistics.processors]
        yield gauge(
            "kafka_network_requestchannel_responsequeuesize",
            "Released responses that the socket has not taken yet, in total and by processor (ResponseQueueSize).",
            Sample(sum(count for _, count in unsent)),
            *(Sample(count, (("processor", str(number)),)) for number, count in unsent),
        )

    def _memory_families(self) -> Iterator[Family]:
        memory = self._server.memory
        yield gauge(
            "kafka_network_socketserver_memorypoolavailable",
            "Bytes of queued.max.request.bytes that no request holds (MemoryPoolAvailable).",
            Sample(max(0, memory.bytes_max - memory.bytes_held)),
        )
        yield gauge(
            "kafka_network_socketserver_memorypoolused",
            "Bytes that requests hold until they are answered (MemoryPoolUsed).",
            Sample(memory.bytes_held),
        )
        yield gauge(
            f"{SOCKETS}memorypooldepletedtimetotal",
            "Nanoseconds in which a connection waited for memory (MemoryPoolDepletedTimeTotal).",
            Sample(memory.depleted_ns),
        )

    def _software_family(self) -> Families:
        counts: Counter[tuple[str, str, str, int]] = Counter()
        for index, (listener, processor, session) in enumerate(list(self._server.connections())):
            if index % THINGS_PER_STEP == 0:
                yield None
            name, version = (UNKNOWN, UNKNOWN) if session is None else (session.software_name, session.software_version)
            kind = (name, version, listener, processor)
            # Clients choose these names, so the number of series must have a bound.
            if kind not in counts and len(counts) >= SOFTWARE_MAX:
                kind = (OTHER, OTHER, listener, processor)
            counts[kind] += 1
        yield gauge(
            f"{SOCKETS}connections",
            "Open connections by clientsoftwarename and clientsoftwareversion: unknown before ApiVersions, other "
            "beyond 100 versions (connections).",
            *(
                Sample(
                    count,
                    (
                        ("clientsoftwarename", name),
                        ("clientsoftwareversion", version),
                        ("listener", listener),
                        ("networkprocessor", str(processor)),
                    ),
                )
                for (name, version, listener, processor), count in sorted(counts.items())
            ),
        )

    def _acceptor_families(self, statistics: ServerStatistics) -> Iterator[Family]:
        yield gauge(
            "kafka_network_acceptor_acceptorblocked_percent",
            "Share of its time that an acceptor waited for a rate, a slot or a processor, 0 to 1, over about a minute, "
            "by listener (AcceptorBlockedPercent).",
            *(Sample(share.value, (("listener", name),)) for name, share in self._blocked_shares.items()),
        )
        for family, name, explanation, attribute in _OF_ACCEPTORS:
            samples = [Sample(getattr(one, attribute), (("listener", one.listener),)) for one in statistics.acceptors]
            yield family(f"pipeline_broker_{name}", explanation, *samples)
        yield gauge(
            "pipeline_broker_excess_connections",
            "Open connections above max.connections: the limit was lowered, or they use the privileged listener.",
            Sample(statistics.connections_excess),
        )

    def _accept_rate_families(self, statistics: ServerStatistics) -> Iterator[Family]:
        listeners = [(one.name, one.quotas) for one in statistics.listeners if one.quotas is not None]
        yield gauge(
            f"{SOCKETS}broker_connection_accept_rate",
            "Accepted connections per second, over the windows of quota.window.num (broker-connection-accept-rate).",
            Sample(self._server.accept_rate()),
        )
        yield gauge(
            f"{SOCKETS}connection_accept_rate",
            "Accepted connections per second, by listener (connection-accept-rate).",
            *(Sample(quotas.creation_rate, (("listener", name),)) for name, quotas in listeners),
        )
        yield counter(
            "pipeline_broker_connection_accept_throttle_seconds_total",
            "Time that new connections waited for the rate of the broker or the listener, by listener.",
            *(Sample(quotas.throttled_seconds, (("listener", name),)) for name, quotas in listeners),
        )
        yield counter(
            "pipeline_broker_ip_connection_accept_throttle_seconds_total",
            "Time that connections were kept unserved because their address exceeds its rate, by listener.",
            *(Sample(quotas.ip_throttled_seconds, (("listener", name),)) for name, quotas in listeners),
        )


def _processor_families(processors: Sequence[Processor]) -> Iterator[Family]:
    for prefix, described in ((SOCKETS, _OF_PROCESSORS), ("pipeline_broker_", _OF_PROCESSORS_OWN)):
        for family, name, explanation, value in described:
            yield family(prefix + name, explanation, *(Sample(value(one), _tags(one)) for one in processors))
