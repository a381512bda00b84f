"""The requests of one API in one version: an exact number of them, and the stamps of all or of a sample.

Rules of this file: it says what a row of a request is; which requests have one is said in `sampled_rows`.
"""

from __future__ import annotations

import struct
from operator import attrgetter
from typing import Any

from pipeline_broker.telemetry.sampled_rows import SampledRows
from pipeline_broker.wire.registry import is_flexible
from stages.timeline import STAMPS

__all__ = ["BODY_BYTES", "PLACES", "THROTTLE", "RequestSeries"]

HEADER_BYTES = 10
"""Of a request header before its client id: key 2, version 2, correlation id 4, length of the client id 2."""

PLACES = {stamp: place for place, stamp in enumerate(STAMPS)}
"""Where the stamps stand in a row; the throttle and the size of the body follow them."""
THROTTLE, BODY_BYTES = len(STAMPS), len(STAMPS) + 1

_values_of = attrgetter(*STAMPS, "throttle_ms")
_CLIENT_ID_LENGTH = struct.Struct(">h")


class RequestSeries(SampledRows):
    """See the rules of the file.

    Attributes:
        api, version: what its requests ask for.
        unlike: requests that were not answered without any error; see `plain`.
    """

    __slots__ = ("_is_flexible", "api", "unlike", "version")

    def __init__(self, api: int, version: int) -> None:
        super().__init__()
        self.api = api
        self.version = version
        self.unlike = 0
        self._is_flexible = is_flexible(api, version)

    @property
    def plain(self) -> int:
        """How many were answered without a message that observers can read: without any error."""
        return self.count - self.unlike

    def add_request(self, request: Any) -> None:
        """Keep the stamps of a request whose turn it is, and which is counted already."""
        self.add((*_values_of(request), self._body_bytes(request)))

    def add_unfinished(self, request: Any, now_ns: int) -> None:
        """The same of one whose connection closed: what it did not pass ended now, after no time."""
        *stamps, throttle = _values_of(request)
        self.add((*[stamp or now_ns for stamp in stamps], throttle, self._body_bytes(request)))

    def _body_bytes(self, request: Any) -> int:
        """Bytes behind the header; where that is flexible, one byte says that it has no tagged fields."""
        (client_id_bytes,) = _CLIENT_ID_LENGTH.unpack_from(request.frame, HEADER_BYTES - _CLIENT_ID_LENGTH.size)
        size: int = request.size_bytes - HEADER_BYTES - max(0, client_id_bytes) - self._is_flexible
        return size
