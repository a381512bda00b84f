"""The dashboard of a broker. This module is imported only if a dashboard is configured."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING

from pipeline_broker.dashboard.service import Dashboard, check_options
from pipeline_broker.node.http_callers import HttpCallers
from pipeline_broker.security.http_security import NO_SECURITY, HttpSecurity

if TYPE_CHECKING:
    from pipeline_broker.broker.broker import Broker
    from pipeline_broker.dashboard.options import DashboardOptions
    from pipeline_broker.dashboard.schema_changes import Registry
    from stages.socket_server import SocketServer
    from stages.timeline import Timeline

__all__ = ["BrokerDashboard"]


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
        registry: Registry | None,
    ) -> AsyncIterator[str]:
        """Serve the dashboard while the body runs, and yield its link; see `Dashboard` for the arguments.

        Raises:
            UnavailableError: the port is not available.
        """
        options = self._options
        callers = HttpCallers(server, broker, "DASHBOARD", options.principal)
        dashboard = Dashboard(
            server,
            broker,
            self._beside,
            watch,
            is_alone,
            callers.caller_of,
            is_read_only=options.is_read_only,
            registry=registry,
        )
        async with dashboard.serving(options, self._security) as link:
            yield link
