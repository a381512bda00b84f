"""The observers of a broker: trace files, metrics, request log, dashboard, and published timelines."""

from __future__ import annotations

import contextlib
import functools
import logging
import sys
from collections.abc import AsyncIterator, Callable, Collection
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline_broker.base import owner_only
from pipeline_broker.base.unavailable import UnavailableError
from pipeline_broker.security.http_security import NO_SECURITY, HttpSecurity
from pipeline_broker.telemetry.broker_loggers import logs_requests
from stages.mute import MuteReason

if TYPE_CHECKING:
    from pipeline_broker.broker.broker import Broker
    from pipeline_broker.dashboard.options import DashboardOptions
    from pipeline_broker.dashboard.schema_changes import Registry
    from pipeline_broker.node.dashboard import BrokerDashboard
    from pipeline_broker.node.metrics import Metrics
    from pipeline_broker.telemetry.request_log import RequestLog
    from pipeline_broker.telemetry.trace_files import TracedStoreRequest, TraceFiles
    from stages.mode import Mode
    from stages.socket_server import SocketServer
    from stages.timeline import Timeline

__all__ = ["Observers"]

logger = logging.getLogger(__name__)


def _announce(line: str) -> None:
    sys.stderr.write(f"{line}\n")


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
        announce: prints a line with an address.
        security: TLS and users of the HTTP ports.

    Raises:
        UnavailableError: an observer cannot start.
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
        announce: Callable[[str], None] = _announce,
        security: HttpSecurity = NO_SECURITY,
    ) -> None:
        self._announce = announce
        self._trace = None if trace is None else _open_trace(trace)
        self._metrics = None if metrics_address is None else _metrics(mode, metrics_address, metrics_names, security)
        self._request_log_path = request_log
        self._logs_requests = logs_requests
        self._request_log: RequestLog | None = None
        self._dashboard = None if dashboard is None else _dashboard(dashboard, security)
        self._watching: Timeline | None = None
        self._remembering: Timeline | None = None
        self._publishing: Timeline | None = None
        # Checked at startup only if the file was named. A client may enable the log later, when an error is logged.
        if logs_requests:
            _check_writable(request_log)

    @property
    def timeline(self) -> Timeline | None:
        """The timeline that the server reports to at present; None without observers."""
        log = self._request_log
        wanted_log = None if log is None or not log.is_on else log
        measurements = None if self._metrics is None else self._metrics.timeline
        all_observers = (self._trace, measurements, wanted_log, self._watching, self._remembering, self._publishing)
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
        self, server: SocketServer, broker: Broker, registry: Registry | None = None
    ) -> AsyncIterator[None]:
        """Observe a broker while the body runs.

        Args:
            registry: the schema registry, for the dashboard; None without one.

        Raises:
            UnavailableError: the port of the metrics or of the dashboard is not available.
        """
        level = "DEBUG" if self._logs_requests else "WARN"
        broker.loggers.start_request_log(level, functools.partial(self._request_level_changed, server))
        async with contextlib.AsyncExitStack() as stack:
            if self._metrics is not None:
                serving = self._metrics.serving(server, broker, lambda: self._request_log)
                url = await stack.enter_async_context(serving)
                # The only way to learn the port that replaced port 0.
                self._announce(f"metrics on {url}")
            if self._dashboard is not None:
                link = await stack.enter_async_context(
                    self._serving_dashboard(self._dashboard, server, broker, registry)
                )
                self._announce(f"dashboard on {link}")
            yield

    def remember(self, server: SocketServer, timeline: Timeline) -> None:
        self._remembering = timeline
        server.observe(self.timeline)

    def publish(self, server: SocketServer, timeline: Timeline | None) -> None:
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
    async def _serving_dashboard(
        self, dashboard: BrokerDashboard, server: SocketServer, broker: Broker, registry: Registry | None
    ) -> AsyncIterator[str]:
        def watch(timeline: Timeline | None) -> None:
            self._watching = timeline
            server.observe(self.timeline)

        def is_alone() -> bool:
            return self.timeline is self._watching

        async with dashboard.serving(server, broker, watch, is_alone, registry) as link:
            yield link

    def close(self) -> None:
        if self._request_log is not None:
            self._request_log.close()
        if self._trace is None:
            return
        try:
            self._trace.close()
        except OSError as error:
            logger.warning("trace rows were lost: %s", error)


def _open_trace(directory: Path) -> TraceFiles:
    from pipeline_broker.telemetry.trace_files import TraceFiles  # noqa: PLC0415 - only if configured

    try:
        return TraceFiles(directory, {int(reason): reason.name.lower() for reason in MuteReason})
    except OSError as error:
        raise UnavailableError(
            f"cannot write trace files in {directory}: {error.strerror or error}; choose another --trace"
        ) from None


def _dashboard(options: DashboardOptions, security: HttpSecurity) -> BrokerDashboard:
    from pipeline_broker.node.dashboard import BrokerDashboard  # noqa: PLC0415 - only if configured

    return BrokerDashboard(options, security)


def _check_writable(path: Path) -> None:
    try:
        open(path, "a", opener=owner_only.opener).close()
    except OSError as error:
        raise UnavailableError(
            f"cannot write the request log {path}: {error.strerror or error}; choose another --request-log"
        ) from None


def _metrics(mode: Mode, address: tuple[str, int], names: Collection[str], security: HttpSecurity) -> Metrics:
    from pipeline_broker.node.metrics import Metrics  # noqa: PLC0415 - only if configured

    return Metrics(mode, address, names, security)
