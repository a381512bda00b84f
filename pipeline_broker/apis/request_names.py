"""What the requests of clients name: read when somebody asks, for nobody asks about most of them.

Rules of this file: on the event loop a request costs a copy of its bytes, if these are few. What would be too much to
keep, or means something else a moment later, as a fetch of a session does, is read at once; a request that would take
the event loop for long names nothing.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pipeline_broker.apis.registry import SERVED
from pipeline_broker.faults.subject import Subject
from pipeline_broker.telemetry.recent_requests import NO_NAMES, RequestNames
from pipeline_broker.wire.codec import decode
from pipeline_broker.wire.header import read_request_header
from pipeline_broker.wire.primitives import DecodeError
from pipeline_broker.wire.registry import ApiKey, message_classes
from stages.request import Buffer, Send

if TYPE_CHECKING:
    from pipeline_broker.broker.broker import Broker

__all__ = ["names_of"]

READ_BYTES_MAX = 16 * 1024
"""Of a request that is read at once."""
KEPT_BYTES_MAX = 2048
"""Of one request: 8 MiB of the 4,096 that are remembered."""


def names_of(broker: Broker, request: Any) -> Callable[[], RequestNames]:
    """How to learn what a request names; topics by the names that they have when it is asked.

    Args:
        broker: that answered it.
        request: a `stages.request.Request` that has ended, with its frame.
    """
    frame = request.frame
    if len(frame) > READ_BYTES_MAX and not _is_short(request):
        return lambda: NO_NAMES
    if request.api == ApiKey.FETCH or len(frame) > KEPT_BYTES_MAX:
        names = _read(broker, frame)
        return lambda: names
    return functools.partial(_read, broker, bytes(frame))


def _is_short(request: Any) -> bool:
    """Return whether only the records of a request make it large."""
    if request.api != ApiKey.PRODUCE or type(request.result) is not Send:
        return False
    return request.answer is None or len(request.answer.responses) == 1  # the former: see `apis/produce_template.py`


def _read(broker: Broker, frame: Buffer) -> RequestNames:
    try:
        header, position = read_request_header(frame)
        served = SERVED.get(header.api_key)
        if served is None or header.api_version not in served.versions:
            return NO_NAMES
        message_class, _ = message_classes(header.api_key)
        message: Any = decode(message_class, header.api_version, frame, position)[0]
    except DecodeError:  # the connection was closed for it
        return NO_NAMES
    subject = Subject(
        header.api_key,
        header.api_version,
        header.client_id,
        0,
        lambda: message,
        broker.topic_name,
        broker.fetch_sessions.keys_of,
    )
    return RequestNames(groups=tuple(sorted(subject.groups)), partitions=tuple(sorted(subject.partitions)))
