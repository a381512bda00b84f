"""The observers of a broker: trace files, metrics, request log, dashboard, and published timelines."""

from __future__ import annotations

import contextlib
import functools
import logging
import sys
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import trio

from pipeline_broker.base import owner_only
from pipeline_broker.telemetry.broker_loggers import logs_requests
from stages.mute import MuteReason

if TYPE_CHECKING:
    from pipeline_broker.broker.broker import Broker
    from pipeline_broker.dashboard.beside import Beside
    from pipeline_broker.dashboard.options import DashboardOptions
    from pipeline_broker.dashboard.record_view import Decoder
    from pipeline_broker.node.metrics_endpoint import LoopIdleTime
    from pipeline_broker.telemetry.exposition import Family
    from pipeline_broker.telemetry.measurements import Measurements
    from pipeline_broker.telemetry.request_log import RequestLog
    from pipeline_broker.telemetry.trace_files import TracedStoreRequest, TraceFiles
    from stages.mode import Mode
    from stages.socket_server import SocketServer
    from stages.timeline import Timeline

__all__ = ["Observers", "ObserversUnavailableError"]

logger = logging.getLogger(__name__)

# The listener name and client id of requests by the dashboard; no such listener exists.
DASHBOARD = "DASHBOARD"


class ObserversUnavailableError(Exception):
    """An observer cannot start. The text is one line that says what to do."""


class Observers:
    """The observers of one broker.

    Without observers the server records no timeline, and requests cost less. Observers check their packages and
    directories before the broker takes its data directory, and never stop the broker later.

    Args:
        trace: directory for trace files; None for no trace.
        metrics_address: host and port of the metrics endpoint; None for no endpoint.
        request_log: file of the request log.
        logs_requests: True to write the request log from startup, False to wait until a client enables it.
        dashboard: options of the dashboard; None for no dashboard.
        metrics_names: host names that requests to the endpoint may use, in addition to addresses.

    Raises:
        ObserversUnavailableError: an observer cannot start.
    """

    def __init__(
        self,
        mode: Mode,
        trace: Path | None,
        metrics_address: tuple[str, int] | None,
        request_log: Path,
        *,
        logs_requests: bool = False,
        dashboard: DashboardOptions | None = None,
        metrics_names: Collection[str] = (),
    ) -> None:
        self._trace = None if trace is None else _open_trace(trace)
        self._metrics_address, self._metrics_names = metrics_address, metrics_names
        self._measurements = None if metrics_address is None else _open_measurements(mode)
        self._request_log_path = request_log
        self._logs_requests = logs_requests
        self._request_log: RequestLog | None = None
        self._dashboard = dashboard
        self._beside = None if dashboard is None else _check_dashboard(dashboard)
        self._watching: Timeline | None = None
        self._publishing: Timeline | None = None
        # Checked at startup only if the file was named. A client may enable the log later, when an error is logged.
        if logs_requests:
            _check_writable(request_log)

    @property
    def timeline(self) -> Timeline | None:
        """The timeline that the server reports to at present; None without observers."""
        log = self._request_log
        wanted_log = None if log is None or not log.is_on else log
        all_observers = (self._trace, self._measurements, wanted_log, self._watching, self._publishing)
        timelines: list[Timeline] = [observer for observer in all_observers if observer is not None]
        # One observer is called directly, without the cost of a FanOut.
        if len(timelines) < 2:
            return timelines[0] if timelines else None
        from pipeline_broker.telemetry.fan_out import FanOut  # noqa: PLC0415 - only for several observers

        return FanOut(timelines)

    @property
    def store_request_ended(self) -> Callable[[TracedStoreRequest], None] | None:
        """A callback for each request to the object store; None without trace files."""
        return None if self._trace is None else self._trace.store_request_ended

    @contextlib.asynccontextmanager
    async def observing(
        self, server: SocketServer, broker: Broker, decoder: Decoder | None = None
    ) -> AsyncIterator[None]:
        """Observe a broker while the body runs.

        Args:
            server: server of the observed requests.
            broker: broker of the observed state.
            decoder: decodes records with schemas for the dashboard; None without a schema registry.

        Raises:
            ObserversUnavailableError: the port of the metrics or of the dashboard is not available.
        """
        level = "DEBUG" if self._logs_requests else "WARN"
        broker.loggers.start_request_log(level, functools.partial(self._request_level_changed, server))
        async with contextlib.AsyncExitStack() as stack:
            if self._measurements is not None and self._metrics_address is not None:
                serving = self._serving_metrics(server, broker, self._measurements, *self._metrics_address)
                await stack.enter_async_context(serving)
            if self._dashboard is not None:
                await stack.enter_async_context(self._serving_dashboard(server, broker, self._dashboard, decoder))
            yield

    def publish(self, server: SocketServer, timeline: Timeline | None) -> None:
        """Report to the timeline of a publisher, too; None stops that."""
        self._publishing = timeline
        server.observe(self.timeline)

    def _request_level_changed(self, server: SocketServer, level: str) -> None:
        is_on = logs_requests(level)
        if self._request_log is None:
            if not is_on:
                return
            from pipeline_broker.telemetry.request_log import RequestLog  # noqa: PLC0415 - only if configured

            self._request_log = RequestLog(self._request_log_path)
        self._request_log.is_on = is_on
        server.observe(self.timeline)

    @contextlib.asynccontextmanager
    async def _serving_metrics(
        self, server: SocketServer, broker: Broker, measurements: Measurements, host: str, port: int
    ) -> AsyncIterator[None]:
        from pipeline_broker.broker.group_views import offsets_of_groups  # noqa: PLC0415 - only if configured
        from pipeline_broker.broker.held_by_clients import held_by_clients  # noqa: PLC0415 - as above
        from pipeline_broker.node.metrics_endpoint import (  # noqa: PLC0415 - as above
            LoopIdleTime,
            drain_regularly,
            serve_metrics,
        )
        from pipeline_broker.telemetry.broker_metrics import BrokerMetrics  # noqa: PLC0415 - as above
        from pipeline_broker.telemetry.group_metrics import GROUPS_MAX  # noqa: PLC0415 - as above
        from pipeline_broker.telemetry.partition_metrics import partition_families  # noqa: PLC0415 - as above
        from pipeline_broker.telemetry.topic_metrics import TopicMetrics  # noqa: PLC0415 - as above
        from pipeline_broker.web.http_server import HttpUnavailableError  # noqa: PLC0415 - as above

        idle = LoopIdleTime(server.turns)
        topics = TopicMetrics(broker.topic_totals, broker.topic_name, lambda name: broker.topics.get(name) is not None)
        broker.observe_topics(topics)
        measurements.requests.observe_fetches(topics.fetch_sent)
        observed = _ObservedServer(server, idle)
        metrics = BrokerMetrics(
            measurements,
            topics,
            broker,
            observed,
            lambda: self._request_log,
            lambda: held_by_clients(broker, server.statistics()),
            groups=lambda: offsets_of_groups(broker, GROUPS_MAX),
            store=_store_families(broker),
            partitions=lambda: partition_families(
                broker.topics.names(), broker.logs.partitions, broker.config.node_id, can_write=broker.can_write
            ),
        )
        try:
            async with trio.open_nursery() as nursery:
                try:
                    port = await nursery.start(
                        serve_metrics, host, port, metrics.render, broker.edges, self._metrics_names
                    )
                except HttpUnavailableError as error:
                    raise ObserversUnavailableError(str(error)) from None
                nursery.start_soon(drain_regularly, metrics.drain, idle)
                # The only way to learn the port that replaced port 0.
                _print_url(f"metrics on http://{host or 'localhost'}:{port}/metrics")
                yield
                nursery.cancel_scope.cancel()
        finally:
            broker.observe_topics(None)

    @contextlib.asynccontextmanager
    async def _serving_dashboard(
        self, server: SocketServer, broker: Broker, options: DashboardOptions, decoder: Decoder | None
    ) -> AsyncIterator[None]:
        from pipeline_broker.apis.call import Session  # noqa: PLC0415 - only if configured
        from pipeline_broker.dashboard.service import Dashboard  # noqa: PLC0415 - as above
        from pipeline_broker.node.calls_within import Caller  # noqa: PLC0415 - as above
        from pipeline_broker.security.principal import KafkaPrincipal  # noqa: PLC0415 - as above
        from pipeline_broker.web.http_server import HttpUnavailableError  # noqa: PLC0415 - as above

        def watch(timeline: Timeline | None) -> None:
            self._watching = timeline
            server.observe(self.timeline)

        session = Session(host=options.host, listener=DASHBOARD, is_trusted=options.principal is None)
        if options.principal is not None:
            session.principal = KafkaPrincipal(*options.principal.split(":", 1))
        dashboard = Dashboard(
            server,
            broker,
            self._beside,
            watch,
            lambda: self.timeline is self._watching,
            Caller(server, broker, session),
            is_read_only=options.is_read_only,
            decoder=decoder,
        )
        async with contextlib.AsyncExitStack() as stack:
            try:
                link = await stack.enter_async_context(dashboard.serving(options))
            except HttpUnavailableError as error:
                raise ObserversUnavailableError(str(error)) from None
            _print_url(f"dashboard on {link}")
            yield

    def close(self) -> None:
        """Write the remaining rows of the request log and the trace."""
        if self._request_log is not None:
            self._request_log.close()
        if self._trace is None:
            return
        try:
            self._trace.close()
        except OSError as error:
            logger.warning("trace rows were lost: %s", error)


def _store_families(broker: Broker) -> Callable[[], Iterable[Family]]:
    if broker.ports.store_figures is None:
        return tuple
    from pipeline_broker.broker.store_view import store_view  # noqa: PLC0415 - only with a store
    from pipeline_broker.telemetry.store_metrics import store_families  # noqa: PLC0415 - as above

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


def _print_url(line: str) -> None:
    print(line, file=sys.stderr, flush=True)  # noqa: T201 - stdout has the ready line alone


def _open_trace(directory: Path) -> TraceFiles:
    from pipeline_broker.telemetry.trace_files import TraceFiles  # noqa: PLC0415 - only if configured

    try:
        return TraceFiles(directory, {int(reason): reason.name.lower() for reason in MuteReason})
    except OSError as error:
        raise ObserversUnavailableError(
            f"cannot write trace files in {directory}: {error.strerror or error}; choose another --trace"
        ) from None


def _check_dashboard(options: DashboardOptions) -> Beside | None:
    from pipeline_broker.dashboard.service import check_options  # noqa: PLC0415 - only if configured
    from pipeline_broker.web.http_server import HttpUnavailableError  # noqa: PLC0415 - as above

    try:
        return check_options(options)
    except HttpUnavailableError as error:
        raise ObserversUnavailableError(str(error)) from None


def _check_writable(path: Path) -> None:
    try:
        open(path, "a", opener=owner_only.opener).close()
    except OSError as error:
        raise ObserversUnavailableError(
            f"cannot write the request log {path}: {error.strerror or error}; choose another --request-log"
        ) from None


def _open_measurements(mode: Mode) -> Measurements:
    from pipeline_broker.apis.registry import SERVED  # noqa: PLC0415 - only if configured
    from pipeline_broker.telemetry.measurements import Measurements  # noqa: PLC0415 - as above
    from pipeline_broker.web.http_server import HttpUnavailableError, require_h11  # noqa: PLC0415 - as above

    try:
        require_h11("metrics")
    except HttpUnavailableError as error:
        raise ObserversUnavailableError(str(error)) from None
    return Measurements({key: served.name for key, served in SERVED.items()}, mode)
