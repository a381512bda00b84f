"""The last requests that a broker answered, for whoever asks what happened.

Rules of this file: called on the event loop, and a request costs it microseconds: what is kept is packed into one row,
as that of a trace file, with the client's name and the errors of the answer beside it; neither frame nor response is
kept. The newest are kept, the oldest go; nothing is written anywhere.
"""

from __future__ import annotations

import struct
from collections import Counter, deque
from collections.abc import Callable, Iterator
from typing import Any

import attrs

from pipeline_broker.telemetry.answer_errors import count_errors
from pipeline_broker.wire.error import ErrorCode
from pipeline_broker.wire.registry import API_KEYS
from stages.request import NO_STAMP, NOT_SET, Close, NoOp, Request, Send
from stages.timeline import StageDurations, stage_durations

__all__ = ["AnsweredRequest", "RecentRequests"]

CLIENT_ID_AT = 10
"""Where the client id of a request header begins, behind its length; the same in every version that has one."""
CLIENT_ID_BYTES_MAX = 200
OUTCOMES = {Send: "answered", NoOp: "no answer", Close: "closed"}
DROPPED = "dropped"
_ROW = struct.Struct("<iqhhiiih11q")
_CLIENT_ID_LENGTH = struct.Struct(">h")


@attrs.frozen(kw_only=True)
class AnsweredRequest:
    """One request that has ended.

    Attributes:
        api: Kafka's name of it, as Produce; the number of one that is not known.
        version: of the API.
        client_id: as the client names itself.
        connection: number of the connection, from 0.
        sequence: number of the request on its connection, from 0.
        correlation_id: the client's.
        request_bytes, response_bytes: without their lengths.
        acks: of a Produce; None for others.
        outcome: "answered", "no answer" (acks=0), "closed" (the connection), "dropped" (the client had gone).
        errors: Kafka's names of the errors in the answer, each once.
        received_ns, ..., sent_ns: stamps of the machine's monotonic clock, in the order in which they are taken; 0
            for a stage that it did not pass, as submitted and durable for what needs no commit.
    """

    api: str
    version: int
    client_id: str
    connection: int
    sequence: int
    correlation_id: int
    request_bytes: int
    response_bytes: int
    acks: int | None
    outcome: str
    errors: tuple[str, ...]
    received_ns: int
    enqueued_ns: int
    dequeued_ns: int
    handled_ns: int
    callback_ns: int
    submitted_ns: int
    durable_ns: int
    completed_ns: int
    released_ns: int
    send_started_ns: int
    sent_ns: int

    @property
    def stages(self) -> StageDurations:
        """How long it was in each stage."""
        return stage_durations(self)  # type: ignore[arg-type]  # it is only read


class RecentRequests:
    """A `stages.timeline.Timeline` that keeps requests.

    Args:
        requests_max: how many; 0 keeps none, and only tells.
        on_ended: called when a request or a commit has ended.
    """

    samples_queues = False
    times_requests = True

    def __init__(self, requests_max: int, on_ended: Callable[[], None] = lambda: None) -> None:
        self._rows: deque[tuple[bytes, str, str, tuple[int, ...]]] = deque(maxlen=requests_max)
        self._keeps = requests_max > 0
        self._on_ended = on_ended

    def __iter__(self) -> Iterator[AnsweredRequest]:
        """The requests, oldest first."""
        return iter([_shown(*row) for row in self._rows])

    def clear(self) -> None:
        """Forget them."""
        self._rows.clear()

    def request_ended(self, request: object) -> None:
        assert isinstance(request, Request)
        if self._keeps:
            self._keep(request, OUTCOMES[type(request.result)])
        self._on_ended()

    def request_dropped(self, request: object) -> None:
        assert isinstance(request, Request)
        if self._keeps:
            self._keep(request, DROPPED)
        self._on_ended()

    def _keep(self, request: Request, outcome: str) -> None:
        row = _ROW.pack(
            request.connection.index,
            request.sequence,
            request.api,
            request.version,
            request.correlation_id,
            request.size_bytes,
            request.response_bytes,
            request.acks,
            request.received_ns,
            request.enqueued_ns,
            request.dequeued_ns,
            request.handled_ns,
            request.callback_ns,
            request.submitted_ns,
            request.durable_ns,
            request.completed_ns,
            request.released_ns,
            request.send_started_ns,
            request.sent_ns,
        )
        self._rows.append((row, _client_id(request.frame), outcome, _errors(request.answer)))

    def commit_ended(self, commit: object) -> None:  # noqa: ARG002 - the moment is all that counts
        self._on_ended()

    def mute_ended(self, connection_index: int, reason: int, began_ns: int, ended_ns: int) -> None:
        """See Timeline: it is nobody's request."""

    def queue_sampled(self, queue: int, at_ns: int, depth: int) -> None:
        """See Timeline: it is not asked for."""


def _client_id(frame: Any) -> str:
    """The client id of a request; empty for null and for what is no header."""
    if len(frame) < CLIENT_ID_AT:
        return ""
    (length,) = _CLIENT_ID_LENGTH.unpack_from(frame, CLIENT_ID_AT - _CLIENT_ID_LENGTH.size)
    text = bytes(frame[CLIENT_ID_AT : CLIENT_ID_AT + min(max(length, 0), CLIENT_ID_BYTES_MAX)])
    return text.decode(errors="replace")


def _errors(answer: Any) -> tuple[int, ...]:
    if answer is None:
        return ()
    codes: Counter[int] = Counter()
    count_errors(answer, codes)
    return tuple(code for code in codes if code)


def _shown(row: bytes, client_id: str, outcome: str, errors: tuple[int, ...]) -> AnsweredRequest:
    connection, sequence, api, version, correlation_id, request_bytes, response_bytes, acks, *stamps = _ROW.unpack(row)
    stamps = [0 if stamp == NO_STAMP else stamp for stamp in stamps]
    received, enqueued, dequeued, handled, callback, submitted, durable, completed, released, started, sent = stamps
    return AnsweredRequest(
        api=API_KEYS[api].name if api in API_KEYS else str(api),
        version=version,
        client_id=client_id,
        connection=connection,
        sequence=sequence,
        correlation_id=correlation_id,
        request_bytes=request_bytes,
        response_bytes=response_bytes,
        acks=None if acks == NOT_SET else acks,
        outcome=outcome,
        errors=tuple(_error_name(code) for code in errors),
        received_ns=received,
        enqueued_ns=enqueued,
        dequeued_ns=dequeued,
        handled_ns=handled,
        callback_ns=callback,
        submitted_ns=submitted,
        durable_ns=durable,
        completed_ns=completed,
        released_ns=released,
        send_started_ns=started,
        sent_ns=sent,
    )


def _error_name(code: int) -> str:
    try:
        return ErrorCode(code).name
    except ValueError:
        return str(code)
