"""The requests of one API in one version: an exact number of them, and the stamps of all or of a sample.

Rules of this file: on the event loop a request costs a count and at most one tuple. A drain takes about ROWS_WANTED
rows of a series: when more requests came since the last one, the next interval keeps every n-th request only, and each
row stands for as many requests as came per row. So an API that is asked rarely is measured exactly beside one that is
asked fifty thousand times a second, and a count never depends on the sample.
"""

from __future__ import annotations

import struct
from operator import attrgetter
from typing import Any, TypeAlias

from pipeline_broker.wire.registry import is_flexible

__all__ = [
    "BODY_BYTES",
    "CALLBACK",
    "COMPLETED",
    "DEQUEUED",
    "DURABLE",
    "HANDLED",
    "RECEIVED",
    "RELEASED",
    "ROWS_MAX",
    "ROWS_WANTED",
    "SEND_STARTED",
    "SENT",
    "SUBMITTED",
    "THROTTLE",
    "RequestSeries",
    "Row",
]

ROWS_WANTED = 128
"""Rows that one drain should find: some thousands a second, far more than the 1028 values of Kafka's histograms."""
ROWS_MAX = 1024
"""Rows that may wait for a drain: the bound of what one takes from the event loop."""
HEADER_BYTES = 10
"""Of a request header before its client id: key 2, version 2, correlation id 4, length of the client id 2."""

Row: TypeAlias = tuple[int, ...]
_STAMPS = (
    "received_ns",
    "dequeued_ns",
    "handled_ns",
    "submitted_ns",
    "durable_ns",
    "completed_ns",
    "released_ns",
    "send_started_ns",
    "sent_ns",
)
RECEIVED, DEQUEUED, HANDLED, SUBMITTED, DURABLE, COMPLETED, RELEASED, SEND_STARTED, SENT = range(9)
CALLBACK, THROTTLE, BODY_BYTES = 9, 10, 11
"""The places in a row."""

_values_of = attrgetter(*_STAMPS, "callback_ns", "throttle_ms")
_CLIENT_ID_LENGTH = struct.Struct(">h")


class RequestSeries:
    """See the rules of the file.

    Attributes:
        api, version: what its requests ask for.
        count: requests so far, exactly.
        plain: of these, how many were answered without an answer that observers can read: without any error.
        rows: waiting for a drain.
        until_row: requests until the next one has a row.
        skipped: requests without a row, so far.
    """

    __slots__ = (
        "_drained",
        "_is_flexible",
        "_stride",
        "api",
        "count",
        "plain",
        "rows",
        "skipped",
        "until_row",
        "version",
    )

    def __init__(self, api: int, version: int) -> None:
        self.api = api
        self.version = version
        self.count = 0
        self.plain = 0
        self.skipped = 0
        self.rows: list[Row] = []
        self.until_row = 1
        self._drained = 0
        self._stride = 1
        self._is_flexible = is_flexible(api, version)

    def add_row(self, request: Any) -> None:
        """Keep the stamps of a request whose turn it is."""
        self.until_row = self._stride
        if len(self.rows) < ROWS_MAX:
            self.rows.append((*_values_of(request), self._body_bytes(request)))

    def add_unfinished_row(self, request: Any, now_ns: int) -> None:
        """The same of one whose connection closed: what it did not pass ended now, after no time."""
        self.until_row = self._stride
        received, *later, callback, throttle = _values_of(request)
        stamps = [stamp or now_ns for stamp in later]
        if len(self.rows) < ROWS_MAX:
            self.rows.append((received, *stamps, callback, throttle, self._body_bytes(request)))

    def _body_bytes(self, request: Any) -> int:
        """Bytes behind the header; where that is flexible, one byte says that it has no tagged fields."""
        (client_id_bytes,) = _CLIENT_ID_LENGTH.unpack_from(request.frame, HEADER_BYTES - _CLIENT_ID_LENGTH.size)
        size: int = request.size_bytes - HEADER_BYTES - max(0, client_id_bytes) - self._is_flexible
        return size

    def take(self) -> tuple[list[Row], float]:
        """The rows since the last call, and how many requests each of them stands for."""
        rows, self.rows = self.rows, []
        if not rows:
            self.until_row = 1  # whatever came since is told by the next row
            return rows, 0.0
        came = self.count - self._drained
        self._drained = self.count
        self._stride = max(1, came // ROWS_WANTED)
        self.until_row = min(self.until_row, self._stride)
        self.skipped += came - len(rows)
        return rows, came / len(rows)
