"""Fenced logs: how one owner writes a log of slots in an object store, and how its successor ends its generation.

Values only: no I/O, no threads, no clock. Callers do what a value asks for, and pass the result back. The protocol
needs one guarantee of the store: of all requests that create an object with the same name, one succeeds.

    <log>/<generation>/<slot>   only ever created; slots count through all generations, without gaps up to the confirmed
    <log>/boundary              only ever replaced; everything before it may be deleted at any time

* Only the owner of a generation creates data in it, several slots at once. A slot is confirmed once it and all slots
  before it are stored. Only confirmed slots are acknowledged, shown or relied on (`Writer`).
* A fencer that wants to end a generation first creates a *stop* some slots after the first empty one. Then it walks
  from the first empty slot: it steps over data, and creates a *fence* in an empty slot. Stop and fence are the same
  kind of object. The lowest one counts, and its creator owns the next generation, which starts in the slot after it
  (`Fencer`). Without the stop, a live owner of a fast store would always be ahead of the walk.
* A conditional create cannot see deleted objects. So fences are never deleted, and data only after the boundary was
  raised. The fencer reads the boundary again at the end. If it is unchanged, no object that the fencer relied on was
  deleted; otherwise the fencer has lost.
* Comparing the boundary with the fence is not enough. A late PUT of another fencer may have created a fence where data
  was deleted, in a generation that is still alive.
* A fencer that has won may delete its own stop after its fence, because that one never counted.
* An owner that finds another broker's object in one of its slots is fenced. That slot and all later ones were not and
  will not be acknowledged.
* Generation 0 is empty, and its slot 0 is a fence. So the first owner takes over like any other.

Slots continue counting across generations. So one number orders all commits of a log, and a fence only has to say who
created it. A takeover may fail at any point: a generation in which nothing was written is fenced like any other.
"""

import enum
import re
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from pipeline_broker.records.checksum import crc32c

__all__ = [
    "IN_FLIGHT_MAX",
    "Boundary",
    "BrokenLogError",
    "Fencer",
    "Found",
    "Place",
    "Step",
    "Writer",
    "boundary_name",
    "data_places",
    "place_of",
    "places_so_far",
    "slot_name",
]

IN_FLIGHT_MAX = 16
"""Default limit of the slots that an owner has begun and not confirmed."""
# First distance of a stop from the first empty slot. An owner fills up to IN_FLIGHT_MAX slots in one round trip, so a
# smaller distance would usually meet data.
STOP_DISTANCE = IN_FLIGHT_MAX

_NAME = re.compile(r"([0-9]{20})/([0-9]{20})")
_NUMBER_MAX = (1 << 64) - 1
_BOUNDARY = struct.Struct("<4sQQ")
_SUM = struct.Struct("<I")
_BOUNDARY_MAGIC = b"PBBO"


class BrokenLogError(Exception):
    """A log lacks data that it must have. Continuing would lose acknowledged records."""


class Place(NamedTuple):
    """A slot of a generation. Places sort like the names of their objects."""

    generation: int
    slot: int


def slot_name(log: str, place: Place) -> str:
    return f"{log}/{place.generation:020d}/{place.slot:020d}"


def place_of(log: str, name: str) -> Place | None:
    """Return the place that an object's name stands for; None if the name is not that of a slot."""
    match = _NAME.fullmatch(name.removeprefix(f"{log}/"))
    place = None if match is None else Place(int(match[1]), int(match[2]))
    # The name must be exactly the one that `slot_name` gives: a copy of the log below another prefix must not match.
    return None if place is None or max(place) >= _NUMBER_MAX or name != slot_name(log, place) else place


def boundary_name(log: str) -> str:
    return f"{log}/boundary"


class Boundary(NamedTuple):
    """The first place of a log. Everything before it may be deleted at any time, except fences."""

    place: Place = Place(0, 0)

    def raised_to(self, place: Place) -> "Boundary":
        """Return the boundary raised to `place`, never lowered.

        Args:
            place: all data before it is confirmed and archived.
        """
        return self._replace(place=max(self.place, place))

    def frees(self, place: Place, *, is_fence: bool) -> bool:
        """Return whether the object at a place may be deleted once this boundary is stored."""
        # Without its fence, an old generation could be written again: `create` does not know that the fence existed.
        return place < self.place and not is_fence

    def encode(self) -> bytes:
        """Return the content of the boundary object. No content repeats, because the boundary only rises."""
        data = _BOUNDARY.pack(_BOUNDARY_MAGIC, *self.place)
        return data + _SUM.pack(crc32c(data))

    @classmethod
    def decode(cls, data: bytes | bytearray | memoryview) -> "Boundary":
        """Decode the content of the boundary object.

        Raises:
            BrokenLogError: the content is damaged, or of another kind.
        """
        if len(data) != _BOUNDARY.size + _SUM.size or _SUM.unpack_from(data, _BOUNDARY.size)[0] != crc32c(
            data[: _BOUNDARY.size]
        ):
            raise BrokenLogError("the object `boundary` of the log is damaged")
        magic, generation, slot = _BOUNDARY.unpack_from(data)
        if magic != _BOUNDARY_MAGIC:
            raise BrokenLogError("the boundary of the log is an object of another kind")
        return cls(Place(generation, slot))


class Writer(NamedTuple):
    """The slots that the owner of a generation has begun, and those known to be stored.

    Attributes:
        next_slot: the slot to begin next.
        confirmed: all slots before this one are stored.
        stored: slots after `confirmed` that are stored, too.
        in_flight_max: limit of the slots begun and not confirmed.
        fence: the lowest slot in which another broker's object was found; None before that.
    """

    generation: int
    next_slot: int
    confirmed: int
    in_flight_max: int = IN_FLIGHT_MAX
    stored: frozenset[int] = frozenset()
    fence: int | None = None

    @classmethod
    def owning(cls, first: Place, in_flight_max: int = IN_FLIGHT_MAX) -> "Writer":
        """Return the state of a new owner whose generation starts at `first`."""
        return cls(first.generation, first.slot, first.slot, in_flight_max)

    @property
    def is_over(self) -> bool:
        return self.fence is not None

    @property
    def may_begin(self) -> bool:
        return self.fence is None and self.next_slot - self.confirmed < self.in_flight_max

    def is_in_flight(self, slot: int) -> bool:
        """Return whether the slot was begun and its object is not known to be stored."""
        return self.confirmed <= slot < self.next_slot and slot not in self.stored

    def begin(self) -> "Writer":
        assert self.may_begin, "the caller checks `may_begin`"
        return self._replace(next_slot=self.next_slot + 1)

    def store(self, slot: int) -> "Writer":
        """Record that the owner's object of a slot is stored, which may confirm this slot and later ones."""
        assert self.is_in_flight(slot), "a slot has one result"
        stored, confirmed = self.stored | {slot}, self.confirmed
        # PUTs complete in any order. A slot after a hole must not be acknowledged: a fence may still fall into the
        # hole.
        while confirmed in stored:
            confirmed += 1
        return self._replace(confirmed=confirmed, stored=frozenset(slot for slot in stored if slot > confirmed))

    def meet(self, slot: int) -> "Writer":
        """Record that another broker's object was found in one of the owner's slots."""
        assert self.is_in_flight(slot), "a slot has one result"
        # Both a stop and the fence may be found, in any order. The lowest one ends the generation.
        return self._replace(fence=slot if self.fence is None else min(slot, self.fence))

    def is_lost(self, slot: int) -> bool:
        return self.fence is not None and slot >= self.fence


class Step(enum.Enum):
    READ_BOUNDARY = enum.auto()
    """Read the boundary, and pass it to `read`."""
    LIST = enum.auto()
    """List the log starting at `place`, and pass the listing to `see`."""
    STOP = enum.auto()
    """Create a fence at `wanted`, and pass the result to `find`."""
    WALK = enum.auto()
    """Like STOP."""
    READ_AGAIN = enum.auto()
    """Like READ_BOUNDARY."""
    WON = enum.auto()
    """Done: the generation ends at `place`. The fencer owns the next one, which starts at `successor`."""
    LOST = enum.auto()
    """Done: the fencer owns nothing. Another one won, or the owner raised the boundary. A new try may succeed."""


class Found(enum.Enum):
    """The object at a place after a fencer tried to create a fence there."""

    OWN = enum.auto()
    """The fencer's own fence."""
    DATA = enum.auto()
    FENCE = enum.auto()
    """A fence of another fencer."""


class Fencer(NamedTuple):
    """One attempt to end the live generation.

    Attributes:
        boundary: the boundary when the attempt began.
        place: the first place that is not known to hold data.
        distance: number of slots from `place` to the stop.
        has_stop: a fence exists after `place`, so the walk ends.
    """

    step: Step = Step.READ_BOUNDARY
    boundary: Boundary = Boundary()
    place: Place = Place(0, 0)
    distance: int = STOP_DISTANCE
    has_stop: bool = False

    @property
    def wanted(self) -> Place:
        """The place where the fencer must create the next fence."""
        generation, slot = self.place
        return Place(generation, slot + self.distance) if self.step is Step.STOP else self.place

    @property
    def successor(self) -> Place:
        return _after_fence(self.place)

    def read(self, boundary: Boundary) -> "Fencer":
        if self.step is Step.READ_BOUNDARY:
            return self._replace(step=Step.LIST, boundary=boundary, place=boundary.place)
        assert self.step is Step.READ_AGAIN, "the step does not expect this result"
        # If the boundary has moved, data may have been deleted where the fence was created, in the middle of a live
        # generation.
        return self._replace(step=Step.WON if boundary == self.boundary else Step.LOST)

    def see(self, listing: Mapping[Place, bool]) -> "Fencer":
        """Continue with a listing that starts at `place`: the existing places, each with True for a fence.

        A stale or incomplete listing makes the walk longer, not wrong: `create` decides at each place.
        """
        assert self.step is Step.LIST, "the step does not expect this result"
        place = self.place
        while (is_fence := listing.get(place)) is not None:
            if not is_fence:
                place = Place(place.generation, place.slot + 1)
            # Before the stop exists, fences are ends of earlier generations: continue in the last one.
            elif not self.has_stop:
                place = _after_fence(place)
            else:
                break  # the fencer's own stop, or a fence of another one: `find` decides
        return self._replace(step=Step.WALK if self.has_stop else Step.STOP, place=place)

    def find(self, found: Found) -> "Fencer":
        return _TRANSITIONS[self.step, found](self)


def _after_fence(place: Place) -> Place:
    # Slots continue counting across generations.
    return Place(place.generation + 1, place.slot + 1)


def _walk(fencer: Fencer) -> Fencer:
    return fencer._replace(step=Step.WALK, has_stop=True)


def _double_distance(fencer: Fencer) -> Fencer:
    # The live writer has filled the place of the stop. Try farther away, so that a faster writer is fenced, too.
    return fencer._replace(distance=2 * fencer.distance)


def _step_over(fencer: Fencer) -> Fencer:
    generation, slot = fencer.place
    return fencer._replace(step=Step.LIST, place=Place(generation, slot + 1))


def _check_boundary(fencer: Fencer) -> Fencer:
    return fencer._replace(step=Step.READ_AGAIN)


def _lose(fencer: Fencer) -> Fencer:
    return fencer._replace(step=Step.LOST)


# All other combinations are mistakes of the caller, and raise KeyError.
_TRANSITIONS: Mapping[tuple[Step, Found], Callable[[Fencer], Fencer]] = {
    (Step.STOP, Found.OWN): _walk,
    (Step.STOP, Found.FENCE): _walk,
    (Step.STOP, Found.DATA): _double_distance,
    (Step.WALK, Found.OWN): _check_boundary,
    (Step.WALK, Found.DATA): _step_over,
    (Step.WALK, Found.FENCE): _lose,
}


def data_places(boundary: Boundary, end: Place, listing: Mapping[Place, bool]) -> Iterable[Place]:
    """Yield the places of all data between the boundary and the fence at `end`, in order.

    Args:
        end: the fence that ends the log.
        listing: the existing places, each with True for a fence; read after that fence was created.

    Raises:
        BrokenLogError: a place is empty.
    """
    place = boundary.place
    while place < end:
        is_fence = listing.get(place)
        if is_fence is None:
            raise BrokenLogError(f"slot {place.slot} of generation {place.generation} is missing")
        if is_fence:
            place = _after_fence(place)
        else:
            yield place
            place = Place(place.generation, place.slot + 1)


def places_so_far(boundary: Place, listing: Mapping[Place, bool]) -> Iterator[Place]:
    """Yield the places of data from the boundary to the first empty place, across fences, of a log that may grow."""
    place = boundary
    while (is_fence := listing.get(place)) is not None:
        if is_fence:
            place = _after_fence(place)
        else:
            yield place
            place = Place(place.generation, place.slot + 1)
