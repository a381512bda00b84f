"""A whole server without sockets and threads: connections are in memory, and commits run on the event loop."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager

import attrs
import trio

from stages.commit_pace import CommitPace
from stages.commit_storage import CommitStorage
from stages.committer import CommitExecutor, CommitFailedError
from stages.listener import OpenSession
from stages.mode import Mode
from stages.request import Request
from stages.request_handler import Application
from stages.response_order import ResponseOrder
from stages.socket_server import ServerLimits, SocketServer
from stages.testing.memory_storage import MemoryStorage
from stages.testing.memory_transport import CAPACITY_BYTES, MemoryClient, memory_connection
from stages.testing.scripted_commits import AnyPace, ScriptedCommits
from stages.timeline import Timeline

__all__ = ["MemoryServer", "open_memory_server"]


@attrs.define
class MemoryServer:
    """A running server.

    Attributes:
        server: the server itself, for its statistics and its resizing.
        failure: error that ended the server, if any.
    """

    server: SocketServer
    failure: CommitFailedError | None = None
    _connections: int = 0

    async def connect(
        self,
        *,
        peer: str | None = None,
        capacity_bytes: int = CAPACITY_BYTES,
        receive_sizes: Iterable[int] = (),
        send_sizes: Iterable[int] = (),
        open_session: OpenSession | None = None,
    ) -> MemoryClient:
        """Return the client of a new connection.

        Args:
            peer: address of the client; numbered by default.
            capacity_bytes, receive_sizes, send_sizes: see `memory_connection`.
            open_session: see `stages.listener.OpenSession`.
        """
        transport, client = memory_connection(
            capacity_bytes=capacity_bytes, receive_sizes=receive_sizes, send_sizes=send_sizes
        )
        name = f"client-{self._connections}" if peer is None else peer
        self._connections += 1
        await self.server.connect(transport, peer=name, listener="MEMORY", open_session=open_session)
        return client

    async def run(self, task_status: trio.TaskStatus[None]) -> None:
        try:
            await self.server.run((), task_status=task_status)
        except CommitFailedError as failure:
            self.failure = failure


@asynccontextmanager
async def open_memory_server(
    mode: Mode,
    application: Application,
    *,
    storage: CommitStorage | None = None,
    executor: CommitExecutor | None = None,
    limits: ServerLimits | None = None,
    commits_in_flight: int = 1,
    commit_pace: CommitPace | None = None,
    timeline: Timeline | None = None,
    response_order: Callable[[], ResponseOrder[Request]] = ResponseOrder,
) -> AsyncIterator[MemoryServer]:
    """Run a server while the block runs, then drain and stop it.

    A failed commit ends the server; `MemoryServer.failure` then has the error, and nothing is raised.

    Args:
        mode, application, limits: see `stages.socket_server.SocketServer`.
        storage: a MemoryStorage by default.
        executor: ScriptedCommits without delays by default.
        commits_in_flight: maximum of concurrent group commits.
        commit_pace: lets group commits start at any time by default.
        timeline: observer of the server, if any.
        response_order: creates the response order of a connection.
    """
    server = SocketServer(
        mode,
        application,
        MemoryStorage() if storage is None else storage,
        limits=limits,
        commits_in_flight=commits_in_flight,
        commit_pace=commit_pace or AnyPace(),
        timeline=timeline,
        executor=ScriptedCommits() if executor is None else executor,
        response_order=response_order,
    )
    memory_server = MemoryServer(server)
    async with trio.open_nursery() as nursery:
        await nursery.start(memory_server.run)
        yield memory_server
        server.stop()
