"""A writer of a generation's slots: several PUTs at once, confirmed in order."""

import threading
from collections.abc import Sequence

from pipeline_broker.base.buffer import Buffer
from pipeline_broker.files.errors import FencedError
from pipeline_broker.objects.fenced_log import Place, Writer, slot_name
from pipeline_broker.objects.slot import SlotHeader, SlotKind
from pipeline_broker.objects.store import Exists, ObjectStore

__all__ = ["FencedError", "SlotWriter", "WriterStopped"]


class WriterStopped(Exception):
    """The owner stopped writing. Slots that are not confirmed may be stored or not."""


class SlotWriter:
    """The writer of slots that owns a generation. Thread-safe; each slot belongs to one thread of the caller.

    The settled store repeats a PUT until its result is known. So an outage of the store delays commits and fails none.
    One lock guards one value, `Writer`, which decides everything. No PUT is made while the lock is held.

    Args:
        store: settled.
        log: name of the log.
        node: node id of the broker that owns the log.
        nonce: 16 bytes, of the fence that made this broker the owner.
        writer: the state at the start of the generation.
    """

    def __init__(self, store: ObjectStore, log: str, node: int, nonce: bytes, writer: Writer) -> None:
        self._store, self._log, self._node, self._nonce = store, log, node, nonce
        self._writer = writer
        self._is_stopped = False
        self._changed = threading.Condition()

    @property
    def writer(self) -> Writer:
        return self._writer

    def begin(self, kind: SlotKind = SlotKind.DATA) -> SlotHeader:
        """Return the header of the next slot, which the caller must `put`.

        Blocks while too many slots are not confirmed.

        Raises:
            FencedError: another broker owns the log.
            WriterStopped: `stop` was called.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._writer.may_begin or self._writer.is_over or self._is_stopped)
            self._refuse(self._writer.next_slot)
            place = Place(self._writer.generation, self._writer.next_slot)
            self._writer = self._writer.begin()
        return SlotHeader(kind, self._node, *place, self._nonce)

    def put(self, header: SlotHeader, parts: Sequence[Buffer]) -> None:
        """Store the object of a slot that was begun, or record that another broker's object is there.

        Raises:
            ObjectStoreError: the store gave up; the same object may be put again.
        """
        # Without the lock: several PUTs are in flight at the same time.
        try:
            self._store.create(slot_name(self._log, Place(header.generation, header.slot)), parts)
            is_own = True
        except Exists:
            is_own = False
        with self._changed:
            self._writer = self._writer.store(header.slot) if is_own else self._writer.meet(header.slot)
            self._changed.notify_all()

    def wait(self, slot: int) -> None:
        """Wait until a slot and all slots before it are stored.

        Raises:
            FencedError: another broker's object is in one of these slots, so they never will be.
            WriterStopped: `stop` was called before the result was known.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._is_decided(slot) or self._is_stopped)
            self._refuse(slot)

    def stop(self) -> None:
        """Reject all later slots, and release the waiting threads. Confirmed slots stay confirmed."""
        with self._changed:
            self._is_stopped = True
            self._changed.notify_all()

    def _is_decided(self, slot: int) -> bool:
        return slot < self._writer.confirmed or self._writer.is_lost(slot)

    def _refuse(self, slot: int) -> None:
        # Confirmed slots were acknowledged, whatever happened since.
        if slot < self._writer.confirmed:
            return
        if self._writer.is_lost(slot):
            raise FencedError(f"another broker took over as generation {self._writer.generation + 1}")
        if self._is_stopped:
            raise WriterStopped("this broker has stopped writing the log")
