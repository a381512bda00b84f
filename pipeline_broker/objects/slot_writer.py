"""Slots written by the owner of a generation: several PUTs at once, confirmed in order.

Rules of this file: it has no threads; `begin`, `put` and `wait` are called by those of the caller, each slot by one of
them. The store is settled (`settled_store`): a PUT is repeated until it is known what became of it, so an outage of the
store is an obstacle and no failure. One lock guards one value, `Writer`, which decides; no PUT is made under it.
"""

import threading
from collections.abc import Sequence

from pipeline_broker.files.errors import FencedError
from pipeline_broker.files.file_system import Buffer
from pipeline_broker.objects.fenced_log import Place, Writer, slot_name
from pipeline_broker.objects.slot import SlotHeader, SlotKind
from pipeline_broker.objects.store import Exists, ObjectStore

__all__ = ["FencedError", "SlotWriter", "WriterStopped"]


class WriterStopped(Exception):
    """The owner gives the log up: it is not known whether what was not confirmed is stored."""


class SlotWriter:
    """See the rules of the file.

    Args:
        store: settled.
        log: its name.
        node: of the broker that owns it.
        nonce: of the fence that made it the owner, 16 bytes.
        writer: begins where the generation does.
    """

    def __init__(self, store: ObjectStore, log: str, node: int, nonce: bytes, writer: Writer) -> None:
        self._store, self._log, self._node, self._nonce = store, log, node, nonce
        self._writer = writer
        self._is_stopped = False
        self._changed = threading.Condition()

    @property
    def writer(self) -> Writer:
        """How far it has come; any thread may look."""
        return self._writer

    def begin(self, kind: SlotKind = SlotKind.DATA) -> SlotHeader:
        """Take the next slot, which must be put then; waits while too many are not confirmed.

        Raises:
            FencedError, WriterStopped: there is no next slot.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._writer.may_begin or self._writer.is_over or self._is_stopped)
            self._refuse(self._writer.next_slot)
            place = Place(self._writer.generation, self._writer.next_slot)
            self._writer = self._writer.begin()
        return SlotHeader(kind, self._node, *place, self._nonce)

    def put(self, header: SlotHeader, parts: Sequence[Buffer]) -> None:
        """Store the object of a slot that was begun, or learn that another one's is there.

        Raises:
            ObjectStoreError: the store gave up; the same may be put again.
        """
        try:
            self._store.create(slot_name(self._log, Place(header.generation, header.slot)), parts)
            is_own = True
        except Exists:
            is_own = False
        with self._changed:
            self._writer = self._writer.store(header.slot) if is_own else self._writer.meet(header.slot)
            self._changed.notify_all()

    def wait(self, slot: int) -> None:
        """Return when a slot and all in front of it are stored.

        Raises:
            FencedError: they never will be.
            WriterStopped: that is not known, and not waited for any more.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._is_decided(slot) or self._is_stopped)
            self._refuse(slot)

    def stop(self) -> None:
        """Nothing is begun and waited for any more; what is confirmed stays so."""
        with self._changed:
            self._is_stopped = True
            self._changed.notify_all()

    def _is_decided(self, slot: int) -> bool:
        return slot < self._writer.confirmed or self._writer.is_lost(slot)

    def _refuse(self, slot: int) -> None:
        if slot < self._writer.confirmed:
            return
        if self._writer.is_lost(slot):
            raise FencedError(f"another broker took over as generation {self._writer.generation + 1}")
        if self._is_stopped:
            raise WriterStopped("the log is given up")
