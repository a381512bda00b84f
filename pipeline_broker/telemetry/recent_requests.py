"""The last requests that a broker answered, for whoever asks what happened.

Rules of this file: called on the event loop, and a request costs it microseconds: what is kept is packed into one row,
as that of a trace file, with the client's name and the errors of the answer beside it; neither frame nor response is
kept. The newest are kept, the oldest go; nothing is written anywhere.
"""

from __future__ import annotations

import functools
import struct
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import attrs

from pipeline_broker.telemetry.answer_errors import error_name, errors_of
from pipeline_broker.traces.broker_tables import REQUESTS, Outcome, TracedRequest
from pipeline_broker.traces.request_rows import dropped_values, ended_values
from pipeline_broker.traces.stage_durations import StageDurations, stage_durations
from pipeline_broker.wire.registry import api_name
from stages.request import NOT_SET, Request
from stages.stamps import now_ns
from stages.timeline import STAMPS, Stamps, Timeline

__all__ = ["NO_NAMES", "AnsweredRequest", "RecentRequests", "RequestNames", "client_id_of"]

CLIENT_ID_AT = 10
"""Where the client id of a request header begins, behind its length; the same in every version that has one."""
CLIENT_ID_BYTES_MAX = 200
OUTCOMES = {
    Outcome.SEND: "answered",
    Outcome.NOOP: "no answer",
    Outcome.CLOSE: "closed",
    Outcome.DROPPED: "dropped",
}
_ROW = REQUESTS.layout
_CLIENT_ID_LENGTH = struct.Struct(">h")


@attrs.frozen(kw_only=True)
class RequestNames:
    """What a request names.

    Attributes:
        groups: ids.
        partitions: topics with their partitions, -1 for a topic as a whole.
    """

    groups: tuple[str, ...] = ()
    partitions: tuple[tuple[str, int], ...] = ()


NO_NAMES = RequestNames()


def _no_names() -> RequestNames:
    return NO_NAMES


@attrs.frozen(kw_only=True, slots=False)
class AnsweredRequest(Stamps):
    """One request that has ended; its stamps are attributes too, see `stages.timeline.Stamps`.

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
        stamps: by name, of the machine's monotonic clock; 0 for a stage that it did not pass, as submitted and durable
            for what needs no commit.
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
    stamps: Mapping[str, int] = attrs.field(repr=False, eq=False)
    _names: Callable[[], RequestNames] = attrs.field(repr=False, eq=False, default=_no_names)

    def __attrs_post_init__(self) -> None:
        vars(self).update(self.stamps)

    @property
    def stages(self) -> StageDurations:
        """How long it was in each stage."""
        return stage_durations(self)

    @functools.cached_property
    def names(self) -> RequestNames:
        """The groups, topics and partitions that it names."""
        return self._names()


class RecentRequests(Timeline):
    """A `stages.timeline.Timeline` that keeps requests.

    Args:
        requests_max: how many; 0 keeps none, and only tells.
        on_ended: called when a request or a commit has ended.
        names_of: called with a request that has ended; what it returns tells later what the request names.
    """

    def __init__(
        self,
        requests_max: int,
        on_ended: Callable[[], None] = lambda: None,
        names_of: Callable[[Request], Callable[[], RequestNames]] = lambda _: _no_names,
    ) -> None:
        self._rows: deque[tuple[bytes, str, tuple[int, ...], Callable[[], RequestNames]]] = deque(maxlen=requests_max)
        self._names_of = names_of
        self._since_ns = 0
        self._keeps = requests_max > 0
        self._on_ended = on_ended

    def __iter__(self) -> Iterator[AnsweredRequest]:
        """The requests, oldest first."""
        return iter([_shown(*row) for row in self._rows])

    def clear(self) -> None:
        """Forget them, and those that are answered already and have not ended: their clients may have gone on."""
        self._rows.clear()
        self._since_ns = now_ns()

    def request_ended(self, request: Any) -> None:
        if self._keeps:
            self._keep(request, ended_values(request))
        self._on_ended()

    def request_dropped(self, request: Any) -> None:
        if self._keeps:
            self._keep(request, dropped_values(request))
        self._on_ended()

    def _keep(self, request: Request, values: tuple[int, ...]) -> None:
        if max(request.completed_ns, request.received_ns) < self._since_ns:
            return
        row = _ROW.pack(*values)
        self._rows.append((row, client_id_of(request.frame), errors_of(request.answer), self._names_of(request)))

    def commit_ended(self, commit: object) -> None:  # noqa: ARG002 - the moment is all that counts
        self._on_ended()


def client_id_of(frame: Any) -> str:
    """The client id of a request; empty for null and for what is no header."""
    if len(frame) < CLIENT_ID_AT:
        return ""
    (length,) = _CLIENT_ID_LENGTH.unpack_from(frame, CLIENT_ID_AT - _CLIENT_ID_LENGTH.size)
    text = bytes(frame[CLIENT_ID_AT : CLIENT_ID_AT + min(max(length, 0), CLIENT_ID_BYTES_MAX)])
    return text.decode(errors="replace")


def _shown(
    packed: bytes, client_id: str, errors: tuple[int, ...], names: Callable[[], RequestNames]
) -> AnsweredRequest:
    row = TracedRequest(_ROW.unpack(packed))
    return AnsweredRequest(
        api=api_name(row.api),
        version=row.version,
        client_id=client_id,
        connection=row.connection,
        sequence=row.sequence,
        correlation_id=row.correlation_id,
        request_bytes=row.request_bytes,
        response_bytes=row.response_bytes,
        acks=None if row.acks == NOT_SET else row.acks,
        outcome=OUTCOMES[Outcome(row.outcome)],
        errors=tuple(error_name(code) for code in errors),
        stamps={name: getattr(row, name) for name in STAMPS},
        names=names,
    )
