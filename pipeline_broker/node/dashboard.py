"""The dashboard of a broker. This module is imported only if a dashboard is configured."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING

from pipeline_broker.apis.call import Session
from pipeline_broker.dashboard.service import Dashboard, check_options
from pipeline_broker.node.calls_within import Caller
from pipeline_broker.security.http_security import NO_SECURITY, HttpSecurity
from pipeline_broker.security.principal import KafkaPrincipal

if TYPE_CHECKING:
    from pipeline_broker.broker.broker import Broker
    from pipeline_broker.dashboard.options import DashboardOptions
    from pipeline_broker.dashboard.record_view import Decoder
    from stages.socket_server import SocketServer
    from stages.timeline import Timeline

__all__ = ["BrokerDashboard"]

# The listener name and client id of requests by the dashboard; no such listener exists.
DASHBOARD = "DASHBOARD"


class BrokerDashboard:
    """The dashboard of a broker, with its options.

    Raises:
        UnavailableError: h11 is not installed, or the address of the second dashboard is invalid.
    """

    def __init__(self, options: DashboardOptions, security: HttpSecurity = NO_SECURITY) -> None:
        self._options, self._security = options, security
        self._beside = check_options(options)

    @contextlib.asynccontextmanager
    async def serving(
        self,
        server: SocketServer,
        broker: Broker,
        watch: Callable[[Timeline | None], None],
        is_alone: Callable[[], bool],
        decoder: Decoder | None,
    ) -> AsyncIterator[str]:
        """Serve the dashboard while the body runs, and yield its link; see `Dashboard` for the arguments.

        Raises:
            UnavailableError: the port is not available.
        """
        options = self._options
        session = Session(host=options.host, listener=DASHBOARD, is_trusted=options.principal is None)
        if options.principal is not None:
            session.principal = KafkaPrincipal(*options.principal.split(":", 1))
        caller = Caller(server, broker, session)
        dashboard = Dashboard(
            server, broker, self._beside, watch, is_alone, caller, is_read_only=options.is_read_only, decoder=decoder
        )
        async with dashboard.serving(options, self._security) as link:
            yield link
