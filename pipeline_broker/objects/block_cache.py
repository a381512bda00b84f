"""A cache of object blocks in memory with read-ahead, so repeated and sequential reads cost one GET per block."""

import threading
from collections import OrderedDict
from concurrent.futures import Future, ThreadPoolExecutor

from pipeline_broker.base.buffer import Buffer
from pipeline_broker.objects.store import ObjectStore

__all__ = ["BLOCK_BYTES", "BlockCache"]

BLOCK_BYTES = 1 << 20
CACHE_BYTES_MAX = 64 << 20
READ_AHEAD_BLOCKS = 4  # blocks read ahead of a reader, and threads that read ahead
GETS_MAX = 4 * READ_AHEAD_BLOCKS  # with this many pending GETs, read-ahead hints are dropped

_Key = tuple[str, int]


class BlockCache:
    """A least-recently-used cache of blocks of objects that never change. Thread-safe.

    A reader that needs a block which another thread is reading waits for that thread. If the read fails, all waiting
    readers raise its error.

    Args:
        store: holds objects that never change.
        bytes_max: limit of the memory for blocks.
    """

    def __init__(self, store: ObjectStore, bytes_max: int = CACHE_BYTES_MAX) -> None:
        self._store = store
        self._bytes_max = bytes_max
        self._size_bytes = self._hits = self._misses = 0
        self._blocks: OrderedDict[_Key, Buffer] = OrderedDict()
        self._pending: dict[_Key, Future[Buffer]] = {}
        self._lock = threading.Lock()
        self._threads = ThreadPoolExecutor(READ_AHEAD_BLOCKS, thread_name_prefix="read ahead")

    @property
    def hits(self) -> int:
        return self._hits

    @property
    def misses(self) -> int:
        """Number of requested blocks that the reader had to read from the store."""
        return self._misses

    @property
    def size_bytes(self) -> int:
        return self._size_bytes

    def read(self, name: str, start: int, size_bytes: int) -> Buffer:
        """Return `size_bytes` bytes starting at `start`; fewer only at the end of the object.

        Raises:
            Missing: no object has this name.
            Unavailable: the store did not answer.
        """
        numbers = _block_numbers(start, size_bytes)
        for number in numbers[1:]:
            self._start_get((name, number))
        return _cut([self._block((name, number)) for number in numbers], start, size_bytes)

    def read_cached(self, name: str, start: int, size_bytes: int) -> Buffer | None:
        blocks: list[Buffer] = []
        for number in _block_numbers(start, size_bytes):
            block = self._find((name, number))
            if block is None:
                return None
            blocks.append(block)
        return _cut(blocks, start, size_bytes)

    def read_ahead(self, name: str, start: int, size_bytes: int) -> None:
        """Start to read the first blocks of a range in the background, unless too many reads are pending."""
        for number in _block_numbers(start, size_bytes)[:READ_AHEAD_BLOCKS]:
            self._start_get((name, number))

    def fill(self, name: str, content: Buffer) -> None:
        """Add the content of a new object to the cache, because readers are likely to need it next."""
        view = memoryview(content)
        for number in range(-(-len(view) // BLOCK_BYTES)):
            # Copied: a view would keep the whole content in memory as long as one of its blocks.
            self._keep((name, number), bytes(view[number * BLOCK_BYTES : (number + 1) * BLOCK_BYTES]))

    def forget(self, name: str) -> None:
        with self._lock:
            for key in [key for key in self._blocks if key[0] == name]:
                self._size_bytes -= len(self._blocks.pop(key))

    def close(self) -> None:
        self._threads.shutdown(cancel_futures=True)

    def _find(self, key: _Key) -> Buffer | None:
        with self._lock:
            block = self._blocks.get(key)
            if block is not None:
                self._blocks.move_to_end(key)
                self._hits += 1
            return block

    def _block(self, key: _Key) -> Buffer:
        with self._lock:
            block = self._blocks.get(key)
            if block is not None:
                self._blocks.move_to_end(key)
                self._hits += 1
                return block
            pending = self._pending.get(key)
            # If no thread has started the read-ahead of this block, cancel it and read the block here: the reader
            # must not wait for the queue of the read-ahead threads.
            is_mine = pending is None or pending.cancel()
            self._misses += is_mine
            self._hits += not is_mine
            if is_mine:
                pending = self._pending[key] = Future()
                pending.set_running_or_notify_cancel()
        assert pending is not None, "found or made"
        if is_mine:
            self._get(key, pending)
        return pending.result()

    def _start_get(self, key: _Key) -> None:
        with self._lock:
            if key in self._blocks or key in self._pending or len(self._pending) >= GETS_MAX:
                return
            pending = self._pending[key] = Future()
        try:
            self._threads.submit(self._get_unless_cancelled, key, pending)
        except RuntimeError:  # the pool is shut down: readers read the block themselves
            pending.cancel()

    def _get_unless_cancelled(self, key: _Key, pending: "Future[Buffer]") -> None:
        if pending.set_running_or_notify_cancel():
            self._get(key, pending)

    def _get(self, key: _Key, pending: "Future[Buffer]") -> None:
        name, number = key
        try:
            block = self._store.read(name, number * BLOCK_BYTES, BLOCK_BYTES).data
        except BaseException as error:  # noqa: BLE001 - the future raises it in the threads that wait for the block
            # Failures are not cached: the next reader tries again.
            with self._lock:
                self._pending.pop(key)
            pending.set_exception(error)
            return
        # First into the cache, then out of the pending ones: in the other order a reader in between would read the
        # block again.
        self._keep(key, block)
        with self._lock:
            self._pending.pop(key)
        pending.set_result(block)

    def _keep(self, key: _Key, block: Buffer) -> None:
        with self._lock:
            self._size_bytes += len(block) - len(self._blocks.pop(key, b""))
            self._blocks[key] = block
            while self._size_bytes > self._bytes_max:
                _, dropped = self._blocks.popitem(last=False)
                self._size_bytes -= len(dropped)


def _block_numbers(start: int, size_bytes: int) -> range:
    return range(start // BLOCK_BYTES, -(-(start + size_bytes) // BLOCK_BYTES)) if size_bytes > 0 else range(0)


def _cut(blocks: list[Buffer], start: int, size_bytes: int) -> Buffer:
    first = start % BLOCK_BYTES
    if len(blocks) == 1:
        return memoryview(blocks[0])[first : first + size_bytes]
    left = size_bytes
    parts: list[Buffer] = []
    for block in blocks:
        part = memoryview(block)[first : first + left]
        parts.append(part)
        left -= len(part)
        first = 0
    return b"".join(parts)
