"""The metrics of a broker. This module is imported only if a metrics endpoint is configured."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import trio

from pipeline_broker.apis.registry import SERVED
from pipeline_broker.broker.group_views import offsets_of_groups
from pipeline_broker.broker.held_by_clients import held_by_clients
from pipeline_broker.node.metrics_endpoint import LoopIdleTime, drain_regularly, serve_metrics
from pipeline_broker.security.http_security import NO_SECURITY, HttpSecurity
from pipeline_broker.telemetry.broker_metrics import BrokerMetrics
from pipeline_broker.telemetry.group_metrics import GROUPS_MAX
from pipeline_broker.telemetry.measurements import Measurements
from pipeline_broker.telemetry.partition_metrics import partition_families
from pipeline_broker.telemetry.topic_metrics import TopicMetrics
from pipeline_broker.web.http_server import require_h11

if TYPE_CHECKING:
    from pipeline_broker.broker.broker import Broker
    from pipeline_broker.telemetry.exposition import Family
    from pipeline_broker.telemetry.request_log import RequestLog
    from stages.mode import Mode
    from stages.socket_server import SocketServer

__all__ = ["Metrics"]


class Metrics:
    """The measurements of a broker's requests, and their endpoint.

    Args:
        address: host and port of the endpoint.
        names: host names that requests may use, in addition to addresses.
        security: TLS and users of the endpoint.

    Attributes:
        timeline: receives the stamps of requests.

    Raises:
        UnavailableError: h11 is not installed.
    """

    def __init__(
        self, mode: Mode, address: tuple[str, int], names: Collection[str], security: HttpSecurity = NO_SECURITY
    ) -> None:
        require_h11("metrics")
        self.timeline = Measurements({key: served.name for key, served in SERVED.items()}, mode)
        self._address, self._names, self._security = address, names, security

    @contextlib.asynccontextmanager
    async def serving(
        self, server: SocketServer, broker: Broker, request_log: Callable[[], RequestLog | None]
    ) -> AsyncIterator[str]:
        """Serve the endpoint while the body runs, and yield its URL.

        Args:
            request_log: returns the request log; None if no request was logged.

        Raises:
            UnavailableError: the port is not available.
        """
        idle = LoopIdleTime(server.turns)
        topics = TopicMetrics(broker.topic_totals, broker.topic_name, lambda name: broker.topics.get(name) is not None)
        broker.observe_topics(topics)
        self.timeline.requests.observe_fetches(topics.fetch_sent)
        metrics = BrokerMetrics(
            self.timeline,
            topics,
            broker,
            _ObservedServer(server, idle),
            request_log,
            lambda: held_by_clients(broker, server.statistics()),
            groups=lambda: offsets_of_groups(broker, GROUPS_MAX),
            store=_store_families(broker),
            partitions=lambda: partition_families(
                broker.topics.names(),
                broker.logs.partitions,
                broker.leadership,
                partitions_of_all=broker.topics.partitions,
                can_write=broker.can_write,
            ),
        )
        host, port = self._address

        def not_ready() -> str | None:
            return "this broker shuts down" if server.is_stopping else None

        try:
            async with trio.open_nursery() as nursery:
                serve = functools.partial(serve_metrics, security=self._security)
                port = await nursery.start(serve, host, port, metrics.render, broker.edges, self._names, not_ready)
                nursery.start_soon(drain_regularly, metrics.drain, idle)
                yield f"{self._security.scheme}://{host or 'localhost'}:{port}/metrics"
                nursery.cancel_scope.cancel()
        finally:
            broker.observe_topics(None)


def _store_families(broker: Broker) -> Callable[[], Iterable[Family]]:
    if broker.ports.store_figures is None:
        return tuple
    from pipeline_broker.broker.store_view import store_view  # noqa: PLC0415 - only with a store
    from pipeline_broker.telemetry.store_metrics import store_families  # noqa: PLC0415 - only with a store

    def families() -> Iterable[Family]:
        shown = store_view(broker)
        return () if shown is None else store_families(shown)

    return families


class _ObservedServer:
    """The part of a server that the metrics read; see `telemetry.server_shapes`."""

    def __init__(self, server: SocketServer, idle: LoopIdleTime) -> None:
        self.memory = server.channel
        self.statistics = server.statistics
        self._server = server
        self._idle = idle

    def connections(self) -> Iterator[tuple[str, int, Any]]:
        for processor in self._server.processors:
            for connection in processor.connections:
                yield connection.listener, processor.id, connection.session

    def accept_rate(self) -> float:
        return self._server.quotas.statistics(trio.current_time()).creation_rate

    def loop_idle_ns(self) -> tuple[int, int]:
        return self._idle.idle_ns, self._idle.observed_ns
