"""The HTTP endpoint of a standby: it is alive, is not ready, and has one metric."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING

import trio

from pipeline_broker.base.byte_budget import ByteBudget
from pipeline_broker.node.metrics_endpoint import serve_metrics
from pipeline_broker.web.http_server import require_h11
from pipeline_broker.web.turns import Steps

if TYPE_CHECKING:
    from pipeline_broker.node.options import ServeOptions

__all__ = ["serving_standby"]

EDGE_BYTES = 1 << 20
NOT_READY = "this broker stands by; its owner serves the clients"
TEXT = b"""# HELP pipeline_broker_standby Whether this process stands by
# TYPE pipeline_broker_standby gauge
pipeline_broker_standby 1
"""


@contextlib.asynccontextmanager
async def serving_standby(options: ServeOptions, announce: Callable[[str], None]) -> AsyncIterator[None]:
    """Serve the metrics port of a standby while the body runs.

    Raises:
        UnavailableError: h11 is missing, or the port is not available; the latter in an exception group.
    """
    if options.metrics_port is None:
        yield
        return
    require_h11("metrics")
    async with trio.open_nursery() as nursery:
        port = await nursery.start(
            serve_metrics,
            options.host,
            options.metrics_port,
            _render,
            ByteBudget(EDGE_BYTES),
            options.metrics_names,
            lambda: NOT_READY,
        )
        announce(f"metrics on http://{options.host or 'localhost'}:{port}/metrics")
        yield
        nursery.cancel_scope.cancel()


def _render() -> Steps[bytes]:
    yield
    return TEXT
