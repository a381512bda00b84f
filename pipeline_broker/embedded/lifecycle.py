"""How an embedded broker begins, is reached from other threads, and ends.

Rules of this file: whatever is asked of the broker goes through here, once it is sure that it can be answered: it was
started, in this process, and is not closed. A mistake of who asks is one line that says what to do.
"""

from __future__ import annotations

import atexit
import logging
import os
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar

from pipeline_broker.config.listeners import format_host
from pipeline_broker.embedded.broker_thread import BrokerThread, ThreadEndedError
from pipeline_broker.embedded.core import Core
from pipeline_broker.embedded.errors import EmbeddedBrokerError
from pipeline_broker.embedded.life import MEMORY_DIRECTORY, Running
from pipeline_broker.embedded.loops import await_future, in_thread, running_loop
from pipeline_broker.embedded.settings import SettingValue, serve_options
from pipeline_broker.faults.names import FaultError
from pipeline_broker.node.options import StartError

if TYPE_CHECKING:
    from pipeline_broker.node.archive_store import ArchiveStore
    from pipeline_broker.objects.store import ObjectStore

__all__ = ["Lifecycle"]

__tracebackhide__ = True  # pytest shows the line that asked, not ours
Result = TypeVar("Result")

REQUESTS_MAX = 4096
NOT_ON_LOOP = "a function of on_loop has the running broker as its argument, and asks that"

logger = logging.getLogger(__name__)


class Lifecycle:
    """See the rules; the arguments are those of EmbeddedBroker."""

    def __init__(
        self,
        *,
        mode: str = "pipelined",
        settings: Mapping[str, SettingValue] | None = None,
        data: str | os.PathLike[str] | None = None,
        store: str | ObjectStore | None = None,
        flush: str = "os",
        requests_max: int = REQUESTS_MAX,
        schema_registry: bool = False,
    ) -> None:
        if data is not None and store is not None:
            raise EmbeddedBrokerError("data= and store= are two places for the same: give one of them")
        directory = MEMORY_DIRECTORY if data is None else Path(data)
        self._options = serve_options(mode, settings, directory, flush, "disk" if store is None else "objects")
        if requests_max < 0:
            raise EmbeddedBrokerError(f"requests_max {requests_max} is less than 0, which remembers none")
        self._in_memory = data is None
        self._store = store
        self._requests_max = requests_max
        self._with_schema_registry = schema_registry
        self._core: Core | None = None
        self._thread: BrokerThread | None = None
        self._process_id = 0
        self._is_closed = False
        self._addresses: Mapping[str, tuple[str, int]] = {}

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.mode} {self.bootstrap_servers if self._addresses else 'not started'}>"

    # Beginning and end

    def start(self) -> Self:
        """Start it; it serves when this returns.

        Raises:
            EmbeddedBrokerError: it was started before, or cannot start.
        """
        if self._thread is not None:
            raise EmbeddedBrokerError("this broker was started already; a broker starts once, make another one")
        store = None if self._store is None else _checked(self._store, self._options.config.node_id)
        core = self._core = Core(self._options, self._requests_max, in_memory=self._in_memory, store=store)
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
        self._addresses = dict(core.running.listeners.addresses)
        atexit.register(self.close)

    def _renew(self) -> bool:
        """Start it again where it has ended in an island, or has failed before one; whether it had."""
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
        """End it: what is in flight is answered, connections are closed. Once is enough."""
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
    def mode(self) -> str:
        """Its request path: "pipelined" or "classic"."""
        return self._options.mode.name

    @property
    def bootstrap_servers(self) -> str:
        """The address of the first listener, as clients take it in `bootstrap.servers`."""
        if not self._addresses:
            raise EmbeddedBrokerError("the broker was not started: use `with EmbeddedBroker() as broker:`, or start()")
        host, port = next(iter(self._addresses.values()))
        return f"{format_host(host)}:{port}"

    @property
    def addresses(self) -> Mapping[str, tuple[str, int]]:
        """Host and port of each listener, by its name."""
        return dict(self._addresses)

    @property
    def schema_registry_url(self) -> str:
        """Where its schema registry is, for a client's `url`; it is served from the first time that this is asked.

        Raises:
            EmbeddedBrokerError: a package of the extra `schema-registry` is missing.
        """
        return self._ask(self._of_core.serve_schema_registry)

    def on_loop(self, function: Callable[[Running], Result]) -> Result:
        """Call a function with the parts of the running broker, on its event loop; it must not block.

        This is the way to everything that has no method here. What it returns must not be used as a part of the
        broker: after a `restore` these are others.
        """

        async def call() -> Result:
            return function(self._running)

        return self._ask(call)

    def _on_loop_at_once(self, function: Callable[[Running], Result]) -> Result:
        """As `on_loop`, without waiting for those who ask something and are not answered yet."""
        core = self._of_core

        async def call() -> Result:
            return function(core.running)

        return self._call(call)

    # On the way to the loop

    @property
    def _of_core(self) -> Core:
        thread, core = self._thread, self._core
        if core is None or thread is None:
            raise EmbeddedBrokerError("the broker was not started: use `with EmbeddedBroker() as broker:`, or start()")
        if self._process_id != os.getpid():
            raise EmbeddedBrokerError(
                f"the broker runs in process {self._process_id}: this fork of it may connect clients to it,"
                " and needs a broker of its own for everything else"
            )
        if self._is_closed:
            raise EmbeddedBrokerError("the broker is closed; start another one")
        if thread.is_current:
            raise EmbeddedBrokerError(NOT_ON_LOOP)
        return core

    @property
    def _running(self) -> Running:  # on the loop
        assert self._core is not None, "asked while it runs"
        return self._core.running

    @property
    def _now_ms(self) -> int:  # on the loop
        assert self._core is not None, "asked while it runs"
        return self._core.clock.now_ms()

    def _ask(self, work: Callable[[], Awaitable[Result]]) -> Result:
        core = self._of_core

        async def in_turn() -> Result:
            async with core.turn:
                return await work()

        return self._call(in_turn)

    def _ask_or_renew(self, work: Callable[[Core, bool], Awaitable[Result]]) -> Result:
        """As `_ask`, and once more of a broker that is started again; `work` is called with whether it is."""
        try:
            core = self._of_core
            return self._ask(lambda: work(core, False))
        except EmbeddedBrokerError:
            if not self._renew():
                raise
        core = self._of_core
        return self._ask(lambda: work(core, True))

    def _call(self, work: Callable[[], Awaitable[Result]], own_seconds: float = 0) -> Result:
        assert self._thread is not None, "asked while it runs"
        try:
            return self._thread.call(work, own_seconds)
        except ThreadEndedError as error:
            raise EmbeddedBrokerError(str(error)) from None
        except (EmbeddedBrokerError, FaultError) as error:
            raise error.with_traceback(None) from None  # how this came about in the broker helps no caller

    def _wait(self, name: str, work: Callable[[], Awaitable[Result]], timeout_seconds: float) -> Result:
        if (loop := running_loop()) is not None:
            raise EmbeddedBrokerError(
                f"{name} would block this {loop} event loop and all clients on it: await {name}_async instead"
            )
        return self._call(work, timeout_seconds)

    async def _wait_async(self, work: Callable[[], Awaitable[Result]]) -> Result:
        assert self._thread is not None, "asked while it runs"
        try:
            return await await_future(self._thread.submit(work))
        except ThreadEndedError as error:
            raise EmbeddedBrokerError(str(error)) from None
        except EmbeddedBrokerError as error:
            raise error.with_traceback(None) from None


def _checked(store: str | ObjectStore, node: int) -> ArchiveStore:
    """The store of a broker, by its address or as it is; raises EmbeddedBrokerError where it cannot be used."""
    from pipeline_broker.files.file_system import SystemFileSystem  # noqa: PLC0415 - for those who asked
    from pipeline_broker.log.archive.local.archive_place import ArchivePlace  # noqa: PLC0415 - see above
    from pipeline_broker.node.archive_store import ArchiveStore  # noqa: PLC0415 - see above

    try:
        if isinstance(store, str):
            return ArchiveStore.find(ArchivePlace(store, node, "objects"), SystemFileSystem())
        return ArchiveStore.of(ArchivePlace(type(store).__name__, node, "objects"), store)
    except StartError as error:
        raise EmbeddedBrokerError(str(error)) from None
