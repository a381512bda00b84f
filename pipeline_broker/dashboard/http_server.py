"""The dashboard's HTTP: one request a connection, or a stream of events that ends with it.

Rules of this file: it speaks HTTP through h11 and decides nothing; every wait, size and number of clients has a bound;
whatever a client sends, and whatever a handler raises, ends at its connection. h11 comes with the extra `dashboard` and
is imported when it is used.
"""

from __future__ import annotations

import http
import importlib
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeAlias

import attrs
import trio

from pipeline_broker.dashboard.messages import (
    SECURITY_HEADERS,
    Answer,
    BadRequestError,
    EventStream,
    HttpRequest,
    refusal,
)

if TYPE_CHECKING:
    import h11

__all__ = ["DashboardUnavailableError", "Handler", "open_dashboard_listeners", "require_extra", "serve_http"]

CONNECTIONS_MAX = 64
HEADER_BYTES_MAX = 16 * 1024
BODY_BYTES_MAX = 16 * 1024
RECEIVE_BYTES = 4096
REQUEST_SECONDS = 5.0
"""How long a client may take to send its request."""
RESPONSE_SECONDS = 10.0
"""How long it may take to read the answer."""
EVENT_SECONDS = 5.0
"""How long a viewer may take to read one event; one that takes longer is dropped."""
EVENT_SEND_BUFFER_BYTES = 64 * 1024
"""Of the socket of a viewer: what the kernel keeps of a slow one would be old when it is read."""
LINGER_SECONDS = 1.0
LINGER_BYTES_MAX = 64 * 1024
"""What a client that was refused half-way may still send: closing earlier would reset the answer on its way."""

Handler: TypeAlias = Callable[[HttpRequest], Awaitable[Answer | EventStream]]

logger = logging.getLogger(__name__)


class DashboardUnavailableError(Exception):
    """The dashboard cannot be served; the text is one line that says what to do."""


def require_extra() -> Any:
    """The h11 module; call it before a broker starts to learn early that it is missing.

    Raises:
        DashboardUnavailableError: it is not installed.
    """
    try:
        return importlib.import_module("h11")
    except ImportError:
        raise DashboardUnavailableError(
            "the dashboard needs the package h11: pip install 'pipeline-broker[dashboard]'"
        ) from None


async def open_dashboard_listeners(host: str, port: int) -> list[trio.SocketListener]:
    """Bind the port; 0 lets the system choose.

    Raises:
        DashboardUnavailableError: it cannot be had.
    """
    try:
        return await trio.open_tcp_listeners(port, host=host, backlog=CONNECTIONS_MAX)
    except OSError as error:
        reason = error.strerror or error
        raise DashboardUnavailableError(f"cannot serve the dashboard on {host}:{port}: {reason}") from None


async def serve_http(listeners: list[trio.SocketListener], handler: Handler) -> None:
    """Serve until cancelled."""
    open_connections = 0

    async def handle(stream: trio.SocketStream) -> None:
        nonlocal open_connections
        if open_connections >= CONNECTIONS_MAX:
            await trio.aclose_forcefully(stream)
            return
        open_connections += 1
        try:
            await serve_connection(stream, handler)
        finally:
            open_connections -= 1

    await trio.serve_listeners(handle, listeners)


async def serve_connection(stream: trio.abc.HalfCloseableStream, handler: Handler) -> None:
    """Answer the one request of a connection and close it."""
    h11 = require_extra()
    connection = h11.Connection(h11.SERVER, max_incomplete_event_size=HEADER_BYTES_MAX)
    async with stream:
        try:
            request = await _receive(stream, connection)
            if request is None:
                return
            answer = request if isinstance(request, Answer) else await _answer(request, handler)
            if isinstance(answer, EventStream):
                await _send_events(stream, connection, answer)
                return
            has_body = not (isinstance(request, HttpRequest) and request.method == "HEAD")
            with trio.move_on_after(RESPONSE_SECONDS):
                await stream.send_all(_encode(connection, answer, has_body=has_body))
                await stream.send_eof()
                await _linger(stream)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            return  # the client is gone


async def _answer(request: HttpRequest, handler: Handler) -> Answer | EventStream:
    try:
        return await handler(request)
    except BadRequestError as error:
        return refusal(http.HTTPStatus.BAD_REQUEST, str(error))
    except Exception:
        logger.exception("the dashboard could not answer %s %s", request.method, request.path)
        return refusal(http.HTTPStatus.INTERNAL_SERVER_ERROR, "the broker could not answer; its log says why")


async def _receive(stream: trio.abc.ReceiveStream, connection: h11.Connection) -> HttpRequest | Answer | None:
    """The client's request, or the answer that refuses it; None when it closed without one."""
    h11 = require_extra()
    with trio.move_on_after(REQUEST_SECONDS) as waiting:
        try:
            head = await _next_event(stream, connection)
            if not isinstance(head, h11.Request):
                return None
            request = HttpRequest.parse(head.method, head.target, list(head.headers))
            return await _receive_body(stream, connection, request)
        except h11.RemoteProtocolError as error:
            return refusal(http.HTTPStatus(error.error_status_hint), f"{error}")
        except BadRequestError as error:
            return refusal(http.HTTPStatus.BAD_REQUEST, str(error))
    assert waiting.cancelled_caught
    return refusal(http.HTTPStatus.REQUEST_TIMEOUT, "the request took too long")


async def _receive_body(
    stream: trio.abc.ReceiveStream, connection: h11.Connection, request: HttpRequest
) -> HttpRequest | Answer | None:
    h11 = require_extra()
    body = b""
    while not isinstance(event := await _next_event(stream, connection), h11.EndOfMessage):
        if not isinstance(event, h11.Data):
            return None
        body += event.data
        if len(body) > BODY_BYTES_MAX:
            return refusal(http.HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a body has at most {BODY_BYTES_MAX} bytes")
    return attrs.evolve(request, body=body)


async def _next_event(stream: trio.abc.ReceiveStream, connection: h11.Connection) -> Any:
    h11 = require_extra()
    while (event := connection.next_event()) is h11.NEED_DATA:
        connection.receive_data(bytes(await stream.receive_some(RECEIVE_BYTES)))
    return event


def _encode(connection: h11.Connection, answer: Answer, *, has_body: bool) -> bytes:
    h11 = require_extra()
    headers = [
        ("Content-Type", answer.content_type),
        ("Content-Length", str(len(answer.body))),
        ("Connection", "close"),
        *SECURITY_HEADERS,
        *answer.headers,
    ]
    response = h11.Response(status_code=answer.status, headers=headers, reason=answer.status.phrase)
    events = [response, h11.Data(data=answer.body), h11.EndOfMessage()] if has_body else [response]
    return b"".join(connection.send(event) for event in events)


async def _send_events(stream: trio.abc.HalfCloseableStream, connection: h11.Connection, events: EventStream) -> None:
    """Send events until the viewer leaves, is too slow, or the stream ends."""
    h11 = require_extra()
    if isinstance(stream, trio.SocketStream):
        stream.setsockopt(trio.socket.SOL_SOCKET, trio.socket.SO_SNDBUF, EVENT_SEND_BUFFER_BYTES)
    headers = [("Content-Type", "text/event-stream; charset=utf-8"), ("Connection", "close"), *SECURITY_HEADERS]

    async def send(event: bytes) -> None:
        with trio.move_on_after(EVENT_SECONDS) as sending:
            await stream.send_all(connection.send(h11.Data(data=event)))
        if sending.cancelled_caught:
            raise trio.BrokenResourceError("the viewer is too slow")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(_watch_for_end, stream, nursery.cancel_scope)
        await _send_until_broken(stream, connection, events, send, headers)
        nursery.cancel_scope.cancel()


async def _send_until_broken(
    stream: trio.abc.SendStream,
    connection: h11.Connection,
    events: EventStream,
    send: Callable[[bytes], Awaitable[None]],
    headers: list[tuple[str, str]],
) -> None:
    h11 = require_extra()
    try:
        head = h11.Response(status_code=http.HTTPStatus.OK, headers=headers, reason="OK")
        with trio.fail_after(EVENT_SECONDS):
            await stream.send_all(connection.send(head))
        await events.run(send)
    except (trio.BrokenResourceError, trio.ClosedResourceError, trio.TooSlowError):
        return  # the viewer is gone, or too slow
    except Exception:
        logger.exception("a stream of the dashboard ended")


async def _watch_for_end(stream: trio.abc.ReceiveStream, scope: trio.CancelScope) -> None:
    """End the stream when the viewer closes; what it sends otherwise is read past."""
    try:
        while await stream.receive_some(RECEIVE_BYTES):
            pass
    except (trio.BrokenResourceError, trio.ClosedResourceError):
        pass
    scope.cancel()


async def _linger(stream: trio.abc.ReceiveStream) -> None:
    """Read what the client still sends, within bounds, so that the answer is not reset on its way."""
    received = 0
    with trio.move_on_after(LINGER_SECONDS):
        while received < LINGER_BYTES_MAX:
            data = await stream.receive_some(RECEIVE_BYTES)
            if not data:
                return
            received += len(data)
