"""Blocks of objects in memory, so that what is read often, or one piece after the other, costs one GET.

Rules of this file: the objects never change, so a block is good as long as it is kept; those used last are. Who needs a
block that another is getting waits for that one. A failure is told to all who wait, and not kept. Blocks that will be
read soon are got by threads of the cache; where these have enough to do a hint is dropped.
"""

import threading
from collections import OrderedDict
from concurrent.futures import Future, ThreadPoolExecutor

from pipeline_broker.files.file_system import Buffer
from pipeline_broker.objects.store import ObjectStore

__all__ = ["BLOCK_BYTES", "BlockCache"]

BLOCK_BYTES = 1 << 20
CACHE_BYTES_MAX = 64 << 20
READ_AHEAD_BLOCKS = 4
"""So many blocks are got ahead of a reader, and so many at once."""
GETS_MAX = 4 * READ_AHEAD_BLOCKS
"""Blocks on their way at which hints are dropped."""

_Key = tuple[str, int]


class BlockCache:
    """See the rules of the file; for any thread.

    Args:
        store: of objects that never change.
        bytes_max: memory for blocks.
    """

    def __init__(self, store: ObjectStore, bytes_max: int = CACHE_BYTES_MAX) -> None:
        self._store = store
        self._bytes_max = bytes_max
        self._size_bytes = self._hits = self._misses = 0
        self._blocks: OrderedDict[_Key, Buffer] = OrderedDict()
        self._coming: dict[_Key, Future[Buffer]] = {}
        self._lock = threading.Lock()
        self._threads = ThreadPoolExecutor(READ_AHEAD_BLOCKS, thread_name_prefix="read ahead")

    @property
    def hits(self) -> int:
        """Blocks that were wanted and in memory, or on their way."""
        return self._hits

    @property
    def misses(self) -> int:
        """Blocks that were wanted and had to be got."""
        return self._misses

    @property
    def size_bytes(self) -> int:
        """What the blocks take."""
        return self._size_bytes

    def read(self, name: str, start: int, size_bytes: int) -> Buffer:
        """So many bytes from a position on; fewer only at the end of the object.

        Raises:
            Missing: there is no such object.
            Unavailable: the store gave no answer.
        """
        numbers = _block_numbers(start, size_bytes)
        for number in numbers[1:]:
            self._get_soon((name, number))
        return _cut([self._block((name, number)) for number in numbers], start, size_bytes)

    def read_cached(self, name: str, start: int, size_bytes: int) -> Buffer | None:
        """The same if all of it is in memory, else None."""
        blocks: list[Buffer] = []
        for number in _block_numbers(start, size_bytes):
            block = self._find((name, number))
            if block is None:
                return None
            blocks.append(block)
        return _cut(blocks, start, size_bytes)

    def read_ahead(self, name: str, start: int, size_bytes: int) -> None:
        """Get some of these bytes, the first ones, before they are asked for."""
        for number in _block_numbers(start, size_bytes)[:READ_AHEAD_BLOCKS]:
            self._get_soon((name, number))

    def fill(self, name: str, content: Buffer) -> None:
        """A new object, which is as good as read: who has written it, or reads on, asks for it next."""
        view = memoryview(content)
        for number in range(-(-len(view) // BLOCK_BYTES)):
            self._keep((name, number), bytes(view[number * BLOCK_BYTES : (number + 1) * BLOCK_BYTES]))

    def forget(self, name: str) -> None:
        """The object is deleted."""
        with self._lock:
            for key in [key for key in self._blocks if key[0] == name]:
                self._size_bytes -= len(self._blocks.pop(key))

    def close(self) -> None:
        """Get nothing ahead any more; returns when the threads have ended."""
        self._threads.shutdown(cancel_futures=True)

    def _find(self, key: _Key) -> Buffer | None:
        with self._lock:
            block = self._blocks.get(key)
            if block is not None:
                self._blocks.move_to_end(key)
                self._hits += 1
            return block

    def _block(self, key: _Key) -> Buffer:
        """A block, from memory, from who gets it already, or from the store."""
        with self._lock:
            block = self._blocks.get(key)
            if block is not None:
                self._blocks.move_to_end(key)
                self._hits += 1
                return block
            coming = self._coming.get(key)
            mine = coming is None or coming.cancel()  # one that no thread has begun is got here
            self._misses += mine
            self._hits += not mine
            if mine:
                coming = self._coming[key] = Future()
                coming.set_running_or_notify_cancel()
        assert coming is not None, "found or made"
        if mine:
            self._get(key, coming)
        return coming.result()

    def _get_soon(self, key: _Key) -> None:
        with self._lock:
            if key in self._blocks or key in self._coming or len(self._coming) >= GETS_MAX:
                return
            coming = self._coming[key] = Future()
        try:
            self._threads.submit(self._get_if_wanted, key, coming)
        except RuntimeError:  # closed: whoever reads gets it by himself
            coming.cancel()

    def _get_if_wanted(self, key: _Key, coming: "Future[Buffer]") -> None:
        if coming.set_running_or_notify_cancel():
            self._get(key, coming)

    def _get(self, key: _Key, coming: "Future[Buffer]") -> None:
        name, number = key
        try:
            block = self._store.read(name, number * BLOCK_BYTES, BLOCK_BYTES).data
        except BaseException as error:  # noqa: BLE001 - it is raised where the block is wanted
            with self._lock:
                self._coming.pop(key)
            coming.set_exception(error)
            return
        self._keep(key, block)
        with self._lock:
            self._coming.pop(key)
        coming.set_result(block)

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
    """The bytes from `start` on, of blocks that begin with the one that has it."""
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
