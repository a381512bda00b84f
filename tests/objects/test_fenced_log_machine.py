"""Owners, fencers and collectors of one log, over a store that loses, delays and doubles requests.

The product does the I/O. Each step makes one try, so other participants act between two tries of one PUT. The model of
the test is small: the acknowledged slots of each owner, and the fences that have won. Interesting histories are
counted, and a run without one of each kind fails.
"""

import os
from collections import Counter
from typing import ClassVar

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from pipeline_broker.objects.boundary import raise_boundary, read_boundary, trim
from pipeline_broker.objects.fenced_log import BrokenLogError, Place, Step, Writer, data_places, slot_name
from pipeline_broker.objects.fencing import Fencing, list_places
from pipeline_broker.objects.memory_store import MemoryStore
from pipeline_broker.objects.settled_store import SettledStore
from pipeline_broker.objects.slot import SlotEntry, encode_slot
from pipeline_broker.objects.slot_writer import SlotWriter
from pipeline_broker.objects.store import Unavailable, Unsure
from tests.objects.faulty_store import ASK_FATES, WRITE_FATES, FaultyStore
from tests.objects.fenced_log_mistakes import AcknowledgesOutOfOrder, TakesStopForFence
from tests.objects.impatience import give_up

LOG = "wal/1"
EXAMPLES = int(os.environ.get("EXAMPLES", "200"))
IN_FLIGHT = 3
OWNERS_MAX, FENCINGS_MAX = 4, 5
UNSURE_FATES = {"lost after", "late", "twice", "repeated by the client"}


class Owner:
    """A writer of one generation, with its begun slots and whether it knows that it is over."""

    writer_class = Writer

    def __init__(self, store, first, nonce):
        self.first = first
        self.slots = SlotWriter(store, LOG, 1, nonce, self.writer_class.owning(first, IN_FLIGHT))
        self.under_way = {}

    def begin(self):
        header = self.slots.begin()
        body = b"%d %d" % (header.generation, header.slot)
        self.under_way[header.slot] = header, encode_slot(header, [SlotEntry(b"", b"", (body,), len(body))]).parts

    def put(self, slot):
        self.slots.put(*self.under_way[slot])
        del self.under_way[slot]

    @property
    def acknowledged(self):
        return range(self.first.slot, self.slots.writer.confirmed)


class FencedLogMachine(RuleBasedStateMachine):
    seen: ClassVar[Counter] = Counter()

    fencing_class = Fencing
    owner_class = Owner

    def __init__(self):
        super().__init__()
        self.store = MemoryStore()
        self.data = None
        self.faulty = FaultyStore(self.store, self.draw_fate)
        self.settled = SettledStore(self.faulty, give_up)
        self.owners = []
        self.fencings = []
        self.won = {}

    def draw_fate(self, choices):
        """Draw a fate, mostly "done", so that histories make progress."""
        sound = {WRITE_FATES: 2, ASK_FATES: 5}.get(choices, 0)
        return (
            "done" if sound and self.data.draw(st.integers(0, 5)) < sound else self.data.draw(st.sampled_from(choices))
        )

    @initialize()
    def first_owner(self):
        fencing = self.fencing_class(self.store, LOG, 1, b"f" * 16)
        self.take_over(fencing.run(), b"f" * 16, self.settled)

    def take_over(self, fencer, nonce, store):
        generation = fencer.place.generation
        assert generation not in self.won, "two owners of one generation"
        self.won[generation] = fencer.place
        self.owners.append(self.owner_class(store, fencer.successor, nonce))

    def try_(self, data, call):
        """Make one try, and return whether the store answered."""
        self.data = data
        fates = len(self.faulty.fates)
        try:
            call()
        except (Unavailable, Unsure) as error:
            self.seen[f"gave up: {type(error).__name__}"] += 1
            return False
        finally:
            self.seen.update(fate for _, fate in self.faulty.fates[fates:])
        return True

    @rule(data=st.data(), count=st.integers(1, IN_FLIGHT))
    def begin(self, data, count):
        owner = data.draw(st.sampled_from(self.owners))
        for _ in range(count):
            if owner.slots.writer.may_begin:
                owner.begin()

    @rule(data=st.data(), tries=st.integers(1, 3))
    def put(self, data, tries):
        owners = [owner for owner in self.owners if owner.under_way]
        if not owners:
            return
        owner = data.draw(st.sampled_from(owners))
        slot = data.draw(st.sampled_from(sorted(owner.under_way)))
        for _ in range(tries):
            before = owner.slots.writer
            if self.try_(data, lambda: owner.put(slot)):
                after = owner.slots.writer
                if after.is_over and not before.is_over:
                    self.seen["an owner met a fence"] += 1
                if after.confirmed > before.confirmed + 1:
                    self.seen["several slots were confirmed at once"] += 1
                if before.is_over and after.confirmed > before.confirmed:
                    self.seen["a fenced owner confirmed slots before the fence"] += 1
                return

    @precondition(lambda self: len(self.fencings) < FENCINGS_MAX)
    @rule()
    def begin_to_fence(self):
        nonce = len(self.fencings).to_bytes(16, "big")
        self.fencings.append(self.fencing_class(self.settled, LOG, 1, nonce))

    @precondition(lambda self: self.fencings)
    @rule(data=st.data(), steps=st.integers(1, 6))
    def fence(self, data, steps):
        fencing = data.draw(st.sampled_from(self.fencings))
        for _ in range(steps):
            before = fencing.fencer
            if before.step in {Step.WON, Step.LOST} or not self.try_(data, fencing.step):
                return
            after = fencing.fencer
            if before.step is Step.WALK and after.step is Step.LIST:
                self.seen["a fencer stepped over data"] += 1
            if after.step is Step.LOST:
                self.seen["lost by the boundary" if before.step is Step.READ_AGAIN else "lost by a fence"] += 1
            if after.step is Step.WON:
                self.seen["won"] += 1
                if after.place.generation > 1:
                    self.seen["a taker was taken over"] += 1
                nonce = self.fencings.index(fencing).to_bytes(16, "big")
                self.take_over(after, nonce, self.settled)

    @rule(data=st.data())
    def collect(self, data):
        """Any owner, fenced or not, frees its confirmed slots."""
        owner = data.draw(st.sampled_from(self.owners))
        slot = data.draw(st.integers(owner.first.slot, owner.slots.writer.confirmed))
        place = Place(owner.first.generation, slot)
        raised = []
        if self.try_(data, lambda: raised.append(raise_boundary(self.settled, LOG, place))):
            deleted = []
            self.try_(data, lambda: deleted.append(trim(self.settled, LOG, raised[0])))
            if any(deleted):
                self.seen["collected"] += 1
                self.seen["collected by a fenced owner"] += owner.first.generation in self.won

    @invariant()
    def what_was_acknowledged_is_found_by_the_successor(self):
        if not self.won:
            return
        boundary, end = read_boundary(self.store, LOG), max(self.won.values())
        listing = list_places(self.store, LOG, Place(0, 0))
        found = set(data_places(boundary, end, listing)) if boundary.place < end else set()
        for owner in self.owners:
            generation = owner.first.generation
            fence = self.won.get(generation)
            assert fence is None or owner.slots.writer.confirmed <= fence.slot, "acknowledged beyond the fence"
            for slot in owner.acknowledged:
                place = Place(generation, slot)
                if place < boundary.place:
                    continue
                assert listing.get(place) is False, f"{place} was acknowledged and is not there"
                assert place > end or place in found, f"{place} was acknowledged and is not found"
                body = b"%d %d" % place
                assert body in bytes(self.store.read(slot_name(LOG, place), 0, 1 << 20).data)

    def teardown(self):
        self.faulty.settle()
        self.what_was_acknowledged_is_found_by_the_successor()


def run(machine, **arguments):
    run_state_machine_as_test(
        machine,
        settings=settings(stateful_step_count=60, deadline=None, derandomize="EXAMPLES" not in os.environ, **arguments),
    )


KINDS = {
    "a fenced owner confirmed slots before the fence",
    "a fencer stepped over data",
    "a taker was taken over",
    "an owner met a fence",
    "collected",
    "collected by a fenced owner",
    "gave up: Unavailable",
    "gave up: Unsure",
    "lost by a fence",
    "lost by the boundary",
    "several slots were confirmed at once",
    "won",
} | UNSURE_FATES


@pytest.mark.properties
def test_no_history_loses_acknowledged_data():
    class Machine(FencedLogMachine):
        seen: ClassVar[Counter] = Counter()

    run(Machine, max_examples=EXAMPLES)
    assert {kind for kind in KINDS if not Machine.seen[kind]} == set()


class HastyOwner(Owner):
    writer_class = AcknowledgesOutOfOrder


class MistakenFencing(Fencing):
    fencer_class = TakesStopForFence

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.fencer = self.fencer_class()


@pytest.mark.parametrize(
    "mistake", [{"owner_class": HastyOwner}, {"fencing_class": MistakenFencing}], ids=["writer", "fencer"]
)
def test_the_machine_finds_a_mistake(mistake):
    """One mistake of a writer and one of a fencer; `test_fenced_log` finds all of them."""
    machine = type("Mistaken", (FencedLogMachine,), mistake)
    with pytest.raises((AssertionError, BrokenLogError)):
        run(machine, phases=[Phase.generate], report_multiple_bugs=False)
