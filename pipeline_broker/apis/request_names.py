"""The names of groups and partitions in requests, for the list of recent requests.

Most names are never read, so a short request is only copied on the event loop and decoded on demand. A long one, or a
Fetch, whose session may change, is decoded at once. A request that would block the event loop yields no names.
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

# Limit of a request that is decoded on the event loop.
READ_BYTES_MAX = 16 * 1024
# Limit of a copied request: 8 MiB for the 4,096 requests that are remembered.
KEPT_BYTES_MAX = 2048
assert KEPT_BYTES_MAX <= READ_BYTES_MAX, "a request too long to be decoded is not copied either"


def names_of(broker: Broker, request: Any) -> Callable[[], RequestNames]:
    """Return a function that returns the names in a request; no names for a request that would block the event loop.

    Topic ids are resolved when the request is decoded: now for a Fetch or a long request, otherwise on the later call.

    Args:
        broker: resolves topic ids and fetch sessions.
        request: a completed `stages.request.Request` with its frame.
    """
    frame = request.frame
    if len(frame) > READ_BYTES_MAX and not _is_short(request):
        return lambda: NO_NAMES
    if request.api == ApiKey.FETCH or len(frame) > KEPT_BYTES_MAX:
        names = _read(broker, frame)
        return lambda: names
    return functools.partial(_read, broker, bytes(frame))


def _is_short(request: Any) -> bool:
    """Return whether a long request is an answered Produce request for one topic, so that only its records are long."""
    if request.api != ApiKey.PRODUCE or type(request.result) is not Send:
        return False
    # The fast path of `produce_template` sets no answer; it serves requests with one batch only.
    return request.answer is None or len(request.answer.responses) == 1


def _read(broker: Broker, frame: Buffer) -> RequestNames:
    try:
        header, position = read_request_header(frame)
        served = SERVED.get(header.api_key)
        if served is None or header.api_version not in served.versions:
            return NO_NAMES
        message_class, _ = message_classes(header.api_key)
        message: Any = decode(message_class, header.api_version, frame, position)[0]
    except DecodeError:  # the dispatcher closed the connection
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
