"""Reception of HTTP requests, within bounds of time, bytes and pieces.

h11 parses heads and chunked bodies, in turns of the event loop (`turns`). A body with a Content-Length is received
without h11.
"""

from __future__ import annotations

import http
import importlib
import logging
from typing import TYPE_CHECKING, Any

import attrs
import trio

from pipeline_broker.base.byte_budget import Kept, OverBudgetError
from pipeline_broker.base.numbers import whole_number
from pipeline_broker.web.messages import Answer, BadRequestError, HttpRequest, refusal
from pipeline_broker.web.turns import Steps, in_turns

if TYPE_CHECKING:
    import h11

__all__ = ["HEADER_BYTES_MAX", "receive_request"]

HEADER_BYTES_MAX = 16 * 1024
"""Size of the incomplete head of an HTTP request. A complete one may be larger by one receive."""
# h11 takes 3 microseconds to parse a header line, and 16 KiB could be 4,000 lines.
HEADER_LINES_MAX = 128
"""Lines of the head of an HTTP request."""
RECEIVE_BYTES = 4096
BODY_RECEIVE_BYTES = 64 * 1024
# Receives or chunks of one request, beside one for each PIECE_BYTES of the largest body. Without this bound a client
# that sends single bytes would cost a step for each of them.
PIECES_MAX = 1000
"""Pieces of the body of an HTTP request."""
PIECE_BYTES = 256
# Time for a client to send its whole request.
REQUEST_SECONDS = 5.0
HEAD_END = b"\r\n\r\n"

logger = logging.getLogger(__name__)


class _RefusedError(Exception):
    def __init__(self, status: http.HTTPStatus, reason: str) -> None:
        super().__init__(reason)
        self.answer = refusal(status, reason)


def _too_small() -> _RefusedError:
    return _RefusedError(http.HTTPStatus.BAD_REQUEST, "the request arrives in too many small pieces")


def _too_large(bytes_max: int) -> _RefusedError:
    return _RefusedError(http.HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"the body is larger than {bytes_max} bytes")


async def receive_request(
    stream: trio.abc.ReceiveStream, connection: h11.Connection, body_bytes_max: int, kept: Kept
) -> HttpRequest | Answer | None:
    """Return the client's request, or the answer that refuses it; None if the client closed early.

    Args:
        connection: parses the head and the chunks.
        body_bytes_max: largest allowed body.
        kept: is charged for the received bytes.

    Raises:
        trio.BrokenResourceError: the connection broke.
    """
    h11 = importlib.import_module("h11")
    with trio.move_on_after(REQUEST_SECONDS) as waiting:
        try:
            head = await _receive_head(stream, connection)
            if not isinstance(head, h11.Request):
                return None
            request = HttpRequest.parse(head.method, head.target, list(head.headers))
            is_chunked = "transfer-encoding" in request.headers
            receive_body = _receive_chunks if is_chunked else _receive_body
            body = await receive_body(stream, connection, request, body_bytes_max, kept)
            return None if body is None else attrs.evolve(request, body=body)
        except _RefusedError as error:
            return error.answer
        except h11.RemoteProtocolError as error:
            return refusal(http.HTTPStatus(error.error_status_hint), f"{error}")
        except BadRequestError as error:
            return refusal(http.HTTPStatus.BAD_REQUEST, str(error))
        except OverBudgetError as error:
            return refusal(http.HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"the body is too large: {error}")
        except (ValueError, RecursionError):  # a library failed on the client's bytes
            logger.exception("a request over HTTP could not be parsed")
            return refusal(http.HTTPStatus.BAD_REQUEST, "the request is malformed")
    assert waiting.cancelled_caught
    return refusal(http.HTTPStatus.REQUEST_TIMEOUT, f"the request did not arrive within {REQUEST_SECONDS:g} seconds")


async def _receive_head(stream: trio.abc.ReceiveStream, connection: h11.Connection) -> Any:
    lines, end = 0, b""  # `end` carries a HEAD_END that is split over two receives
    for _ in range(PIECES_MAX):
        data = bytes(await stream.receive_some(RECEIVE_BYTES))
        lines += (end + data).partition(HEAD_END)[0].count(b"\n")
        end = data[1 - len(HEAD_END) :]
        if lines > HEADER_LINES_MAX:
            status = http.HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
            raise _RefusedError(status, f"the request has more than {HEADER_LINES_MAX} header lines")
        event = await in_turns(_parsed(connection, data))
        if event is not importlib.import_module("h11").NEED_DATA:
            return event
    raise _too_small()


def _parsed(connection: h11.Connection, data: bytes) -> Steps[Any]:
    yield
    connection.receive_data(data)
    return connection.next_event()


async def _receive_body(
    stream: trio.abc.ReceiveStream, connection: h11.Connection, request: HttpRequest, bytes_max: int, kept: Kept
) -> bytes | None:
    """Return a body of Content-Length bytes; None if the client closed early."""
    h11 = importlib.import_module("h11")
    # h11 has checked that it is a number, so None means that it is too large.
    size = whole_number(request.headers.get("content-length", "0"), 0, bytes_max)
    if size is None:
        raise _too_large(bytes_max)
    body = bytearray()
    while isinstance(event := connection.next_event(), h11.Data):  # the part that arrived with the head
        body += event.data
    pieces_left = PIECES_MAX + size // PIECE_BYTES
    while len(body) < size:
        data = await stream.receive_some(min(BODY_RECEIVE_BYTES, size - len(body)))
        if not data:
            return None
        # Charge what has arrived, not the declared size: a client may declare much and send nothing.
        kept.resize(HEADER_BYTES_MAX + len(body) + len(data))
        body += data
        pieces_left -= 1
        if not pieces_left:
            raise _too_small()
    return bytes(body)


async def _receive_chunks(
    stream: trio.abc.ReceiveStream, connection: h11.Connection, _request: HttpRequest, bytes_max: int, kept: Kept
) -> bytes | None:
    chunks = _Chunks(connection, bytes_max, kept)
    while not await in_turns(chunks.take()):
        data = bytes(await stream.receive_some(RECEIVE_BYTES))
        if not data:
            return None
        connection.receive_data(data)
    return bytes(chunks.body)


class _Chunks:
    def __init__(self, connection: h11.Connection, bytes_max: int, kept: Kept) -> None:
        self._connection, self._bytes_max, self._kept = connection, bytes_max, kept
        self._pieces_left = PIECES_MAX + bytes_max // PIECE_BYTES
        self.body = bytearray()

    def take(self) -> Steps[bool]:
        """Take the received chunks in steps; return whether the body is complete."""
        h11 = importlib.import_module("h11")
        while (event := self._connection.next_event()) is not h11.NEED_DATA:
            yield
            if isinstance(event, h11.EndOfMessage):
                return True
            if not isinstance(event, h11.Data):
                break
            self.body += event.data
            self._kept.resize(HEADER_BYTES_MAX + len(self.body))
            if len(self.body) > self._bytes_max:
                raise _too_large(self._bytes_max)
            # Each chunk counts, and each receive below.
            self._pieces_left -= 1
            if not self._pieces_left:
                raise _too_small()
        self._pieces_left -= 1
        if self._pieces_left <= 0:
            raise _too_small()
        return False
