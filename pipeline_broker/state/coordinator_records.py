"""The frame of coordinators' records in Kafka's layouts.

key   = int16 type, then the fields of the type, in version 0
value = int16 version, then the fields in this version
"""

from __future__ import annotations

import struct
from typing import Any, TypeVar

from pipeline_broker.state.errors import CorruptStateRecordError
from pipeline_broker.wire.codec import DecodeError, decode, encode, versions_of

__all__ = ["read_record_key", "read_record_value", "record_key", "record_type", "record_value"]

_TYPE = struct.Struct(">h")

Message = TypeVar("Message")


def record_type(key: bytes) -> int:
    """Return the type of a record; raise CorruptStateRecordError if the key is too short."""
    if len(key) < _TYPE.size:
        raise CorruptStateRecordError("the key is too short for its type")
    return int(_TYPE.unpack_from(key)[0])


def record_key(kind: int, message: Any) -> bytes:
    return b"".join([_TYPE.pack(kind), *encode(message, 0)])


def read_record_key(message: type[Message], key: bytes) -> Message:
    try:
        return decode(message, 0, key, _TYPE.size)[0]
    except DecodeError as error:
        raise CorruptStateRecordError(f"key of type {record_type(key)}: {error}") from error


def record_value(version: int, message: Any) -> bytes:
    return b"".join([_TYPE.pack(version), *encode(message, version)])


def read_record_value(message: type[Message], value: bytes) -> Message:
    """Decode a value in the version that its first two bytes name; raise CorruptStateRecordError if that fails."""
    if len(value) < _TYPE.size:
        raise CorruptStateRecordError("the value is too short for its version")
    (version,) = _TYPE.unpack_from(value)
    if version not in versions_of(message):
        raise CorruptStateRecordError(f"{message.__name__} has no version {version}")
    try:
        return decode(message, version, value, _TYPE.size)[0]
    except DecodeError as error:
        raise CorruptStateRecordError(f"{message.__name__}: {error}") from error
