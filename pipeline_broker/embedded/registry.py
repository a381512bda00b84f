"""The schema registry of an embedded broker."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import trio

from pipeline_broker.base.byte_budget import ByteBudget
from pipeline_broker.base.unavailable import UnavailableError
from pipeline_broker.embedded.errors import EmbeddedBrokerError
from pipeline_broker.embedded.life import Running
from pipeline_broker.node.schema_registry import check_installed, registry_of, serving
from pipeline_broker.node.worker_process import Workers
from pipeline_broker.schema_registry.api import error_answer
from pipeline_broker.schema_registry.errors import RegistryError
from pipeline_broker.schema_registry.formats import PRELOADED
from pipeline_broker.web.hosts import LOOPBACK
from pipeline_broker.web.messages import Answer, HttpRequest, StreamedAnswer

if TYPE_CHECKING:
    from pipeline_broker.broker.broker import Broker
    from pipeline_broker.node.known_schemas import KnownSchemas
    from pipeline_broker.node.schema_registry import SchemaRegistry
    from stages.socket_server import SocketServer

__all__ = ["EmbeddedRegistry"]

# The default of `pipeline.edge.bytes`. The HTTP server outlives each run, so it cannot use the budget of one.
EDGE_BYTES = 256 << 20


class EmbeddedRegistry:
    """A schema registry whose port outlives the runs of the broker.

    The current run answers each request; between two runs the answer is an error. Schemas are in its log, so `restore`
    and `reset` also affect them.

    Args:
        turn: lock that the broker holds while a run starts or ends.
        find_running: returns the parts of the current run, to which `attach` was called.

    Raises:
        EmbeddedBrokerError: a package of the extra `schema-registry` is missing.
    """

    def __init__(self, turn: trio.Lock, find_running: Callable[[], Running]) -> None:
        try:
            check_installed()
        except UnavailableError as error:
            raise EmbeddedBrokerError(str(error)) from None
        self._turn, self._find_running = turn, find_running
        self._workers = Workers(PRELOADED)
        self._registry: SchemaRegistry | None = None
        self._schemas: KnownSchemas | None = None
        self._validation = trio.CancelScope()
        self._port = 0
        self.url = ""

    def attach(self, broker: Broker, server: SocketServer) -> None:
        """Serve the schemas of a new run of the broker, also to the validation of its records."""
        self._registry, self._schemas = registry_of(broker, server, self._workers)
        self._validation.cancel()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve until cancelled. Another call serves on the same port.

        Raises:
            EmbeddedBrokerError: the port cannot be bound.
        """
        try:
            serve = serving(self, ByteBudget(EDGE_BYTES), LOOPBACK, self._port)
            async with self._workers.serving(), serve as self.url:
                self._port = int(self.url.rpartition(":")[2])
                task_status.started()
                while True:
                    assert self._schemas is not None, "`attach` was called"
                    with trio.CancelScope() as self._validation:
                        await self._schemas.run()
        except UnavailableError as error:
            raise EmbeddedBrokerError(str(error)) from None

    async def answer(self, request: HttpRequest) -> Answer | StreamedAnswer:
        async with self._turn:
            try:
                self._find_running()
            except EmbeddedBrokerError as error:
                return error_answer(RegistryError(50001, str(error)))
            registry = self._registry
            assert registry is not None, "`attach` was called"
        # Answer after the turn, so that other calls do not wait for it.
        return await registry.answer(request)
