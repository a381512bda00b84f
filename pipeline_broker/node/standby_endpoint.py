"""The HTTP endpoint of a standby: it is alive, is not ready, and has one metric."""

from __future__ import annotations

import contextlib
import functools
import logging
from collections.abc import AsyncIterator, Callable, Collection
from typing import TYPE_CHECKING

import trio

from pipeline_broker.base.byte_budget import ByteBudget
from pipeline_broker.base.unavailable import UnavailableError
from pipeline_broker.node.file_renewal import FileRenewal, renew_on_hangup
from pipeline_broker.node.metrics_endpoint import serve_metrics
from pipeline_broker.security.http_security import NO_SECURITY, HttpSecurity
from pipeline_broker.web.http_server import require_h11
from pipeline_broker.web.turns import Steps

if TYPE_CHECKING:
    from pipeline_broker.node.options import ServeOptions

__all__ = ["serving_standby"]

logger = logging.getLogger(__name__)

EDGE_BYTES = 1 << 20
NOT_READY = "this broker stands by; its owner serves the clients"
TEXT = b"""# HELP pipeline_broker_standby Whether this process stands by
# TYPE pipeline_broker_standby gauge
pipeline_broker_standby 1
"""


@contextlib.asynccontextmanager
async def serving_standby(
    options: ServeOptions, announce: Callable[[str], None], security: HttpSecurity = NO_SECURITY
) -> AsyncIterator[None]:
    """Serve the metrics port of a standby while the body runs.

    On the owner's machine the owner may have the port: then the standby waits without an endpoint.

    Raises:
        UnavailableError: h11 is missing.
    """
    if options.metrics_port is None:
        yield
        return
    require_h11("metrics")
    async with trio.open_nursery() as nursery:
        renewal = FileRenewal(lambda: security.files)
        nursery.start_soon(renewal.run)
        await nursery.start(renew_on_hangup, renewal)
        port: int | None = await nursery.start(
            _serve, options.host, options.metrics_port, options.metrics_names, security
        )
        if port is not None:
            announce(f"metrics on {security.scheme}://{options.host or 'localhost'}:{port}/metrics")
        yield
        nursery.cancel_scope.cancel()


async def _serve(
    host: str,
    port: int,
    names: Collection[str],
    security: HttpSecurity,
    *,
    task_status: trio.TaskStatus[int | None] = trio.TASK_STATUS_IGNORED,
) -> None:
    serve = functools.partial(serve_metrics, security=security, task_status=task_status)
    try:
        await serve(host, port, _render, ByteBudget(EDGE_BYTES), names, lambda: NOT_READY)
    except UnavailableError as error:
        logger.warning("%s; this standby has no health checks", error)
        task_status.started(None)


def _render() -> Steps[bytes]:
    yield
    return TEXT
