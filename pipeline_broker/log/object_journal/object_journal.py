"""A journal in an object store.

An LSN combines a slot and the index of an entry in its commit. A global position combines a slot, counted from the
first one of this run, and a position in its object. A segment, for the archive, is a range of consecutive slots.

The bytes of an entry are the same as in a frame on disk, with key and length first. So readers of batches work with
both kinds of journal.

Longer than most files: it implements one interface completely.
"""

import struct
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, NoReturn

from pipeline_broker.base.buffer import Buffer
from pipeline_broker.files.errors import Obstacle
from pipeline_broker.log.errors import JournalCorrupt, JournalFailed, RecycledError
from pipeline_broker.log.journal.entry import JournalEntry
from pipeline_broker.log.journal.flush_policy import Flush, FlushPolicy
from pipeline_broker.log.journal.frame import ENTRY_OVERHEAD, StoredEntry
from pipeline_broker.log.journal.journal_port import ORIGIN_BYTES_MIN, StoredObject
from pipeline_broker.log.journal.taken_directory import TakenDirectory
from pipeline_broker.log.object_journal.journal_state import JournalState
from pipeline_broker.log.object_journal.slot_cache import CACHE_BYTES_MAX, SlotCache
from pipeline_broker.log.object_journal.store_room import StoreRoom
from pipeline_broker.objects.boundary import raise_boundary, read_boundary, trim
from pipeline_broker.objects.fenced_log import BrokenLogError, Place, Writer, data_places, slot_name
from pipeline_broker.objects.fencing import Ownership, list_places
from pipeline_broker.objects.lease_keeper import LeaseState
from pipeline_broker.objects.settled_store import SettledStore, pause_briefly
from pipeline_broker.objects.slot import (
    HEADER_SIZE,
    DamagedSlotError,
    EncodedSlot,
    SlotEntry,
    SlotHeader,
    encode_slot,
    read_header,
    read_index,
)
from pipeline_broker.objects.slot_reader import ReadSlot, SlotReader
from pipeline_broker.objects.slot_writer import FencedError, SlotWriter, WriterStopped
from pipeline_broker.objects.store import ObjectStore, ObjectStoreError
from pipeline_broker.records.batch import HEADER_SIZE as BATCH_HEADER_SIZE

__all__ = ["ObjectJournal", "SlotTicket", "lsn_of"]

LSN_BITS = 21  # two million entries per commit, more batches than the largest request can have
POSITION_BITS = 32  # an object has less than 4 GiB, and one run of a broker at most 2 billion slots
SEGMENT_BYTES = 16 << 20
SEGMENT_ENTRIES_MAX = 1 << 16
COPIED_SHARE_MIN = 0.75

_LENGTH = struct.Struct("<i")


# The seven segments that may wait for the archive (`node.upkeep`) and the current one fit into the cache, so that the
# archiver reads from memory.
assert CACHE_BYTES_MAX >= 8 * SEGMENT_BYTES


def lsn_of(slot: int, place: int = 0) -> int:
    """Return the LSN of an entry.

    Args:
        place: index of the entry in the commit.
    """
    return slot << LSN_BITS | place


class SlotTicket(NamedTuple):
    """A commit with a reserved slot; `header` is None for an empty commit."""

    header: SlotHeader | None
    entries: Sequence[JournalEntry]


class _Run(NamedTuple):
    """Consecutive slots that are archived together, from `first` to before `end`."""

    first: int
    end: int
    entries: int = 0
    size_bytes: int = 0


class ObjectJournal:
    """The journal of one node in an object store. Exhaust `recover` before writing.

    Several commits are stored at once. `sync` returns when a commit and all commits before it are stored.

    Args:
        store: the object store; must not retry by itself.
        log: name of the log in the store.
        node: id of this broker.
        ownership: the result of `fencing.take_over`.
        taken: the data directory, released by `close`. Nothing durable is kept in it.
        segment_sealed: called in a writing thread when a segment is complete and durable.
        segment_bytes: approximate size of a segment.
        given_up: called by `close`, when nothing will be written any more.
        lease: returns the state of the owner's lease; None without one.
        interrupt: called by `detach_archiver` to end all waiting for the store.
        cache_bytes_max: bytes of slots that are kept in memory for readers.
    """

    flush: Flush = "always"
    flush_policy: FlushPolicy | None = None

    def __init__(
        self,
        store: ObjectStore,
        log: str,
        node: int,
        ownership: Ownership,
        taken: TakenDirectory,
        segment_sealed: Callable[[], None] = lambda: None,
        segment_bytes: int = SEGMENT_BYTES,
        given_up: Callable[[], None] = lambda: None,
        lease: Callable[[], LeaseState] | None = None,
        interrupt: Callable[[], None] = lambda: None,
        cache_bytes_max: int = CACHE_BYTES_MAX,
    ) -> None:
        self.room = StoreRoom()
        self._store = SettledStore(store, self.room.pause)
        self._log, self._ownership, self._taken = log, ownership, taken
        # Two stores: recovery and the archiver wait for an outage to end, but a fetch should fail soon.
        self._whole_reader = SlotReader(self._store, log, kept=lambda place: self._cache.whole(place.slot))
        self._brief_store = SettledStore(store, pause_briefly)
        self._reader = SlotReader(self._brief_store, log)
        self._segment_sealed, self.segment_bytes = segment_sealed, segment_bytes
        self._given_up, self._interrupt, self._lease = given_up, interrupt, lease
        self._cache = SlotCache(cache_bytes_max)
        first = ownership.first
        self._slots = SlotWriter(self._store, log, node, ownership.nonce, Writer.owning(first))
        self._is_recovered = False
        self._failure: Exception | None = None
        self._closed = False
        self._sealed_max: int | None = None
        self._archive_obstacle: OSError | None = None
        self._changed = threading.Condition()
        self._writing = threading.Lock()  # held from reserving a slot until it is counted
        self._recovered: dict[int, int] = {}  # slot to generation, for unarchived slots of earlier owners
        self._base = self._readable_from = first.slot
        self._run = _Run(first.slot, first.slot)
        self._freed_to = Place(0, 0)
        self._worth = (-1, False)  # the latest queried slot, and whether copying it pays
        self._complete: dict[int, _Run] = {}  # complete segments by first slot, oldest first

    @property
    def data_directory(self) -> Path:
        return self._taken.path.absolute()

    def is_in_place(self) -> bool:
        """Return whether the locked data directory still has its path, and check for a successor.

        An owner that writes nothing would not notice a takeover otherwise.

        Raises:
            FencedError: another broker has taken over.
        """
        # A successor writes its fence to the slot that this owner would use next.
        place = Place(self.generation, self._slots.writer.next_slot)
        with suppress(ObjectStoreError, DamagedSlotError):
            header = read_header(self._brief_store.read(slot_name(self._log, place), 0, HEADER_SIZE).data)
            if header.nonce != self._ownership.nonce:
                raise self._taken_over()
        return self._taken.lock.is_in_place()

    def is_owned(self) -> bool:
        return self._lease is None or self._lease().is_current

    def _taken_over(self) -> FencedError:
        return FencedError(f"another broker took over as generation {self.generation + 1}")

    def disk_space(self) -> tuple[int, int]:
        files, path = self._taken.files, self._taken.path
        return files.total_bytes(path), files.free_bytes(path)

    @property
    def next_lsn(self) -> int:
        return lsn_of(self._slots.writer.next_slot)

    @property
    def generation(self) -> int:
        return self._ownership.first.generation

    def state(self) -> JournalState:
        """Return the status of the journal. Any thread may call it."""
        runs, writer = (*tuple(self._complete.values()), self._run), self._slots.writer
        return JournalState(
            generation=self.generation,
            slots=sum(run.end - run.first for run in runs),
            size_bytes=sum(run.size_bytes for run in runs),
            in_flight=writer.next_slot - writer.confirmed,
            is_fenced=isinstance(self._failure, FencedError),
            lease=None if self._lease is None else self._lease(),
        )

    # Recovery

    def recover(self, archived_lsn: int = 0) -> Iterator[StoredEntry]:
        assert not self._is_recovered, "a journal is recovered once"
        try:
            places = self._places_from(archived_lsn >> LSN_BITS)
            self._base = self._readable_from = places[0].slot if places else self._ownership.first.slot
            self._run = _Run(self._base, self._base)
            for slot in self._whole_reader.whole(places):
                self._recovered[slot.place.slot] = slot.place.generation
                # The archiver reads these slots soon.
                self._cache.add(slot.place.slot, slot.data)
                self._count(
                    slot.place.slot, len(slot.contents.entries), sum(one.size_bytes for one in slot.contents.entries)
                )
                yield from self._stored_entries(slot)
        except BrokenLogError as error:
            raise JournalCorrupt(str(error)) from None
        except ObjectStoreError as error:
            raise Obstacle(f"the object store does not answer: {error}") from error
        self._is_recovered = True

    def _places_from(self, slot: int) -> list[Place]:
        # An archive that is ahead of the journal means that journal objects were lost.
        if slot > self._ownership.first.slot:
            raise BrokenLogError(f"{self._log} ends at slot {self._ownership.fence.slot}, the archive at slot {slot}")
        while True:
            boundary = read_boundary(self._store, self._log)
            if boundary.place.slot > slot:
                missing = f"slots {slot} to {boundary.place.slot - 1}"
                raise BrokenLogError(f"{missing} are neither in {self._log} nor in the archive")
            listing = list_places(self._store, self._log, boundary.place)
            try:
                places = list(data_places(boundary, self._ownership.fence, listing))
            except BrokenLogError:
                if read_boundary(self._store, self._log) == boundary:
                    raise
                continue  # the predecessor deleted archived slots between the two requests: list again
            return [place for place in places if place.slot >= slot]

    def _stored_entries(self, slot: ReadSlot) -> Iterator[StoredEntry]:
        view, start = memoryview(slot.data), (slot.place.slot - self._base) << POSITION_BITS
        for entry in slot.contents.entries:
            position = entry.position + ENTRY_OVERHEAD
            yield StoredEntry(entry.key, start | position, view[position : entry.position + entry.size_bytes])

    # Commits

    def write(self, entries: Sequence[JournalEntry]) -> SlotTicket:
        assert self._is_recovered, "exhaust recover() before writing"
        if not entries:
            return SlotTicket(None, entries)
        assert len(entries) < 1 << LSN_BITS, "a commit has too many entries for LSN_BITS"
        with self._writing:
            self._wait_for_archive()
            try:
                header = self._slots.begin()
            except (FencedError, WriterStopped) as error:
                self._fail(error)
            with self._changed:
                self._count(header.slot, len(entries), sum(ENTRY_OVERHEAD + one.size_bytes for one in entries))
        return SlotTicket(header, entries)

    def write_nowait(self, entries: Sequence[JournalEntry]) -> SlotTicket | None: ...  # a PUT always waits

    def sync(self, ticket: SlotTicket) -> None:
        header = ticket.header
        if header is None:
            if self._failure is not None:
                self._refuse()
            return
        content = b"".join(self._encode(header, ticket.entries).parts)
        # Before the store: readers and the archiver may ask for the slot as soon as it is confirmed.
        self._cache.add(header.slot, content)
        try:
            self._slots.put(header, [content])
            # Returns when all slots before this one are stored, too: a commit counts only together with them.
            self._slots.wait(header.slot)
        except (FencedError, WriterStopped, ObjectStoreError) as error:
            self._fail(error)
        if self._archive_obstacle is None:
            self.room.open()
        # The commit that ends a segment is confirmed, hence all of the segment.
        if any(run.end == header.slot + 1 for run in tuple(self._complete.values())):
            self._segment_sealed()

    def _encode(self, header: SlotHeader, entries: Sequence[JournalEntry]) -> EncodedSlot:
        pack_length = _LENGTH.pack
        encoded = encode_slot(
            header,
            [
                SlotEntry(
                    entry.log.entry_key,
                    _head(entry.parts),
                    (entry.log.entry_key, pack_length(entry.size_bytes), *entry.parts),
                    ENTRY_OVERHEAD + entry.size_bytes,
                )
                for entry in entries
            ],
        )
        start = (header.slot - self._base) << POSITION_BITS
        for entry, position in zip(entries, encoded.positions, strict=True):
            entry.position = start | (position + ENTRY_OVERHEAD)
        return encoded

    def _count(self, slot: int, entries: int, size_bytes: int) -> None:
        run = self._run
        self._run = run = _Run(run.first, slot + 1, run.entries + entries, run.size_bytes + size_bytes)
        if run.entries >= SEGMENT_ENTRIES_MAX or run.size_bytes >= self.segment_bytes:
            self._complete_run()

    def _complete_run(self) -> None:
        self._complete[self._run.first] = self._run
        self._run = _Run(self._run.end, self._run.end)

    def _wait_for_archive(self) -> None:
        with self._changed:
            while self._failure is None and self._sealed_max is not None and len(self._complete) >= self._complete_max:
                if self._archive_obstacle is not None:
                    self.room.close(self._archive_obstacle)
                self._changed.wait()
        if self._closed or self._failure is not None:
            self._refuse()

    @property
    def _complete_max(self) -> int:
        """Complete segments that may wait for the archive.

        A successor may inherit as many as `sealed_max`. The limit is then raised, so that its first writers need not
        wait.
        """
        assert self._sealed_max is not None, "_wait_for_archive checks it first"
        taken_over = sum(run.end < self._ownership.first.slot for run in self._complete.values())
        return max(self._sealed_max, taken_over + 1)

    # Reading

    def read_cached(self, place: int, size_bytes: int) -> Buffer | None:
        return self._cache.read(*self._split(place), size_bytes)

    def read(self, place: int, size_bytes: int) -> Buffer:
        slot, position = self._split(place)
        at = self._readable_place(slot)
        try:
            return self._reader.range(at, position, size_bytes)
        except BrokenLogError as error:
            self._readable_place(slot)  # raises RecycledError if the slot was recycled during the read
            raise OSError(str(error)) from None
        except ObjectStoreError as error:
            raise Obstacle(f"the object store does not answer: {error}") from error

    def _split(self, place: int) -> tuple[int, int]:
        return self._base + (place >> POSITION_BITS), place & ((1 << POSITION_BITS) - 1)

    def _readable_place(self, slot: int) -> Place:
        if slot < self._readable_from:
            raise RecycledError(f"slot {slot} of {self._log} was recycled: read its records from the archive")
        return self._slot_place(slot)

    def _slot_place(self, slot: int) -> Place:
        return Place(self._recovered.get(slot, self.generation), slot)

    def name_of(self, place: int) -> tuple[str, int]:
        slot, position = self._split(place)
        return f"object {slot_name(self._log, self._slot_place(slot))}", position

    # Archiving and recycling of complete segments

    def sync_written(self) -> None: ...  # `sync` stores every commit

    def prepare_ahead(self) -> None: ...  # an object store needs no preparation

    def seal(self) -> None:
        with self._changed:
            if self._run.entries:
                self._complete_run()
        self._segment_sealed()

    def sealed(self) -> list[tuple[int, int]]:
        with self._changed:
            confirmed = self._slots.writer.confirmed
            return [(run.first, lsn_of(run.end)) for run in self._complete.values() if run.end <= confirmed]

    def sealed_entries(self, number: int, end_lsn: int, from_lsn: int = 0) -> Iterator[StoredEntry]:
        own, all_slots = self._ownership.first.slot, range(max(number, from_lsn >> LSN_BITS), end_lsn >> LSN_BITS)
        slots = [slot for slot in all_slots if slot >= own or slot in self._recovered]  # fences have no entries
        try:
            yield from self._stored_in(slots, number)
        except ObjectStoreError as error:
            raise Obstacle(f"the object store does not answer: {error}") from error

    def _stored_in(self, slots: Sequence[int], number: int) -> Iterator[StoredEntry]:
        try:
            for slot in self._whole_reader.whole(map(self._slot_place, slots)):
                yield from self._stored_entries(slot)
        except BrokenLogError as error:
            if read_boundary(self._store, self._log).place.slot > number:
                raise self._taken_over() from None  # slots that this owner has not recycled: a successor did
            raise JournalCorrupt(str(error)) from None

    def origin(self, place: int, size_bytes: int) -> StoredObject | None:
        if size_bytes < ORIGIN_BYTES_MIN:
            return None
        slot, start = self._split(place)
        content = self._cache.whole(slot)
        if content is None or not self._is_worth_a_copy(slot, content):
            return None
        return StoredObject(slot_name(self._log, self._slot_place(slot)), start, content)

    def _is_worth_a_copy(self, slot: int, content: Buffer) -> bool:
        known_slot, is_worth = self._worth
        if known_slot != slot:
            large = sum(each.size_bytes for each in read_index(content).entries if each.size_bytes >= ORIGIN_BYTES_MIN)
            # The archive sends the rest again, and copies the used part of a mostly unused object.
            is_worth = large >= COPIED_SHARE_MIN * len(content)
            self._worth = slot, is_worth
        return is_worth

    def recycle(self, number: int) -> None:
        run = self._complete[number]
        last = self._slot_place(run.end - 1)
        try:
            boundary = raise_boundary(self._store, self._log, Place(last.generation, run.end))
        except ObjectStoreError as error:
            raise Obstacle(f"the object store does not answer: {error}") from error
        # The boundary is stored, so a successor no longer expects these slots. Only now may reads of them be refused.
        self._readable_from = run.end
        first = next(iter(self._complete))
        self._cache.drop(range(first, run.end))
        for slot in range(first, run.end):
            self._recovered.pop(slot, None)
        with self._changed:
            for each in [each for each in self._complete if each <= number]:
                del self._complete[each]
            self._changed.notify_all()
        with suppress(ObjectStoreError):  # deleting the objects is not urgent: the next call tries again
            trim(self._store, self._log, boundary, self._freed_to)
            self._freed_to = boundary.place

    def archive_waits(self, obstacle: OSError | None) -> None:
        with self._changed:
            self._archive_obstacle = obstacle
            if obstacle is None:
                self.room.open()
            self._changed.notify_all()

    def attach_archiver(self, sealed_max: int) -> None:
        self._sealed_max = sealed_max

    def detach_archiver(self) -> None:
        with self._changed:
            self._sealed_max = None
            self._changed.notify_all()
        self.room.stop()
        self._slots.stop()
        self._interrupt()

    def close(self) -> None:
        with self._changed:
            self._closed = True
        self.detach_archiver()
        self._given_up()
        self._taken.lock.release()

    def _fail(self, error: Exception) -> NoReturn:
        if self._failure is None:
            self._failure = error
        # A fenced writer has stopped already. After another error, commits in flight must not be stored any more.
        if not isinstance(error, FencedError):
            self._slots.stop()
        with self._changed:
            self._changed.notify_all()
        raise JournalFailed(f"the journal cannot be written: {error}") from error

    def _refuse(self) -> NoReturn:
        if self._failure is None:
            raise JournalFailed("the journal is closed")
        raise JournalFailed(f"the journal failed earlier: {self._failure}") from self._failure


def _head(parts: Sequence[Buffer]) -> bytes:
    head = bytes(parts[0][:BATCH_HEADER_SIZE])
    return head if len(head) == BATCH_HEADER_SIZE else b"".join(parts)[:BATCH_HEADER_SIZE]
