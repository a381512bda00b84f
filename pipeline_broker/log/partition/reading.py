"""Reading of batches by index number, from the first source that has them.

Nothing waits for a disk on the caller's thread: batches that are not in memory become a ColdRead. Every read is
bounded, and the caller reads again for more. A batch read from the journal is verified: it must belong to the
partition, be the one that the index names, and match its checksum.
"""

import logging
import struct
from collections.abc import Callable
from typing import NamedTuple, Protocol

from pipeline_broker.base.buffer import Buffer
from pipeline_broker.log.errors import REMEDY, DamagedSegment
from pipeline_broker.log.journal.entry import IndexedLog
from pipeline_broker.log.journal.frame import ENTRY_OVERHEAD
from pipeline_broker.log.journal.journal_port import JournalBytes
from pipeline_broker.log.leader_epochs import LeaderEpochs
from pipeline_broker.log.read_result import BATCHES_PER_READ, BYTES_PER_READ, SPAN_BYTES_MAX, ColdRead, ReadResult
from pipeline_broker.records.batch import CHECKED_FROM, LENGTH_OVERHEAD, MAGIC
from pipeline_broker.records.checksum import crc32c

logger = logging.getLogger(__name__)

DAMAGED_MAX = 1024  # places whose damage is not logged again
GAP_BYTES_MAX = 16 << 10  # reading and discarding a smaller gap is faster than another system call
GATHER_BELOW_BYTES = 4096  # batches with a smaller average size are joined into one buffer

_BATCH_HEAD = struct.Struct(">qiibI")  # the fields before the bytes that the checksum covers
assert _BATCH_HEAD.size == CHECKED_FROM


class BatchSource(Protocol):
    def read(self, log: IndexedLog, first: int, end: int) -> ReadResult | None:
        """Return the batches from `first` up to, excluding, `end` of the log's index.

        The result may have fewer batches, but at least one. Returns None if the source lacks `first`.
        """


def gathered(parts: list[Buffer], size_bytes: int) -> list[Buffer]:
    """Join many small parts into one: sending each separately costs more than the copy."""
    if len(parts) > 1 and size_bytes < GATHER_BELOW_BYTES * len(parts):
        return [b"".join(parts)]
    return parts


class _Span(NamedTuple):
    """Neighbouring batches in one journal segment, for one system call.

    It starts with the entry header of the first batch.
    """

    place: int
    size_bytes: int
    batches: list[tuple[int, int, int]]  # start within the span, size, base offset

    def intact_count(self, data: Buffer, entry_key: bytes, epochs: LeaderEpochs) -> int:
        """Return the number of batches before the first one that is damaged or of another partition."""
        view, unpack = memoryview(data), _BATCH_HEAD.unpack_from
        for number, (start, size, offset) in enumerate(self.batches):
            base_offset, length, leader_epoch, magic, crc = unpack(data, start)
            # The key lies before the batch and outside its checksum.
            owner = data[start - ENTRY_OVERHEAD : start - ENTRY_OVERHEAD + len(entry_key)]
            is_named = base_offset == offset and length == size - LENGTH_OVERHEAD and owner == entry_key
            if not is_named or magic != MAGIC or leader_epoch != epochs.epoch_at(offset):
                return number
            if crc32c(view[start + CHECKED_FROM : start + size]) != crc:
                return number
        return len(self.batches)

    def cut(self, data: Buffer, count: int) -> list[Buffer]:
        view, batches = memoryview(data), self.batches[:count]
        if len(batches) == 1:
            ((start, size, _),) = batches
            return [view[start : start + size]]
        useful = sum(size for _, size, _ in batches)
        # Small batches are copied, so that the batches of other partitions between them do not stay in memory.
        return gathered([view[start : start + size] for start, size, _ in batches], useful)


class JournalSource:
    def __init__(self, journal: JournalBytes) -> None:
        self._journal = journal
        self._damaged: dict[int, None] = {}  # positions whose damage is logged, until they are read well, oldest first

    def read(self, log: IndexedLog, first: int, end: int) -> ReadResult | None:
        spans = self._spans(log, first, end)
        key, epochs = log.entry_key, log.epochs
        parts, _ = self._collect(spans, key, epochs, self._journal.read_cached)
        # Whatever is in memory is returned at once; the caller reads again for the rest.
        if parts:
            return ReadResult(parts)
        size_bytes = sum(size for span in spans for _, size, _ in span.batches)
        return ReadResult(cold=ColdRead(lambda: self._read_cold(log, spans, key, epochs), size_bytes))

    def _read_cold(self, log: IndexedLog, spans: list[_Span], entry_key: bytes, epochs: LeaderEpochs) -> list[Buffer]:
        parts, damage = self._collect(spans, entry_key, epochs, self._journal.read)
        if damage is not None and not parts:
            place = spans[0].place
            if place not in self._damaged:
                logger.error("%s-%d: %s. %s", log.topic, log.partition, damage, REMEDY)
                self._note_damaged(place)
            raise damage
        return parts

    def _note_damaged(self, place: int) -> None:
        self._damaged[place] = None
        if len(self._damaged) > DAMAGED_MAX:
            self._damaged.pop(next(iter(self._damaged)), None)

    def _collect(
        self, spans: list[_Span], entry_key: bytes, epochs: LeaderEpochs, read: Callable[[int, int], Buffer | None]
    ) -> tuple[list[Buffer], DamagedSegment | None]:
        """Read the spans up to the first batch that is not in memory, or is damaged."""
        parts: list[Buffer] = []
        for span in spans:
            data = read(span.place, span.size_bytes)
            if data is None:
                break
            count = span.intact_count(data, entry_key, epochs)
            parts += span.cut(data, count)
            if self._damaged and count:
                self._damaged.pop(span.place, None)
            if count < len(span.batches):
                start, _, offset = span.batches[count]
                name, position = self._journal.name_of(span.place + start)
                return parts, DamagedSegment(name, position, offset, "the batch differs from the one that was written")
        return parts, None

    def _spans(self, log: IndexedLog, first: int, end: int) -> list[_Span]:
        """Group the batches into spans; positions in different segments are more than GAP_BYTES_MAX apart."""
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
