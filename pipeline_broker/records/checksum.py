"""CRC-32C (Castagnoli), the checksum of record batches and of the journal.

Rules of this file: one name, any buffer, no copy.
"""

from crc32c import crc32c as _crc32c

Buffer = bytes | bytearray | memoryview


def crc32c(data: Buffer, value: int = 0) -> int:
    """The checksum of `data`, continuing from `value`."""
    return int(_crc32c(data, value))
