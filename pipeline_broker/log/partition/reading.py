"""How batches are read: from the sources in their order, the first that has them.

Rules of this file: the order is tail cache, journal, archive (`LogManager` lists the sources; an archive joins them as
one more). Nothing waits for a disk on the caller's thread: what is not in memory becomes a ColdRead, which is work for
another thread. What one read does is bounded, whatever was asked for; a caller that wants more reads again. No batch
leaves the disk unverified: it must be the partition's, the one that the index names, with the checksum that it was
written with.
"""

import struct
from collections.abc import Callable
from typing import NamedTuple, Protocol

from pipeline_broker.log.errors import DamagedSegment
from pipeline_broker.log.journal.entry import LEADER_EPOCH, Buffer, IndexedLog
from pipeline_broker.log.journal.frame import ENTRY_OVERHEAD
from pipeline_broker.log.journal.journal_port import JournalBytes
from pipeline_broker.log.read_result import BATCHES_PER_READ, BYTES_PER_READ, SPAN_BYTES_MAX, ColdRead, ReadResult
from pipeline_broker.records.batch import CHECKED_FROM, LENGTH_OVERHEAD, MAGIC
from pipeline_broker.records.checksum import crc32c

GAP_BYTES_MAX = 16 << 10  # skipping so much costs more as a further system call than read and thrown away
GATHER_BELOW_BYTES = 4096  # batches smaller than this on average are handed on as one buffer

_BATCH_HEAD = struct.Struct(">qiibI")  # up to what is under the checksum
assert _BATCH_HEAD.size == CHECKED_FROM


class BatchSource(Protocol):
    """A place that batches can be read from."""

    def read(self, log: IndexedLog, first: int, end: int) -> ReadResult | None:
        """Batches first to end of the log's index, or fewer but at least one; None when the first is not here."""


def gathered(parts: list[Buffer], size_bytes: int) -> list[Buffer]:
    """Many small parts as one: sending each on its own costs more than the copy."""
    if len(parts) > 1 and size_bytes < GATHER_BELOW_BYTES * len(parts):
        return [b"".join(parts)]
    return parts


class _Span(NamedTuple):
    """Neighbouring batches in one segment, read by one system call, from what the journal says of the first one on."""

    place: int
    size_bytes: int
    batches: list[tuple[int, int, int]]  # start within the span, size, base offset

    def intact_count(self, data: Buffer, entry_key: bytes) -> int:
        """How many batches are what was written there for the partition, up to the first that is not."""
        view, unpack = memoryview(data), _BATCH_HEAD.unpack_from
        for number, (start, size, offset) in enumerate(self.batches):
            base_offset, length, leader_epoch, magic, crc = unpack(data, start)
            owner = data[start - ENTRY_OVERHEAD : start - ENTRY_OVERHEAD + len(entry_key)]
            is_named = base_offset == offset and length == size - LENGTH_OVERHEAD and owner == entry_key
            if not is_named or magic != MAGIC or leader_epoch != LEADER_EPOCH:
                return number
            if crc32c(view[start + CHECKED_FROM : start + size]) != crc:
                return number
        return len(self.batches)

    def cut(self, data: Buffer, count: int) -> list[Buffer]:
        """So many of the batches, the first ones."""
        view, batches = memoryview(data), self.batches[:count]
        if len(batches) == 1:
            ((start, size, _),) = batches
            return [view[start : start + size]]
        useful = sum(size for _, size, _ in batches)
        # Copied out, unless large: what lies between belongs to other partitions and need not stay in memory.
        return gathered([view[start : start + size] for start, size, _ in batches], useful)


class JournalSource:
    """A batch source: the journal's files."""

    def __init__(self, journal: JournalBytes) -> None:
        self._journal = journal

    def read(self, log: IndexedLog, first: int, end: int) -> ReadResult | None:
        spans = self._spans(log, first, end)
        key = log.entry_key
        parts, _ = self._collect(spans, key, self._journal.read_cached)
        if parts:
            return ReadResult(parts)
        size_bytes = sum(size for span in spans for _, size, _ in span.batches)
        return ReadResult(cold=ColdRead(lambda: self._read_cold(spans, key), size_bytes))

    def _read_cold(self, spans: list[_Span], entry_key: bytes) -> list[Buffer]:
        parts, damage = self._collect(spans, entry_key, self._journal.read)
        if damage is not None and not parts:
            raise damage
        return parts

    def _collect(
        self, spans: list[_Span], entry_key: bytes, read: Callable[[int, int], Buffer | None]
    ) -> tuple[list[Buffer], DamagedSegment | None]:
        """What can be read of the spans, up to the first batch that is not in memory, or not what was written."""
        parts: list[Buffer] = []
        for span in spans:
            data = read(span.place, span.size_bytes)
            if data is None:
                break
            count = span.intact_count(data, entry_key)
            parts += span.cut(data, count)
            if count < len(span.batches):
                start, _, offset = span.batches[count]
                name, position = self._journal.name_of(span.place + start)
                return parts, DamagedSegment(name, position, offset, "the batch is not what was written there")
        return parts, None

    def _spans(self, log: IndexedLog, first: int, end: int) -> list[_Span]:
        """Group the batches into system calls. Places in different segments are further apart than any gap."""
        index = log.index
        end = min(end, first + BATCHES_PER_READ, index.run_end(first, BYTES_PER_READ, at_least_one=True))
        spans: list[_Span] = []
        start = stop = index.places[first] - ENTRY_OVERHEAD
        batches: list[tuple[int, int, int]] = []
        for number in range(first, end):
            place, size = index.places[number], index.size_of(number)
            if batches and (place - stop > GAP_BYTES_MAX or place + size - start > SPAN_BYTES_MAX):
                spans.append(_Span(start, stop - start, batches))
                start, batches = place - ENTRY_OVERHEAD, []
            batches.append((place - start, size, index.bases[number]))
            stop = place + size
        spans.append(_Span(start, stop - start, batches))
        return spans
