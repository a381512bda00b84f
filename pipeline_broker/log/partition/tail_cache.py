"""An in-memory cache of the newest batches of all partitions."""

from collections import deque
from typing import Final

from pipeline_broker.base.buffer import Buffer
from pipeline_broker.log.journal.entry import IndexedLog, JournalEntry
from pipeline_broker.log.partition.reading import gathered
from pipeline_broker.log.read_result import BATCHES_PER_READ, ReadResult

# Entry, tuple, integers, bytes headers, and the slots in dict and deque. Without it, a million small batches would take
# several times the budget.
BATCH_OVERHEAD_BYTES: Final = 300
CACHE_BYTES_MAX: Final = 32 << 20


class TailCache:
    """A `BatchSource` with one memory budget for all partitions, first in, first out.

    So the cached batches of a partition are always the end of its log.
    """

    def __init__(self, bytes_max: int = CACHE_BYTES_MAX) -> None:
        self.bytes_max = bytes_max
        self.size_bytes = 0
        self._entries: deque[JournalEntry] = deque()

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, entry: JournalEntry) -> None:
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
