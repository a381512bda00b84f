"""The schema id in a key or value of a record, in the wire format of Confluent's serializers.

content = zero byte, id (4 bytes), data
"""

from __future__ import annotations

__all__ = ["HEAD_BYTES", "head_of", "read_schema_id"]

MAGIC = 0
HEAD_BYTES = 5


def read_schema_id(content: bytes) -> int | None:
    if len(content) < HEAD_BYTES or content[0] != MAGIC:
        return None
    return int.from_bytes(content[1:HEAD_BYTES])


def head_of(schema_id: int) -> bytes:
    return bytes((MAGIC,)) + schema_id.to_bytes(HEAD_BYTES - 1)
