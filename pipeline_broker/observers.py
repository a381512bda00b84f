"""Who observes a broker: trace files and the metrics endpoint, or nobody.

Rules of this room: without an observer the server has no timeline and pays for no stamp; what an observer needs is
checked before the broker takes its data directory, so that a missing package or an unusable folder is one line at the
start; an observer that fails later never stops the broker.
"""

from __future__ import annotations

import contextlib
import logging
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING

import trio

from stages.mute import MuteReason

if TYPE_CHECKING:
    from pipeline_broker.broker import Broker
    from pipeline_broker.telemetry.measurements import Measurements
    from pipeline_broker.telemetry.trace_files import TraceFiles
    from stages.mode import Mode
    from stages.socket_server import SocketServer
    from stages.timeline import Timeline

__all__ = ["Observers", "ObserversUnavailableError", "first_cause"]

logger = logging.getLogger(__name__)


class ObserversUnavailableError(Exception):
    """An observer cannot begin; the text is one line that says what to do."""


class Observers:
    """The observers of one broker.

    Args:
        mode: of the broker.
        trace: where trace files are written, if at all.
        metrics_address: host and port of the endpoint, if any.

    Raises:
        ObserversUnavailableError: one of them cannot begin.
    """

    def __init__(self, mode: Mode, trace: Path | None, metrics_address: tuple[str, int] | None) -> None:
        self._trace = None if trace is None else _open_trace(trace)
        self._metrics_address = metrics_address
        self._measurements = None if metrics_address is None else _open_measurements(mode)

    @property
    def timeline(self) -> Timeline | None:
        """What the server reports to."""
        timelines: list[Timeline] = [observer for observer in (self._trace, self._measurements) if observer is not None]
        if len(timelines) < 2:
            return timelines[0] if timelines else None
        from pipeline_broker.telemetry.fan_out import FanOut  # noqa: PLC0415 - needed for two only

        return FanOut(timelines)

    @contextlib.asynccontextmanager
    async def observing(self, server: SocketServer, broker: Broker) -> AsyncIterator[None]:
        """Serve metrics, if asked for, while the body runs.

        Raises:
            ObserversUnavailableError: the port of the endpoint cannot be had.
        """
        measurements = self._measurements
        if measurements is None or self._metrics_address is None:
            yield
            return
        from pipeline_broker.metrics_endpoint import (  # noqa: PLC0415 - for those who asked
            LoopIdleTime,
            MetricsUnavailableError,
            drain_regularly,
            serve_metrics,
        )
        from pipeline_broker.telemetry.broker_metrics import BrokerMetrics  # noqa: PLC0415 - see above
        from pipeline_broker.telemetry.topic_metrics import TopicMetrics  # noqa: PLC0415 - see above

        idle = LoopIdleTime()
        topics = broker.topic_metrics = TopicMetrics(broker.topic_totals, broker.topic_name)
        measurements.requests.fetch_sent = topics.fetch_sent
        metrics = BrokerMetrics(measurements, topics, broker, server.statistics, lambda: idle.idle_ns)
        host, port = self._metrics_address
        trio.lowlevel.add_instrument(idle)
        try:
            async with trio.open_nursery() as nursery:
                try:
                    port = await nursery.start(serve_metrics, host, port, metrics.render)
                except MetricsUnavailableError as error:
                    raise ObserversUnavailableError(str(error)) from None
                nursery.start_soon(drain_regularly, metrics.drain)
                _say(f"metrics on http://{host}:{port}/metrics")  # the only way to learn what port 0 became
                yield
                nursery.cancel_scope.cancel()
        finally:
            broker.topic_metrics = None
            trio.lowlevel.remove_instrument(idle)

    def close(self) -> None:
        """Write out what is left."""
        if self._trace is None:
            return
        try:
            self._trace.close()
        except OSError as error:
            logger.warning("trace rows were lost: %s", error)


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)  # noqa: T201 - for whoever asked for the endpoint; stdout has the ready line


def first_cause(error: BaseException) -> BaseException:
    """What nurseries wrapped."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _open_trace(directory: Path) -> TraceFiles:
    from pipeline_broker.telemetry.trace_files import TraceFiles  # noqa: PLC0415 - for those who asked

    try:
        return TraceFiles(directory, {int(reason): reason.name.lower() for reason in MuteReason})
    except OSError as error:
        raise ObserversUnavailableError(
            f"cannot write trace files in {directory}: {error.strerror or error}; choose another --trace"
        ) from None


def _open_measurements(mode: Mode) -> Measurements:
    from pipeline_broker.apis.registry import SERVED  # noqa: PLC0415 - for those who asked
    from pipeline_broker.metrics_endpoint import MetricsUnavailableError, require_extra  # noqa: PLC0415 - see above
    from pipeline_broker.telemetry.measurements import Measurements  # noqa: PLC0415 - see above

    try:
        require_extra()
    except MetricsUnavailableError as error:
        raise ObserversUnavailableError(str(error)) from None
    return Measurements({key: served.name for key, served in SERVED.items()}, mode)
