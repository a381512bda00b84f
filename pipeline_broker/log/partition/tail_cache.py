"""The newest batches of all partitions, in memory.

Rules of this file: one budget for all partitions, first in, first out: what a partition has in the cache is always the
end of its log. A batch counts with what its objects cost beside its bytes, else a million small ones would take
several times the budget.
"""

from collections import deque
from typing import Final

from pipeline_broker.log.journal.entry import Buffer, IndexedLog, JournalEntry
from pipeline_broker.log.partition.reading import gathered
from pipeline_broker.log.read_result import BATCHES_PER_READ, ReadResult

BATCH_OVERHEAD_BYTES: Final = 300  # entry, its tuple and integers, the headers of its bytes, places in dict and deque
CACHE_BYTES_MAX: Final = 32 << 20


class TailCache:
    """A batch source: see reading."""

    def __init__(self, bytes_max: int = CACHE_BYTES_MAX) -> None:
        self.bytes_max = bytes_max
        self.size_bytes = 0
        self._entries: deque[JournalEntry] = deque()

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, entry: JournalEntry) -> None:
        """Take in a batch that became durable."""
        entries = self._entries
        entries.append(entry)
        entry.log.tail[entry.base_offset] = entry
        size_bytes = self.size_bytes + entry.size_bytes + BATCH_OVERHEAD_BYTES
        while size_bytes > self.bytes_max:
            oldest = entries.popleft()
            size_bytes -= oldest.size_bytes + BATCH_OVERHEAD_BYTES
            oldest.log.tail.pop(oldest.base_offset, None)
        self.size_bytes = size_bytes

    def read(self, log: IndexedLog, first: int, end: int) -> ReadResult | None:
        index, tail = log.index, log.tail
        if index.bases[first] not in tail:
            return None
        end = min(end, first + BATCHES_PER_READ)
        parts: list[Buffer] = []
        for base_offset in index.bases[first:end]:
            parts += tail[base_offset].parts
        return ReadResult(gathered(parts, index.totals[end] - index.totals[first]))
