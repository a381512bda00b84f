"""Headers in front of every request and response.

Rules of this file: the client id is always an old nullable string, in header version 2 too; a request header has
a tag section where the request's version is flexible, a response header likewise, except that answers to
ApiVersions never have one, so that a client which guessed a wrong version can read them.
"""

from __future__ import annotations

import struct
from typing import Final

import attrs

from pipeline_broker.wire.primitives import (
    STRING_SIZE_MAX,
    Buffer,
    DecodeError,
    EncodeError,
    bad_length,
    skip_tags,
)
from pipeline_broker.wire.registry import FLEXIBLE_FROM, ApiKey
from pipeline_broker.wire.text import text_of

REQUEST: Final = struct.Struct(">hhih")
"""API key, API version, correlation id, length of the client id."""

CORRELATION: Final = struct.Struct(">i")
CORRELATION_AND_TAGS: Final = struct.Struct(">ix")
API_VERSIONS: Final = int(ApiKey.API_VERSIONS)


@attrs.define
class RequestHeader:
    """The header of a request."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None


def read_request_header(frame: Buffer, position: int = 0) -> tuple[RequestHeader, int]:
    """Read the header of a request; returns it and the position of the body.

    An API key that the protocol does not know is a DecodeError, because it does not say where the body begins. The
    version is not checked: an unsupported one of ApiVersions has an answer.
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
        raise DecodeError(f"unknown API key {api_key}") from None
    except (struct.error, IndexError) as error:
        raise DecodeError(f"request header: {error}") from error
    return RequestHeader(api_key, api_version, correlation_id, client_id), position


def encode_request_header(header: RequestHeader) -> bytes:
    """Write the header of a request."""
    data = b"" if header.client_id is None else header.client_id.encode()
    if len(data) > STRING_SIZE_MAX:
        raise EncodeError(f"client id of {len(data)} bytes")
    length = -1 if header.client_id is None else len(data)
    fixed = REQUEST.pack(header.api_key, header.api_version, header.correlation_id, length)
    return fixed + data + (b"\0" if header.api_version >= FLEXIBLE_FROM[header.api_key] else b"")


def response_header(api_key: int, version: int, correlation_id: int) -> bytes:
    """Write the header of the response to a request of this API and version."""
    if version >= FLEXIBLE_FROM[api_key] and api_key != API_VERSIONS:
        return CORRELATION_AND_TAGS.pack(correlation_id)
    return CORRELATION.pack(correlation_id)


def read_response_header(api_key: int, version: int, frame: Buffer, position: int = 0) -> tuple[int, int]:
    """Read the header of a response; returns the correlation id and the position of the body."""
    try:
        (correlation_id,) = CORRELATION.unpack_from(frame, position)
        position += 4
        if version >= FLEXIBLE_FROM[api_key] and api_key != API_VERSIONS:
            position = skip_tags(frame, position, len(frame)) if frame[position] else position + 1
    except (struct.error, IndexError) as error:
        raise DecodeError(f"response header: {error}") from error
    return correlation_id, position
