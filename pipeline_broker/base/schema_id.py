"""The schema id in a key or value of a record, in the wire format of Confluent's serializers.

content = zero byte, id (4 bytes), path of the message (Protobuf only), data
path = count, indexes (zigzag varints); a count of 0 is the path [0]
"""

from __future__ import annotations

from typing import TypeAlias

__all__ = ["HEAD_BYTES", "PATH_BYTES_MAX", "MessagePath", "head_of", "read_message_path", "read_schema_id"]

MAGIC = 0
HEAD_BYTES = 5
INDEXES_MAX = 32
VARINT_BYTES_MAX = 6
PATH_BYTES_MAX = (1 + INDEXES_MAX) * VARINT_BYTES_MAX

MessagePath: TypeAlias = tuple[int, ...]
"""The index of a Protobuf message in its file. Each further index selects a message within the previous one."""


def read_schema_id(content: bytes) -> int | None:
    if len(content) < HEAD_BYTES or content[0] != MAGIC:
        return None
    return int.from_bytes(content[1:HEAD_BYTES])


def head_of(schema_id: int) -> bytes:
    return bytes((MAGIC,)) + schema_id.to_bytes(HEAD_BYTES - 1)


def read_message_path(content: bytes) -> tuple[MessagePath, int]:
    """Return the path after the schema id, and the position after it.

    Raises:
        ValueError: the content has no path, or one with more than INDEXES_MAX indexes.
    """
    count, position = _varint(content, HEAD_BYTES)
    if count > INDEXES_MAX:
        raise ValueError("too many indexes")
    indexes = []
    for _ in range(count):
        index, position = _varint(content, position)
        if index < 0:
            raise ValueError("an index is less than 0")
        indexes.append(index)
    return tuple(indexes) or (0,), position


def _varint(content: bytes, position: int) -> tuple[int, int]:
    value = 0
    for shift, byte in enumerate(content[position : position + VARINT_BYTES_MAX]):
        value |= (byte & 0x7F) << 7 * shift
        if not byte & 0x80:
            return (value >> 1) ^ -(value & 1), position + shift + 1
    raise ValueError("a number is incomplete or too long")
