"""An HTTP server on Trio: one request per connection, answered by a response or a stream of events."""

from __future__ import annotations

import contextlib
import http
import importlib
import logging
from collections.abc import Awaitable, Callable, Collection, Iterator
from typing import TYPE_CHECKING, Any

import attrs
import trio

from pipeline_broker.base.byte_budget import ByteBudget, Kept, OverBudgetError
from pipeline_broker.base.unavailable import UnavailableError
from pipeline_broker.security.http_security import NO_SECURITY, HttpSecurity
from pipeline_broker.web.http_requests import HEADER_BYTES_MAX, receive_request
from pipeline_broker.web.messages import (
    SECURITY_HEADERS,
    Answer,
    AnswerTooLargeError,
    BadRequestError,
    EventStream,
    Handler,
    HttpRequest,
    StreamedAnswer,
    event,
    refusal,
)
from pipeline_broker.web.slots import Slots, Stage
from pipeline_broker.web.turns import Steps, in_turns
from pipeline_broker.web.user_guard import guarded

if TYPE_CHECKING:
    import h11

__all__ = ["HttpLimits", "open_listeners", "require_h11", "serve_http"]

# The default of `HttpLimits.body_bytes_max`.
BODY_BYTES_MAX = 16 * 1024
RECEIVE_BYTES = 4096
# Part of an answer in one send.
SEND_BYTES = 64 * 1024
# Time for a viewer to read one event. A slower viewer is dropped.
EVENT_SECONDS = 5.0
# Size of the kernel's send buffer. A larger one would fill with events for a client that does not read, and they would
# be stale when it does.
SEND_BUFFER_BYTES = 64 * 1024
# After an early refusal the client may still be sending. A close with unread data would reset the connection and lose
# the answer, so the server reads a bounded amount first.
LINGER_SECONDS = 1.0
LINGER_BYTES_MAX = 64 * 1024

logger = logging.getLogger(__name__)


@attrs.frozen(kw_only=True)
class HttpLimits:
    """Limits of one server.

    Attributes:
        connections_max: open connections. A further one evicts another (see `slots`).
        response_seconds: time for a client to read its response, or one piece of a streamed answer. It does not apply
            to a stream of events.
        body_bytes_max: largest body of a request.
    """

    connections_max: int
    response_seconds: float
    body_bytes_max: int = BODY_BYTES_MAX


def require_h11(what: str) -> Any:
    """Import and return h11. Callers use it before the broker starts, to report a missing package early.

    Args:
        what: the service that needs it, for the error.

    Raises:
        UnavailableError: h11 is not installed.
    """
    try:
        return importlib.import_module("h11")
    except ImportError:
        raise UnavailableError(
            f"cannot serve {what}: the package h11 is missing. Run pip install 'pipeline-broker[dashboard]'"
        ) from None


def _h11() -> Any:
    return importlib.import_module("h11")


async def open_listeners(
    what: str, host: str, port: int, limits: HttpLimits, option: str | None = None
) -> list[trio.SocketListener]:
    """Bind a port; 0 lets the system choose one.

    Args:
        what: the service, for the error.
        host: an address or a name; empty for all interfaces, as in Kafka's listeners.
        option: the option that set the port, for the error; None if it was a default.

    Raises:
        UnavailableError: h11 is missing, or the port cannot be bound.
    """
    require_h11(what)
    try:
        return await trio.open_tcp_listeners(port, host=host or None, backlog=limits.connections_max)
    except OSError as error:
        reason = error.strerror or str(error)
        remedy = "" if option is None else f". Choose another {option}"
        raise UnavailableError(f"cannot serve {what} on {host}:{port}: {reason}{remedy}") from None


async def serve_http(
    listeners: list[trio.SocketListener],
    handler: Handler,
    limits: HttpLimits,
    edges: ByteBudget,
    security: HttpSecurity = NO_SECURITY,
    open_paths: Collection[str] = (),
) -> None:
    """Serve until cancelled.

    Args:
        listeners: from `open_listeners`.
        handler: answers each request.
        edges: the budget that is charged for the bytes that connections keep.
        security: TLS and users.
        open_paths: paths that need no user.
    """
    slots = Slots(limits.connections_max)
    answer = handler if security.users is None else guarded(handler, security.users, open_paths)

    async def handle(stream: trio.SocketStream) -> None:
        with trio.CancelScope() as scope:
            slot = slots.take(scope.cancel)
            # All connections are streams of events.
            if slot is None:
                await trio.aclose_forcefully(stream)
                return

            def reached(stage: Stage) -> None:
                slot.stage = stage

            try:
                kept = edges.keep(stream, HEADER_BYTES_MAX, scope.cancel)
                try:
                    peer = _peer_of(stream)  # before TLS takes the descriptor
                    secured = None if peer is None else await _secured(stream, security)
                    if peer is None:
                        await trio.aclose_forcefully(stream)
                    elif secured is not None:
                        await serve_connection(secured, answer, limits, kept, reached, peer)
                finally:
                    kept.release()
            finally:
                slots.release(slot)

    await trio.serve_listeners(handle, listeners)


def _peer_of(stream: trio.abc.Stream) -> str | None:
    """Return the address of a client, which rules may name; None if it has closed the connection."""
    if not isinstance(stream, trio.SocketStream):
        return ""
    try:
        return str(stream.socket.getpeername()[0])
    except OSError:
        return None


async def _secured(stream: trio.SocketStream, security: HttpSecurity) -> trio.abc.HalfCloseableStream | None:
    if security.tls is None:
        return stream
    from pipeline_broker.web.tls_stream import TlsStream  # noqa: PLC0415 - only if configured

    try:
        stream.setsockopt(trio.socket.SOL_SOCKET, trio.socket.SO_SNDBUF, SEND_BUFFER_BYTES)
        secured = TlsStream(stream, security.tls.context())
    except OSError as error:  # such as a lack of descriptors
        logger.warning("a connection over HTTP is refused: %s", error)
        return None
    try:
        await secured.start()
    except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
        logger.info("a TLS handshake over HTTP failed: %s", error)
        await trio.aclose_forcefully(secured)
        return None  # the connection is not served
    except BaseException:
        await trio.aclose_forcefully(secured)
        raise
    return secured


async def serve_connection(
    stream: trio.abc.HalfCloseableStream,
    handler: Handler,
    limits: HttpLimits,
    kept: Kept,
    reached: Callable[[Stage], None] = lambda _: None,
    peer: str = "",
) -> None:
    """Answer the one request of a connection and close it.

    Args:
        kept: charges the budget of the edges for this connection.
        reached: is called with each stage of the connection after Stage.RECEIVING.
        peer: the address of the client.
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
            if isinstance(request, HttpRequest):
                request = attrs.evolve(request, peer=peer)
            answer = request if isinstance(request, Answer) else await _answer(request, handler)
            if isinstance(answer, EventStream):
                reached(Stage.STREAMING)
                await _send_events(stream, connection, answer)
                return
            has_body = not (isinstance(request, HttpRequest) and request.method == "HEAD")
            del request  # free its body before the answer is sent
            if isinstance(answer, StreamedAnswer):
                await _send_pieces(stream, connection, answer, limits.response_seconds, has_body=has_body)
                return
            with trio.move_on_after(limits.response_seconds):
                await _send(stream, connection, answer, kept, has_body=has_body)
                await stream.send_eof()
                reached(Stage.LINGERING)
                await _linger(stream)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            return  # the client has closed the connection
        except Exception:  # must not reach the nursery, which would end all other connections
            logger.exception("a connection over HTTP failed")


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
    """Send an answer. Slices of its body are not copied, because many clients may share it."""
    body = memoryview(answer.body if has_body else b"")
    try:
        # A slow client keeps the whole body in memory until it has read it.
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
    """Send a response in pieces. A client that takes longer than `piece_seconds` for one is dropped."""
    h11 = _h11()
    headers = [("Content-Type", answer.content_type), ("Connection", "close"), *SECURITY_HEADERS]
    head = h11.Response(status_code=http.HTTPStatus.OK, headers=headers, reason="OK")
    pieces = answer.pieces if has_body else iter(())
    with trio.move_on_after(piece_seconds) as patience:
        await stream.send_all(connection.send(head))
        while (piece := await in_turns(_next_piece(pieces))) is not None:
            # The time limit is for each piece, because a long list may take long in total.
            patience.deadline = trio.current_time() + piece_seconds
            await stream.send_all(connection.send(h11.Data(data=piece)))
        if has_body:
            await stream.send_all(connection.send(h11.EndOfMessage()) or b"")
        await stream.send_eof()


def _next_piece(pieces: Iterator[bytes]) -> Steps[bytes | None]:
    yield None  # build the piece within a turn
    return next(pieces, None)


async def _send_events(stream: trio.abc.HalfCloseableStream, connection: h11.Connection, events: EventStream) -> None:
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
        return  # the viewer has left, or is too slow
    except Exception:
        logger.exception("a stream of events failed")
        with contextlib.suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            await send(event({"reason": "the broker could not continue; its log says why"}, "end"))


async def _watch_for_end(stream: trio.abc.ReceiveStream, scope: trio.CancelScope) -> None:
    """Cancel `scope` when the viewer closes; ignore anything else that it sends."""
    try:
        while await stream.receive_some(RECEIVE_BYTES):
            pass
    except (trio.BrokenResourceError, trio.ClosedResourceError):
        pass
    scope.cancel()


async def _linger(stream: trio.abc.ReceiveStream) -> None:
    # See LINGER_SECONDS.
    received = 0
    with trio.move_on_after(LINGER_SECONDS):
        while received < LINGER_BYTES_MAX:
            data = await stream.receive_some(RECEIVE_BYTES)
            if not data:
                return
            received += len(data)
