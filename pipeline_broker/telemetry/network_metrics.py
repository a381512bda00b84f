"""The metrics of sockets: connections, bytes, authentication, acceptors, and how idle the network side is.

Rules of this file: it reads plain sums when somebody asks. Kafka has one thread and one selector per processor; here
all processors live on one event loop, so a processor is idle exactly as long as the loop is. What Kafka measures of its
selectors beyond that (select and I/O times) is the loop's too and shown once, as its idle share.

Kafka's selector calls what a broker sends `request` and what it receives `response`, because it was written for
clients; the names are kept: `request-total` counts responses that were sent.
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
"""Kinds of client software, with their listener and processor, that are told apart; the rest is `other`."""
UNKNOWN, OTHER = "unknown", "other"
SOCKETS = "kafka_server_socket_server_metrics_"
SECONDS_IN_NS = 1_000_000_000

_OF_PROCESSORS: tuple[tuple[Callable[..., Family], str, str, Callable[[Processor], int]], ...] = (
    (gauge, "connection_count", "Open connections (connection-count).", lambda one: one.connections),
    (
        counter,
        "connection_creation_total",
        "Connections ever (connection-creation-total).",
        lambda one: one.counters.created,
    ),
    (counter, "connection_close_total", "Of them, closed (connection-close-total).", lambda one: one.counters.closed),
    (
        counter,
        "successful_authentication_total",
        "Connections that proved who they are (successful-authentication-total).",
        lambda one: one.counters.authenticated,
    ),
    (
        counter,
        "failed_authentication_total",
        "Connections that failed to (failed-authentication-total).",
        lambda one: one.counters.authentication_failed,
    ),
    (
        counter,
        "successful_reauthentication_total",
        "Later proofs (successful-reauthentication-total).",
        lambda one: one.counters.reauthenticated,
    ),
    (
        counter,
        "failed_reauthentication_total",
        "Later failures (failed-reauthentication-total).",
        lambda one: one.counters.reauthentication_failed,
    ),
    (
        gauge,
        "expired_connections_killed_count",
        "Connections closed because they did not authenticate again in time (expired-connections-killed-count).",
        lambda one: one.counters.authentication_expired,
    ),
    (counter, "incoming_byte_total", "Bytes received (incoming-byte-total).", lambda one: one.counters.bytes_in),
    (counter, "outgoing_byte_total", "Bytes sent (outgoing-byte-total).", lambda one: one.counters.bytes_out),
    (counter, "request_total", "Responses sent (request-total).", lambda one: one.counters.responses_out),
    (counter, "response_total", "Requests received (response-total).", lambda one: one.counters.requests_in),
)
_OF_PROCESSORS_OWN: tuple[tuple[Callable[..., Family], str, str, Callable[[Processor], int]], ...] = (
    (gauge, "blocked_connections", "Connections that do not read.", lambda one: one.blocked),
    (
        counter,
        "overdue_connections_total",
        "Connections closed because they were idle, or a request unanswered, for too long.",
        lambda one: one.counters.expired,
    ),
)


def _tags(processor: Processor) -> Labels:
    return (("listener", processor.listener), ("networkprocessor", str(processor.id)))


class NetworkMetrics:
    """See the rules of the file.

    Args:
        server: that is observed.
        at_ns: now.
    """

    def __init__(self, server: ObservedServer, at_ns: int) -> None:
        self._server = server
        self._began_ns = self._drained_at_ns = at_ns
        self._idle_seen_ns, self._observed_seen_ns = server.loop_idle_ns()
        self._idle_share = MovingAverage(1.0)
        self._blocked_seen: dict[str, float] = {}
        self._blocked_shares: dict[str, MovingAverage] = {}

    def drain(self, at_ns: int) -> None:
        """Take in how idle the loop was while it was looked at; that stands for all of the time since the last look."""
        idle_ns, observed_ns = self._server.loop_idle_ns()
        looked_ns, elapsed_ns = observed_ns - self._observed_seen_ns, at_ns - self._drained_at_ns
        if looked_ns <= 0 or elapsed_ns <= 0:
            return
        self._drained_at_ns = at_ns
        self._idle_share.add(min(1.0, (idle_ns - self._idle_seen_ns) / looked_ns), elapsed_ns)
        self._idle_seen_ns, self._observed_seen_ns = idle_ns, observed_ns

    def _drain_acceptors(self, statistics: ServerStatistics, at_ns: int) -> None:
        """How much of the time since the last scrape each acceptor waited."""
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
        self._blocked_shares = shares  # those of listeners that are gone are forgotten

    def families(self, statistics: ServerStatistics, at_ns: int) -> Families:
        """As it stands."""
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
            "Share of its time that the event loop was idle, 0 to 1 (NetworkProcessorAvgIdlePercent).",
            Sample(idle),
        )
        yield gauge(
            "kafka_network_processor_idle_percent",
            "The same of each processor, which is idle as long as the loop is (IdlePercent).",
            *(Sample(idle, (("networkprocessor", str(one.id)),)) for one in statistics.processors),
        )
        yield gauge(
            "kafka_network_socketserver_expiredconnectionskilledcount",
            "Connections closed because they did not authenticate again in time (ExpiredConnectionsKilledCount).",
            Sample(sum(one.counters.authentication_expired for one in statistics.processors)),
        )
        unsent = [(one.id, one.unsent_responses) for one in statistics.processors]
        yield gauge(
            "kafka_network_requestchannel_responsequeuesize",
            "Responses that were released and have not left, in all and by processor (ResponseQueueSize).",
            Sample(sum(count for _, count in unsent)),
            *(Sample(count, (("processor", str(number)),)) for number, count in unsent),
        )

    def _memory_families(self) -> Iterator[Family]:
        memory = self._server.memory
        yield gauge(
            "kafka_network_socketserver_memorypoolavailable",
            "Bytes that requests may still hold (MemoryPoolAvailable).",
            Sample(max(0, memory.bytes_max - memory.bytes_held)),
        )
        yield gauge(
            "kafka_network_socketserver_memorypoolused",
            "Bytes that requests hold until they are answered (MemoryPoolUsed).",
            Sample(memory.bytes_held),
        )
        yield gauge(
            f"{SOCKETS}memorypooldepletedtimetotal",
            "Nanoseconds in which a connection waited for room (MemoryPoolDepletedTimeTotal).",
            Sample(memory.depleted_ns),
        )

    def _software_family(self) -> Families:
        counts: Counter[tuple[str, str, str, int]] = Counter()
        for place, (listener, processor, session) in enumerate(list(self._server.connections())):
            if place % THINGS_PER_STEP == 0:
                yield None
            name, version = (UNKNOWN, UNKNOWN) if session is None else (session.software_name, session.software_version)
            kind = (name, version, listener, processor)
            if kind not in counts and len(counts) >= SOFTWARE_MAX:
                kind = (OTHER, OTHER, listener, processor)
            counts[kind] += 1
        yield gauge(
            f"{SOCKETS}connections",
            "Open connections by the software of the client (connections).",
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
            "Share of its time that an acceptor waited, 0 to 1 (AcceptorBlockedPercent).",
            *(Sample(share.value, (("listener", name),)) for name, share in self._blocked_shares.items()),
        )
        own: tuple[tuple[Callable[..., Family], str, str, str], ...] = (
            (counter, "accepted_total", "Connections that were accepted.", "accepted"),
            (counter, "rejected_total", "Connections closed because their address has too many.", "rejected"),
            (counter, "acceptor_blocked_seconds_total", "Time an acceptor waited.", "blocked_seconds"),
            (counter, "accept_failed_total", "Connections that broke before they could be served.", "failed"),
            (counter, "accept_exhausted_total", "Times without a file descriptor for another one.", "exhausted"),
            (gauge, "throttled_connections", "Connections kept unserved: their address is too fast.", "throttled"),
            (counter, "throttled_connections_total", "All of them so far.", "throttled_total"),
        )
        for family, name, explanation, attribute in own:
            samples = [Sample(getattr(one, attribute), (("listener", one.listener),)) for one in statistics.acceptors]
            yield family(f"pipeline_broker_{name}", explanation, *samples)
        yield gauge(
            "pipeline_broker_excess_connections",
            "Open connections above max.connections.",
            Sample(statistics.connections_excess),
        )

    def _accept_rate_families(self, statistics: ServerStatistics) -> Iterator[Family]:
        listeners = [(one.name, one.quotas) for one in statistics.listeners if one.quotas is not None]
        yield gauge(
            f"{SOCKETS}broker_connection_accept_rate",
            "Connections accepted per second (broker-connection-accept-rate).",
            Sample(self._server.accept_rate()),
        )
        yield gauge(
            f"{SOCKETS}connection_accept_rate",
            "The same by listener (connection-accept-rate).",
            *(Sample(quotas.creation_rate, (("listener", name),)) for name, quotas in listeners),
        )
        yield counter(
            "pipeline_broker_connection_accept_throttle_seconds_total",
            "Time that newcomers waited for the sake of a rate.",
            *(Sample(quotas.throttled_seconds, (("listener", name),)) for name, quotas in listeners),
        )
        yield counter(
            "pipeline_broker_ip_connection_accept_throttle_seconds_total",
            "Time that newcomers were kept because their address is too fast.",
            *(Sample(quotas.ip_throttled_seconds, (("listener", name),)) for name, quotas in listeners),
        )


def _processor_families(processors: Sequence[Processor]) -> Iterator[Family]:
    for prefix, described in ((SOCKETS, _OF_PROCESSORS), ("pipeline_broker_", _OF_PROCESSORS_OWN)):
        for family, name, explanation, value in described:
            yield family(prefix + name, explanation, *(Sample(value(one), _tags(one)) for one in processors))
