"""HTTP requests and answers, as values.

Whatever a client sends becomes a HttpRequest or a BadRequestError, never another exception.
"""

from __future__ import annotations

import http
import json
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import parse_qsl, unquote_to_bytes

import attrs

from pipeline_broker.base.steps import Steps

if TYPE_CHECKING:
    from pipeline_broker.security.basic_users import HttpUser

__all__ = [
    "JSON_TYPE",
    "Answer",
    "AnswerTooLargeError",
    "BadRequestError",
    "EventStream",
    "Handler",
    "HttpRequest",
    "RunEvents",
    "SendEvent",
    "StreamedAnswer",
    "event",
    "event_steps",
    "json_answer",
    "json_or_not_found",
    "json_steps",
    "refusal",
]

QUERY_FIELDS_MAX = 24
ANSWER_BYTES_MAX = 8 << 20
"""Size of a response of the dashboard, which all viewers share for a second."""
# Pieces of JSON in one step: about 100 microseconds.
PIECES_PER_STEP = 128
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
"""Headers of every answer: only this server's own scripts run, no other site may embed an answer, and no cache keeps
it.
"""


class BadRequestError(Exception):
    """The request is malformed; the message is one line."""


class AnswerTooLargeError(Exception):
    """An answer would exceed ANSWER_BYTES_MAX; the message is one line."""


@attrs.frozen(kw_only=True)
class HttpRequest:
    """One request.

    Attributes:
        path: the decoded path.
        segments: the parts of the path between slashes. Each is decoded alone, so it may contain a slash.
        query: parameters by name; the last value of a repeated one.
        headers: by name in lower case; the values of a repeated one are joined by commas.
        body: empty if the request has none.
        peer: the address of the client.
        user: the authenticated user; None if the port has no users.
    """

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes = b""
    segments: tuple[str, ...] = ()
    peer: str = ""
    user: HttpUser | None = None

    @classmethod
    def parse(cls, method: bytes, target: bytes, headers: list[tuple[bytes, bytes]]) -> HttpRequest:
        """Parse a request without its body.

        Raises:
            BadRequestError: the target is malformed, is not a path, or has more than QUERY_FIELDS_MAX fields.
        """
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
            raise BadRequestError(f"the request target is malformed: {type(error).__name__}") from None
        if not decoded.startswith("/"):
            raise BadRequestError("the request target is not a path that starts with /")
        return cls(method=method.decode("ascii"), path=decoded, query=dict(fields), headers=joined, segments=segments)

    def json(self) -> Any:
        """Return the body as JSON.

        Raises:
            BadRequestError: the body is not JSON.
        """
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError):
            raise BadRequestError("the body is not JSON") from None

    def integer(self, name: str, default: int) -> int:
        """Return a query parameter as a number of at least 0; `default` if it is missing or empty.

        Raises:
            BadRequestError: the parameter is not a whole number, or has more than 19 digits.
        """
        text = self.query.get(name, "")
        if not text:
            return default
        if not (text.isascii() and text.isdigit() and len(text) < 20):
            raise BadRequestError(f"the parameter {name} must be a whole number of at most 19 digits")
        return int(text)


@attrs.frozen(kw_only=True)
class Answer:
    """A complete response. `headers` are sent in addition to SECURITY_HEADERS."""

    status: http.HTTPStatus
    body: bytes
    content_type: str
    headers: tuple[tuple[str, str], ...] = ()


@attrs.frozen(kw_only=True)
class StreamedAnswer:
    """A response in pieces. Each is made after the client has taken the one before."""

    pieces: Iterator[bytes]
    content_type: str


SendEvent: TypeAlias = Callable[[bytes], Awaitable[None]]
RunEvents: TypeAlias = Callable[[SendEvent], Awaitable[None]]
"""Sends events until it is cancelled or runs out of events."""


@attrs.frozen
class EventStream:
    """A response of events. `run` receives a function that sends one event.

    It runs until it is cancelled or has no more events.
    """

    run: RunEvents


Handler: TypeAlias = Callable[[HttpRequest], Awaitable[Answer | StreamedAnswer | EventStream]]


def json_answer(content: Any, status: http.HTTPStatus = http.HTTPStatus.OK) -> Answer:
    return Answer(status=status, body=json.dumps(content, separators=(",", ":")).encode(), content_type=JSON_TYPE)


def refusal(status: http.HTTPStatus, reason: str, *headers: tuple[str, str]) -> Answer:
    """Build an error response: a JSON object with the field `error`."""
    return attrs.evolve(json_answer({"error": reason}, status), headers=headers)


_ENCODER = json.JSONEncoder(separators=(",", ":"))


def json_steps(content: Any) -> Steps[bytes]:
    """Encode JSON in steps.

    `json.dumps` would block the event loop for as long as clients made the content large.

    Raises:
        AnswerTooLargeError: the JSON would exceed ANSWER_BYTES_MAX.
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
                raise AnswerTooLargeError(
                    f"the answer is larger than {ANSWER_BYTES_MAX} bytes. Request a smaller part."
                )
            yield
    parts.append("".join(pieces).encode())
    return b"".join(parts)


def json_or_not_found(content: Any, what: str) -> Steps[Answer]:
    """Build a JSON answer in steps; an answer with status 404 if `content` is None.

    Args:
        what: the kind of thing that is missing, for the error.

    Raises:
        AnswerTooLargeError: the JSON would exceed ANSWER_BYTES_MAX.
    """
    if content is None:
        return refusal(http.HTTPStatus.NOT_FOUND, f"the {what} does not exist")
    body = yield from json_steps(content)
    return Answer(status=http.HTTPStatus.OK, body=body, content_type=JSON_TYPE)


def event(content: Any, name: str = "message") -> bytes:
    # Compact JSON has no line breaks, so it fits in one `data` line.
    return f"event: {name}\ndata: {json.dumps(content, separators=(',', ':'))}\n\n".encode()


def event_steps(content: Any, name: str) -> Steps[bytes]:
    """Build a server-sent event like `event`, but in steps.

    Raises:
        AnswerTooLargeError: the JSON would exceed ANSWER_BYTES_MAX.
    """
    return b"".join((f"event: {name}\ndata: ".encode(), (yield from json_steps(content)), b"\n\n"))
