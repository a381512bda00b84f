"""The most recent requests that a broker ended, in memory.

On the event loop a request costs microseconds: its stamps are packed like a row of a trace file. Neither the frame nor
the response is kept.
"""

from __future__ import annotations

import functools
import itertools
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

# Position of the client id in a request, after its length. It is the same in every version of the header.
CLIENT_ID_AT = 10
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
    """The groups and partitions that a request names.

    Attributes:
        groups: group ids.
        partitions: topics and partitions; -1 for a whole topic.
    """

    groups: tuple[str, ...] = ()
    partitions: tuple[tuple[str, int], ...] = ()


NO_NAMES = RequestNames()


def _no_names() -> RequestNames:
    return NO_NAMES


@attrs.frozen(kw_only=True, slots=False)
class AnsweredRequest(Stamps):
    """A request that has ended; its stamps are attributes too (`stages.timeline.Stamps`).

    Attributes:
        api: Kafka's name of the API, such as Produce; the number of an unknown API.
        version: version of the API.
        client_id: the client id in the request header.
        connection: number of the connection, starting at 0.
        sequence: number of the request on its connection, starting at 0.
        correlation_id: the client's number of the request.
        request_bytes, response_bytes: sizes without the length fields.
        acks: acks of a Produce request; None for other APIs.
        outcome: "answered", "no answer" (acks=0), "closed" (the broker closed the connection) or "dropped" (the client
            closed it).
        errors: Kafka's names of the distinct errors in the response.
        stamps: stamps by name, on the machine's monotonic clock. A stage that the request skipped has 0, such as
            submitted and durable of a request without a commit.
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
        return stage_durations(self)

    @functools.cached_property
    def names(self) -> RequestNames:
        return self._names()


class RecentRequests(Timeline):
    """A `stages.timeline.Timeline` that keeps the most recent requests.

    Iterating yields them, oldest first.

    Args:
        requests_max: maximum number of requests; 0 keeps none and only calls `on_ended`.
        on_ended: called when a request or a commit has ended.
        names_of: called with each ended request; returns a function that returns the names in it.

    Attributes:
        count: number of requests kept so far, also of those that were forgotten since.
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
        self.count = 0
        self._keeps = requests_max > 0
        self._on_ended = on_ended

    def __iter__(self) -> Iterator[AnsweredRequest]:
        return self.since(0)

    def since(self, count: int) -> Iterator[AnsweredRequest]:
        """Return the remembered requests after the first `count` at this moment, oldest first."""
        first = max(0, len(self._rows) - (self.count - count))
        return itertools.starmap(_shown, list(itertools.islice(self._rows, first, None)))

    def clear(self) -> None:
        """Forget all requests, including those that are answered and have not ended.

        A client that has its response may already act on it, so these requests belong to the past too.
        """
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
        # Its response was known before the last `clear`.
        if max(request.completed_ns, request.received_ns) < self._since_ns:
            return
        row = _ROW.pack(*values)
        # `names_of` must not decode the request yet: most requests are never looked up.
        self.count += 1
        self._rows.append((row, client_id_of(request.frame), errors_of(request.answer), self._names_of(request)))

    def commit_ended(self, _: object) -> None:
        self._on_ended()


def client_id_of(frame: Any) -> str:
    """Return the first CLIENT_ID_BYTES_MAX bytes of the client id of a request frame, as text.

    The text is empty if the client id is null, or if the frame has no header.
    """
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
