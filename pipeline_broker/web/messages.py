"""A request over HTTP and the answer to it, as values.

Rules of this room: it knows HTTP's words and none of the broker's; what is answered, and to whom, others decide. This
file is sans-IO: whatever a client sends becomes a HttpRequest or a BadRequestError, never another exception.
"""

from __future__ import annotations

import http
import json
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any, TypeAlias
from urllib.parse import parse_qsl, unquote_to_bytes

import attrs

from pipeline_broker.base.steps import Steps

__all__ = [
    "Answer",
    "AnswerTooLargeError",
    "BadRequestError",
    "EventStream",
    "HttpRequest",
    "RunEvents",
    "SendEvent",
    "StreamedAnswer",
    "event",
    "event_steps",
    "json_answer",
    "json_or_absent",
    "json_steps",
    "refusal",
]

QUERY_FIELDS_MAX = 24
ANSWER_BYTES_MAX = 8 << 20
"""Of an answer that is made in steps."""
PIECES_PER_STEP = 128
"""Of JSON: some 100 microseconds."""
JSON_TYPE = "application/json; charset=utf-8"

SECURITY_HEADERS = (
    (
        "Content-Security-Policy",
        (
            "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
            "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
        ),
    ),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Referrer-Policy", "no-referrer"),
    ("X-Content-Type-Options", "nosniff"),
    ("Cache-Control", "no-store"),
)
"""Of every answer: nothing is run or shown that does not come from here, by nobody else, and nothing is kept."""


class BadRequestError(Exception):
    """The request cannot be understood; the text is one line that says why."""


class AnswerTooLargeError(Exception):
    """An answer would have more than ANSWER_BYTES_MAX; the text says so in one line."""


@attrs.frozen(kw_only=True)
class HttpRequest:
    """One request.

    Attributes:
        path: decoded.
        segments: what stands between the slashes of the path, each decoded alone: a name may have a slash in it.
        query: of a name that comes twice the last value counts.
        headers: names in lower case; of a name that comes twice the values are joined by commas.
        body: of a POST or PUT.
    """

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes = b""
    segments: tuple[str, ...] = ()

    @classmethod
    def parse(cls, method: bytes, target: bytes, headers: list[tuple[bytes, bytes]]) -> HttpRequest:
        """The request of a head; raises BadRequestError."""
        path, _, query = target.partition(b"?")
        joined: dict[str, str] = {}
        for name, value in headers:
            key, text = name.decode("latin-1").lower(), value.decode("latin-1")
            joined[key] = f"{joined[key]}, {text}" if key in joined else text
        try:
            fields = parse_qsl(query.decode("ascii"), keep_blank_values=True, max_num_fields=QUERY_FIELDS_MAX)
            decoded = unquote_to_bytes(path).decode()
            segments = tuple(unquote_to_bytes(part).decode() for part in path.split(b"/") if part)
        except ValueError as error:
            raise BadRequestError(f"the address cannot be understood: {type(error).__name__}") from None
        if not decoded.startswith("/"):
            raise BadRequestError("the address is not a path")
        return cls(method=method.decode("ascii"), path=decoded, query=dict(fields), headers=joined, segments=segments)

    def json(self) -> Any:
        """The body as JSON; raises BadRequestError."""
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError):
            raise BadRequestError("the body is not JSON") from None

    def integer(self, name: str, default: int) -> int:
        """A whole number of the query, at least 0; raises BadRequestError."""
        text = self.query.get(name, "")
        if not text:
            return default
        if not (text.isascii() and text.isdigit() and len(text) < 20):
            raise BadRequestError(f"{name} is not a whole number from 0 on")
        return int(text)


@attrs.frozen(kw_only=True)
class Answer:
    """A complete response; `headers` come beside SECURITY_HEADERS."""

    status: http.HTTPStatus
    body: bytes
    content_type: str
    headers: tuple[tuple[str, str], ...] = ()


@attrs.frozen(kw_only=True)
class StreamedAnswer:
    """A complete response in pieces, each of which is made when the client has taken the one before."""

    pieces: Iterator[bytes]
    content_type: str


SendEvent: TypeAlias = Callable[[bytes], Awaitable[None]]
"""Sends one event."""
RunEvents: TypeAlias = Callable[[SendEvent], Awaitable[None]]
"""Sends events until it is cancelled, or there are no more."""


@attrs.frozen
class EventStream:
    """An answer without an end: `run` is given what sends one event, and sends until it is cancelled."""

    run: RunEvents


def json_answer(content: Any, status: http.HTTPStatus = http.HTTPStatus.OK) -> Answer:
    """An answer of JSON."""
    return Answer(status=status, body=json.dumps(content, separators=(",", ":")).encode(), content_type=JSON_TYPE)


def refusal(status: http.HTTPStatus, reason: str, *headers: tuple[str, str]) -> Answer:
    """An answer that says why there is no other, as JSON with the field `error`."""
    return attrs.evolve(json_answer({"error": reason}, status), headers=headers)


_ENCODER = json.JSONEncoder(separators=(",", ":"))


def json_steps(content: Any) -> Steps[bytes]:
    """Content as JSON, in steps: the module's C code would keep the event loop for as long as clients made it.

    Raises:
        AnswerTooLargeError: there is too much of it.
    """
    parts: list[bytes] = []
    pieces: list[str] = []
    size_bytes = 0
    for piece in _ENCODER.iterencode(content):
        pieces.append(piece)
        if len(pieces) == PIECES_PER_STEP:
            parts.append("".join(pieces).encode())
            pieces.clear()
            size_bytes += len(parts[-1])
            if size_bytes > ANSWER_BYTES_MAX:
                raise AnswerTooLargeError(f"the answer would have more than {ANSWER_BYTES_MAX} bytes: ask for less")
            yield
    parts.append("".join(pieces).encode())
    return b"".join(parts)


def json_or_absent(content: Any, what: str) -> Steps[Answer]:
    """Make an answer of JSON in steps, or a refusal for None."""
    if content is None:
        return refusal(http.HTTPStatus.NOT_FOUND, f"there is no such {what}")
    body = yield from json_steps(content)
    return Answer(status=http.HTTPStatus.OK, body=body, content_type=JSON_TYPE)


def event(content: Any, name: str = "message") -> bytes:
    """A server-sent event (HTML standard, section 9.2): JSON has no line break, so it is one line of data."""
    return f"event: {name}\ndata: {json.dumps(content, separators=(',', ':'))}\n\n".encode()


def event_steps(content: Any, name: str) -> Steps[bytes]:
    """The same in steps."""
    return b"".join((f"event: {name}\ndata: ".encode(), (yield from json_steps(content)), b"\n\n"))
