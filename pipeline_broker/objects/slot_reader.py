"""A reader of a log's slots, several at once, in order: for takeovers, and for serving consumers.

A confirmed slot that is missing or damaged raises BrokenLogError, because continuing without it would lose acknowledged
records.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import groupby, islice
from typing import NamedTuple, TypeVar

from pipeline_broker.base.buffer import Buffer
from pipeline_broker.objects.fenced_log import BrokenLogError, Place, slot_name
from pipeline_broker.objects.slot import DamagedSlotError, SlotHeader, SlotIndex, read_index, read_slot, tail_size
from pipeline_broker.objects.store import Missing, ObjectStore, Part

__all__ = ["ReadSlot", "SlotReader"]

IN_FLIGHT_MAX = 16
TAIL_BYTES = 64 << 10  # holds the index of most slots, so reading it takes one request
# Size of the first read of a whole object. More is read only if the end of the object proves that it is a slot of this
# size: a foreign object must not use up the memory.
FIRST_READ_BYTES = 8 << 20
"""First read of an object of a log in a store, unless the end of the object declares more."""
INDEX_BYTES_MAX = 512 << 20  # an index of two million entries with their heads takes a third of this
"""Index of an object of a log in a store."""

_Read = TypeVar("_Read")


class ReadSlot(NamedTuple):
    """A whole slot with valid checksums, or one from memory, whose data checksums were valid when it was kept."""

    place: Place
    data: Buffer
    contents: SlotIndex


class SlotReader:
    """A reader of one log. Every method may also raise an ObjectStoreError of the store.

    Args:
        store: settled.
        log: the name of the log.
        in_flight_max: limit of the objects that are being read, or read and not consumed yet.
        kept: returns the whole object of a slot if it is in memory, otherwise None.
    """

    def __init__(
        self,
        store: ObjectStore,
        log: str,
        in_flight_max: int = IN_FLIGHT_MAX,
        kept: Callable[[Place], Buffer | None] = lambda _: None,
    ) -> None:
        self._store, self._log, self._in_flight_max, self._kept = store, log, in_flight_max, kept

    def whole(self, places: Iterable[Place]) -> Iterator[ReadSlot]:
        """Yield whole slots in the given order.

        Raises:
            BrokenLogError: a slot is missing or damaged.
        """
        with_kept = ((place, self._kept(place)) for place in places)
        for is_kept, run in groupby(with_kept, lambda each: each[1] is not None):
            # Kept slots need no thread and no checksum of their data. Both release the GIL, and getting it back takes
            # long in a busy interpreter.
            if is_kept:
                yield from (self._parsed(place, data, read_index) for place, data in run if data is not None)
            else:
                yield from self._in_order(self._read_whole, (place for place, _ in run))

    def indexes(self, places: Iterable[Place]) -> Iterator[SlotIndex]:
        """Yield the indexes of slots in the given order.

        Raises:
            BrokenLogError: a slot is missing or damaged.
        """
        return self._in_order(self._read_index, places)

    def range(self, place: Place, position: int, size_bytes: int) -> Buffer:
        """Read bytes of one slot, without verifying them.

        Raises:
            BrokenLogError: the slot is missing, or too short.
        """
        try:
            data = self._store.read(slot_name(self._log, place), position, size_bytes).data
        except Missing:
            raise self._broken(place, "it is missing") from None
        if len(data) != size_bytes:
            raise self._broken(place, f"it ends before {position + size_bytes}")
        return data

    def _read_whole(self, place: Place) -> ReadSlot:
        try:
            first = self._store.read(slot_name(self._log, place), 0, FIRST_READ_BYTES)
        except Missing as error:
            raise self._broken(place, error) from None
        read_bytes = len(first.data)
        if read_bytes == first.size_bytes:
            return self._parsed(place, first.data, read_slot)
        # The end of the object must prove that it is a slot of this size before memory is spent on the rest.
        left_bytes = self._read_index(place).object_size - read_bytes
        return self._parsed(place, b"".join((first.data, self.range(place, read_bytes, left_bytes))), read_slot)

    def _parsed(self, place: Place, data: Buffer, parse: Callable[[Buffer], SlotIndex]) -> ReadSlot:
        try:
            index = parse(data)
        except DamagedSlotError as error:
            raise self._broken(place, error) from None
        self._check_place(place, index.header)
        return ReadSlot(place, data, index)

    def _read_index(self, place: Place) -> SlotIndex:
        name = slot_name(self._log, place)
        try:
            tail = self._store.read_end(name, TAIL_BYTES)
            size = _tail_size(tail)
            data = tail.data if size <= len(tail.data) else self._store.read_end(name, size).data
            index = read_index(data)
        except (Missing, DamagedSlotError) as error:
            raise self._broken(place, error) from None
        if index.object_size != tail.size_bytes:
            raise self._broken(place, f"it has {tail.size_bytes} bytes instead of {index.object_size}")
        self._check_place(place, index.header)
        return index

    def _check_place(self, place: Place, header: SlotHeader) -> None:
        if (header.generation, header.slot) != place:
            raise self._broken(place, f"its header names generation {header.generation}, slot {header.slot}")

    def _broken(self, place: Place, reason: object) -> BrokenLogError:
        return BrokenLogError(f"{slot_name(self._log, place)} is broken: {reason}")

    def _in_order(self, read: Callable[[Place], _Read], places: Iterable[Place]) -> Iterator[_Read]:
        remaining = iter(places)
        with ThreadPoolExecutor(self._in_flight_max, "slot-reader") as pool:
            ahead: deque[Future[_Read]] = deque(
                pool.submit(read, place) for place in islice(remaining, self._in_flight_max)
            )
            try:
                while ahead:
                    yield ahead.popleft().result()
                    ahead.extend(pool.submit(read, place) for place in islice(remaining, 1))
            finally:
                for future in ahead:
                    future.cancel()


def _tail_size(tail: Part) -> int:
    size = tail_size(tail.data)
    if size > min(tail.size_bytes, INDEX_BYTES_MAX):
        raise DamagedSlotError(f"its index has {size} bytes")
    return size
