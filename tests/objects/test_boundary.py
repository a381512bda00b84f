"""The boundary of a log only rises, and frees data only."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.objects.boundary import raise_boundary, read_boundary, trim
from pipeline_broker.objects.fenced_log import Boundary, BrokenLogError, Place, boundary_name, slot_name
from pipeline_broker.objects.fencing import list_places
from pipeline_broker.objects.memory_store import MemoryStore
from pipeline_broker.objects.settled_store import SettledStore
from pipeline_broker.objects.slot import SlotEntry, SlotHeader, SlotKind, encode_slot
from pipeline_broker.objects.store import list_all
from tests.objects.faulty_store import FaultyStore

LOG = "wal/1"
places = st.builds(Place, st.integers(0, 3), st.integers(0, 30))


def put(store, place, *, is_fence=False):
    kind = SlotKind.FENCE if is_fence else SlotKind.DATA
    entries = [] if is_fence else [SlotEntry(b"", b"", (b"x",), 1)]
    store.create(slot_name(LOG, place), encode_slot(SlotHeader(kind, 1, *place, bytes(16)), entries).parts)


@given(st.lists(places, max_size=8), st.data())
def test_whatever_happens_to_answers_the_highest_boundary_is_stored(raised, data):
    store = MemoryStore()
    faulty = FaultyStore(store, lambda choices: data.draw(st.sampled_from(choices)))
    settled = SettledStore(faulty, lambda seconds, error: None)
    highest = Boundary()
    for place in raised:
        highest = highest.raised_to(place)
        assert raise_boundary(settled, LOG, place) == highest
        assert read_boundary(store, LOG) == highest
        faulty.settle()
        assert read_boundary(store, LOG) == highest


def test_two_concurrent_raises_both_return_the_stored_boundary():
    store = MemoryStore()

    class Overtaken:
        """Another broker raises the boundary between the read and the replacement."""

        def __init__(self, *others):
            self.others = list(others)

        def _overtake(self):
            if self.others:
                raise_boundary(store, LOG, self.others.pop(0))

        def create(self, name, parts):
            self._overtake()
            return store.create(name, parts)

        def replace(self, name, parts, tag):
            self._overtake()
            return store.replace(name, parts, tag)

        def read(self, name, start, size_bytes):
            return store.read(name, start, size_bytes)

    assert raise_boundary(Overtaken(Place(1, 3), Place(1, 5)), LOG, Place(1, 7)) == Boundary(Place(1, 7))
    assert raise_boundary(Overtaken(Place(2, 9)), LOG, Place(1, 8)) == Boundary(Place(2, 9))


def test_data_before_it_is_deleted_and_fences_stay():
    store = MemoryStore()
    data = [Place(1, 1), Place(1, 2), Place(1, 4), Place(2, 4), Place(2, 5)]
    for place in data:
        put(store, place)
    for place in (Place(0, 0), Place(1, 3)):
        put(store, place, is_fence=True)
    boundary = raise_boundary(store, LOG, Place(2, 5))
    assert trim(store, LOG, boundary) == 4
    assert list_places(store, LOG, Place(0, 0)) == {Place(0, 0): True, Place(1, 3): True, Place(2, 5): False}
    assert trim(store, LOG, boundary) == 0
    assert read_boundary(store, LOG) == boundary


def test_a_damaged_boundary_is_refused():
    store = MemoryStore()
    store.create(boundary_name(LOG), [b"something else"])
    with pytest.raises(BrokenLogError):
        read_boundary(store, LOG)


@given(st.sets(places, max_size=12), places)
def test_a_listing_from_a_place_has_nothing_before_it(there, first):
    store = MemoryStore()
    for place in there:
        put(store, place, is_fence=place.slot % 2 == 0)
    raise_boundary(store, LOG, Place(0, 1))
    expected = {place: place.slot % 2 == 0 for place in there if place >= first}
    assert list_places(store, LOG, first) == expected


def test_a_trim_does_not_list_slots_freed_before():
    """Fences stay, one per owner, so a listing from the start would grow with every owner."""
    store = MemoryStore()
    for generation in range(50):
        put(store, Place(generation, generation), is_fence=True)
    put(store, Place(50, 50))
    put(store, Place(50, 51))
    listed = []

    class Counting:
        def list(self, prefix, after=""):
            page = store.list(prefix, after)
            listed.extend(each.name for each in page)
            return page

        def __getattr__(self, name):
            return getattr(store, name)

    boundary = raise_boundary(store, LOG, Place(50, 51))
    assert trim(Counting(), LOG, boundary, Place(50, 50)) == 1
    assert listed == [slot_name(LOG, Place(50, slot)) for slot in (50, 51)] + [boundary_name(LOG)]


def test_foreign_objects_neither_end_a_trim_nor_are_deleted():
    store = MemoryStore()
    names = [slot_name(LOG, Place(1, slot)) for slot in range(3)]
    strays = [f"{LOG}/{name}" for name in ("0", f"{1:020d}/0", f"{1:020d}/copy/{1:020d}/{1:020d}")]
    for name in (*names, *strays):
        store.create(name, [bytes(200)])
    assert trim(store, LOG, Boundary(Place(1, 2))) == 2
    assert sorted(each.name for each in list_all(store, f"{LOG}/")) == sorted([names[2], *strays])
    assert list_places(store, LOG, Place(0, 0)) == {Place(1, 2): False}
