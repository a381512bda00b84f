"""Fencing carried out: what a `Fencer` wants, done in a store.

Rules of this file: the store is settled (`settled_store`); where that gives up, a step may be made again. Each try has
a nonce of its own, by which it knows its fences.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import NamedTuple

from pipeline_broker.objects.boundary import read_boundary
from pipeline_broker.objects.fenced_log import BrokenLogError, Fencer, Found, Place, Step, place_of, slot_name
from pipeline_broker.objects.slot import (
    FENCE_SIZE,
    HEADER_SIZE,
    DamagedSlotError,
    SlotHeader,
    SlotKind,
    encode_slot,
    read_header,
)
from pipeline_broker.objects.store import Exists, Missing, ObjectStore, ObjectStoreError, list_all

__all__ = ["Fencing", "Ownership", "TakeoverError", "list_places", "take_over"]

TRIES_MAX = 20
"""A try that is lost has met another fencer, or an owner that raised the boundary meanwhile."""


class TakeoverError(Exception):
    """Others take the log over again and again."""


class Ownership(NamedTuple):
    """What the owner of a generation has won.

    Attributes:
        fence: where the generation before it ends.
        nonce: of its fence, and of what it writes.
    """

    fence: Place
    nonce: bytes

    @property
    def first(self) -> Place:
        """Where its own generation begins."""
        return Place(self.fence.generation + 1, self.fence.slot + 1)


def take_over(store: ObjectStore, log: str, node: int, new_nonce: Callable[[], bytes]) -> Ownership:
    """End the generation of a log that is alive, and own the next one.

    Args:
        store: settled.
        log: its name.
        node: of the broker that wants to go on with it.
        new_nonce: 16 bytes that no other call gives, in any process.

    Raises:
        TakeoverError: it lost every try.
        BrokenLogError: the boundary of the log is damaged, or an object in it is not a slot.
    """
    for _ in range(TRIES_MAX):
        nonce = new_nonce()
        fencing = Fencing(store, log, node, nonce)
        fencer = fencing.run()
        if fencer.step is Step.WON:
            fencing.remove_stop()
            return Ownership(fencer.place, nonce)
    raise TakeoverError(f"other brokers take over {log} again and again")


class Fencing:
    """One try to end the generation of a log that is alive.

    Args:
        store: settled.
        log: its name.
        node: of the broker that wants to go on with it.
        nonce: of this try alone, 16 bytes.

    Attributes:
        fencer: how far it has come.
    """

    def __init__(self, store: ObjectStore, log: str, node: int, nonce: bytes) -> None:
        self.fencer = Fencer()
        self._stop: Place | None = None
        self._store, self._log, self._node, self._nonce = store, log, node, nonce

    def run(self) -> Fencer:
        """Go on until it has won or lost; see `Fencer.successor`."""
        while self.fencer.step not in {Step.WON, Step.LOST}:
            self.step()
        return self.fencer

    def step(self) -> None:
        """Do the one thing that comes next; may be called again when the store gave up."""
        fencer = self.fencer
        if fencer.step in {Step.READ_BOUNDARY, Step.READ_AGAIN}:
            self.fencer = fencer.read(read_boundary(self._store, self._log))
        elif fencer.step is Step.LIST:
            self.fencer = fencer.see(list_places(self._store, self._log, fencer.place))
        else:
            found = self._create(fencer.wanted)
            if found is not None:
                self.fencer = fencer.find(found)
            if found is Found.OWN and fencer.step is Step.STOP:
                self._stop = fencer.wanted

    def remove_stop(self) -> None:
        """Delete the own stop, which is behind the fence that won: the lowest one counts, and that stays."""
        assert self.fencer.step is Step.WON, "asked before"
        if self._stop is not None and self._stop != self.fencer.place:
            with suppress(ObjectStoreError):  # it does no harm
                self._store.delete([slot_name(self._log, self._stop)])

    def _create(self, place: Place) -> Found | None:
        """What is at a place after a try to create a fence there; None where that was deleted meanwhile."""
        name = slot_name(self._log, place)
        header = SlotHeader(SlotKind.FENCE, self._node, *place, self._nonce)
        try:
            self._store.create(name, encode_slot(header, ()).parts)
        except Exists:
            try:
                there = read_header(self._store.read(name, 0, HEADER_SIZE).data)
            except Missing:
                return None
            except DamagedSlotError as error:
                raise BrokenLogError(
                    f"the object {name} is not a slot: {error}; move it away if it is not ours"
                ) from None
            return Found.FENCE if there.kind is SlotKind.FENCE else Found.DATA
        return Found.OWN


def list_places(store: ObjectStore, log: str, first: Place) -> Mapping[Place, bool]:
    """Which places of a log hold something, from one on, and whether that is a fence."""
    listing: dict[Place, bool] = {}
    before = slot_name(log, first)[:-1]  # sorts in front of the name, and of at most nine earlier ones
    for name, size_bytes in list_all(store, f"{log}/", before):
        place = place_of(log, name)
        if place is not None and place >= first:
            listing[place] = size_bytes == FENCE_SIZE
    return listing
