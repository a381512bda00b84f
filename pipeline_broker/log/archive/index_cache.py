"""An LRU cache of segment indexes, with repair of damaged index files."""

import logging
import threading
from collections import OrderedDict

from pipeline_broker.log.archive.damage import DamageRecord, SegmentKey, segment_key
from pipeline_broker.log.archive.segment_file import SegmentInfo, file_names, log_name, read_index_files, rebuilt_index
from pipeline_broker.log.archive.segment_index import SegmentIndex
from pipeline_broker.log.archive.store import SegmentStore
from pipeline_broker.log.errors import DamagedIndexError

logger = logging.getLogger(__name__)

INDEX_CACHE_BYTES_MAX = 32 << 20  # more than the two largest possible index files together
LOADS_AT_ONCE = 16
REPAIRS_MAX = 64  # segments to repair; damage beyond that is found again after a restart


class IndexCache:
    """Indexes in memory, loaded on first use by a thread that may wait.

    An index file is trusted if it has the checksum that the manifest recorded. Otherwise the index is rebuilt from its
    segment, and the writing thread repairs the file.
    """

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
        """Return the index if it is in memory and covers the readable part of the segment; otherwise None."""
        key = segment_key(folder, segment)
        with self._lock:
            index = self._indexes.get(key)
            if index is None:
                return None
            self._indexes.move_to_end(key)
        # The segment has grown since. In a damaged one the index ends at the damage, and no more can be read.
        if index.size_bytes < segment.size_bytes:
            damage = self._damage.find(key)
            if damage is None or index.size_bytes < damage.position:
                return None
        return index

    def load(self, folder: str, segment: SegmentInfo) -> SegmentIndex:
        """Return the index: from memory, from its files, or rebuilt from the segment. Blocks.

        The index of a damaged segment ends at the damage, which is recorded.

        Raises:
            DamagedSegment: the first bytes of the segment are known to be damaged, or to be missing.
            FileNotFoundError: the segment must be read, and its file is missing.
        """
        key = segment_key(folder, segment)
        # A second thread that needs the same index waits for the first, and then finds it in memory.
        with self._loading[hash(key) % LOADS_AT_ONCE]:
            index = self.find(folder, segment)
            if index is None:
                damage = self._damage.find(key)
                # A missing file has no index to keep, and would be logged at each read.
                if damage is not None and damage.position == 0:
                    raise damage
                try:
                    index = self._from_files(folder, segment)
                except (DamagedIndexError, FileNotFoundError) as error:
                    index = self._rebuilt(folder, segment, error)
                self._keep(key, index)
            return index

    def _from_files(self, folder: str, segment: SegmentInfo) -> SegmentIndex:
        state = segment.indexes
        if state is None:
            raise DamagedIndexError("the manifest has no checksums of the index files")
        with self._lock:
            known = self._indexes.get(segment_key(folder, segment))
        # A known index is extended by the new entries only; a growing segment is loaded again and again.
        if known is None:
            known = SegmentIndex.empty(segment.base_offset)
        entries = read_index_files(self._store, folder, segment, known.state, state)
        return known.grown(segment.last_offset, segment.size_bytes, segment.max_timestamp, state, *entries)

    def _rebuilt(self, folder: str, segment: SegmentInfo, why: Exception) -> SegmentIndex:
        name = log_name(folder, segment.base_offset, segment.cleanings)
        builder, damage = rebuilt_index(self._store, folder, segment)
        # Not if the segment is missing too: that is logged as damage.
        logger.warning("the index of %s is rebuilt from its batches: %s", name, why)
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
        with self._lock:
            self._drop(key)
            self._repairs.pop(key, None)

    def write_repairs(self) -> int:
        """Rewrite index files that were missing or damaged; return the number of written files.

        Only for the writing thread. Growing segments are left to the archiver: `resumed_builder` checks their index
        files too.

        Raises:
            OSError: the disk or the store failed.
        """
        with self._lock:
            repairs, self._repairs = self._repairs, {}
        written: list[str] = []
        for folder, segment, index in repairs.values():
            _, *names = file_names(folder, segment.base_offset, segment.cleanings)
            for name, content in zip(names, index.encoded(), strict=True):
                # Only one of the two files may be damaged.
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
