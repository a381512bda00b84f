"""The journal of a node in a store of objects, read and verified.

Rules of this file: read only: nothing is fenced, so its owner goes on. It judges as a takeover does: the journal begins
where the archive ends, or in front of it, and goes on over all fences to the first place that is empty. What lies
behind that is a commit on its way, or was never acknowledged. A slot is confirmed when it and all in front of it are
there, so one that is damaged is damage. An owner takes the oldest slots away: whatever is read then goes on as if it
began with the next one.

A place is a slot, without its highest bits, and the position in its object; the slots that are not archived never
differ in those bits alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import groupby

from pipeline_broker.files.file_system import Buffer, FileSystem
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
READS_MAX = 3
"""Of a journal whose owner takes its beginning away meanwhile, before it is taken for damaged."""


def open_settled(place: ArchivePlace, files: FileSystem) -> ObjectStore:
    """The store of a node, for reading; raises NoDataDirectoryError where it cannot be reached."""
    try:
        return SettledStore(open_store(place.url, files, read_only=True), pause_briefly)
    except StoreRefused as error:
        raise NoDataDirectoryError(f"the store cannot be read: {error}") from None


class _Slot:
    """A slot as `EntryCheck` names it."""

    def __init__(self, log: str, place: Place) -> None:
        self.number = place.slot
        self.file = slot_name(log, place)


class ObjectJournalReader:
    """One pass over a journal; see JournalReader, and the rules of the file.

    Args:
        place: the store, and whose journal.
        files: the file system of `file://`.
        manifests: what is archived.
        check: is shown all entries that count, in their order, and begins anew when the journal does.
    """

    def __init__(self, place: ArchivePlace, files: FileSystem, manifests: Manifests, check: EntryCheck) -> None:
        self._store = open_settled(place, files)
        self._log = journal_name(place.node)
        self._reader = SlotReader(self._store, self._log)
        self._manifests = manifests
        self._check = check
        #: Behind the last entry that counts.
        self.next_lsn = 0

    def ends_at(self, number: int, identity: int, position: int) -> bool:  # noqa: ARG002 - no mark is of this journal
        """Never: a journal in a store has no mark of a clean shutdown."""
        return False

    def findings(self) -> Iterator[Finding]:
        """Everything in the order in which it lies there.

        Raises:
            NoDataDirectoryError: the store does not answer.
        """
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
                raise NoDataDirectoryError(f"there is no journal {self._log} in this store")
            if boundary.slot > archived_lsn >> LSN_BITS:
                if left:
                    continue  # the owner may have archived it since the manifest was read
                missing = f"slots {archived_lsn >> LSN_BITS} to {boundary.slot - 1}"
                yield Damage(self._log, 0, f"{missing} are neither in the journal nor in the archive")
            places = list(places_so_far(boundary, listing))
            try:
                yield from self._slots(places)
            except BrokenLogError as error:
                moved = read_boundary(self._store, self._log).place
                if moved > boundary and left:
                    yield Superseded(slot_name(self._log, boundary))
                    continue
                yield Damage(self._log, 0, str(error))
                return
            end = _end(Place(places[-1].generation, places[-1].slot + 1) if places else boundary, listing)
            if manifest is not None and lsn_of(end.slot) < archived_lsn:
                reason = f"it ends in front of slot {end.slot}, the archive in front of {archived_lsn >> LSN_BITS}"
                yield Damage(self._log, 0, reason)
            yield from self._check.unarchived()
            yield from self._behind(end, listing)
            return

    def _slots(self, places: list[Place]) -> Iterator[Finding]:
        """The slots, and a line for each generation."""
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

    def _behind(self, end: Place, listing: Mapping[Place, bool]) -> Iterator[Finding]:
        """A generation has a successor only when it was fenced, so all in front of that must be there."""
        if any(place.generation > end.generation for place in listing):
            yield Damage(slot_name(self._log, end), 0, "it is missing, and later owners went on behind it")
            return
        for place, is_fence in listing.items():
            if not is_fence and place > end:
                reason = "behind a place that is empty: a commit on its way, or one that was never acknowledged"
                yield Leftover(slot_name(self._log, place), 0, 0, reason)


def _end(place: Place, listing: Mapping[Place, bool]) -> Place:
    """The first empty place from one on, behind fences."""
    while listing.get(place):
        place = Place(place.generation + 1, place.slot + 1)
    return place


class ObjectJournalBytes:
    """The bytes of a journal in a store, for reading; see JournalBytes, and the rules of the file.

    Args:
        place: the store, and whose journal.
        files: the file system of `file://`.
    """

    def __init__(self, place: ArchivePlace, files: FileSystem) -> None:
        self._store = open_settled(place, files)
        self._log = journal_name(place.node)
        self._reader = SlotReader(self._store, self._log)
        self._places: dict[int, Place] = {}

    @staticmethod
    def place_at(slot: int, position: int) -> int:
        """A slot and a position in its object as one integer."""
        return (slot & SLOT_MASK) << POSITION_BITS | position

    def read_cached(self, place: int, size_bytes: int) -> Buffer | None:  # noqa: ARG002 - nothing is kept here
        """Nothing is in memory."""
        return None

    def read(self, place: int, size_bytes: int) -> Buffer:
        """See JournalBytes.

        Raises:
            FileNotFoundError: the archive has taken it over.
        """
        name, position = self.name_of(place)
        try:
            return self._reader.range(self._find(place >> POSITION_BITS), position, size_bytes)
        except BrokenLogError:
            raise FileNotFoundError(f"{name} is not there any more") from None
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
