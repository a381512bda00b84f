"""HTTP over Trio, for all that a broker serves by it: one request a connection, or a stream of events.

Rules of this file: it speaks HTTP through h11 and decides nothing; every wait, size and number of clients has a
bound, because these ports are as open as the broker's, and slow clients make room for others (`slots`); whatever a
client sends, and whatever a handler raises, ends at its connection. Who may ask is the handler's to say. h11 comes
with the extra `dashboard` and is imported when it is used.
"""

from __future__ import annotations

import http
import importlib
import logging
from collections.abc import Awaitable, Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeAlias

import attrs
import trio

from pipeline_broker.web.messages import (
    SECURITY_HEADERS,
    Answer,
    BadRequestError,
    EventStream,
    HttpRequest,
    StreamedAnswer,
    refusal,
)
from pipeline_broker.web.slots import Slots, Stage
from pipeline_broker.web.turns import Steps, in_turns

if TYPE_CHECKING:
    import h11

__all__ = ["Handler", "HttpLimits", "HttpUnavailableError", "open_listeners", "require_h11", "serve_http"]

HEADER_BYTES_MAX = 16 * 1024
"""Of a request that is not complete yet; what is complete may be larger by what one receive brings."""
BODY_BYTES_MAX = 16 * 1024
"""Unless the limits of a server say otherwise."""
RECEIVE_BYTES = 4096
REQUEST_SECONDS = 5.0
"""How long a client may take to send its request."""
EVENT_SECONDS = 5.0
"""How long a viewer may take to read one event; one that takes longer is dropped."""
EVENT_SEND_BUFFER_BYTES = 64 * 1024
"""Of the socket of a viewer: what the kernel keeps of a slow one would be old when it is read."""
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


async def serve_http(listeners: list[trio.SocketListener], handler: Handler, limits: HttpLimits) -> None:
    """Serve until cancelled."""
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
                await serve_connection(stream, handler, limits, reached)
            finally:
                slots.release(slot)

    await trio.serve_listeners(handle, listeners)


async def serve_connection(
    stream: trio.abc.HalfCloseableStream,
    handler: Handler,
    limits: HttpLimits,
    reached: Callable[[Stage], None] = lambda _: None,
) -> None:
    """Answer the one request of a connection and close it.

    Args:
        limits: of the server.
        reached: called with how far it is, from Stage.ANSWERING on.
    """
    h11 = _h11()
    connection = h11.Connection(h11.SERVER, max_incomplete_event_size=HEADER_BYTES_MAX)
    async with stream:
        try:
            request = await _receive(stream, connection, limits.body_bytes_max)
            if request is None:
                return
            reached(Stage.ANSWERING)
            answer = request if isinstance(request, Answer) else await _answer(request, handler)
            if isinstance(answer, EventStream):
                reached(Stage.STREAMING)
                await _send_events(stream, connection, answer)
                return
            has_body = not (isinstance(request, HttpRequest) and request.method == "HEAD")
            if isinstance(answer, StreamedAnswer):
                try:
                    await _send_pieces(stream, connection, answer, limits.response_seconds, has_body=has_body)
                except (trio.BrokenResourceError, trio.ClosedResourceError):
                    raise
                except Exception:
                    logger.exception("an answer ended within")
                return
            with trio.move_on_after(limits.response_seconds):
                await stream.send_all(_encode(connection, answer, has_body=has_body))
                await stream.send_eof()
                reached(Stage.LINGERING)
                await _linger(stream)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            return  # the client is gone


async def _answer(request: HttpRequest, handler: Handler) -> Answer | StreamedAnswer | EventStream:
    try:
        return await handler(request)
    except BadRequestError as error:
        return refusal(http.HTTPStatus.BAD_REQUEST, str(error))
    except Exception:
        logger.exception("%s %r could not be answered", request.method, request.path)
        return refusal(http.HTTPStatus.INTERNAL_SERVER_ERROR, "the broker could not answer; its log says why")


async def _receive(
    stream: trio.abc.ReceiveStream, connection: h11.Connection, body_bytes_max: int
) -> HttpRequest | Answer | None:
    """The client's request, or the answer that refuses it; None when it closed without one."""
    h11 = _h11()
    with trio.move_on_after(REQUEST_SECONDS) as waiting:
        try:
            head = await _next_event(stream, connection)
            if not isinstance(head, h11.Request):
                return None
            request = HttpRequest.parse(head.method, head.target, list(head.headers))
            return await _receive_body(stream, connection, request, body_bytes_max)
        except h11.RemoteProtocolError as error:
            return refusal(http.HTTPStatus(error.error_status_hint), f"{error}")
        except BadRequestError as error:
            return refusal(http.HTTPStatus.BAD_REQUEST, str(error))
    assert waiting.cancelled_caught
    return refusal(http.HTTPStatus.REQUEST_TIMEOUT, "the request took too long")


async def _receive_body(
    stream: trio.abc.ReceiveStream, connection: h11.Connection, request: HttpRequest, bytes_max: int
) -> HttpRequest | Answer | None:
    h11 = _h11()
    too_large = refusal(http.HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a body has at most {bytes_max} bytes")
    if int(request.headers.get("content-length", "0")) > bytes_max:  # h11 has checked that it is one number
        return too_large
    body = bytearray()
    while not isinstance(event := await _next_event(stream, connection), h11.EndOfMessage):
        if not isinstance(event, h11.Data):
            return None
        body += event.data
        if len(body) > bytes_max:
            return too_large
    return attrs.evolve(request, body=bytes(body))


async def _next_event(stream: trio.abc.ReceiveStream, connection: h11.Connection) -> Any:
    h11 = _h11()
    while (event := connection.next_event()) is h11.NEED_DATA:
        connection.receive_data(bytes(await stream.receive_some(RECEIVE_BYTES)))
    return event


def _encode(connection: h11.Connection, answer: Answer, *, has_body: bool) -> bytes:
    h11 = _h11()
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
