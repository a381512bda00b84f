"""The first bytes of keys and values in a batch that `check` has accepted, without decoding the records."""

from collections.abc import Iterator

from pipeline_broker.records.varint import read_unsigned

__all__ = ["content_heads"]


def content_heads(data: bytes, size_bytes: int) -> Iterator[tuple[bytes | None, bytes | None]]:
    """Yield up to `size_bytes` bytes of the key and of the value of each record; None for a null.

    Args:
        data: decompressed records.
    """
    position, stop = 0, len(data)
    while position < stop:
        raw, position = data[position], position + 1
        if raw > 0x7F:
            raw, position = read_unsigned(data, position - 1)
        end = position + (raw >> 1)
        position += 1  # attributes
        for _ in ("timestamp delta", "offset delta"):
            while data[position] > 0x7F:
                position += 1
            position += 1
        raw, position = data[position], position + 1
        if raw > 0x7F:
            raw, position = read_unsigned(data, position - 1)
        key = None
        if not raw & 1:
            key = data[position : position + min(raw >> 1, size_bytes)]
            position += raw >> 1
        raw, position = data[position], position + 1
        if raw > 0x7F:
            raw, position = read_unsigned(data, position - 1)
        yield key, None if raw & 1 else data[position : position + min(raw >> 1, size_bytes)]
        position = end
