"""Slots are put several at once and confirmed in order. A fenced owner acknowledges nothing more."""

import itertools
import struct
import threading

import pytest

from pipeline_broker.objects.fenced_log import Place, Writer, slot_name
from pipeline_broker.objects.fencing import Fencing
from pipeline_broker.objects.memory_store import MemoryStore
from pipeline_broker.objects.settled_store import SettledStore
from pipeline_broker.objects.slot import SlotEntry, SlotHeader, SlotKind, encode_slot, read_slot
from pipeline_broker.objects.slot_writer import FencedError, SlotWriter, WriterStopped
from pipeline_broker.objects.store import Unavailable, Unsure
from tests.objects.impatience import give_up

LOG = "wal/1"
SECONDS_MAX = 20


def no_pause(seconds, error): ...


def owner(store, in_flight_max=8, nonce=bytes(16)):
    fencer = Fencing(store, LOG, 1, nonce).run()
    return SlotWriter(store, LOG, 1, nonce, Writer.owning(fencer.successor, in_flight_max))


def parts_of(header):
    return encode_slot(header, [SlotEntry(b"key", b"", (b"%d" % header.slot,), len(b"%d" % header.slot))]).parts


def test_a_slot_is_confirmed_once_all_earlier_ones_are():
    writer = owner(MemoryStore())
    first, second = writer.begin(), writer.begin()
    confirmed = []

    def wait(slot):
        writer.wait(slot)
        confirmed.append(slot)

    waiting = threading.Thread(target=wait, args=(second.slot,))
    waiting.start()
    writer.put(second, parts_of(second))
    waiting.join(0.05)
    assert confirmed == []
    writer.put(first, parts_of(first))
    waiting.join(SECONDS_MAX)
    assert confirmed == [second.slot]


def test_no_more_slots_are_begun_than_may_be_unconfirmed():
    writer = owner(MemoryStore(), 2)
    headers = [writer.begin(), writer.begin()]
    begun = []
    further = threading.Thread(target=lambda: begun.append(writer.begin()))
    further.start()
    writer.put(headers[1], parts_of(headers[1]))
    further.join(0.05)
    assert begun == []
    writer.put(headers[0], parts_of(headers[0]))
    further.join(SECONDS_MAX)
    assert [header.slot for header in begun] == [headers[1].slot + 1]


def test_a_fenced_owner_keeps_only_slots_before_the_fence():
    store = MemoryStore()
    writer = owner(store)
    headers = [writer.begin() for _ in range(3)]
    writer.put(headers[0], parts_of(headers[0]))
    fencer = Fencing(store, LOG, 1, b"other" + bytes(11)).run()
    assert fencer.place == Place(1, headers[1].slot)
    for header in headers[1:]:
        writer.put(header, parts_of(header))
        with pytest.raises(FencedError, match="another broker took over as generation 2"):
            writer.wait(header.slot)
    writer.wait(headers[0].slot)
    with pytest.raises(FencedError):
        writer.begin()


def test_waiting_threads_get_the_error_when_the_writer_stops():
    writer = owner(MemoryStore(), 1)
    header = writer.begin()
    raised = []

    def wait(call):
        with pytest.raises(WriterStopped) as error:
            call()
        raised.append(error.type)

    threads = [threading.Thread(target=wait, args=(call,)) for call in (writer.begin, lambda: writer.wait(header.slot))]
    for thread in threads:
        thread.start()
    writer.stop()
    for thread in threads:
        thread.join(SECONDS_MAX)
    assert raised == [WriterStopped] * 2


def test_slots_lost_to_a_fence_are_reported_as_fenced_after_a_stop():
    store = MemoryStore()
    writer = owner(store)
    lost, unknown = writer.begin(), owner(MemoryStore())
    Fencing(store, LOG, 1, b"other" + bytes(11)).run()
    writer.put(lost, parts_of(lost))
    for each in (writer, unknown):
        each.stop()
    with pytest.raises(FencedError):
        writer.wait(lost.slot)
    with pytest.raises(WriterStopped):
        unknown.wait(lost.slot)


class Loses:
    """A store that applies the first create and loses its answer, or only loses it, and is unavailable a few times."""

    def __init__(self, store, *, applies):
        self._store, self._applies = store, applies
        self.errors = [Unsure("lost"), Unavailable("busy"), Unavailable("busy")]
        self.creates = 0

    def create(self, name, parts):
        self.creates += 1
        if self.errors:
            error = self.errors.pop(0)
            if isinstance(error, Unsure) and self._applies:
                self._store.create(name, parts)
            raise error
        return self._store.create(name, parts)

    def __getattr__(self, name):
        return getattr(self._store, name)


@pytest.mark.parametrize("applies", [True, False])
def test_the_object_of_an_unsure_put_is_read_before_it_is_judged(applies):
    memory = MemoryStore()
    first_owner = owner(memory)
    store = Loses(memory, applies=applies)
    writer = SlotWriter(SettledStore(store, no_pause), LOG, 1, bytes(16), first_owner.writer)
    header = writer.begin()
    writer.put(header, parts_of(header))
    writer.wait(header.slot)
    assert store.creates == (1 if applies else 4)


def test_a_put_that_the_store_gave_up_may_be_repeated():
    memory = MemoryStore()
    first_owner = owner(memory)
    writer = SlotWriter(SettledStore(Loses(memory, applies=False), give_up), LOG, 1, bytes(16), first_owner.writer)
    header = writer.begin()
    for error in (Unsure, Unavailable, Unavailable):
        with pytest.raises(error):
            writer.put(header, parts_of(header))
    writer.put(header, parts_of(header))
    writer.wait(header.slot)


class Gate:
    """A store that can stop its writers before a create, or after it and before they get the answer."""

    def __init__(self, store):
        self._store = store
        self.is_open = threading.Event()
        self.is_open.set()

    def create(self, name, parts):
        self.is_open.wait(SECONDS_MAX)
        tag = self._store.create(name, parts)
        self.is_open.wait(SECONDS_MAX)
        return tag

    def __getattr__(self, name):
        return getattr(self._store, name)


class Zombie:
    """An owner that writes with several threads, and records its acknowledged slots."""

    def __init__(self, store, fencer, nonce, threads=8):
        self.gate = Gate(store)
        settled = SettledStore(self.gate, no_pause)
        self.slots = SlotWriter(settled, LOG, 1, nonce, Writer.owning(fencer.successor, threads))
        self.acknowledged = []
        self._threads = [threading.Thread(target=self._write) for _ in range(threads)]
        for thread in self._threads:
            thread.start()

    def _write(self):
        try:
            while True:
                header = self.slots.begin()
                self.slots.put(header, parts_of(header))
                self.slots.wait(header.slot)
                self.acknowledged.append(header.slot)
        except (FencedError, WriterStopped):
            return

    def wait_for(self, count):
        while len(self.acknowledged) < count:
            threading.Event().wait(0.001)

    def join(self):
        for thread in self._threads:
            thread.join(SECONDS_MAX)
        assert not any(thread.is_alive() for thread in self._threads)


def fence(store, number):
    """Fence the log, in as many tries as it takes. Each has a nonce to recognize its stop if a live writer has reached
    it.
    """
    attempts = itertools.count(1)
    while True:
        fencing = Fencing(SettledStore(store, no_pause), LOG, 1, struct.pack(">QQ", next(attempts), number))
        if fencing.run().step.name == "WON":
            return fencing.fencer


@pytest.mark.parametrize("how", ["paused", "killed", "live"])
def test_nothing_is_acknowledged_beyond_a_fence(how):
    store = MemoryStore()
    fencer = fence(store, 0)
    for cycle in range(1, 9):
        zombie = Zombie(store, fencer, (cycle - 1).to_bytes(16, "big"))
        zombie.wait_for(20)
        if how != "live":
            zombie.gate.is_open.clear()
        if how == "killed":
            zombie.slots.stop()  # its PUTs may still arrive
        before = fencer
        fencer = fence(store, cycle)
        assert fencer.place.generation == before.successor.generation
        zombie.gate.is_open.set()
        zombie.join()
        acknowledged = sorted(zombie.acknowledged)
        assert acknowledged[-1] < fencer.place.slot
        found = range(before.successor.slot, fencer.place.slot)
        assert set(acknowledged) <= set(found)
        for slot in found:
            header = read_slot(store.read(slot_name(LOG, Place(before.successor.generation, slot)), 0, 1 << 20).data)
            assert header.header == SlotHeader(
                SlotKind.DATA, 1, before.successor.generation, slot, (cycle - 1).to_bytes(16, "big")
            )


def test_a_writer_that_acknowledges_each_slot_by_itself_is_caught_by_the_test_above():
    """It is stopped with a hole before its stored slots, and the fence fills the hole."""

    class Impatient(SlotWriter):
        def wait(self, slot):
            """Return as soon as the slot itself is stored."""

    store = MemoryStore()
    fencer = fence(store, 0)
    writer = Impatient(store, LOG, 1, bytes(16), Writer.owning(fencer.successor))
    _, second = writer.begin(), writer.begin()
    writer.put(second, parts_of(second))
    writer.wait(second.slot)
    assert fence(store, 1).place.slot <= second.slot
