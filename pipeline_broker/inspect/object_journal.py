"""Verification of a broker's journal in an object store, with the rules of a takeover."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import groupby

from pipeline_broker.base.buffer import Buffer
from pipeline_broker.files.file_system import FileSystem
from pipeline_broker.inspect.entry_check import EntryCheck
from pipeline_broker.inspect.errors import NoDataDirectoryError
from pipeline_broker.inspect.findings import Damage, Finding, GenerationFound, Leftover, SlotFound, Superseded
from pipeline_broker.inspect.stored_archive import Manifests
from pipeline_broker.log.archive.local.archive_place import ArchivePlace
from pipeline_broker.log.journal.frame import ENTRY_OVERHEAD, StoredEntry
from pipeline_broker.log.object_journal.journal_state import journal_name
from pipeline_broker.log.object_journal.object_journal import LSN_BITS, POSITION_BITS, lsn_of
from pipeline_broker.objects.boundary import read_boundary
from pipeline_broker.objects.fenced_log import BrokenLogError, Place, places_so_far, slot_name
from pipeline_broker.objects.fencing import list_places
from pipeline_broker.objects.opening import StoreRefused, open_store
from pipeline_broker.objects.settled_store import SettledStore, pause_briefly
from pipeline_broker.objects.slot_reader import ReadSlot, SlotReader
from pipeline_broker.objects.store import ObjectStore, ObjectStoreError

__all__ = ["ObjectJournalBytes", "ObjectJournalReader", "open_settled"]

SLOT_MASK = (1 << 31) - 1
READS_MAX = 3  # reads of a journal before it counts as damaged: its owner may delete the oldest slots during a read


def open_settled(place: ArchivePlace, files: FileSystem) -> ObjectStore:
    """Open the store of a node read-only.

    Raises:
        NoDataDirectoryError: the store cannot be opened.
    """
    try:
        return SettledStore(open_store(place.url, files, read_only=True), pause_briefly)
    except StoreRefused as error:
        raise NoDataDirectoryError(f"the store cannot be read: {error}") from None


class _Slot:
    def __init__(self, log: str, place: Place) -> None:
        self.number = place.slot
        self.file = slot_name(log, place)


class ObjectJournalReader:
    """One pass over a journal in a store, with the interface `JournalPass`.

    The journal starts where the archive ends, or earlier, and continues across fences to the first empty slot. A slot
    is confirmed if it and all slots before it exist, so an unreadable one is damage. Slots after an empty one were
    never acknowledged. If the owner deletes the oldest slots, the pass starts over with the next one.

    Args:
        place: the store and the node.
        files: the file system for `file://`.
        manifests: the manifest of the archive.
        check: receives all valid entries in order, and starts over with the pass.

    Raises:
        NoDataDirectoryError: the store cannot be opened.
    """

    def __init__(self, place: ArchivePlace, files: FileSystem, manifests: Manifests, check: EntryCheck) -> None:
        self._store = open_settled(place, files)
        self._log = journal_name(place.node)
        self._reader = SlotReader(self._store, self._log)
        self._manifests = manifests
        self._check = check
        #: The LSN after the last valid entry.
        self.next_lsn = 0

    def ends_at(self, number: int, identity: int, position: int) -> bool:  # noqa: ARG002 - see `JournalPass`
        # A journal in a store has no mark of a clean shutdown.
        return False

    def findings(self) -> Iterator[Finding]:
        try:
            yield from self._walk()
        except ObjectStoreError as error:
            raise NoDataDirectoryError(f"the journal cannot be read: {error}") from None

    def _walk(self) -> Iterator[Finding]:
        for left in reversed(range(READS_MAX)):
            manifest = self._manifests.refreshed() if self._manifests.manifest is not None else None
            self._check.begin(manifest)
            archived_lsn = 0 if manifest is None else manifest.lsn
            self.next_lsn = archived_lsn
            try:
                boundary = read_boundary(self._store, self._log).place
            except BrokenLogError as error:
                yield Damage(self._log, 0, str(error))
                return
            listing = list_places(self._store, self._log, boundary)
            if not listing and not boundary.slot and not archived_lsn:
                raise NoDataDirectoryError(f"the store has no journal {self._log}. Check --node-id")
            if boundary.slot > archived_lsn >> LSN_BITS:
                if left:
                    continue  # the owner may have archived and deleted slots since the manifest was read
                missing = f"slots {archived_lsn >> LSN_BITS} to {boundary.slot - 1}"
                yield Damage(self._log, 0, f"{missing} are neither in the journal nor in the archive")
            places = list(places_so_far(boundary, listing))
            try:
                yield from self._slots(places)
            except BrokenLogError as error:
                moved = read_boundary(self._store, self._log).place
                # The owner has deleted slots during the read, so they may be missing for that reason.
                if moved > boundary and left:
                    yield Superseded(slot_name(self._log, boundary))
                    continue
                yield Damage(self._log, 0, str(error))
                return
            end = _end(Place(places[-1].generation, places[-1].slot + 1) if places else boundary, listing)
            if manifest is not None and lsn_of(end.slot) < archived_lsn:
                reason = f"it ends before slot {end.slot}, but the archive before slot {archived_lsn >> LSN_BITS}"
                yield Damage(self._log, 0, reason)
            yield from self._check.unarchived()
            yield from self._after_end(end, listing)
            return

    def _slots(self, places: list[Place]) -> Iterator[Finding]:
        for generation, slots in groupby(self._reader.whole(places), lambda slot: slot.place.generation):
            count = entries = size_bytes = 0
            first = last = 0
            for slot in slots:
                last, found = slot.place.slot, len(slot.contents.entries)
                first = last if not count else first
                count, entries, size_bytes = count + 1, entries + found, size_bytes + len(slot.data)
                yield SlotFound(generation, last, len(slot.data), lsn_of(last), found)
                yield from self._entries(slot)
                self.next_lsn = max(self.next_lsn, lsn_of(last + 1))
            yield GenerationFound(generation, first, last, count, entries, size_bytes)

    def _entries(self, slot: ReadSlot) -> Iterator[Finding]:
        named, view = _Slot(self._log, slot.place), memoryview(slot.data)
        for entry in slot.contents.entries:
            position = entry.position + ENTRY_OVERHEAD
            batch = view[position : entry.position + entry.size_bytes]
            lsn = lsn_of(slot.place.slot, entry.place)
            yield from self._check.findings(named, lsn, StoredEntry(entry.key, position, batch))

    def _after_end(self, end: Place, listing: Mapping[Place, bool]) -> Iterator[Finding]:
        # A later generation exists only if this one was fenced, and everything before the fence was confirmed.
        if any(place.generation > end.generation for place in listing):
            yield Damage(slot_name(self._log, end), 0, "it is missing, but later owners have written slots after it")
            return
        for place, is_fence in listing.items():
            if not is_fence and place > end:
                reason = "it follows an empty slot: the commit is in flight, or was never acknowledged"
                yield Leftover(slot_name(self._log, place), 0, 0, reason)


def _end(place: Place, listing: Mapping[Place, bool]) -> Place:
    while listing.get(place):
        place = Place(place.generation + 1, place.slot + 1)
    return place


class ObjectJournalBytes:
    """The bytes of a journal in a store, with the interface `JournalBytes`.

    A place is an integer: the slot without its highest bits, then the position in its object. Unarchived slots never
    differ in the dropped bits alone.

    Args:
        place: the store and the node.
        files: the file system for `file://`.

    Raises:
        NoDataDirectoryError: the store cannot be opened.
    """

    def __init__(self, place: ArchivePlace, files: FileSystem) -> None:
        self._store = open_settled(place, files)
        self._log = journal_name(place.node)
        self._reader = SlotReader(self._store, self._log)
        self._places: dict[int, Place] = {}

    @staticmethod
    def place_at(slot: int, position: int) -> int:
        return (slot & SLOT_MASK) << POSITION_BITS | position

    def read_cached(self, place: int, size_bytes: int) -> Buffer | None: ...  # nothing is cached

    def read(self, place: int, size_bytes: int) -> Buffer:
        """Read bytes at a place.

        Raises:
            FileNotFoundError: the slot was archived and deleted.
            NoDataDirectoryError: the store does not answer.
        """
        name, position = self.name_of(place)
        try:
            return self._reader.range(self._find(place >> POSITION_BITS), position, size_bytes)
        except BrokenLogError:
            raise FileNotFoundError(f"{name} was deleted") from None
        except ObjectStoreError as error:
            raise NoDataDirectoryError(f"the journal cannot be read: {error}") from None

    def name_of(self, place: int) -> tuple[str, int]:
        at = self._places.get(place >> POSITION_BITS)
        name = f"slot {place >> POSITION_BITS} of {self._log}" if at is None else slot_name(self._log, at)
        return name, place & ((1 << POSITION_BITS) - 1)

    def _find(self, number: int) -> Place:
        if number not in self._places:
            boundary = read_boundary(self._store, self._log).place
            listing = list_places(self._store, self._log, boundary)
            self._places = {place.slot & SLOT_MASK: place for place in places_so_far(boundary, listing)}
        try:
            return self._places[number]
        except KeyError:
            raise FileNotFoundError(f"slot {number} of {self._log} is archived") from None
