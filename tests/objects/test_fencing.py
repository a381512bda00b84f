"""A takeover leaves one fence in the store, and no other objects."""

import itertools

import pytest

from pipeline_broker.objects.fenced_log import STOP_DISTANCE, BrokenLogError, Place, Step, Writer, slot_name
from pipeline_broker.objects.fencing import Fencing, list_places, take_over
from pipeline_broker.objects.memory_store import MemoryStore
from pipeline_broker.objects.settled_store import SettledStore
from pipeline_broker.objects.slot import SlotEntry, encode_slot
from pipeline_broker.objects.slot_writer import SlotWriter
from pipeline_broker.objects.store import Unavailable
from tests.objects.impatience import give_up

LOG = "wal/1"
nonces = (b"%016d" % number for number in itertools.count())


def owned(store):
    return take_over(store, LOG, 1, nonces.__next__)


def commit(store, ownership):
    writer = SlotWriter(store, LOG, 1, ownership.nonce, Writer.owning(ownership.first))
    header = writer.begin()
    writer.put(header, encode_slot(header, [SlotEntry(b"", b"", (b"x",), 1)]).parts)
    writer.wait(header.slot)


def test_each_takeover_leaves_one_object():
    store = MemoryStore()
    for number in range(1, 5):
        owned(store)
        assert list_places(store, LOG, Place(0, 0)) == {Place(each, each): True for each in range(number)}


def test_the_fence_follows_the_confirmed_slots_and_its_stop_is_deleted():
    store = MemoryStore()
    commit(store, owned(store))
    assert owned(store).fence == Place(1, 2)
    assert list_places(store, LOG, Place(0, 0)) == {Place(0, 0): True, Place(1, 1): False, Place(1, 2): True}


def test_a_stop_that_cannot_be_deleted_does_no_harm():
    store = MemoryStore()

    class Keeping:
        def delete(self, names):
            raise Unavailable("503")

        def __getattr__(self, name):
            return getattr(store, name)

    first = owned(Keeping())
    commit(store, first)
    second = owned(Keeping())
    assert (second.fence, second.first) == (Place(1, 2), Place(2, 3))
    commit(store, second)


def test_a_stop_that_the_owner_has_reached_is_the_fence():
    store = MemoryStore()
    owner = owned(store)
    fencing = Fencing(SettledStore(store, give_up), LOG, 2, next(nonces))
    while fencing.fencer.step is not Step.WALK:
        fencing.step()
    writer = SlotWriter(store, LOG, 1, owner.nonce, Writer.owning(owner.first, STOP_DISTANCE))
    for _ in range(STOP_DISTANCE):
        header = writer.begin()
        writer.put(header, encode_slot(header, [SlotEntry(b"", b"", (b"x",), 1)]).parts)
    assert fencing.run().step is Step.WON
    fencing.remove_stop()
    fence = Place(owner.first.generation, owner.first.slot + STOP_DISTANCE)
    assert fencing.fencer.place == fence
    assert list_places(store, LOG, fence) == {fence: True}


def test_garbage_at_the_place_of_a_fence_is_reported_with_its_name():
    store = MemoryStore()
    store.create(slot_name(LOG, Place(0, STOP_DISTANCE)), [b"a stranger's" * 10])
    with pytest.raises(BrokenLogError, match=f"{slot_name(LOG, Place(0, STOP_DISTANCE))} is not a slot.*Move it away"):
        take_over(store, LOG, 1, lambda: bytes(16))
