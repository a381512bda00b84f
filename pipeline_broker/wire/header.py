"""Request and response headers.

The client id is always encoded as a non-compact nullable string. Headers have a tag section if the version of the
request is flexible.
"""

from __future__ import annotations

import struct
from typing import Final

import attrs

from pipeline_broker.base.buffer import Buffer
from pipeline_broker.wire.primitives import STRING_SIZE_MAX, DecodeError, EncodeError, bad_length, skip_tags
from pipeline_broker.wire.registry import FLEXIBLE_FROM, ApiKey
from pipeline_broker.wire.text import text_of

REQUEST: Final = struct.Struct(">hhih")
"""Layout: API key, API version, correlation id, length of the client id."""

CORRELATION: Final = struct.Struct(">i")
CORRELATION_AND_TAGS: Final = struct.Struct(">ix")
API_VERSIONS: Final = int(ApiKey.API_VERSIONS)


@attrs.define
class RequestHeader:
    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None


def read_request_header(frame: Buffer, position: int = 0) -> tuple[RequestHeader, int]:
    """Decode a request header; return the header and the position of the body.

    The version is not checked: an ApiVersions request of an unsupported version gets a response.

    Raises:
        DecodeError: the header is malformed, or the API key is unknown. The position of the body depends on the key.
    """
    end = len(frame)
    try:
        api_key, api_version, correlation_id, length = REQUEST.unpack_from(frame, position)
        position += 10
        if length == -1:
            client_id = None
        else:
            stop = position + length
            if not position <= stop <= end:
                raise bad_length("RequestHeader.client_id", length, end - position)
            client_id = text_of(bytes(frame[position:stop]))
            position = stop
        if api_version >= FLEXIBLE_FROM[api_key]:
            position = skip_tags(frame, position, end) if frame[position] else position + 1
    except KeyError:
        raise DecodeError(f"the API key {api_key} is unknown") from None
    except (struct.error, IndexError) as error:
        raise DecodeError(f"request header: {error}") from error
    return RequestHeader(api_key, api_version, correlation_id, client_id), position


def encode_request_header(header: RequestHeader) -> bytes:
    """Encode a request header.

    Raises:
        EncodeError: the client id is longer than STRING_SIZE_MAX.
    """
    data = b"" if header.client_id is None else header.client_id.encode()
    if len(data) > STRING_SIZE_MAX:
        raise EncodeError(f"the client id has {len(data)} bytes; the limit is {STRING_SIZE_MAX}")
    length = -1 if header.client_id is None else len(data)
    fixed = REQUEST.pack(header.api_key, header.api_version, header.correlation_id, length)
    return fixed + data + (b"\0" if header.api_version >= FLEXIBLE_FROM[header.api_key] else b"")


def response_header(api_key: int, version: int, correlation_id: int) -> bytes:
    # An ApiVersions response never has a tag section, so that a client can read it even if it guessed a wrong version.
    if version >= FLEXIBLE_FROM[api_key] and api_key != API_VERSIONS:
        return CORRELATION_AND_TAGS.pack(correlation_id)
    return CORRELATION.pack(correlation_id)


def read_response_header(api_key: int, version: int, frame: Buffer, position: int = 0) -> tuple[int, int]:
    """Decode the response header of an API and version; return the correlation id and the position of the body.

    Raises:
        DecodeError: the header is malformed.
    """
    try:
        (correlation_id,) = CORRELATION.unpack_from(frame, position)
        position += 4
        if version >= FLEXIBLE_FROM[api_key] and api_key != API_VERSIONS:
            position = skip_tags(frame, position, len(frame)) if frame[position] else position + 1
    except (struct.error, IndexError) as error:
        raise DecodeError(f"response header: {error}") from error
    return correlation_id, position
