"""The HTTP endpoint for Prometheus and health checks, and the measurement of the event loop for it."""

from __future__ import annotations

import contextlib
import http
import random
import re
from collections.abc import Awaitable, Callable, Collection, Iterator
from typing import TYPE_CHECKING

import trio

from pipeline_broker.security.http_security import NO_SECURITY, HttpSecurity
from pipeline_broker.telemetry.exposition import CONTENT_TYPE
from pipeline_broker.telemetry.request_metrics import DRAIN_SECONDS
from pipeline_broker.web.http_server import HttpLimits, open_listeners, serve_http
from pipeline_broker.web.messages import Answer, HttpRequest, refusal
from pipeline_broker.web.shared_answers import SharedAnswers
from pipeline_broker.web.strangers import SameOriginCheck
from pipeline_broker.web.turns import Steps, in_turns
from stages.loop_turns import NOTED_TURN_SECONDS, LoopTurns
from stages.timeline import now_ns

if TYPE_CHECKING:
    from pipeline_broker.base.byte_budget import ByteBudget

__all__ = ["LoopIdleTime", "drain_regularly", "serve_metrics"]

PATH = "/metrics"
HEALTH, READINESS = "/healthz", "/readyz"
METHODS = {PATH: ("GET",), HEALTH: ("GET", "HEAD"), READINESS: ("GET", "HEAD")}
PLAIN_TEXT = "text/plain; charset=utf-8"
LIMITS = HttpLimits(connections_max=16, response_seconds=5.0)
NOTED_TURN_NS = int(NOTED_TURN_SECONDS * 1e9)
# Prefixes of tasks that are named after their functions. All other tasks are connections, named after their peers.
FUNCTIONS = ("stages.", "pipeline_broker.", "trio.", "<")
# Trio's name of a task that runs a compiled method contains an address, which would make each task a label of its own.
COMPILED_METHOD = re.compile(r"<bound method \w+\.(?P<method>\w+) of <(?P<type>[\w.]+) object")
CONNECTION = "connection"
# One interval between drains in this many is measured, on average: the instrument costs some microseconds a turn.
INTERVALS_FOR_ONE_OBSERVED = 8


class LoopIdleTime(trio.abc.Instrument):
    """A Trio instrument that measures idle time of the event loop, and notes tasks with long turns.

    It adds some microseconds to each turn, and a small request takes only a few turns. So it is active in some
    intervals only.

    Args:
        turns: receives the names of tasks with long turns.

    Attributes:
        idle_ns: idle time in the measured intervals.
        observed_ns: length of the measured intervals.
    """

    def __init__(self, turns: LoopTurns) -> None:
        self.idle_ns = self.observed_ns = 0
        self._began_ns = 0
        self._step_began_ns = now_ns()
        self._turns = turns

    def before_io_wait(self, timeout: float) -> None:
        # Without a timeout Trio polls, since tasks are ready: the loop is not idle.
        self._began_ns = now_ns() if timeout > 0 else 0

    def after_io_wait(self, _: float) -> None:
        self._step_began_ns = ended_ns = now_ns()
        if self._began_ns:
            self.idle_ns += ended_ns - self._began_ns

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        ended_ns = now_ns()
        if ended_ns - self._step_began_ns > NOTED_TURN_NS:
            self._turns.note(_name_of(task.name), (ended_ns - self._step_began_ns) / 1e9)
        self._step_began_ns = ended_ns

    @contextlib.contextmanager
    def observing(self) -> Iterator[None]:
        self._began_ns = 0
        began_ns = self._step_began_ns = now_ns()
        trio.lowlevel.add_instrument(self)
        try:
            yield
        finally:
            trio.lowlevel.remove_instrument(self)
            self.observed_ns += now_ns() - began_ns


def _name_of(task_name: str) -> str:
    compiled = COMPILED_METHOD.match(task_name)
    if compiled is not None:
        return f"{compiled['type']}.{compiled['method']}"
    return task_name if task_name.startswith(FUNCTIONS) else CONNECTION


async def drain_regularly(drain: Callable[[], Steps[None]], idle: LoopIdleTime) -> None:
    """Call `drain` every DRAIN_SECONDS until cancelled, and measure the event loop in some of the intervals."""
    is_observed = True
    while True:
        with idle.observing() if is_observed else contextlib.nullcontext():
            await trio.sleep(DRAIN_SECONDS)
        await in_turns(drain())
        # Random, so that periodic work is neither measured always nor never.
        is_observed = not random.randrange(INTERVALS_FOR_ONE_OBSERVED)  # noqa: S311 - not a secret


async def serve_metrics(
    host: str,
    port: int,
    render: Callable[[], Steps[bytes]],
    edges: ByteBudget,
    names: Collection[str] = (),
    not_ready: Callable[[], str | None] = lambda: None,
    *,
    prepare: Callable[[], Awaitable[None]] = trio.lowlevel.checkpoint,
    security: HttpSecurity = NO_SECURITY,
    task_status: trio.TaskStatus[int] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve the metrics and the health checks until cancelled.

    Args:
        port: port to listen on; 0 takes a free one.
        render: renders the text of a scrape, in steps.
        edges: memory budget, charged for connections.
        names: host names that requests may use, in addition to addresses and names of this machine.
        prepare: awaited before each scrape.
        security: TLS and users. Health checks need no user.
        not_ready: returns the reason why clients should not connect to this broker; None if it serves them.
        task_status: started with the port.

    Raises:
        UnavailableError: h11 is missing, or the port is not available.
    """
    listeners = await open_listeners("metrics", host, port, LIMITS, "--metrics")
    # The Host header is checked against DNS rebinding. It may be missing: browsers always send it.
    place = SameOriginCheck(host=host, names=frozenset(map(str.lower, names)), needs_host=False, scheme=security.scheme)
    shared = SharedAnswers(edges)

    def made() -> Steps[Answer]:
        text = yield from render()
        return Answer(status=http.HTTPStatus.OK, body=text, content_type=CONTENT_TYPE)

    async def answer(request: HttpRequest) -> Answer:
        await trio.lowlevel.checkpoint()
        reason = place.refusal(request.headers)
        if reason is not None:
            return refusal(http.HTTPStatus.FORBIDDEN, f"{reason}; allow other hosts with --metrics-allowed-host")
        methods = METHODS.get(request.path)
        if methods is None:
            return refusal(http.HTTPStatus.NOT_FOUND, f"unknown path; use one of {', '.join(METHODS)}")
        if request.method not in methods:
            return refusal(
                http.HTTPStatus.METHOD_NOT_ALLOWED, "unsupported method; use GET", ("Allow", ", ".join(methods))
            )
        if request.path != PATH:
            reason = not_ready() if request.path == READINESS else None
            if reason is not None:
                return refusal(http.HTTPStatus.SERVICE_UNAVAILABLE, reason)
            return Answer(status=http.HTTPStatus.OK, body=b"ok\n", content_type=PLAIN_TEXT)
        await prepare()
        # All scrapers within a second share one text, so that more of them cost no more work.
        return await shared.get(PATH, made)

    task_status.started(listeners[0].socket.getsockname()[1])
    await serve_http(listeners, answer, LIMITS, edges, security, (HEALTH, READINESS))
