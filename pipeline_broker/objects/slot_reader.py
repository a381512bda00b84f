"""Slots read by who goes on with a log, or serves from it: ranges of objects, several at once, in order.

Rules of this file: the store is settled (`settled_store`). At most `in_flight_max` objects are asked for or held ahead
of the one that is used. What is in memory is not asked for; this process has made or checked it. What should be
there and is not, or is not what was written, is a BrokenLogError: it was confirmed, so to go on without it would lose
what was acknowledged.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import groupby, islice
from typing import NamedTuple, TypeVar

from pipeline_broker.files.file_system import Buffer
from pipeline_broker.objects.fenced_log import BrokenLogError, Place, slot_name
from pipeline_broker.objects.slot import DamagedSlotError, SlotHeader, SlotIndex, read_index, read_slot, tail_size
from pipeline_broker.objects.store import Missing, ObjectStore, Part

__all__ = ["ReadSlot", "SlotReader"]

IN_FLIGHT_MAX = 16
TAIL_BYTES = 64 << 10
"""Asked for of the end of an object: the index of most."""
FIRST_READ_BYTES = 8 << 20
"""Asked for of a whole object; memory is spent on more of it only when its end is that of a slot of this length."""
INDEX_BYTES_MAX = 512 << 20
"""Two million entries with their heads have a third of it."""

_Read = TypeVar("_Read")


class ReadSlot(NamedTuple):
    """A whole slot, all of whose checksums match, or did when it came to memory."""

    place: Place
    data: Buffer
    contents: SlotIndex


class SlotReader:
    """Reads one log.

    Args:
        store: settled.
        log: its name.
        in_flight_max: objects that are read at once.
        kept: the whole object of a slot, where that is in memory.
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
        """Whole slots, in the given order; raises BrokenLogError."""
        with_kept = ((place, self._kept(place)) for place in places)
        for is_kept, run in groupby(with_kept, lambda each: each[1] is not None):
            if is_kept:  # no thread, and no checksum of much: after each of these a busy interpreter is waited for
                yield from (self._parsed(place, data, read_index) for place, data in run if data is not None)
            else:
                yield from self._in_order(self._read_whole, (place for place, _ in run))

    def indexes(self, places: Iterable[Place]) -> Iterator[SlotIndex]:
        """What the ends of slots say, in the given order; raises BrokenLogError."""
        return self._in_order(self._read_index, places)

    def range(self, place: Place, position: int, size_bytes: int) -> Buffer:
        """Bytes of one slot, unchecked; raises BrokenLogError where there are not so many."""
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
            raise self._broken(place, f"it has {tail.size_bytes} bytes in place of {index.object_size}")
        self._check_place(place, index.header)
        return index

    def _check_place(self, place: Place, header: SlotHeader) -> None:
        if (header.generation, header.slot) != place:
            raise self._broken(place, f"it is that of generation {header.generation}, slot {header.slot}")

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
