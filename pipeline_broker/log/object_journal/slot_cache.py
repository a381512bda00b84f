"""Whole slots of a journal in a store, kept in memory: those that were written, or read by a start.

Rules of this file: any thread may call. What may wait for the archive fits, so neither the archive nor a reader of it
asks the store for what was written just now; a commit of a few records would be a request of its own. The oldest slots
go first.
"""

import threading
from collections import OrderedDict

from pipeline_broker.files.file_system import Buffer

__all__ = ["CACHE_BYTES_MAX", "SlotCache"]

CACHE_BYTES_MAX = 128 << 20
"""Seven segments that may wait for the archive (`node.upkeep`), and the one that is written."""


class SlotCache:
    """See the rules of the file.

    Args:
        bytes_max: of all slots together; 0 keeps none.
    """

    def __init__(self, bytes_max: int = CACHE_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._size_bytes = 0
        self._slots: OrderedDict[int, memoryview] = OrderedDict()
        self._lock = threading.Lock()

    def add(self, slot: int, data: Buffer) -> None:
        """Keep the object of a slot."""
        with self._lock:
            self._slots[slot] = memoryview(data)
            self._size_bytes += len(data)
            while self._size_bytes > self._bytes_max:
                self._size_bytes -= len(self._slots.popitem(last=False)[1])

    def read(self, slot: int, position: int, size_bytes: int) -> Buffer | None:
        """A part of a slot; None where that is not kept."""
        data = self._slots.get(slot)
        return None if data is None else data[position : position + size_bytes]

    def whole(self, slot: int) -> Buffer | None:
        """The object of a slot; None where that is not kept."""
        return self._slots.get(slot)

    def drop(self, slots: range) -> None:
        """Keep these no longer."""
        with self._lock:
            for slot in slots:
                data = self._slots.pop(slot, None)
                self._size_bytes -= 0 if data is None else len(data)
