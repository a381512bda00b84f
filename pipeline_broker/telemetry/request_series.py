"""Counts and sampled stamps of the requests of one API in one version."""

from __future__ import annotations

import struct
from operator import attrgetter
from typing import Any

from pipeline_broker.telemetry.sampled_rows import SampledRows
from pipeline_broker.wire.registry import is_flexible
from stages.timeline import STAMPS

__all__ = ["BODY_BYTES", "COLUMNS", "THROTTLE", "RequestSeries"]

HEADER_BYTES = 10
"""Bytes of a request header before the client id: key 2, version 2, correlation id 4, length of the client id 2."""

COLUMNS = {stamp: index for index, stamp in enumerate(STAMPS)}
"""Columns of the stamps in a row. The throttle time and the size of the body follow."""
THROTTLE, BODY_BYTES = len(STAMPS), len(STAMPS) + 1

_values_of = attrgetter(*STAMPS, "throttle_ms")
_CLIENT_ID_LENGTH = struct.Struct(">h")


class RequestSeries(SampledRows):
    """The requests of one API in one version: their exact number, and the stamps of all or of a sample.

    Attributes:
        api, version: key and version of the API.
        unlike: requests with a message to observe, or without a response; the others are `plain`.
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
        """The number of requests that were answered without errors and without a message to observe."""
        return self.count - self.unlike

    def add_request(self, request: Any) -> None:
        self.add((*_values_of(request), self._body_bytes(request)))

    def add_unfinished(self, request: Any, now_ns: int) -> None:
        """Add the stamps of a request whose connection closed; stages that it did not reach end at `now_ns`."""
        *stamps, throttle = _values_of(request)
        self.add((*[stamp or now_ns for stamp in stamps], throttle, self._body_bytes(request)))

    def _body_bytes(self, request: Any) -> int:
        """Return the bytes after the header; a flexible header has one more byte, for no tagged fields."""
        (client_id_bytes,) = _CLIENT_ID_LENGTH.unpack_from(request.frame, HEADER_BYTES - _CLIENT_ID_LENGTH.size)
        size: int = request.size_bytes - HEADER_BYTES - max(0, client_id_bytes) - self._is_flexible
        return size
