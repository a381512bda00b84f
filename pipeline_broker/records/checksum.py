"""CRC-32C (Castagnoli), the checksum of record batches and of the journal.

Rules of this file: one name, any buffer, no copy, no wrapper call around 0.1 us of work.
"""

from collections.abc import Callable

from crc32c import crc32c as _crc32c

#: crc32c(data, value=0): the checksum of `data`, continuing from `value`.
crc32c: Callable[..., int] = _crc32c
