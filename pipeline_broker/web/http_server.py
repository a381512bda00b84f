"""HTTP over Trio, for every port of a broker that serves it: one request a connection, or a stream of events.

It speaks HTTP through h11 and decides nothing. Every wait, size and number of clients has a bound, because these ports
are as open as the broker's, and slow clients make room for others (`slots`). The bytes that a connection keeps are
charged to the budget of the edges. Whatever a client sends, and whatever a handler raises, ends at its connection. The
handler decides who may ask (`strangers`). h11 comes with the extra `dashboard` and is imported when it is used.
"""

from __future__ import annotations

import contextlib
import http
import importlib
import logging
from collections.abc import Awaitable, Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeAlias

import attrs
import trio

from pipeline_broker.base.byte_budget import ByteBudget, Kept, OverBudgetError
from pipeline_broker.web.http_requests import HEADER_BYTES_MAX, receive_request
from pipeline_broker.web.messages import (
    SECURITY_HEADERS,
    Answer,
    AnswerTooLargeError,
    BadRequestError,
    EventStream,
    HttpRequest,
    StreamedAnswer,
    event,
    refusal,
)
from pipeline_broker.web.slots import Slots, Stage
from pipeline_broker.web.turns import Steps, in_turns

if TYPE_CHECKING:
    import h11

__all__ = ["Handler", "HttpLimits", "HttpUnavailableError", "open_listeners", "require_h11", "serve_http"]

BODY_BYTES_MAX = 16 * 1024
"""Unless the limits of a server say otherwise."""
RECEIVE_BYTES = 4096
SEND_BYTES = 64 * 1024
"""Of an answer in one go."""
EVENT_SECONDS = 5.0
"""How long a viewer may take to read one event; one that takes longer is dropped."""
SEND_BUFFER_BYTES = 64 * 1024
"""Of a socket: what the kernel keeps for a client that does not read. Events would be old when they are read."""
LINGER_SECONDS = 1.0
LINGER_BYTES_MAX = 64 * 1024
"""What a client that was refused half-way may still send: closing earlier would reset the answer on its way."""

Handler: TypeAlias = Callable[[HttpRequest], Awaitable[Answer | StreamedAnswer | EventStream]]

logger = logging.getLogger(__name__)


class HttpUnavailableError(Exception):
    """Something cannot be served; the text is one line that says what to do."""


@attrs.frozen(kw_only=True)
class HttpLimits:
    """What differs from server to server, by what its answers are.

    Attributes:
        connections_max: open at a time; beyond them one makes room for the newcomer, see `slots`.
        response_seconds: how long a client may take to read its answer, a stream of events excepted.
        body_bytes_max: of a request.
    """

    connections_max: int
    response_seconds: float
    body_bytes_max: int = BODY_BYTES_MAX


def require_h11(what: str) -> Any:
    """The h11 module; call it before a broker starts to learn early that it is missing.

    Args:
        what: is to be served, for the error.
        host: an address or a name; empty for all interfaces, as of a listener of Kafka's.

    Raises:
        HttpUnavailableError: it is not installed.
    """
    try:
        return importlib.import_module("h11")
    except ImportError:
        raise HttpUnavailableError(
            f"cannot serve {what} without the package h11: pip install 'pipeline-broker[dashboard]'"
        ) from None


def _h11() -> Any:
    """The module, once somebody has made sure that it is there."""
    return importlib.import_module("h11")


async def open_listeners(
    what: str, host: str, port: int, limits: HttpLimits, option: str | None = None
) -> list[trio.SocketListener]:
    """Bind a port; 0 lets the system choose.

    Args:
        what: is to be served, for the error.
        host: an address or a name; empty for all interfaces, as of a listener of Kafka's.
        limits: of the server.
        option: where the port came from, for the error; None where nobody gave one.

    Raises:
        HttpUnavailableError: h11 is missing, or the port cannot be had.
    """
    require_h11(what)
    try:
        return await trio.open_tcp_listeners(port, host=host or None, backlog=limits.connections_max)
    except OSError as error:
        reason = error.strerror or str(error)
        remedy = "" if option is None else f"; choose another {option}"
        raise HttpUnavailableError(f"cannot serve {what} on {host}:{port}: {reason}{remedy}") from None


async def serve_http(
    listeners: list[trio.SocketListener], handler: Handler, limits: HttpLimits, edges: ByteBudget
) -> None:
    """Serve until cancelled.

    Args:
        listeners: see `open_listeners`.
        handler: answers requests.
        limits: of this server.
        edges: charged for what connections keep.
    """
    slots = Slots(limits.connections_max)

    async def handle(stream: trio.SocketStream) -> None:
        with trio.CancelScope() as scope:
            slot = slots.take(scope.cancel)
            if slot is None:
                await trio.aclose_forcefully(stream)
                return

            def reached(stage: Stage) -> None:
                slot.stage = stage

            try:
                kept = edges.keep(stream, HEADER_BYTES_MAX, scope.cancel)
                try:
                    await serve_connection(stream, handler, limits, kept, reached)
                finally:
                    kept.release()
            finally:
                slots.release(slot)

    await trio.serve_listeners(handle, listeners)


async def serve_connection(
    stream: trio.abc.HalfCloseableStream,
    handler: Handler,
    limits: HttpLimits,
    kept: Kept,
    reached: Callable[[Stage], None] = lambda _: None,
) -> None:
    """Answer the one request of a connection and close it.

    Args:
        stream: of the client.
        handler: answers the request.
        limits: of the server.
        kept: charges the budget of the edges for this connection.
        reached: called with how far it is, from Stage.ANSWERING on.
    """
    h11 = _h11()
    connection = h11.Connection(h11.SERVER, max_incomplete_event_size=HEADER_BYTES_MAX)
    if isinstance(stream, trio.SocketStream):
        stream.setsockopt(trio.socket.SOL_SOCKET, trio.socket.SO_SNDBUF, SEND_BUFFER_BYTES)
    async with stream:
        try:
            request = await receive_request(stream, connection, limits.body_bytes_max, kept)
            if request is None:
                return
            reached(Stage.ANSWERING)
            answer = request if isinstance(request, Answer) else await _answer(request, handler)
            if isinstance(answer, EventStream):
                reached(Stage.STREAMING)
                await _send_events(stream, connection, answer)
                return
            has_body = not (isinstance(request, HttpRequest) and request.method == "HEAD")
            del request  # its body is not kept while the answer is sent
            if isinstance(answer, StreamedAnswer):
                await _send_pieces(stream, connection, answer, limits.response_seconds, has_body=has_body)
                return
            with trio.move_on_after(limits.response_seconds):
                await _send(stream, connection, answer, kept, has_body=has_body)
                await stream.send_eof()
                reached(Stage.LINGERING)
                await _linger(stream)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            return  # the client is gone
        except Exception:  # whatever happens to one client ends its connection, and not the broker
            logger.exception("a connection over HTTP ended")


async def _answer(request: HttpRequest, handler: Handler) -> Answer | StreamedAnswer | EventStream:
    try:
        return await handler(request)
    except BadRequestError as error:
        return refusal(http.HTTPStatus.BAD_REQUEST, str(error))
    except AnswerTooLargeError as error:
        return refusal(http.HTTPStatus.SERVICE_UNAVAILABLE, str(error))
    except Exception:
        logger.exception("%s %r could not be answered", request.method, request.path)
        return refusal(http.HTTPStatus.INTERNAL_SERVER_ERROR, "the broker could not answer; its log says why")


async def _send(
    stream: trio.abc.SendStream, connection: h11.Connection, answer: Answer, kept: Kept, *, has_body: bool
) -> None:
    """Send an answer; its body in slices of the one object that all clients of a shared answer are sent."""
    body = memoryview(answer.body if has_body else b"")
    try:
        kept.resize(HEADER_BYTES_MAX + len(body))
    except OverBudgetError as error:
        answer = refusal(http.HTTPStatus.SERVICE_UNAVAILABLE, f"the answer is too large: {error}")
        body = memoryview(answer.body)
    headers = [
        ("Content-Type", answer.content_type),
        ("Content-Length", str(len(answer.body))),
        ("Connection", "close"),
        *SECURITY_HEADERS,
        *answer.headers,
    ]
    response = _h11().Response(status_code=answer.status, headers=headers, reason=answer.status.phrase)
    await stream.send_all(connection.send(response) + body[:SEND_BYTES])
    for begin in range(SEND_BYTES, len(body), SEND_BYTES):
        await stream.send_all(body[begin : begin + SEND_BYTES])


async def _send_pieces(
    stream: trio.abc.HalfCloseableStream,
    connection: h11.Connection,
    answer: StreamedAnswer,
    piece_seconds: float,
    *,
    has_body: bool,
) -> None:
    """Send a response in pieces; a client that takes longer than `piece_seconds` for one is dropped."""
    h11 = _h11()
    headers = [("Content-Type", answer.content_type), ("Connection", "close"), *SECURITY_HEADERS]
    head = h11.Response(status_code=http.HTTPStatus.OK, headers=headers, reason="OK")
    pieces = answer.pieces if has_body else iter(())
    with trio.move_on_after(piece_seconds) as patience:
        await stream.send_all(connection.send(head))
        while (piece := await in_turns(_next_piece(pieces))) is not None:
            patience.deadline = trio.current_time() + piece_seconds
            await stream.send_all(connection.send(h11.Data(data=piece)))
        if has_body:
            await stream.send_all(connection.send(h11.EndOfMessage()) or b"")
        await stream.send_eof()


def _next_piece(pieces: Iterator[bytes]) -> Steps[bytes | None]:
    yield None  # the making of a piece is a turn
    return next(pieces, None)


async def _send_events(stream: trio.abc.HalfCloseableStream, connection: h11.Connection, events: EventStream) -> None:
    """Send events until the viewer leaves, is too slow, or the stream ends."""
    h11 = _h11()
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
    h11 = _h11()
    try:
        head = h11.Response(status_code=http.HTTPStatus.OK, headers=headers, reason="OK")
        with trio.fail_after(EVENT_SECONDS):
            await stream.send_all(connection.send(head))
        await events.run(send)
    except (trio.BrokenResourceError, trio.ClosedResourceError, trio.TooSlowError):
        return  # the viewer is gone, or too slow
    except Exception:
        logger.exception("a stream of events ended")
        with contextlib.suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            await send(event({"reason": "the broker could not continue; its log says why"}, "end"))


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
