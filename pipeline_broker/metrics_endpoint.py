"""GET /metrics for Prometheus.

Rules of this file: it serves text that somebody else renders, and nothing else; one request per connection, every
wait, size and number of clients has a bound, because this port is as open as the broker's; whatever a client sends, and
whatever rendering does, ends at its connection. h11 comes with the extra `dashboard` and is imported when it is used.
"""

from __future__ import annotations

import contextlib
import http
import importlib
import logging
import random
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import attrs
import trio

from pipeline_broker.telemetry.exposition import CONTENT_TYPE
from pipeline_broker.telemetry.request_metrics import DRAIN_SECONDS
from stages.timeline import now_ns

if TYPE_CHECKING:
    import h11

__all__ = ["LoopIdleTime", "MetricsUnavailableError", "drain_regularly", "require_extra", "serve_metrics"]

CONNECTIONS_MAX = 16
HEADER_BYTES_MAX = 16 * 1024
"""Of a request that is not complete yet; what is complete may be larger by what one receive brings."""
RECEIVE_BYTES = 4096
REQUEST_SECONDS = 5.0
"""How long a client may take to send its request."""
RESPONSE_SECONDS = 5.0
"""How long it may take to read the answer."""
LINGER_SECONDS = 1.0
LINGER_BYTES_MAX = 64 * 1024
"""What a client that was refused half-way may still send: closing earlier would reset the answer on its way."""

INTERVALS_FOR_ONE_OBSERVED = 8
"""Of so many intervals between drains, one is looked at by the instrument of the event loop, on average."""

logger = logging.getLogger(__name__)


class MetricsUnavailableError(Exception):
    """Metrics cannot be served; the text is one line that says what to do."""


def require_extra() -> Any:
    """The h11 module; call it before a broker starts to learn early that it is missing.

    Raises:
        MetricsUnavailableError: it is not installed.
    """
    try:
        return importlib.import_module("h11")
    except ImportError:
        raise MetricsUnavailableError(
            "metrics need the package h11: pip install 'pipeline-broker[dashboard]'"
        ) from None


class LoopIdleTime(trio.abc.Instrument):
    """Measures how long the event loop has nothing to do, while it is looked at.

    An instrument costs each turn of the loop some microseconds, and a small request is a few turns: so only some
    intervals are looked at.

    Attributes:
        idle_ns: of the time that was looked at.
        observed_ns: that time.
    """

    def __init__(self) -> None:
        self.idle_ns = self.observed_ns = 0
        self._began_ns = 0

    def before_io_wait(self, timeout: float) -> None:
        """See trio.abc.Instrument; a wait of no time is a look, not idleness."""
        self._began_ns = now_ns() if timeout > 0 else 0

    def after_io_wait(self, timeout: float) -> None:  # noqa: ARG002 - Trio's signature
        """See trio.abc.Instrument."""
        if self._began_ns:
            self.idle_ns += now_ns() - self._began_ns

    @contextlib.contextmanager
    def observing(self) -> Iterator[None]:
        """Look at the loop while the body runs."""
        self._began_ns = 0
        began_ns = now_ns()
        trio.lowlevel.add_instrument(self)
        try:
            yield
        finally:
            trio.lowlevel.remove_instrument(self)
            self.observed_ns += now_ns() - began_ns


async def drain_regularly(drain: Callable[[], None], idle: LoopIdleTime) -> None:
    """Call `drain` at the pace of the request metrics until cancelled, and look at the loop now and then.

    The intervals that are looked at are drawn, so that work which comes at a pace of its own is neither always seen
    nor never; the first is one of them.
    """
    is_observed = True
    while True:
        with idle.observing() if is_observed else contextlib.nullcontext():
            await trio.sleep(DRAIN_SECONDS)
        drain()
        is_observed = not random.randrange(INTERVALS_FOR_ONE_OBSERVED)  # noqa: S311 - no secret


async def serve_metrics(
    host: str,
    port: int,
    render: Callable[[], str],
    *,
    task_status: trio.TaskStatus[int] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve until cancelled.

    Args:
        host: an address.
        port: 0 lets the system choose.
        render: the text of a scrape, made on the event loop.
        task_status: started with the port.

    Raises:
        MetricsUnavailableError: h11 is missing, or the port cannot be bound.
    """
    require_extra()
    try:
        listeners = await trio.open_tcp_listeners(port, host=host, backlog=CONNECTIONS_MAX)
    except OSError as error:
        raise MetricsUnavailableError(f"cannot serve metrics on {host}:{port}: {error.strerror or error}") from None
    open_connections = 0

    async def handle(stream: trio.SocketStream) -> None:
        nonlocal open_connections
        if open_connections >= CONNECTIONS_MAX:
            await trio.aclose_forcefully(stream)
            return
        open_connections += 1
        try:
            await answer(stream, render)
        finally:
            open_connections -= 1

    task_status.started(listeners[0].socket.getsockname()[1])
    await trio.serve_listeners(handle, listeners)


@attrs.frozen
class _Answer:
    """What one client gets; `has_body` is false for a HEAD request, which gets the headers only."""

    status: http.HTTPStatus
    body: str
    allow: str | None = None
    has_body: bool = True


async def answer(stream: trio.abc.HalfCloseableStream, render: Callable[[], str]) -> None:
    """Answer the one request of a connection and close it."""
    h11 = require_extra()
    connection = h11.Connection(h11.SERVER, max_incomplete_event_size=HEADER_BYTES_MAX)
    async with stream:
        try:
            decided = await _decide(stream, connection, render)
            if decided is None:
                return
            with trio.move_on_after(RESPONSE_SECONDS):
                await stream.send_all(_encode(connection, decided))
                await stream.send_eof()
                await _linger(stream)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            return  # the client is gone


async def _decide(
    stream: trio.abc.ReceiveStream, connection: h11.Connection, render: Callable[[], str]
) -> _Answer | None:
    """The answer to the client's request; None when it closed without one."""
    h11 = require_extra()
    request = None
    with trio.move_on_after(REQUEST_SECONDS) as waiting:
        try:
            request = await _receive_request(stream, connection)
        except h11.RemoteProtocolError as error:
            return _Answer(http.HTTPStatus(error.error_status_hint), f"{error}\n")
    if waiting.cancelled_caught:
        return _Answer(http.HTTPStatus.REQUEST_TIMEOUT, "the request took too long\n")
    if request is None:
        return None
    has_body = request.method != b"HEAD"
    if request.target.partition(b"?")[0] != b"/metrics":
        return _Answer(http.HTTPStatus.NOT_FOUND, "there is only /metrics\n", has_body=has_body)
    if request.method != b"GET":
        return _Answer(http.HTTPStatus.METHOD_NOT_ALLOWED, "only GET is answered\n", "GET", has_body)
    try:
        return _Answer(http.HTTPStatus.OK, render())
    except Exception:
        logger.exception("metrics could not be rendered")
        return _Answer(http.HTTPStatus.INTERNAL_SERVER_ERROR, "metrics could not be rendered\n")


async def _receive_request(stream: trio.abc.ReceiveStream, connection: h11.Connection) -> h11.Request | None:
    """The head of the request; None when the client closed without one."""
    h11 = require_extra()
    while (event := connection.next_event()) is h11.NEED_DATA:
        connection.receive_data(bytes(await stream.receive_some(RECEIVE_BYTES)))
    return event if isinstance(event, h11.Request) else None


def _encode(connection: h11.Connection, decided: _Answer) -> bytes:
    h11 = require_extra()
    content = decided.body.encode()
    is_text = decided.status is http.HTTPStatus.OK
    headers = [
        ("Content-Type", CONTENT_TYPE if is_text else "text/plain; charset=utf-8"),
        ("Content-Length", str(len(content))),
        ("Connection", "close"),
    ]
    if decided.allow is not None:
        headers.append(("Allow", decided.allow))
    response = h11.Response(status_code=decided.status, headers=headers, reason=decided.status.phrase)
    events = [response, h11.Data(data=content), h11.EndOfMessage()] if decided.has_body else [response]
    return b"".join(connection.send(event) for event in events)


async def _linger(stream: trio.abc.ReceiveStream) -> None:
    """Read what the client still sends, within bounds, so that the answer is not reset on its way."""
    received = 0
    with trio.move_on_after(LINGER_SECONDS):
        while received < LINGER_BYTES_MAX:
            data = await stream.receive_some(RECEIVE_BYTES)
            if not data:
                return
            received += len(data)
