"""Fenced logs: every history of small ones is correct, and each known mistake is found in them.

With EXAMPLES in the environment (`make properties`) larger ones are explored too.
"""

import os
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.objects.fenced_log import (
    STOP_DISTANCE,
    Boundary,
    BrokenLogError,
    Fencer,
    Found,
    Place,
    Step,
    Writer,
    boundary_name,
    data_places,
    place_of,
    slot_name,
)
from tests.objects.fenced_log_mistakes import (
    AcknowledgesOutOfOrder,
    ComparesBoundaryWithFence,
    FreesDataAfterBoundary,
    FreesFences,
    ListsBeyondHoles,
    ReadsBoundaryOnce,
    TakesDataForOwn,
    TakesFenceForOwn,
    TakesStopForFence,
)
from tests.objects.fenced_log_model import Model
from tests.tables import each_row

EVERYTHING = {"has_late_fences": True, "deletes_singly": True, "has_old_listings": True}
ONE_EACH = {"in_flight": 1, "slots": 1}
ORDINARY = {
    "one slot and a takeover of the taker": ({**ONE_EACH, **EVERYTHING, "successor_slots": 1}, 5_265),
    "three in flight and one fencer": ({**EVERYTHING, "in_flight": 3, "slots": 3, "fencers": 1, "distance": 2}, 4_483),
    "two in flight and two fencers": ({"slots": 2}, 22_173),
}
AT_LENGTH = {
    "two slots, one after the other": ({**EVERYTHING, "in_flight": 1, "slots": 2}, 50_097),
    "four in flight and one fencer": ({**EVERYTHING, "in_flight": 4, "slots": 4, "fencers": 1, "distance": 2}, 23_405),
    "three fencers": ({**ONE_EACH, "fencers": 3}, 34_694),
    "two slots at once, and a takeover of the taker": ({**EVERYTHING, "slots": 2, "successor_slots": 1}, 68_604),
    "three slots, two at once": ({"slots": 3}, 198_042),
}
BOUNDS = ORDINARY | AT_LENGTH if "EXAMPLES" in os.environ else ORDINARY
SEEDED_STATES_MAX = 20_000


TWO = {"slots": 2}
ALONE = {"slots": 2, "fencers": 1}
SEEDED = {
    "acknowledges n before n - 1": {**ALONE, "writer": AcknowledgesOutOfOrder},
    "does not read the boundary again": {**TWO, "fencer": ReadsBoundaryOnce},
    "compares the boundary with its fence": {
        **TWO,
        "in_flight": 1,
        "has_late_fences": True,
        "fencer": ComparesBoundaryWithFence,
    },
    "takes the stop for the fence": {**ALONE, "fencer": TakesStopForFence},
    "lists beyond a hole": {**ALONE, "fencer": ListsBeyondHoles},
    "takes data for its own fence": {**ALONE, "fencer": TakesDataForOwn},
    "takes another's fence for its own": {**TWO, "fencer": TakesFenceForOwn},
    "deletes fences": {**TWO, "boundary": FreesFences},
    "deletes data after the boundary": {**ALONE, "boundary": FreesDataAfterBoundary},
}


@pytest.mark.properties
@each_row("bounds, states", BOUNDS.values(), BOUNDS)
def test_in_every_history_one_successor_finds_all_acknowledged_data(bounds: dict[str, object], states: int) -> None:
    """The number of states is asserted, so that a model that explores less is noticed."""
    assert Model(**bounds).explore() == states


@each_row("mistake", SEEDED.values(), SEEDED)
def test_a_seeded_mistake_is_found(mistake: dict[str, object]) -> None:
    """Each mistake breaks a rule of the protocol. The error has the path to the loss."""
    with pytest.raises(AssertionError, match=r"acknowledged|two winners|a hole"):
        Model(**mistake, states_max=SEEDED_STATES_MAX).explore()


def fence_a_busy_writer(fencer: Fencer, lead: int, steps_max: int) -> tuple[Fencer, int]:
    """Fence a writer that always stores `lead` further slots before the fencer's next step."""
    bucket = {Place(0, 0): True, Place(1, 1): False}

    def write() -> None:
        slot = 1
        for _ in range(lead):
            while (is_fence := bucket.get(Place(1, slot))) is False:
                slot += 1
            if is_fence:
                return
            bucket[Place(1, slot)] = False

    for step in range(steps_max):
        write()
        if fencer.step in {Step.WON, Step.LOST}:
            return fencer, step
        if fencer.step in {Step.READ_BOUNDARY, Step.READ_AGAIN}:
            fencer = fencer.read(Boundary())
        elif fencer.step is Step.LIST:
            fencer = fencer.see(bucket)
        else:
            found = {None: Found.OWN, True: Found.OWN, False: Found.DATA}[bucket.get(fencer.wanted)]
            if found is Found.OWN:
                bucket[fencer.wanted] = True
            fencer = fencer.find(found)
    return fencer, steps_max


@given(st.integers(1, 100))
def test_a_writer_that_is_always_ahead_is_fenced(lead: int) -> None:
    """The stop ends the race, tried farther and farther away."""
    fencer, steps = fence_a_busy_writer(Fencer(), lead, 200)
    assert fencer.step is Step.WON
    assert steps < 40


def test_without_a_stop_a_writer_that_is_ahead_is_never_fenced() -> None:
    """A fencer that walks from the beginning, as if it had one."""

    class NeedsNoStop(Fencer):
        def see(self, listing: Mapping[Place, bool]) -> Fencer:
            return super().see(listing)._replace(step=Step.WALK, has_stop=True)

    fencer, _ = fence_a_busy_writer(NeedsNoStop(), 1, 2_000)
    assert fencer.step not in {Step.WON, Step.LOST}


def test_a_fencer_without_opponents_takes_five_steps() -> None:
    """An empty bucket: boundary, list, stop, fence, boundary."""
    fencer = Fencer().read(Boundary()).see({})
    assert (fencer.step, fencer.wanted) == (Step.STOP, Place(0, STOP_DISTANCE))
    fencer = fencer.find(Found.OWN)
    assert (fencer.step, fencer.wanted) == (Step.WALK, Place(0, 0))
    fencer = fencer.find(Found.OWN).read(Boundary())
    assert (fencer.step, fencer.successor) == (Step.WON, Place(1, 1))


def test_an_empty_generation_is_fenced_like_any_other() -> None:
    """A listing leads through fences to the last generation."""
    listing = {Place(0, 0): True, Place(1, 1): False, Place(1, 2): True, Place(2, 3): True}
    assert Fencer().read(Boundary()).see(listing).place == Place(3, 4)


@given(st.permutations(range(1, 9)), st.integers(1, 8))
def test_slots_are_confirmed_in_order_whatever_order_they_are_stored_in(order: list[int], in_flight_max: int) -> None:
    """Only slots without a gap before them are confirmed, and no more are begun than allowed."""
    writer = Writer.owning(Place(1, 1), in_flight_max)
    waiting = list(order)
    stored: set[int] = set()
    while waiting:
        while writer.may_begin and writer.next_slot <= len(order):
            writer = writer.begin()
        assert writer.next_slot - writer.confirmed <= in_flight_max
        slot = next(slot for slot in waiting if slot < writer.next_slot)
        waiting.remove(slot)
        stored.add(slot)
        writer = writer.store(slot)
        assert writer.confirmed == next(slot for slot in range(1, 10) if slot not in stored)
    assert writer.stored == frozenset()


def test_an_owner_that_finds_a_fence_loses_only_later_slots() -> None:
    """Slots before it may still be confirmed; the lowest fence counts."""
    writer = Writer.owning(Place(4, 10), 4).begin().begin().begin().meet(12)
    assert writer.is_over
    assert not writer.may_begin
    assert [writer.is_lost(slot) for slot in (10, 11, 12)] == [False, False, True]
    assert writer.store(11).store(10).confirmed == 12
    assert writer.meet(11).is_lost(11)


places = st.builds(Place, st.integers(0, (1 << 64) - 1), st.integers(0, (1 << 64) - 1))


@given(places, places)
def test_a_boundary_only_rises(one: Place, other: Place) -> None:
    """It frees all data before it, but no fences."""
    boundary = Boundary(one).raised_to(other)
    assert boundary.place == max(one, other)
    assert boundary.frees(min(one, other), is_fence=False) == (one != other)
    assert not boundary.frees(min(one, other), is_fence=True)
    assert not boundary.frees(boundary.place, is_fence=False)


@given(places, st.data())
def test_a_boundary_is_read_as_it_was_written_and_any_change_of_it_is_noticed(
    place: Place, data: st.DataObject
) -> None:
    """Bytes changed, cut off or added."""
    encoded = Boundary(place).encode()
    assert Boundary.decode(encoded) == Boundary(place)
    changed = bytearray(encoded)
    changed[data.draw(st.integers(0, len(encoded) - 1))] ^= data.draw(st.integers(1, 255))
    for wrong in (changed, encoded[:-1], encoded + b"\0", b""):
        with pytest.raises(BrokenLogError):
            Boundary.decode(wrong)


@given(st.builds(Place, st.integers(0, 2**64 - 2), st.integers(0, 2**64 - 2)), places)
def test_names_sort_like_places(one: Place, other: Place) -> None:
    """Names are decoded to places; the name of the boundary is not one."""
    assert place_of("wal/7", slot_name("wal/7", one)) == one
    assert (slot_name("wal/7", one) < slot_name("wal/7", other)) == (one < other)
    assert place_of("wal/7", boundary_name("wal/7")) is None


def test_a_successor_finds_all_data_before_its_fence_or_fails() -> None:
    """Across generations, starting at the boundary. Slots after a fence are not data of the log."""
    listing = {
        Place(0, 0): True,
        Place(1, 1): False,
        Place(1, 2): True,
        Place(1, 3): False,
        Place(2, 3): False,
        Place(2, 4): False,
        Place(2, 5): True,
        Place(2, 6): False,
    }
    end = Place(2, 5)
    assert list(data_places(Boundary(), end, listing)) == [Place(1, 1), Place(2, 3), Place(2, 4)]
    assert list(data_places(Boundary(Place(2, 4)), end, listing)) == [Place(2, 4)]
    assert list(data_places(Boundary(end), end, listing)) == []
    del listing[Place(2, 3)]
    with pytest.raises(BrokenLogError, match="slot 3 of generation 2 is missing"):
        list(data_places(Boundary(), end, listing))


@pytest.mark.parametrize(
    "name",
    [
        f"wal/7/backup/{1:020d}/{2:020d}",
        f"wal/7{1:020d}/{2:020d}",
        f"wal/71/{1:020d}/{2:020d}",
        f"other/wal/7/{1:020d}/{2:020d}",
        f"wal/7/{1:020d}/{2:020d}/x",
        f"wal/7/{1:020d}/{2:021d}",
        f"wal/7/{2**64 - 1:020d}/{2:020d}",
        f"wal/7/{1:020d}/{10**20 - 1}",
        "wal/7/" + "\u0661" * 20 + "/" + "\u0661" * 20,
        f"{1:020d}/{2:020d}",
    ],
)
def test_a_foreign_name_is_not_a_place(name: str) -> None:
    """A copy of a log within the log itself, or numbers above those of any writer."""
    assert place_of("wal/7", name) is None
