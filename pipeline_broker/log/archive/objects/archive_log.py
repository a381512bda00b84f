"""What counts of an archive in a bucket: where its files are and what its manifest says, in a log of slots.

Rules of this file: a commit is a slot of the log `files/<node>` (`objects/fenced_log`), so it counts wholly or not at
all, and not any more when another process has taken the node over: then it is a FencedError, and this one is over. Each
start takes the log over, also from a process of its own node that still runs, and reads it from the last snapshot on.
Every so many slots are summed up in a further one, and what lies in front of that goes.

A commit waits for the bucket as long as its store does, because one that was given up might count later. What a slot
holds: changes of the map (`file_map`) under one key, an edit (`manifest`) under another, and a snapshot both.
"""

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
"""So many slots are read by a start, at most, and one more."""
FILES_KEY, MANIFEST_KEY = b"files", b"manifest"


def log_name(node: int) -> str:
    """The log of a node's archive in its store."""
    return f"files/{node}"


class ArchiveState:
    """What the slots of a log say, one after the other.

    Attributes:
        files: where the files are.
        manifest: what of them counts.
    """

    def __init__(self) -> None:
        self.files = FileMap()
        self.manifest = Manifest()

    def apply(self, slot: ReadSlot) -> None:
        """Take over a slot.

        Raises:
            ManifestDamaged: it holds something else.
        """
        if slot.contents.header.kind is SlotKind.SNAPSHOT:
            self.files, self.manifest = FileMap(), Manifest()
        for entry in slot.contents.entries:
            data = bytes(slot.data[entry.position : entry.position + entry.size_bytes])
            if entry.key == FILES_KEY:
                try:
                    self.files.apply(*decode_changes(data))
                except DamagedMapError as error:
                    raise ManifestDamaged(f"slot {slot.place.slot} of the archive: {error}") from error
            elif entry.key != MANIFEST_KEY or (edit := decode_frame(data, 0)) is None:
                raise ManifestDamaged(f"slot {slot.place.slot} of the archive holds something else than an edit")
            else:
                self.manifest.apply(edit)

    def as_entries(self) -> list[SlotEntry]:
        """The entries of a snapshot."""
        return [
            _entry(FILES_KEY, encode_changes(self.files.as_changes(), self.files.object_sizes)),
            _entry(MANIFEST_KEY, encode_frame(self.manifest.as_edit())),
        ]


def read_state(store: ObjectStore, node: int) -> tuple[ArchiveState, list[ReadSlot]]:
    """What the log of a node says now, and the slots that say so; its owner goes on meanwhile.

    Args:
        store: settled.

    Raises:
        BrokenLogError: a slot is missing or damaged, perhaps because its owner has summed it up just now.
        ManifestDamaged: one holds something else.
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


def _state_in_front_of(store: ObjectStore, name: str, fence: Place) -> ArchiveState:
    """What the log says up to the fence of its successor, while its predecessor may still delete what it has summed up.

    Raises:
        BrokenLogError: a slot is missing or damaged.
        ManifestDamaged: one holds something else.
    """
    boundary = read_boundary(store, name)
    while True:
        state = ArchiveState()
        try:
            places = data_places(boundary, fence, list_places(store, name, boundary.place))
            for slot in SlotReader(store, name).whole(places):
                state.apply(slot)
        except BrokenLogError:
            raised = read_boundary(store, name)
            if raised == boundary:
                raise
            boundary = raised
        else:
            return state


class ArchiveLog:
    """See the rules of the file, and FileLog and ManifestLog; any thread may commit.

    Args:
        store: settled; waits for its bucket as long as a commit may.
        name: of the log.
        writer: owns its last generation, in which nothing was written.
        state: what the log says.
    """

    def __init__(self, store: ObjectStore, name: str, writer: SlotWriter, state: ArchiveState) -> None:
        self._store = store
        self._name = name
        self._writer = writer
        self._state = state
        self._committing = threading.Lock()
        self._slots_since_snapshot = 0
        self._freed_to = Place(0, 0)

    @classmethod
    def take_over(
        cls, opening: ObjectStore, store: ObjectStore, node: int, new_nonce: Callable[[], bytes]
    ) -> "ArchiveLog":
        """End the life of whoever had the log, and read it.

        Args:
            opening: settled; does what a start does, which does not wait for long.
            store: the same for what comes later.
            node: whose archive it is.
            new_nonce: see `fencing.take_over`.

        Raises:
            TakeoverError: others take it over again and again.
            ManifestDamaged: it cannot be read.
            ObjectStoreError: the bucket does not answer.
        """
        name = log_name(node)
        try:
            ownership = take_over(opening, name, node, new_nonce)
            state = _state_in_front_of(opening, name, ownership.fence)
        except BrokenLogError as error:
            raise ManifestDamaged(f"the archive in the store is damaged: {error}") from error
        writer = SlotWriter(store, name, node, ownership.nonce, Writer.owning(ownership.first))
        log = cls(store, name, writer, state)
        summed_up = log._put_snapshot()
        with suppress(ObjectStoreError):  # a predecessor that stands still may keep it; the next snapshot does the same
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
        """Nothing: what the log says is durable and in one piece, however its writer has ended."""
        return ManifestEnd()

    @property
    def generation(self) -> int:
        """Unlike that of every other life of a broker on this log."""
        return self._writer.writer.generation

    def make_durable(self) -> None:
        """It is."""

    def commit_files(self, changes: Sequence[Change], object_sizes: Mapping[str, int]) -> list[str]:
        """See FileLog; raises FencedError where another process has taken over."""
        with self._committing:
            self._put([_entry(FILES_KEY, encode_changes(changes, object_sizes))])
            unused = self._state.files.apply(changes, object_sizes)
            self._sum_up_in_time()
        return unused

    def commit(self, edit: Edit) -> None:
        """Make an edit durable, then part of `manifest`; raises FencedError where another process has taken over."""
        with self._committing:
            self._put([_entry(MANIFEST_KEY, encode_frame(edit))])
            self._state.manifest.apply(edit)
            self._sum_up_in_time()

    def close(self) -> None:
        """Commit nothing any more."""
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
        """Have the log begin there, and delete what lies in front; the first time also what others have left."""
        boundary = raise_boundary(store, self._name, place)
        trim(store, self._name, boundary, self._freed_to)
        self._freed_to = boundary.place


def _entry(key: bytes, data: bytes) -> SlotEntry:
    return SlotEntry(key, b"", (data,), len(data))
