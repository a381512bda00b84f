"""The dashboard of a broker. This module is imported only if a dashboard is configured."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING

from pipeline_broker.apis.call import Session
from pipeline_broker.dashboard.service import Dashboard
from pipeline_broker.node.calls_within import Caller
from pipeline_broker.security.principal import KafkaPrincipal

if TYPE_CHECKING:
    from pipeline_broker.broker.broker import Broker
    from pipeline_broker.dashboard.beside import Beside
    from pipeline_broker.dashboard.options import DashboardOptions
    from pipeline_broker.dashboard.record_view import Decoder
    from stages.socket_server import SocketServer
    from stages.timeline import Timeline

__all__ = ["serving"]

# The listener name and client id of requests by the dashboard; no such listener exists.
DASHBOARD = "DASHBOARD"


@contextlib.asynccontextmanager
async def serving(
    server: SocketServer,
    broker: Broker,
    options: DashboardOptions,
    beside: Beside | None,
    watch: Callable[[Timeline | None], None],
    is_alone: Callable[[], bool],
    decoder: Decoder | None,
) -> AsyncIterator[str]:
    """Serve the dashboard while the body runs, and yield its link; see `Dashboard` for the arguments.

    Raises:
        UnavailableError: the port is not available.
    """
    session = Session(host=options.host, listener=DASHBOARD, is_trusted=options.principal is None)
    if options.principal is not None:
        session.principal = KafkaPrincipal(*options.principal.split(":", 1))
    caller = Caller(server, broker, session)
    dashboard = Dashboard(
        server, broker, beside, watch, is_alone, caller, is_read_only=options.is_read_only, decoder=decoder
    )
    async with dashboard.serving(options) as link:
        yield link
