"""Keys and values of the records in `__consumer_offsets`: a number of two bytes, then a message.

Rules of this file: before a key stands its type, before a value its version; a type that is not declared here
belongs to a newer broker and is None, so that a replay can step over it; everything else that is wrong with the
bytes is a DecodeError.
"""

from __future__ import annotations

import struct
from typing import Any, TypeAlias, TypeVar

from pipeline_broker.wire.codec import Buffer, DecodeError, decode, encode, versions_of
from pipeline_broker.wire.messages.group_metadata_record import GroupMetadataKey, GroupMetadataValue
from pipeline_broker.wire.messages.offset_commit_record import (
    LegacyOffsetCommitKey,
    LegacyOffsetCommitValue,
    OffsetCommitKey,
    OffsetCommitValue,
)

RecordKey: TypeAlias = LegacyOffsetCommitKey | OffsetCommitKey | GroupMetadataKey
RecordValue: TypeAlias = LegacyOffsetCommitValue | OffsetCommitValue | GroupMetadataValue
Value = TypeVar("Value", LegacyOffsetCommitValue, OffsetCommitValue, GroupMetadataValue)

NUMBER = struct.Struct(">h")
KEY_VERSION = 0
"""Keys have one version for ever: compaction compares their bytes."""

KEYS: dict[int, type[Any]] = {key.SCHEMA.key: key for key in (LegacyOffsetCommitKey, OffsetCommitKey, GroupMetadataKey)}


def encode_key(key: RecordKey) -> bytes:
    """Write a record's key."""
    return b"".join([NUMBER.pack(key.SCHEMA.key), *encode(key, KEY_VERSION)])


def read_key(data: Buffer) -> RecordKey | None:
    """Read a record's key; None for a type that is not declared."""
    message = KEYS.get(read_number(data))
    if message is None:
        return None
    key: RecordKey = decode(message, KEY_VERSION, data, NUMBER.size)[0]
    return key


def encode_value(value: RecordValue, version: int) -> bytes:
    """Write a record's value in a version."""
    return b"".join([NUMBER.pack(version), *encode(value, version)])


def read_value(message: type[Value], data: Buffer) -> Value:
    """Read a record's value, of whichever declared version it is."""
    version = read_number(data)
    if version not in versions_of(message):
        raise DecodeError(f"{message.__name__} has no version {version}")
    return decode(message, version, data, NUMBER.size)[0]


def read_number(data: Buffer) -> int:
    """Read the type or version in front."""
    try:
        (number,) = NUMBER.unpack_from(data)
    except struct.error as error:
        raise DecodeError(f"coordinator record: {error}") from error
    return int(number)
