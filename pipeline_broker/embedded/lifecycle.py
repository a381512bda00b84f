"""Startup, shutdown and thread-safe calls of an embedded broker."""

from __future__ import annotations

import atexit
import functools
import logging
import os
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar

import trio

from pipeline_broker.config.listeners import format_host
from pipeline_broker.embedded.arguments import Duration, SettingValue, checked_number, checked_seconds
from pipeline_broker.embedded.broker_thread import BrokerThread, ThreadEndedError
from pipeline_broker.embedded.core import Core
from pipeline_broker.embedded.errors import EmbeddedBrokerError
from pipeline_broker.embedded.life import MEMORY_DIRECTORY, Running
from pipeline_broker.embedded.loops import await_future, in_thread, running_loop
from pipeline_broker.embedded.settings import serve_options
from pipeline_broker.embedded.shown import Usage
from pipeline_broker.faults.names import FaultError
from pipeline_broker.files.file_system import SystemFileSystem
from pipeline_broker.log.archive.local.archive_place import ArchivePlace
from pipeline_broker.node.errors import StartError

if TYPE_CHECKING:
    from pipeline_broker.node.archive_store import ArchiveStore
    from pipeline_broker.objects.store import ObjectStore
    from pipeline_broker.state.leadership.replication import Replication

__all__ = ["Lifecycle"]

__tracebackhide__ = True  # pytest shows the caller's line instead of this module
Result = TypeVar("Result")

REQUESTS_MAX = 4096
# The method would wait for the event loop that it blocks.
NOT_ON_LOOP = "a function that on_loop calls cannot call methods of the broker; use the function's argument instead"

logger = logging.getLogger(__name__)


class Lifecycle:
    """The startup, shutdown and event loop of an embedded broker; see EmbeddedBroker for the arguments.

    A subclass sends its calls through `_ask` or `_wait`. These reject a broker that was not started, is closed, or
    belongs to the parent of a forked process.
    """

    def __init__(
        self,
        *,
        mode: str,
        settings: Mapping[str, SettingValue] | None,
        data: str | os.PathLike[str] | None,
        store: str | ObjectStore | None,
        flush: str,
        requests_max: int,
        schema_registry: bool,
    ) -> None:
        if data is not None and store is not None:
            raise EmbeddedBrokerError(
                "data= and store= are both set; give only one, because a broker keeps its data in one place"
            )
        if not isinstance(data, str | os.PathLike | None):
            raise EmbeddedBrokerError(f"data= needs the path of a directory, not {data!r}")
        directory = MEMORY_DIRECTORY if data is None else Path(data)
        self._options = [serve_options(mode, settings, directory, flush, "disk" if store is None else "objects")]
        self._in_memory = data is None
        self._store = store
        self._requests_max = checked_number("requests_max=", requests_max, 0)
        self._with_schema_registry = schema_registry
        self._replication: Replication | None = None  # of a cluster
        self._core: Core | None = None
        self._thread: BrokerThread | None = None
        self._process_id = 0
        self._is_closed = False

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.mode} {self.bootstrap_servers if self._addresses else 'not started'}>"

    # Start and end

    def start(self) -> Self:
        """Start the broker and return once it serves clients. The `with` statement does this for you.

        Raises:
            EmbeddedBrokerError: the broker was started before, or cannot start.
            TimeoutError: the broker did not start within `broker_thread.START_SECONDS_MAX` seconds.
        """
        if self._thread is not None:
            raise EmbeddedBrokerError("this broker was already started, and a broker starts only once; create another")
        store = None if self._store is None else _checked(self._store, self._options[0].config.node_id)
        core = self._core = Core(
            self._options, self._requests_max, in_memory=self._in_memory, store=store, replication=self._replication
        )
        self._process_id = os.getpid()
        self._run(core)
        if self._with_schema_registry:
            try:
                self._ask(core.serve_schema_registry)
            except EmbeddedBrokerError:
                self.close()
                raise
        return self

    def _run(self, core: Core) -> None:
        self._thread = BrokerThread("embedded-broker", core.run)
        self._is_closed = False
        try:
            self._thread.start()
        except StartError as error:
            self._is_closed = True
            raise EmbeddedBrokerError(str(error)) from None
        if not self._in_memory or self._store is not None:
            # The thread is a daemon: without this, the interpreter would stop it in the middle of a write.
            atexit.register(self.close)

    def _renew(self) -> bool:
        """Restart a broker that ended inside an island, or failed before one. Return whether it restarted."""
        thread, core = self._thread, self._core
        if thread is None or core is None or self._process_id != os.getpid():
            return False
        if not thread.has_ended or (self._is_closed and not core.has_island):
            return False
        atexit.unregister(self.close)
        thread.join()
        core.renew()
        self._run(core)
        return True

    def close(self) -> None:
        """Stop the broker: answer requests in flight, then close all connections. Further calls do nothing.

        Raises:
            EmbeddedBrokerError: a function of `on_loop` calls this method.
        """
        # A fork has a copy of this object, but not the thread, and must not end the parent's broker.
        if self._thread is None or self._core is None or self._is_closed or self._process_id != os.getpid():
            return
        if self._thread.is_current:
            raise EmbeddedBrokerError(NOT_ON_LOOP)
        self._is_closed = True
        atexit.unregister(self.close)
        try:
            self._thread.call(self._core.close)
            self._thread.join()
        except ThreadEndedError as error:
            logger.warning("%s", error)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return await in_thread(self.start)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await in_thread(self.close)

    @property
    def _addresses(self) -> list[Mapping[str, tuple[str, int]]]:
        return [] if self._core is None else [each.addresses for each in self._core.brokers if each.addresses]

    @property
    def mode(self) -> str:
        return self._options[0].mode.name

    @property
    def bootstrap_servers(self) -> str:
        """The address of the first listener of each broker, as clients take it in `bootstrap.servers`.

        Raises:
            EmbeddedBrokerError: the broker was not started.
        """
        if not self._addresses:
            raise EmbeddedBrokerError("the broker was not started: use `with EmbeddedBroker() as broker:`, or start()")
        first = [next(iter(addresses.values())) for addresses in self._addresses]
        return ",".join(f"{format_host(host)}:{port}" for host, port in first)

    @property
    def addresses(self) -> Mapping[str, tuple[str, int]]:
        """The host and port that clients of each listener connect to, by listener name; empty before the start."""
        return dict(self._addresses[0]) if self._addresses else {}

    @property
    def schema_registry_url(self) -> str:
        """The URL of the broker's schema registry. The first read starts the registry.

        Raises:
            EmbeddedBrokerError: a package of the extra `schema-registry` is missing, or the broker is not running.
        """
        return self._ask(self._of_core.serve_schema_registry)

    def usage(self) -> Usage:
        return self._on_core_at_once(Core.usage)

    def on_loop(self, function: Callable[[Running], Result]) -> Result:
        """Call a function with the parts of the running broker, on its event loop, and return its result.

        Use it for everything that has no method here. The function must not block, and its caller must not keep parts
        of the broker: a `restore` replaces them. Exceptions of the function are raised here.

        Args:
            function: receives a `Running` with `broker`, `server`, `dispatcher`, `maintenance` and `listeners`.

        Raises:
            EmbeddedBrokerError: the broker is not running.
        """
        if not callable(function):
            raise EmbeddedBrokerError(f"on_loop needs a function, not {function!r}")
        return self._on_core(lambda core: function(core.running))

    def _on_core(self, function: Callable[[Core], Result]) -> Result:
        core = self._of_core

        async def call() -> Result:
            return function(core)

        return self._ask(call)

    def _on_core_at_once(self, function: Callable[[Core], Result]) -> Result:
        """Like `_on_core`, without waiting for calls in progress.

        A fault rule may hold the request that such a call waits for.
        """
        core = self._of_core

        async def call() -> Result:
            return function(core)

        return self._call(call)

    # Calls to the event loop

    @property
    def _of_core(self) -> Core:
        thread, core = self._thread, self._core
        if core is None or thread is None:
            raise EmbeddedBrokerError("the broker was not started: use `with EmbeddedBroker() as broker:`, or start()")
        if self._process_id != os.getpid():
            raise EmbeddedBrokerError(
                f"the broker runs in process {self._process_id}. This process is its fork, which can only connect"
                " clients. Start another broker here for everything else"
            )
        if self._is_closed:
            raise EmbeddedBrokerError("the broker is closed; start another one")
        if thread.is_current:
            raise EmbeddedBrokerError(NOT_ON_LOOP)
        return core

    def _ask(self, work: Callable[[], Awaitable[Result]]) -> Result:
        core = self._of_core

        async def in_turn() -> Result:
            async with core.turn:
                return await work()

        return self._call(in_turn)

    @property
    def has_ended(self) -> bool:
        return self._thread is not None and self._thread.has_ended

    def look(self, function: Callable[[Core], Awaitable[Result]]) -> Result:
        # Like `_ask`, and after the broker has ended, too: its parts stay as they were.
        thread, core = self._thread, self._core
        if thread is None or core is None or not thread.has_ended or self._process_id != os.getpid():
            try:
                core = self._of_core
                return self._ask(functools.partial(function, core))
            except EmbeddedBrokerError:  # it may end during the call
                if core is None or not self.has_ended or self._process_id != os.getpid():
                    raise
        return trio.run(function, core)

    def _ask_or_renew(self, work: Callable[[Core, bool], Awaitable[Result]]) -> Result:
        """Like `_ask`, and repeat the call after a restart if the broker has ended.

        `work` receives whether the broker was restarted.
        """
        try:
            core = self._of_core
            return self._ask(lambda: work(core, False))
        except EmbeddedBrokerError:
            if not self._renew():
                raise
        core = self._of_core
        return self._ask(lambda: work(core, True))

    def _call(self, work: Callable[[], Awaitable[Result]], own_seconds: float = 0) -> Result:
        assert self._thread is not None, "called while the broker runs"
        try:
            return self._thread.call(work, own_seconds)
        except ThreadEndedError as error:
            raise EmbeddedBrokerError(str(error)) from None
        except (EmbeddedBrokerError, FaultError) as error:
            raise error.with_traceback(None) from None  # frames of the broker do not help the caller

    def _wait(self, name: str, work: Callable[[], Awaitable[Result]], timeout: Duration) -> Result:
        if (loop := running_loop()) is not None:
            raise EmbeddedBrokerError(
                f"{name} would block this {loop} event loop and all clients on it: await {name}_async instead"
            )
        return self._call(work, checked_seconds(f"{name}: timeout", timeout))

    async def _wait_async(self, work: Callable[[], Awaitable[Result]]) -> Result:
        assert self._thread is not None, "called while the broker runs"
        try:
            return await await_future(self._thread.submit(work))
        except ThreadEndedError as error:
            raise EmbeddedBrokerError(str(error)) from None
        except EmbeddedBrokerError as error:
            raise error.with_traceback(None) from None


def _checked(store: str | ObjectStore, node: int) -> ArchiveStore:
    from pipeline_broker.node.archive_store import ArchiveStore  # noqa: PLC0415 - only for a store

    try:
        if isinstance(store, str):
            return ArchiveStore.find(ArchivePlace(store, node, "objects"), SystemFileSystem())
        return ArchiveStore.of(ArchivePlace(type(store).__name__, node, "objects"), store)
    except StartError as error:
        raise EmbeddedBrokerError(str(error)) from None
