"""An in-memory cache of whole journal slots, filled by commits and by recovery."""

import threading
from collections import OrderedDict

from pipeline_broker.base.buffer import Buffer

__all__ = ["CACHE_BYTES_MAX", "SlotCache"]

CACHE_BYTES_MAX = 128 << 20
"""Eight segments of 16 MiB: seven that may wait for the archive (`node.upkeep`), and the current one."""


class SlotCache:
    """A bounded cache of slots; the oldest are evicted first. Any thread may call it.

    By default it holds every slot that may wait for the archive. So neither the archiver nor a tailing reader requests
    recent slots from the store, where each small commit would cost a request.

    Args:
        bytes_max: total size of all slots together; 0 disables the cache.
    """

    def __init__(self, bytes_max: int = CACHE_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._size_bytes = 0
        self._slots: OrderedDict[int, memoryview] = OrderedDict()
        self._lock = threading.Lock()

    def add(self, slot: int, data: Buffer) -> None:
        with self._lock:
            self._slots[slot] = memoryview(data)
            self._size_bytes += len(data)
            while self._size_bytes > self._bytes_max:
                self._size_bytes -= len(self._slots.popitem(last=False)[1])

    def read(self, slot: int, position: int, size_bytes: int) -> Buffer | None:
        data = self._slots.get(slot)
        return None if data is None else data[position : position + size_bytes]

    def whole(self, slot: int) -> Buffer | None:
        return self._slots.get(slot)

    def drop(self, slots: range) -> None:
        with self._lock:
            for slot in slots:
                data = self._slots.pop(slot, None)
                self._size_bytes -= 0 if data is None else len(data)
