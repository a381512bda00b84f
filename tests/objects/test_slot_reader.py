"""Slots are read in order, several at once, and damaged ones never pass."""

import threading

import pytest

from pipeline_broker.objects.fenced_log import BrokenLogError, Place, slot_name
from pipeline_broker.objects.memory_store import MemoryStore
from pipeline_broker.objects.slot import SlotEntry, SlotHeader, SlotKind, encode_slot
from pipeline_broker.objects.slot_reader import FIRST_READ_BYTES, TAIL_BYTES, SlotReader

LOG = "wal/1"


def stored(count, head=b"head"):
    """Return a store with `count` slots of two entries each."""
    store = MemoryStore()
    for slot in range(count):
        body = b"%d" % slot
        header = SlotHeader(SlotKind.DATA, 1, 1, slot, bytes(16))
        entries = [SlotEntry(b"a", head, (body,), len(body)), SlotEntry(b"b", b"", (b"x",), 1)]
        store.create(slot_name(LOG, Place(1, slot)), encode_slot(header, entries).parts)
    return store


def places(count):
    return [Place(1, slot) for slot in range(count)]


class Counting:
    """A store that counts its concurrent reads, and holds each until as many are running, or all."""

    def __init__(self, store, wanted):
        self._store, self._wanted = store, wanted
        self._lock = threading.Condition()
        self.under_way = self.most = self.asked = 0

    def read(self, name, start, size_bytes):
        with self._lock:
            self.asked += 1
            self.under_way += 1
            self.most = max(self.most, self.under_way)
            self._lock.notify_all()
            self._lock.wait_for(lambda: self.most >= self._wanted, timeout=10)
        part = self._store.read(name, start, size_bytes)
        with self._lock:
            self.under_way -= 1
        return part


def test_slots_are_read_in_order_with_their_entries():
    reader = SlotReader(stored(40), LOG, 4)
    read = list(reader.whole(places(40)))
    assert [slot.place for slot in read] == places(40)
    for number, (place, data, index) in enumerate(read):
        first = index.entries[0]
        assert bytes(data[first.position : first.position + first.size_bytes]) == b"%d" % number
        assert reader.range(place, first.position, first.size_bytes) == b"%d" % number


def test_concurrent_reads_and_read_ahead_are_limited():
    store = Counting(stored(20), 5)
    slots = SlotReader(store, LOG, 5).whole(places(20))
    next(slots)
    assert store.most == 5
    assert store.asked == 5
    slots.close()
    assert store.asked <= 6


def test_kept_slots_are_not_read_from_the_store():
    store = stored(4)
    kept = {1: store.read(slot_name(LOG, Place(1, 1)), 0, 1 << 20).data}
    asked = Counting(store, 1)
    reader = SlotReader(asked, LOG, kept=lambda place: kept.get(place.slot))
    assert [slot.place for slot in reader.whole(places(4))] == places(4)
    assert asked.asked == 3
    kept[1] = bytes(len(kept[1]))
    with pytest.raises(BrokenLogError):
        list(reader.whole(places(4)))


def test_an_index_longer_than_the_first_read_is_read_as_well():
    reader = SlotReader(stored(2, head=bytes(60_000)), LOG)
    assert [index.entries[0].head for index in reader.indexes(places(2))] == [bytes(60_000)] * 2
    store = stored(1)
    header = SlotHeader(SlotKind.DATA, 1, 1, 1, bytes(16))
    entries = [SlotEntry(b"k", bytes(60_000), (b"v",), 1)] * 3
    store.create(slot_name(LOG, Place(1, 1)), encode_slot(header, entries).parts)
    (index,) = SlotReader(store, LOG).indexes([Place(1, 1)])
    assert sum(len(entry.head) for entry in index.entries) > TAIL_BYTES


@pytest.mark.parametrize("read", ["whole", "indexes"])
def test_a_missing_damaged_cut_or_misplaced_slot_breaks_the_log(read):
    whole = stored(1).read(slot_name(LOG, Place(1, 0)), 0, 1 << 20).data
    other = stored(2).read(slot_name(LOG, Place(1, 1)), 0, 1 << 20).data
    for content in (None, whole[:-1] + b"\0", whole[:100], whole[1:], b"\0" + whole, other, b""):
        store = MemoryStore()
        if content is not None:
            store.create(slot_name(LOG, Place(1, 0)), [content])
        with pytest.raises(BrokenLogError, match=r"wal/1/0{19}1/0{20}"):
            list(getattr(SlotReader(store, LOG), read)([Place(1, 0)]))


def test_a_range_after_the_end_breaks_the_log():
    reader = SlotReader(stored(1), LOG)
    for place, position in ((Place(1, 0), 10_000), (Place(1, 5), 0)):
        with pytest.raises(BrokenLogError):
            reader.range(place, position, 10)


class Sized(MemoryStore):
    """A store that records the sizes of its answers."""

    largest = 0

    def read(self, name, start, size_bytes):
        return self._noted(super().read(name, start, size_bytes))

    def read_end(self, name, size_bytes):
        return self._noted(super().read_end(name, size_bytes))

    def _noted(self, part):
        self.largest = max(self.largest, len(part.data))
        return part


def large_slot():
    body = bytes(range(256)) * (3 * FIRST_READ_BYTES // 256)
    return encode_slot(SlotHeader(SlotKind.DATA, 1, 1, 0, bytes(16)), [SlotEntry(b"a", b"", (body,), len(body))]).parts


def test_a_slot_larger_than_the_first_read_is_read_whole():
    store = Sized()
    store.create(slot_name(LOG, Place(1, 0)), large_slot())
    (slot,) = SlotReader(store, LOG).whole(places(1))
    assert len(slot.data) == sum(map(len, large_slot()))
    assert len(slot.contents.entries) == 1


@pytest.mark.parametrize(
    "end", [b"", bytes(100), b"\xff" * 60 + b"LSBP"], ids=["longer", "zeros", "an index without end"]
)
def test_a_large_object_that_is_not_a_slot_costs_one_read(end):
    store = Sized()
    slot = b"".join(large_slot())
    store.create(slot_name(LOG, Place(1, 0)), [slot + b"x" + end])
    with pytest.raises(BrokenLogError):
        list(SlotReader(store, LOG).whole(places(1)))
    assert store.largest == FIRST_READ_BYTES
