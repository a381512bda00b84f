"""The indexes of the segments that are read, in memory.

Rules of this file: an index is loaded when it is first needed, by the thread that needs it and may wait; those used
last are kept, so many bytes of them. An index file is believed when it has the checksum that was recorded when it was
written. One that has not is made anew from its segment, and its file is written again by the one thread that writes.
"""

import logging
import threading
from collections import OrderedDict

from pipeline_broker.log.archive.damage import DamageRecord, SegmentKey, segment_key
from pipeline_broker.log.archive.segment_file import SegmentInfo, file_names, log_name, read_index_files, rebuilt_index
from pipeline_broker.log.archive.segment_index import SegmentIndex
from pipeline_broker.log.archive.store import SegmentStore
from pipeline_broker.log.errors import DamagedIndexError

logger = logging.getLogger(__name__)

INDEX_CACHE_BYTES_MAX = 32 << 20  # the largest index of all fits in
LOADS_AT_ONCE = 16  # and a second thread that needs the same index waits for the first
REPAIRS_MAX = 64  # files to be written again; a further one is found again by the next process


class IndexCache:
    """See the rules."""

    def __init__(self, store: SegmentStore, damage: DamageRecord, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.size_bytes = 0
        self._store = store
        self._damage = damage
        self._indexes: OrderedDict[SegmentKey, SegmentIndex] = OrderedDict()
        self._repairs: dict[SegmentKey, tuple[str, SegmentInfo, SegmentIndex]] = {}
        self._lock = threading.Lock()
        self._loading = [threading.Lock() for _ in range(LOADS_AT_ONCE)]

    def __len__(self) -> int:
        return len(self._indexes)

    def find(self, folder: str, segment: SegmentInfo) -> SegmentIndex | None:
        """The index if it is here and knows of all that can be read of the segment."""
        key = segment_key(folder, segment)
        with self._lock:
            index = self._indexes.get(key)
            if index is None:
                return None
            self._indexes.move_to_end(key)
        if index.size_bytes < segment.size_bytes:
            damage = self._damage.find(key)
            if damage is None or index.size_bytes < damage.position:
                return None
        return index

    def load(self, folder: str, segment: SegmentInfo) -> SegmentIndex:
        """The index, from its files when it is not here, from the segment when they are not as they were written.

        In a damaged segment it reaches as far as the damage, which is then recorded.
        """
        key = segment_key(folder, segment)
        with self._loading[hash(key) % LOADS_AT_ONCE]:
            index = self.find(folder, segment)
            if index is None:
                try:
                    index = self._from_files(folder, segment)
                except (DamagedIndexError, FileNotFoundError) as error:
                    index = self._rebuilt(folder, segment, error)
                self._keep(key, index)
            return index

    def _from_files(self, folder: str, segment: SegmentInfo) -> SegmentIndex:
        state = segment.indexes
        if state is None:
            raise DamagedIndexError("it is not known what it was")
        with self._lock:
            known = self._indexes.get(segment_key(folder, segment))
        if known is None:
            known = SegmentIndex.empty(segment.base_offset)
        entries = read_index_files(self._store, folder, segment, known.state, state)
        return known.grown(segment.last_offset, segment.size_bytes, segment.max_timestamp, state, *entries)

    def _rebuilt(self, folder: str, segment: SegmentInfo, why: Exception) -> SegmentIndex:
        name = log_name(folder, segment.base_offset, segment.cleanings)
        logger.warning("the index of %s is made anew: %s", name, why)
        builder, damage = rebuilt_index(self._store, folder, segment)
        index = SegmentIndex.of_builder(builder)
        key = segment_key(folder, segment)
        if damage is not None:
            self._damage.mark(key, damage)
        elif segment.is_sealed:
            with self._lock:
                if len(self._repairs) < REPAIRS_MAX:
                    self._repairs[key] = folder, segment, index
        return index

    def _keep(self, key: SegmentKey, index: SegmentIndex) -> None:
        with self._lock:
            self._drop(key)
            self._indexes[key] = index
            self.size_bytes += index.memory_bytes
            while self.size_bytes > self.bytes_max:
                self._drop(next(iter(self._indexes)))

    def _drop(self, key: SegmentKey) -> None:
        index = self._indexes.pop(key, None)
        if index is not None:
            self.size_bytes -= index.memory_bytes

    def forget(self, key: SegmentKey) -> None:
        """The segment goes."""
        with self._lock:
            self._drop(key)
            self._repairs.pop(key, None)

    def write_repairs(self) -> int:
        """Write the files again that were not as they should be; only for the thread that writes. Returns how many.

        Those of a segment that still grows are left to whoever makes it grow: `resumed_builder` does not believe them
        either.
        """
        with self._lock:
            repairs, self._repairs = self._repairs, {}
        written: list[str] = []
        for folder, segment, index in repairs.values():
            _, *names = file_names(folder, segment.base_offset, segment.cleanings)
            for name, content in zip(names, index.encoded(), strict=True):
                if content != self._content(name, len(content) + 1):
                    self._store.write(name, [content], 0)
                    written.append(name)
        self._store.sync(written)
        return len(written)

    def _content(self, name: str, size_bytes: int) -> bytes | None:
        try:
            return bytes(self._store.read(name, size_bytes, 0))
        except FileNotFoundError:
            return None
