"""The log of an archive in an object store: file map and manifest, as slots of a fenced log."""

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from pipeline_broker.log.archive.manifest import Edit, Manifest, decode_frame, encode_frame
from pipeline_broker.log.archive.objects.file_map import (
    Change,
    DamagedMapError,
    FileMap,
    decode_changes,
    encode_changes,
)
from pipeline_broker.log.errors import ManifestDamaged
from pipeline_broker.log.journal.clean_shutdown import ManifestEnd
from pipeline_broker.objects.boundary import raise_boundary, read_boundary, trim
from pipeline_broker.objects.fenced_log import BrokenLogError, Place, Writer, data_places, places_so_far
from pipeline_broker.objects.fencing import list_places, take_over
from pipeline_broker.objects.slot import SlotEntry, SlotKind, encode_slot
from pipeline_broker.objects.slot_reader import ReadSlot, SlotReader
from pipeline_broker.objects.slot_writer import SlotWriter
from pipeline_broker.objects.store import ObjectStore, ObjectStoreError

__all__ = ["ArchiveLog", "ArchiveState", "log_name", "read_state"]

SNAPSHOT_SLOTS = 64
"""Slots between two snapshots. Startup reads at most one more than that."""
FILES_KEY, MANIFEST_KEY = b"files", b"manifest"


def log_name(node: int) -> str:
    return f"files/{node}"


class ArchiveState:
    """The sum of the slots of an archive log.

    Attributes:
        files: ranges of objects for each file.
        manifest: the archive's manifest.
    """

    def __init__(self) -> None:
        self.files = FileMap()
        self.manifest = Manifest()

    def apply(self, slot: ReadSlot) -> None:
        """Apply one slot, in slot order.

        Raises:
            ManifestDamaged: the content of the slot is unknown or damaged.
        """
        if slot.contents.header.kind is SlotKind.SNAPSHOT:
            # A snapshot replaces everything before it.
            self.files, self.manifest = FileMap(), Manifest()
        for entry in slot.contents.entries:
            data = bytes(slot.data[entry.position : entry.position + entry.size_bytes])
            if entry.key == FILES_KEY:
                try:
                    self.files.apply(*decode_changes(data))
                except DamagedMapError as error:
                    raise ManifestDamaged(f"slot {slot.place.slot} of the archive: {error}") from error
            elif entry.key != MANIFEST_KEY or (edit := decode_frame(data, 0)) is None:
                raise ManifestDamaged(f"slot {slot.place.slot} of the archive does not hold an edit")
            else:
                self.manifest.apply(edit)

    def as_entries(self) -> list[SlotEntry]:
        return [
            _entry(FILES_KEY, encode_changes(self.files.as_changes(), self.files.object_sizes)),
            _entry(MANIFEST_KEY, encode_frame(self.manifest.as_edit())),
        ]


def read_state(store: ObjectStore, node: int) -> tuple[ArchiveState, list[ReadSlot]]:
    """Return the state of a node's log, and the slots that it is the sum of. Its owner may write at the same time.

    Args:
        store: a settled store.
        node: id of the broker that owns the archive.

    Raises:
        BrokenLogError: the boundary is damaged, or a slot is missing or damaged, perhaps because the owner has just
            replaced it by a snapshot.
        ManifestDamaged: the content of a slot is unknown or damaged.
        ObjectStoreError: the store does not answer.
    """
    name = log_name(node)
    boundary = read_boundary(store, name)
    places = places_so_far(boundary.place, list_places(store, name, boundary.place))
    slots = list(SlotReader(store, name).whole(places))
    state = ArchiveState()
    for slot in slots:
        state.apply(slot)
    return state, slots


def _state_before(store: ObjectStore, name: str, fence: Place) -> ArchiveState:
    """Read the state up to a successor's fence.

    The predecessor may still delete slots that its snapshots replaced.

    Raises:
        BrokenLogError: a slot is missing or damaged.
        ManifestDamaged: the content of a slot is unknown or damaged.
    """
    boundary = read_boundary(store, name)
    while True:
        state = ArchiveState()
        try:
            places = data_places(boundary, fence, list_places(store, name, boundary.place))
            for slot in SlotReader(store, name).whole(places):
                state.apply(slot)
        except BrokenLogError:
            # If the boundary moved, the missing slots were deleted after a snapshot. Otherwise the log is broken.
            raised = read_boundary(store, name)
            if raised == boundary:
                raise
            boundary = raised
        else:
            return state


class ArchiveLog:
    """The file map and the manifest of one owner; implements `FileLog` and `ManifestLog`. Any thread may commit.

    A commit is one slot. After every SNAPSHOT_SLOTS slots a snapshot follows, and older slots are deleted.

    Args:
        store: a settled store that waits for an outage to end.
        writer: owns the log's last generation, in which it has not written yet.
        state: the current state.
    """

    def __init__(self, store: ObjectStore, name: str, writer: SlotWriter, state: ArchiveState) -> None:
        self._store = store
        self._name = name
        self._writer = writer
        self._state = state
        # Held from a slot's write until it is applied, so that slots are applied in order.
        self._committing = threading.Lock()
        self._slots_since_snapshot = 0
        self._freed_to = Place(0, 0)

    @classmethod
    def take_over(
        cls, opening: ObjectStore, store: ObjectStore, node: int, new_nonce: Callable[[], bytes]
    ) -> "ArchiveLog":
        """Fence any other owner of the log, also a running one, and read the log.

        Writes a snapshot and deletes the slots that it replaces.

        Args:
            opening: a settled store for startup, which gives up soon.
            store: a settled store for later commits.
            node: id of the broker that owns the archive.
            new_nonce: see `fencing.take_over`.

        Raises:
            TakeoverError: other processes kept taking over.
            FencedError: another process took over before the snapshot was stored.
            ManifestDamaged: the log cannot be read.
            ObjectStoreError: the store does not answer.
        """
        name = log_name(node)
        try:
            ownership = take_over(opening, name, node, new_nonce)
            state = _state_before(opening, name, ownership.fence)
        except BrokenLogError as error:
            raise ManifestDamaged(f"the archive in the store is damaged: {error}") from error
        writer = SlotWriter(store, name, node, ownership.nonce, Writer.owning(ownership.first))
        log = cls(store, name, writer, state)
        # The slots of the predecessor can then be deleted, and the next startup reads this one only.
        summed_up = log._put_snapshot()
        with suppress(ObjectStoreError):  # deleting is not urgent: the next snapshot tries again
            log._free(opening, summed_up)
        return log

    @property
    def files(self) -> FileMap:
        return self._state.files

    @property
    def manifest(self) -> Manifest:
        return self._state.manifest

    @property
    def end(self) -> ManifestEnd:
        """The empty end: slots are durable and whole, however their writer ended."""
        return ManifestEnd()

    @property
    def generation(self) -> int:
        """A number that no other owner of this log has."""
        return self._writer.writer.generation

    def make_durable(self) -> None: ...  # all slots that were read are durable

    def commit_files(self, changes: Sequence[Change], object_sizes: Mapping[str, int]) -> list[str]:
        with self._committing:
            self._put([_entry(FILES_KEY, encode_changes(changes, object_sizes))])
            unused = self._state.files.apply(changes, object_sizes)
            self._sum_up_in_time()
        return unused

    def commit(self, edit: Edit) -> None:
        with self._committing:
            self._put([_entry(MANIFEST_KEY, encode_frame(edit))])
            self._state.manifest.apply(edit)
            self._sum_up_in_time()

    def close(self) -> None:
        self._writer.stop()

    def _put(self, entries: Sequence[SlotEntry], kind: SlotKind = SlotKind.DATA) -> Place:
        header = self._writer.begin(kind)
        self._writer.put(header, encode_slot(header, entries).parts)
        self._writer.wait(header.slot)
        self._slots_since_snapshot += 1
        return Place(header.generation, header.slot)

    def _sum_up_in_time(self) -> None:
        if self._slots_since_snapshot >= SNAPSHOT_SLOTS:
            self._free(self._store, self._put_snapshot())

    def _put_snapshot(self) -> Place:
        place = self._put(self._state.as_entries(), SlotKind.SNAPSHOT)
        self._slots_since_snapshot = 0
        return place

    def _free(self, store: ObjectStore, place: Place) -> None:
        """Raise the boundary of the log and delete the slots before it.

        The first call also deletes slots that predecessors left.
        """
        boundary = raise_boundary(store, self._name, place)
        trim(store, self._name, boundary, self._freed_to)
        self._freed_to = boundary.place


def _entry(key: bytes, data: bytes) -> SlotEntry:
    return SlotEntry(key, b"", (data,), len(data))
