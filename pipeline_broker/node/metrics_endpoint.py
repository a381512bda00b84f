"""GET /metrics for Prometheus.

Rules of this file: it serves the text that its caller renders, and nothing else; all scrapers of one second share one
text. Its Host is an address, a name of this machine, or one that the operator has named; port
forwarding may change its port. A request without a Host is answered: browsers always send one (`web/strangers.py`).
"""

from __future__ import annotations

import contextlib
import http
import random
import re
from collections.abc import Callable, Collection, Iterator
from typing import TYPE_CHECKING

import trio

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
LIMITS = HttpLimits(connections_max=16, response_seconds=5.0)
NOTED_TURN_NS = int(NOTED_TURN_SECONDS * 1e9)
FUNCTIONS = ("stages.", "pipeline_broker.", "trio.", "<")
"""How the names of tasks begin that are called by their function; the others are those of connections."""
COMPILED_METHOD = re.compile(r"<bound method \w+\.(?P<method>\w+) of <(?P<type>[\w.]+) object")
"""How Trio names a task after a compiled method, with an address that is never the same."""
CONNECTION = "connection"
INTERVALS_FOR_ONE_OBSERVED = 8
"""Of so many intervals between drains, one is looked at by the instrument of the event loop, on average."""


class LoopIdleTime(trio.abc.Instrument):
    """Measures how long the event loop has nothing to do, and which tasks keep it for long, while it is looked at.

    An instrument costs each turn of the loop some microseconds, and a small request is a few turns: so only some
    intervals are looked at.

    Args:
        turns: takes note of the tasks, by their names.

    Attributes:
        idle_ns: of the time that was looked at.
        observed_ns: that time.
    """

    def __init__(self, turns: LoopTurns) -> None:
        self.idle_ns = self.observed_ns = 0
        self._began_ns = 0
        self._step_began_ns = now_ns()
        self._turns = turns

    def before_io_wait(self, timeout: float) -> None:
        """See trio.abc.Instrument; a wait of no time is a look, not idleness."""
        self._began_ns = now_ns() if timeout > 0 else 0

    def after_io_wait(self, timeout: float) -> None:  # noqa: ARG002 - Trio's signature
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
        """Look at the loop while the body runs."""
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
    """Call `drain` at the pace of the request metrics until cancelled, and look at the loop now and then.

    The intervals that are looked at are drawn, so that work which comes at a pace of its own is neither always seen
    nor never; the first is one of them.
    """
    is_observed = True
    while True:
        with idle.observing() if is_observed else contextlib.nullcontext():
            await trio.sleep(DRAIN_SECONDS)
        await in_turns(drain())
        is_observed = not random.randrange(INTERVALS_FOR_ONE_OBSERVED)  # noqa: S311 - no secret


async def serve_metrics(
    host: str,
    port: int,
    render: Callable[[], Steps[bytes]],
    edges: ByteBudget,
    names: Collection[str] = (),
    *,
    task_status: trio.TaskStatus[int] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve until cancelled.

    Args:
        port: 0 lets the system choose.
        render: steps to the text of a scrape.
        edges: charged for what connections keep.
        names: hosts by which scrapers know the broker, beside addresses and those of the machine itself.
        task_status: started with the port.

    Raises:
        HttpUnavailableError: h11 is missing, or the port cannot be bound.
    """
    listeners = await open_listeners("metrics", host, port, LIMITS, "--metrics")
    place = SameOriginCheck(host=host, names=frozenset(map(str.lower, names)), needs_host=False)
    shared = SharedAnswers(edges)

    def made() -> Steps[Answer]:
        text = yield from render()
        return Answer(status=http.HTTPStatus.OK, body=text, content_type=CONTENT_TYPE)

    async def answer(request: HttpRequest) -> Answer:
        await trio.lowlevel.checkpoint()
        reason = place.refusal(request.headers)
        if reason is not None:
            return refusal(http.HTTPStatus.FORBIDDEN, f"{reason}; name other hosts with --metrics-allowed-host")
        if request.path != PATH:
            return refusal(http.HTTPStatus.NOT_FOUND, f"there is only {PATH}")
        if request.method != "GET":
            return refusal(http.HTTPStatus.METHOD_NOT_ALLOWED, "only GET is answered", ("Allow", "GET"))
        return await shared.get(PATH, made)

    task_status.started(listeners[0].socket.getsockname()[1])
    await serve_http(listeners, answer, LIMITS, edges)
