"""A model checker for small fenced logs: all histories, breadth first.

The model has the bucket and the network. The values of the product decide for writers and fencers.

* A PUT that was sent stays in flight forever. It may be applied late, again after its object was deleted, or never.
* A fencer may read a place at any time, and may stop forever at any point.
* A listing may lack the newest objects.
* An owner, or a broker that believes to be one, may raise the boundary over any part of its confirmed slots.
* Objects before a boundary may be deleted at any time, by name, whatever has been created there since.

To reduce the number of states, events that only enable others happen at once. PUTs are sent as soon as possible, since
they may arrive late. Senders learn about applied PUTs at once, since they may act late.
"""

from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from typing import NamedTuple

import attrs

from pipeline_broker.objects.fenced_log import Boundary, BrokenLogError, Fencer, Found, Place, Step, Writer, data_places
from tests.exploration import explore

DATA = -1
FIRST_OWNER = -2

Put = tuple[Place, int]
"""A place, and the writer: DATA, or the index of a fencer."""


class World(NamedTuple):
    """The bucket, the PUTs in flight, and the participants.

    Attributes:
        stored: all places that ever held data.
    """

    bucket: frozenset[Put]
    boundary: Boundary
    sent: frozenset[Put]
    stored: frozenset[Place]
    writers: tuple[Writer, ...]
    fencers: tuple[Fencer, ...]


@attrs.frozen(kw_only=True)
class Model:
    """The bounds of an exploration, and the rules under test.

    Attributes:
        in_flight, slots: of the writer that is fenced: slots at once, and in total.
        fencers: their number.
        distance: of their stops.
        successor_slots: slots that a winning fencer writes.
        has_old_listings: a listing may lack the newest objects.
        has_late_fences: a fence may be applied after its fencer has continued without it.
        deletes_singly: objects are deleted one by one; otherwise all before the boundary at once.
        writer, fencer, boundary: classes of the product, or of a test that seeds a mistake.
    """

    in_flight: int = 2
    slots: int = 3
    fencers: int = 2
    distance: int = 1
    successor_slots: int = 0
    has_old_listings: bool = False
    has_late_fences: bool = False
    deletes_singly: bool = False
    writer: type[Writer] = Writer
    fencer: type[Fencer] = Fencer
    boundary: type[Boundary] = Boundary
    states_max: int = 3_000_000

    def start(self) -> World:
        """Return a generation with an owner, and fencers that have not begun."""
        return self._settled(
            World(
                frozenset({(Place(0, 0), FIRST_OWNER)}),
                self.boundary(),
                frozenset(),
                frozenset(),
                (self.writer.owning(Place(1, 1), self.in_flight),),
                (self.fencer(distance=self.distance),) * self.fencers,
            )
        )

    def explore(self) -> int:
        """Visit all reachable states, and return their number. AssertionError has the path to a bad one."""
        return explore(self.start(), self._settled_steps, self.complaint, self.states_max)

    def _settled_steps(self, world: World) -> Iterator[tuple[str, World]]:
        for step, after in self.steps(world):
            yield step, self._settled(after)

    def steps(self, world: World) -> Iterator[tuple[str, World]]:
        there = dict(world.bucket)
        for put in world.sent:
            if put[0] not in there:
                stored = world.stored | {put[0]} if put[1] == DATA else world.stored
                yield f"{put} is applied", world._replace(bucket=world.bucket | {put}, stored=stored)
        for writer in world.writers:
            for slot in range(writer.confirmed, writer.next_slot - _begun(writer.generation, world.sent) - 1, -1):
                raised = world.boundary.raised_to(Place(writer.generation, slot))
                if raised == world.boundary:
                    break
                yield f"the boundary is raised to {raised.place}", world._replace(boundary=raised)
        for index, fencer in enumerate(world.fencers):
            for step, after in self._fencer_steps(index, fencer, world, there):
                fencers = (*world.fencers[:index], after, *world.fencers[index + 1 :])
                yield f"a fencer {step}", world._replace(fencers=fencers)
        free = [put for put in world.bucket if world.boundary.frees(put[0], is_fence=put[0] not in world.stored)]
        for gone in ([put] for put in free) if self.deletes_singly else [free]:
            yield f"{gone} are deleted", world._replace(bucket=world.bucket.difference(gone))

    def _fencer_steps(
        self, index: int, fencer: Fencer, world: World, there: dict[Place, int]
    ) -> Iterator[tuple[str, Fencer]]:
        step = fencer.step
        if step in {Step.READ_BOUNDARY, Step.READ_AGAIN}:
            yield f"reads the boundary {world.boundary.place}", fencer.read(world.boundary)
        elif step is Step.LIST:
            listing = {place: owner != DATA for place, owner in there.items() if place >= fencer.place}
            listings = _older(listing) if self.has_old_listings else [listing]
            for after in {fencer.see(seen) for seen in listings}:
                yield f"lists up to {after.place}", after
        elif _is_creating(fencer):
            owner = there.get(fencer.wanted, index)
            if owner != index:
                found = Found.DATA if owner == DATA else Found.FENCE
                yield f"finds {found.name} at {fencer.wanted}", fencer.find(found)

    def _settled(self, world: World) -> World:
        """Return the state after all participants have sent and learned everything, without irrelevant details."""
        sent = set(world.sent)
        fencers, writers = list(world.fencers), list(world.writers)
        for index, fencer in enumerate(fencers):
            while _is_creating(fencer):
                put = (fencer.wanted, index)
                sent.add(put)
                if put not in world.bucket:
                    break
                fencer = fencer.find(Found.OWN)
            owned = {writer.generation for writer in writers}
            if fencer.step is Step.WON and fencer.successor.generation not in owned:
                writers.append(self.writer.owning(fencer.successor, self.in_flight))
            if fencer.step is Step.WON:  # its stop may be deleted at any time now
                world = world._replace(
                    bucket=world.bucket - {put for put in world.bucket if _is_stop(put, index, fencer)}
                )
            fencers[index] = fencer
        for index, writer in enumerate(writers):
            writers[index] = self._settled_writer(
                writer, self.slots if index == 0 else self.successor_slots, sent, world
            )
        return self._reduced(world._replace(sent=frozenset(sent), writers=tuple(writers), fencers=tuple(fencers)))

    @staticmethod
    def _settled_writer(writer: Writer, limit: int, sent: set[Put], world: World) -> Writer:
        generation = writer.generation
        while True:
            slots = [slot for slot in range(writer.confirmed, writer.next_slot) if slot not in writer.stored]
            for slot in slots:
                if Place(generation, slot) in world.stored:
                    writer = writer.store(slot)
            if _begun(generation, sent) == limit or not writer.may_begin:
                return writer
            sent.add((Place(generation, writer.next_slot), DATA))
            writer = writer.begin()

    def _reduced(self, world: World) -> World:
        """Return one representative of the states that differ only in the order of fencers or in invisible details."""
        last = {fence[0] for fence in world.bucket if fence[1] != DATA and fence[0] not in world.stored}
        new_names = {FIRST_OWNER: FIRST_OWNER, DATA: DATA}
        fencers = list(world.fencers)
        for index, fencer in enumerate(fencers):
            if fencer.step in {Step.LOST, Step.WON}:
                new_names[index] = FIRST_OWNER
                fencers[index] = Fencer(fencer.step, place=fencer.place if fencer.step is Step.WON else Place(0, 0))
        puts = {
            index: (
                sorted(put[0] for put in world.bucket if put[1] == index),
                sorted(put[0] for put in world.sent if put[1] == index),
            )
            for index in range(len(fencers))
            if index not in new_names
        }
        order = sorted(puts, key=lambda index: (fencers[index].step.value, fencers[index][1:], puts[index]))
        others = [index for index in range(len(fencers)) if index not in puts]
        others.sort(key=lambda index: (fencers[index].step.value, fencers[index].place))
        new_names |= {old: new for new, old in enumerate(order)}
        sent = frozenset(
            (place, new_names[owner])
            for place, owner in world.sent
            if owner == DATA or (place not in last and (self.has_late_fences or self._waits_for((place, owner), world)))
        )
        bucket = frozenset((place, new_names[owner]) for place, owner in world.bucket)
        return world._replace(bucket=bucket, sent=sent, fencers=tuple(fencers[index] for index in (*order, *others)))

    @staticmethod
    def _waits_for(put: Put, world: World) -> bool:
        if put[1] == FIRST_OWNER:
            return False
        fencer = world.fencers[put[1]]
        return _is_creating(fencer) and fencer.wanted == put[0]

    def complaint(self, world: World) -> str | None:
        """Return the broken rule of a state; None if it is good."""
        fences: dict[int, Place] = {}
        for fencer in world.fencers:
            if fencer.step is Step.WON:
                if fencer.place.generation in fences:
                    return f"two winners of generation {fencer.place.generation}"
                fences[fencer.place.generation] = fencer.place
        listing = {place: owner != DATA for place, owner in world.bucket}
        if fences:
            end = max(fences.values())
            try:
                found = set(data_places(world.boundary, end, listing)) if world.boundary.place < end else set()
            except BrokenLogError as error:
                return f"a hole before {end}: {error}"
        for writer in world.writers:
            fence = fences.get(writer.generation)
            if fence is not None and writer.confirmed > fence.slot:
                return f"slot {writer.confirmed - 1} was acknowledged, and the generation ends at {fence}"
            for place in world.stored:
                if place.generation != writer.generation or place.slot >= writer.confirmed:
                    continue
                if place >= world.boundary.place and listing.get(place) is not False:
                    return f"{place} was acknowledged, and is not there"
                if fences and world.boundary.place <= place <= end and place not in found:
                    return f"{place} was acknowledged, and its successor does not find it"
        return None


def _is_stop(put: Put, index: int, fencer: Fencer) -> bool:
    place, owner = put
    return owner == index and place.generation == fencer.place.generation and place.slot > fencer.place.slot


def _is_creating(fencer: Fencer) -> bool:
    return fencer.step in {Step.STOP, Step.WALK}


def _begun(generation: int, sent: AbstractSet[Put]) -> int:
    return sum(place.generation == generation for place, owner in sent if owner == DATA)


def _older(listing: dict[Place, bool]) -> Iterator[dict[Place, bool]]:
    """Return the listing, and all that lack its objects after some place."""
    places = sorted(listing)
    for end in range(len(places) + 1):
        yield {place: listing[place] for place in places[:end]}
