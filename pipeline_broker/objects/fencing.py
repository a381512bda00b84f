"""Takeovers of fenced logs: the I/O for the decisions of a `Fencer`."""

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

TRIES_MAX = 20  # each lost try has met another fencer, or an owner that raised the boundary


class TakeoverError(Exception):
    pass


class Ownership(NamedTuple):
    """The result of a takeover.

    Attributes:
        fence: the end of the previous generation.
        nonce: identifies the fence and everything that this owner writes.
    """

    fence: Place
    nonce: bytes

    @property
    def first(self) -> Place:
        return Place(self.fence.generation + 1, self.fence.slot + 1)


def take_over(store: ObjectStore, log: str, node: int, new_nonce: Callable[[], bytes]) -> Ownership:
    """End the live generation of a log, and own the next one.

    Args:
        store: settled.
        log: name of the log.
        node: node id of the broker that takes over.
        new_nonce: returns 16 bytes that no other call returns, in any process.

    Raises:
        TakeoverError: all tries were lost.
        BrokenLogError: the boundary of the log is damaged, or an object in the log is not a slot.
        ObjectStoreError: the store does not answer.
    """
    for _ in range(TRIES_MAX):
        # A nonce per try: a fence of an earlier, lost try must count as another fencer's.
        nonce = new_nonce()
        fencing = Fencing(store, log, node, nonce)
        fencer = fencing.run()
        if fencer.step is Step.WON:
            fencing.remove_stop()
            return Ownership(fencer.place, nonce)
    raise TakeoverError(
        f"cannot take over {log}: other brokers took it over {TRIES_MAX} times at the same time. "
        "Stop the other brokers with this store and node.id."
    )


class Fencing:
    """One attempt to end the live generation of a log.

    Args:
        store: settled.
        log: name of the log.
        node: node id of the broker that takes over.
        nonce: 16 bytes, of this attempt alone.

    Attributes:
        fencer: the state of the attempt.
    """

    def __init__(self, store: ObjectStore, log: str, node: int, nonce: bytes) -> None:
        self.fencer = Fencer()
        self._stop: Place | None = None
        self._store, self._log, self._node, self._nonce = store, log, node, nonce

    def run(self) -> Fencer:
        """Step until the attempt is won or lost, and return the final state."""
        while self.fencer.step not in {Step.WON, Step.LOST}:
            self.step()
        return self.fencer

    def step(self) -> None:
        """Do the next step.

        Raises:
            BrokenLogError: the boundary of the log is damaged, or an object in the log is not a slot.
            ObjectStoreError: the store does not answer; the step may be repeated.
        """
        fencer = self.fencer
        if fencer.step in {Step.READ_BOUNDARY, Step.READ_AGAIN}:
            self.fencer = fencer.read(read_boundary(self._store, self._log))
        elif fencer.step is Step.LIST:
            self.fencer = fencer.see(list_places(self._store, self._log, fencer.place))
        else:
            found = self._create(fencer.wanted)
            # Otherwise the object was deleted in between, and the same step is tried again.
            if found is not None:
                self.fencer = fencer.find(found)
            if found is Found.OWN and fencer.step is Step.STOP:
                self._stop = fencer.wanted

    def remove_stop(self) -> None:
        """Delete the fencer's own stop, which lies after the fence that won and does not count. Errors are ignored."""
        assert self.fencer.step is Step.WON, "before that the stop may count"
        if self._stop is not None and self._stop != self.fencer.place:
            with suppress(ObjectStoreError):  # a stop that stays does no harm
                self._store.delete([slot_name(self._log, self._stop)])

    def _create(self, place: Place) -> Found | None:
        """Try to create a fence; return the object that is there now, or None if it was deleted before it was read."""
        name = slot_name(self._log, place)
        header = SlotHeader(SlotKind.FENCE, self._node, *place, self._nonce)
        # `Exists` is never the fencer's own fence, because the settled store has compared the contents.
        try:
            self._store.create(name, encode_slot(header, ()).parts)
        except Exists:
            try:
                existing = read_header(self._store.read(name, 0, HEADER_SIZE).data)
            except Missing:
                return None
            except DamagedSlotError as error:
                raise BrokenLogError(
                    f"the object {name} is not a slot: {error}. Move it away if another program wrote it"
                ) from None
            return Found.FENCE if existing.kind is SlotKind.FENCE else Found.DATA
        return Found.OWN


def list_places(store: ObjectStore, log: str, first: Place) -> Mapping[Place, bool]:
    """List the places of a log starting at `first`, each with True for a fence.

    Raises:
        ObjectStoreError: the store does not answer.
    """
    listing: dict[Place, bool] = {}
    # Without its last digit the name sorts before the wanted one, and before at most nine earlier slots.
    before = slot_name(log, first)[:-1]
    for name, size_bytes in list_all(store, f"{log}/", before):
        place = place_of(log, name)
        if place is not None and place >= first:
            listing[place] = size_bytes == FENCE_SIZE
    return listing
