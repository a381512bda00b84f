"""A log of slots in a bucket that one owner writes, and how its successor ends it.

Rules of this file: values only, no I/O, no threads, no time: a caller does what a value wants and tells it the result.
It rests on one thing that a store does: of all who create an object at a place, one succeeds.

    <log>/<generation>/<slot>   created only; slots count through all generations, without a gap up to what is confirmed
    <log>/boundary              replaced only; what lies in front of it may be deleted at any time

* Only the owner of a generation creates data in it, several at once. A slot is confirmed when it and all before it
  are stored; only what is confirmed is acknowledged, shown or counted on (`Writer`).
* Who wants a generation to end first creates a *stop* some slots behind the first absent one, because on a fast store
  a live writer is always ahead of a fencer that tries slot after slot. Then it walks from the first absent slot on:
  data is stepped over; where nothing is, it creates a *fence*. Stop and fence are the same kind of object: the lowest
  one counts, and its maker owns the next generation, which begins in the slot behind it (`Fencer`).
* Creating an object only where none is forgets what was deleted. So a fence is never deleted, data only when the
  boundary was raised first, and a fencer reads the boundary again at the end. If it has not moved, nothing that the
  fencer looked at was ever deleted; else it has lost. To compare it with the fence would not do: a PUT of another
  fencer, applied late, may have made a fence where data was deleted, in a generation that goes on. A fencer that has
  won may delete its stop behind its fence: that one counted for nothing.
* An owner that meets another's object at a slot of its own is over: nothing from there on was or will be acknowledged.
* Generation 0 is empty, and its slot 0 a fence: the first owner of all comes as every other one does.

Slots count on over generations, so that one number orders all commits of a log and a fence needs to say nothing but
whose it is. A takeover may end anywhere: a generation in which nothing was written is fenced in its turn.
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
"""Slots that are begun and not confirmed, unless the owner says otherwise."""
STOP_DISTANCE = IN_FLIGHT_MAX
"""How far behind the first absent slot a stop is tried first: a writer fills so many in one round trip."""

_NAME = re.compile(r"([0-9]{20})/([0-9]{20})")
_NUMBER_MAX = (1 << 64) - 1
_BOUNDARY = struct.Struct("<4sQQ")
_SUM = struct.Struct("<I")
_BOUNDARY_MAGIC = b"PBBO"


class BrokenLogError(Exception):
    """A log lacks what it must have: to go on would lose what was acknowledged."""


class Place(NamedTuple):
    """A slot of a generation; places sort as the names of their objects do."""

    generation: int
    slot: int


def slot_name(log: str, place: Place) -> str:
    """The name of the object in a slot."""
    return f"{log}/{place.generation:020d}/{place.slot:020d}"


def place_of(log: str, name: str) -> Place | None:
    """The place of the object in a slot of a log; None for other names, as a stranger's copy of the log has."""
    match = _NAME.fullmatch(name.removeprefix(f"{log}/"))
    place = None if match is None else Place(int(match[1]), int(match[2]))
    return None if place is None or max(place) >= _NUMBER_MAX or name != slot_name(log, place) else place


def boundary_name(log: str) -> str:
    """The name of the object that says where a log begins."""
    return f"{log}/boundary"


class Boundary(NamedTuple):
    """Where a log begins: what lies in front of it may be deleted at any time, but for fences."""

    place: Place = Place(0, 0)

    def raised_to(self, place: Place) -> "Boundary":
        """The boundary behind which an owner has confirmed and archived everything; it never goes back."""
        return self._replace(place=max(self.place, place))

    def frees(self, place: Place, *, is_fence: bool) -> bool:
        """Whether the object at a place may be deleted once this boundary is stored."""
        return place < self.place and not is_fence

    def encode(self) -> bytes:
        """Its object; no content ever comes back, because it only rises."""
        data = _BOUNDARY.pack(_BOUNDARY_MAGIC, *self.place)
        return data + _SUM.pack(crc32c(data))

    @classmethod
    def decode(cls, data: bytes | bytearray | memoryview) -> "Boundary":
        """The boundary that an object says; raises BrokenLogError."""
        if len(data) != _BOUNDARY.size + _SUM.size or _SUM.unpack_from(data, _BOUNDARY.size)[0] != crc32c(
            data[: _BOUNDARY.size]
        ):
            raise BrokenLogError("the boundary of the log is damaged")
        magic, generation, slot = _BOUNDARY.unpack_from(data)
        if magic != _BOUNDARY_MAGIC:
            raise BrokenLogError("the boundary of the log is something else")
        return cls(Place(generation, slot))


class Writer(NamedTuple):
    """What the owner of a generation has begun and knows to be stored.

    Attributes:
        next_slot: the one that is begun next.
        confirmed: all slots in front of it are stored.
        stored: slots behind it that are stored too.
        in_flight_max: so many are begun and not confirmed, at most.
        fence: the lowest slot where another's object was met; None while there was none.
    """

    generation: int
    next_slot: int
    confirmed: int
    in_flight_max: int = IN_FLIGHT_MAX
    stored: frozenset[int] = frozenset()
    fence: int | None = None

    @classmethod
    def owning(cls, first: Place, in_flight_max: int = IN_FLIGHT_MAX) -> "Writer":
        """The owner of a generation, which begins at this place."""
        return cls(first.generation, first.slot, first.slot, in_flight_max)

    @property
    def is_over(self) -> bool:
        """Another one owns what follows."""
        return self.fence is not None

    @property
    def may_begin(self) -> bool:
        """Whether a further slot may be begun now."""
        return self.fence is None and self.next_slot - self.confirmed < self.in_flight_max

    def is_in_flight(self, slot: int) -> bool:
        """Whether the slot was begun, and its object is not known to be stored."""
        return self.confirmed <= slot < self.next_slot and slot not in self.stored

    def begin(self) -> "Writer":
        """Begin `next_slot`."""
        assert self.may_begin, "asked before"
        return self._replace(next_slot=self.next_slot + 1)

    def store(self, slot: int) -> "Writer":
        """Take note that the object of a slot is stored and is the owner's."""
        assert self.is_in_flight(slot), "each slot is judged once"
        stored, confirmed = self.stored | {slot}, self.confirmed
        while confirmed in stored:
            confirmed += 1
        return self._replace(confirmed=confirmed, stored=frozenset(one for one in stored if one > confirmed))

    def meet(self, slot: int) -> "Writer":
        """Take note that another's object is in a slot of the owner's."""
        assert self.is_in_flight(slot), "each slot is judged once"
        return self._replace(fence=slot if self.fence is None else min(slot, self.fence))

    def is_lost(self, slot: int) -> bool:
        """Whether the slot will never be confirmed."""
        return self.fence is not None and slot >= self.fence


class Step(enum.Enum):
    """What a fencer does next."""

    READ_BOUNDARY = enum.auto()
    """Read the boundary, and say what it is by `read`."""
    LIST = enum.auto()
    """List from `place` on, and say what is there by `see`."""
    STOP = enum.auto()
    """Create a fence at `wanted`, and say what is there then by `find`."""
    WALK = enum.auto()
    """The same."""
    READ_AGAIN = enum.auto()
    """As the first."""
    WON = enum.auto()
    """The generation ends at `place`, and the fencer owns the next one, which begins at `successor`."""
    LOST = enum.auto()
    """The fencer owns nothing: another one may, or the owner wrote on meanwhile. A further try begins anew."""


class Found(enum.Enum):
    """What is at a place after a fencer tried to create a fence there."""

    OWN = enum.auto()
    DATA = enum.auto()
    FENCE = enum.auto()
    """Of another fencer."""


class Fencer(NamedTuple):
    """One try to end the generation that is alive.

    Attributes:
        boundary: where the log began at first.
        place: the first one that is not known to hold data.
        distance: how far behind it a stop is tried.
        has_stop: there is a fence somewhere behind, so that the walk ends.
    """

    step: Step = Step.READ_BOUNDARY
    boundary: Boundary = Boundary()
    place: Place = Place(0, 0)
    distance: int = STOP_DISTANCE
    has_stop: bool = False

    @property
    def wanted(self) -> Place:
        """Where a fence is to be created."""
        generation, slot = self.place
        return Place(generation, slot + self.distance) if self.step is Step.STOP else self.place

    @property
    def successor(self) -> Place:
        """Where the next generation begins."""
        return _behind_fence(self.place)

    def read(self, boundary: Boundary) -> "Fencer":
        """Take note of the boundary."""
        if self.step is Step.READ_BOUNDARY:
            return self._replace(step=Step.LIST, boundary=boundary, place=boundary.place)
        assert self.step is Step.READ_AGAIN, "not asked for"
        return self._replace(step=Step.WON if boundary == self.boundary else Step.LOST)

    def see(self, listing: Mapping[Place, bool]) -> "Fencer":
        """Take note of a listing from `place` on: which places hold something, and whether that is a fence.

        What the listing lacks or has too much makes the way longer, not wrong.
        """
        assert self.step is Step.LIST, "not asked for"
        place = self.place
        while (is_fence := listing.get(place)) is not None:
            if not is_fence:
                place = Place(place.generation, place.slot + 1)
            elif not self.has_stop:
                place = _behind_fence(place)
            else:
                break  # its own stop, or the fence of another one
        return self._replace(step=Step.WALK if self.has_stop else Step.STOP, place=place)

    def find(self, found: Found) -> "Fencer":
        """Take note of what is at `wanted`."""
        return _AFTER[self.step, found](self)


def _behind_fence(place: Place) -> Place:
    return Place(place.generation + 1, place.slot + 1)


def _walk(fencer: Fencer) -> Fencer:
    return fencer._replace(step=Step.WALK, has_stop=True)


def _go_farther(fencer: Fencer) -> Fencer:
    return fencer._replace(distance=2 * fencer.distance)


def _step_over(fencer: Fencer) -> Fencer:
    generation, slot = fencer.place
    return fencer._replace(step=Step.LIST, place=Place(generation, slot + 1))


def _check_boundary(fencer: Fencer) -> Fencer:
    return fencer._replace(step=Step.READ_AGAIN)


def _lose(fencer: Fencer) -> Fencer:
    return fencer._replace(step=Step.LOST)


_AFTER: Mapping[tuple[Step, Found], Callable[[Fencer], Fencer]] = {
    (Step.STOP, Found.OWN): _walk,
    (Step.STOP, Found.FENCE): _walk,
    (Step.STOP, Found.DATA): _go_farther,
    (Step.WALK, Found.OWN): _check_boundary,
    (Step.WALK, Found.DATA): _step_over,
    (Step.WALK, Found.FENCE): _lose,
}
"""What a fencer does next, by what it does and what it finds; all else is a caller's mistake."""


def data_places(boundary: Boundary, end: Place, listing: Mapping[Place, bool]) -> Iterable[Place]:
    """The places of all data from the boundary to the fence at `end`, in order, as a listing after the fence has them.

    Raises:
        BrokenLogError: a place is empty.
    """
    place = boundary.place
    while place < end:
        is_fence = listing.get(place)
        if is_fence is None:
            raise BrokenLogError(f"slot {place.slot} of generation {place.generation} is missing")
        if is_fence:
            place = _behind_fence(place)
        else:
            yield place
            place = Place(place.generation, place.slot + 1)


def places_so_far(boundary: Place, listing: Mapping[Place, bool]) -> Iterator[Place]:
    """The places of data from a boundary on, over all fences, up to the first that is empty: of a log that lives."""
    place = boundary
    while (is_fence := listing.get(place)) is not None:
        if is_fence:
            place = _behind_fence(place)
        else:
            yield place
            place = Place(place.generation, place.slot + 1)
