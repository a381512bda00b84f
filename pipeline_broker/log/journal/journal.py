"""The journal: the only thing that is synced before an acknowledgement, shared by all partitions.

Rules of this file: `write` and `sync` may be called by several threads at once; writes happen one at a time, in the
order of the LSNs they give out, while each caller waits for its own sync. The journal fails as a whole and for good:
after the first error of a write or a sync every further one raises JournalFailed, because the kernel forgets a failed
write-back once it has told of it, and a second sync that succeeds proves nothing. The exception is a write that the
system refused for want of space or of descriptors: where an archiver makes room (`attach_archiver`), the writer
waits, tries again at the same place, and says why meanwhile (`room`). The caller acknowledges commits in their order.

Longer than most files: its methods share the fields that two locks guard.
"""

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NoReturn

import attrs

from pipeline_broker.files.errors import is_passing
from pipeline_broker.files.file_system import File, FileSystem, SystemFileSystem, write_all
from pipeline_broker.files.large_writes import LARGE_WRITE_BYTES_MIN, LargeWriter
from pipeline_broker.log.errors import JournalFailed, RecycledError
from pipeline_broker.log.journal.clean_shutdown import CleanShutdown, ManifestEnd, remove_mark, write_mark
from pipeline_broker.log.journal.entry import Buffer, JournalEntry
from pipeline_broker.log.journal.flush_policy import Flush, FlushPolicy
from pipeline_broker.log.journal.frame import ENTRY_OVERHEAD, FRAME_HEADER_SIZE, StoredEntry, encode_frame
from pipeline_broker.log.journal.journal_files import JournalFiles
from pipeline_broker.log.journal.recovery import JournalEnd, Recovery, sealed_entries
from pipeline_broker.log.journal.segment import (
    HEADER_SPACE,
    Segment,
    activate_spare,
    create_segment,
    discard_segment,
    global_position,
    prepare_spare,
    recycle_segment,
    segment_path,
)
from pipeline_broker.log.journal.taken_directory import JOURNAL_NAME, TakenDirectory
from pipeline_broker.log.journal.ticket import Ticket
from pipeline_broker.log.journal.unsynced_writes import UnsyncedWrites
from pipeline_broker.log.journal.writer_room import WriterRoom

SEGMENT_BYTES: Final = 64 << 20
SEGMENT_BYTES_MIN: Final = 2 * HEADER_SPACE
NOWAIT_BYTES_MAX: Final = 64 << 10
"""A larger commit is copied by a thread, which does not keep the event loop meanwhile."""
SEGMENT_ENTRIES_MAX = 1 << 18  # a start takes microseconds for each: small ones would fill a segment with a million
LARGE_BATCH_BYTES: Final = 64 << 10
LARGE_SEALED_FACTOR: Final = 5
"""Of segments whose batches are so large, so many times as many may wait for the archive: a start takes 0.06 s for one,
and 3 s for one that is full of small batches. A burst of a gigabyte does not wait for the archive then.
"""

logger = logging.getLogger(__name__)


@attrs.frozen(kw_only=True)
class JournalPorts:
    """What a journal asks of its surroundings.

    Attributes:
        manifest_end: asked by `close` where the manifest of the archive ends; None when the archive cannot be trusted.
        segment_sealed: called in a writing thread when a segment is complete, and by `seal`.
        prepare_wanted: called where it is written when half of the segment is used and no spare is ready.
        sync_wanted: called where it is written when `FlushPolicy.sync_within_ms` was set, or became shorter.
        archiver_detached: called by `detach_archiver`, for what the archive waits for.
    """

    manifest_end: Callable[[], ManifestEnd | None] = ManifestEnd
    segment_sealed: Callable[[], None] = lambda: None
    prepare_wanted: Callable[[], None] = lambda: None
    sync_wanted: Callable[[], None] = lambda: None
    archiver_detached: Callable[[], None] = lambda: None


NO_PORTS: Final = JournalPorts()


class Journal:
    """The journal of one data directory; exhaust `recover`, then write.

    Args:
        taken: the directory, released by `close`.
        flush: whether a commit is durable when it is synced, or when it is written, where no setting says anything.
        segment_bytes: how long a file gets.
        ports: what it asks of its surroundings.
    """

    def __init__(
        self,
        taken: TakenDirectory,
        flush: Flush = "always",
        segment_bytes: int = SEGMENT_BYTES,
        ports: JournalPorts = NO_PORTS,
    ) -> None:
        assert segment_bytes >= SEGMENT_BYTES_MIN
        files, directory = taken.files, taken.path / JOURNAL_NAME
        self.directory = directory
        self.flush, self.segment_bytes = flush, segment_bytes
        self.flush_policy = FlushPolicy(flush, ports.sync_wanted)
        self._ports = ports
        self._files = files
        self._directory_lock = taken.lock
        self.clean_shutdown = taken.clean_shutdown
        #: How many complete segments of small batches may wait for `recycle` before a writer waits; None: any number.
        self._sealed_max: int | None = None
        self._write_lock = threading.Lock()
        self._writer = LargeWriter()
        self.room = WriterRoom(self._write_lock)
        self._prepare_lock = threading.Lock()
        self._readable = JournalFiles(files, directory)
        self.read_cached = self._readable.read_cached
        self.read = self._readable.read
        self.name_of = self._readable.name_of
        self._sealed_ends: dict[int, int] = {}  # number: the LSN behind it, of complete segments, oldest first
        self._failure: OSError | None = None
        self._closed = False
        self._active: Segment | None = None
        # Known when the journal is recovered.
        self._archived_lsn: int  # of the first entry in complete segments, or a lower one
        self._position: int
        self._next_lsn: int
        self._segment_lsn: int  # of the first entry in the active segment
        self._durable_lsn: int
        self._unsynced = UnsyncedWrites()
        self._spare_identity: int | None = None
        self._prepare_asked = False
        self._commit_bytes = 0.0  # of a commit, on average of the last 16 or so

    @classmethod
    def open(
        cls,
        data_directory: Path,
        *,
        flush: Flush = "always",
        segment_bytes: int = SEGMENT_BYTES,
        files: FileSystem | None = None,
        ports: JournalPorts = NO_PORTS,
    ) -> "Journal":
        """The journal of a data directory that is taken; see TakenDirectory."""
        return cls(TakenDirectory.take(data_directory, files or SystemFileSystem()), flush, segment_bytes, ports)

    @property
    def data_directory(self) -> Path:
        """Absolute."""
        return self.directory.parent.absolute()

    def is_in_place(self) -> bool:
        """Whether the data directory is still where it was taken; what is written to a removed one is lost."""
        return self._directory_lock.is_in_place()

    def is_owned(self) -> bool:
        return True  # the lock of its directory goes with the process only

    def disk_space(self) -> tuple[int, int]:
        """The size of the disk, and how many more bytes can be written to it; raises OSError when it cannot tell."""
        return self._files.total_bytes(self.directory), self._files.free_bytes(self.directory)

    def recover(self, archived_lsn: int = 0) -> Iterator[StoredEntry]:
        """What the journal holds from this LSN on, in LSN order; writing is possible when this is exhausted.

        Raises JournalCorrupt, with nothing changed, when records that were durable cannot be read.
        """
        assert self._active is None, "a journal is recovered once"
        self._archived_lsn = archived_lsn
        recovery = Recovery(
            self._files,
            self.directory,
            must_sync=lambda: self.flush_policy.may_sync,
            archived_lsn=archived_lsn,
            clean=self.clean_shutdown,
        )
        yield from recovery.batches()
        assert recovery.end is not None
        remove_mark(self._files, self.directory.parent)
        self._start(recovery.end, is_synced=recovery.is_synced)

    def _start(self, end: JournalEnd, *, is_synced: bool) -> None:
        self._active = end.segment
        self._position = end.position
        self._next_lsn = end.next_lsn
        self._segment_lsn = end.segment_lsn
        self._durable_lsn = end.next_lsn if is_synced else 0
        if not is_synced:
            self._unsynced.recovered(0, end.next_lsn, list(end.sealed_ends))
        self._spare_identity = end.spare_identity
        self._sealed_ends = dict(end.sealed_ends)
        self._readable.first_number = next(iter(self._sealed_ends), end.segment.number)

    @property
    def next_lsn(self) -> int:
        """The LSN that the next entry gets."""
        return self._next_lsn

    @property
    def segment_count(self) -> int:
        """How many files hold frames."""
        return self._active.number - self._readable.first_number + 1 if self._active is not None else 0

    @property
    def has_spare(self) -> bool:
        """Whether zero-filled space waits to be used."""
        return self._spare_identity is not None

    def write(self, entries: Sequence[JournalEntry]) -> Ticket:
        """Write one commit behind all others and give its entries their positions; not durable before `sync`."""
        with self._write_lock:
            if self._failure is not None or self._closed:
                self._refuse()
            assert self._active is not None, "recover comes before write"
            if not entries:
                return Ticket(self._next_lsn, 0, 0, None, None)
            ticket = self._write_when_possible(entries)
            asks = self._asks_for_spare()
        if asks:
            self._ports.prepare_wanted()
        return ticket

    def write_nowait(self, entries: Sequence[JournalEntry]) -> Ticket | None:
        """`write` for an event loop: None, with nothing done, where it might wait or needs a new segment."""
        size = FRAME_HEADER_SIZE + sum(entry.size_bytes + ENTRY_OVERHEAD for entry in entries)
        if size > NOWAIT_BYTES_MAX or not self._write_lock.acquire(blocking=False):
            return None
        try:
            if self._failure is not None or self._closed:
                self._refuse()
            if not entries or self.room.obstacle is not None or not self._fits(size, len(entries)):
                return None
            try:
                ticket = self._write(entries)
            except OSError as error:
                if self._sealed_max is None or not is_passing(error):
                    self._fail(error)
                return None
            asks = self._asks_for_spare()
        finally:
            self._write_lock.release()
        if asks:
            self._ports.prepare_wanted()
        return ticket

    def _fits(self, size: int, count: int) -> bool:
        """Whether a commit of so many bytes and entries goes into the segment at hand."""
        assert self._active is not None, "recover comes before write"
        has_room = self._position + size <= self.segment_bytes
        return has_room and self._next_lsn + count - self._segment_lsn <= SEGMENT_ENTRIES_MAX and not self._has_better()

    def _has_better(self) -> bool:
        """Whether a spare segment is zero-filled, and this one is not."""
        assert self._active is not None
        return self.has_spare and not self._active.zero_filled and self._is_worth_filling() and self._may_roll()

    def _write_when_possible(self, entries: Sequence[JournalEntry]) -> Ticket:
        while True:
            try:
                ticket = self._write(entries)
            except OSError as error:
                if self._sealed_max is None or not is_passing(error):
                    self._fail(error)
                self.room.wait(error)  # when that is over for good, `_place` refuses
            else:
                if self.room.obstacle_passed():
                    self._prepare_asked = False  # the spare met the same obstacle
                return ticket

    def _write(self, entries: Sequence[JournalEntry]) -> Ticket:
        parts, size, segment = self._place(entries)
        first_lsn = self._next_lsn
        file = segment.take_file()
        is_synced = self.flush_policy.must_sync(entries)
        if segment.zero_filled or not is_synced:  # its pages are there, or nobody waits for the disk
            write_all(file, parts, self._position)
        else:
            self._writer.write(file, parts, size, self._position)
        self._position += size
        self._commit_bytes += (size - self._commit_bytes) / 16
        self._next_lsn = first_lsn + len(entries)
        self.flush_policy.written(entries, is_synced=is_synced)
        self._unsynced.written(first_lsn, is_synced=is_synced)
        if not is_synced:
            segment.give_back(file)
            return Ticket(first_lsn, len(entries), size, None, None)
        return Ticket(first_lsn, len(entries), size, segment, file, tuple(self._unsynced.segments))

    def _place(self, entries: Sequence[JournalEntry]) -> tuple[list[Buffer], int, Segment]:
        """The frame of a commit in the segment that has room for it; waits when there may be no further segment."""
        while True:
            segment = self._active
            if self._closed or self._failure is not None:
                self._refuse()
            assert segment is not None, "only `close` lets go of it, which says so before"
            if self._has_better():
                segment = self._roll()
            parts, size = self._encode(entries, segment, self._next_lsn)
            if self._fits(size, len(entries)) or self._position == HEADER_SPACE:
                return parts, size, segment
            if self._may_roll():
                self._roll()
            else:
                self.room.wait_for_archive()

    def _asks_for_spare(self) -> bool:
        asks = not self._prepare_asked and self._wants_spare()
        self._prepare_asked = self._prepare_asked or asks
        return asks

    def _is_worth_filling(self) -> bool:
        return self._commit_bytes < LARGE_WRITE_BYTES_MIN  # above, that costs more than a sync saves by it

    def _wants_spare(self) -> bool:
        entries = self._next_lsn - self._segment_lsn
        is_half_full = self._position > self.segment_bytes // 2 or entries > SEGMENT_ENTRIES_MAX // 2
        return is_half_full and self._is_worth_filling() and not self.has_spare

    def _may_roll(self) -> bool:
        """Whether one more segment may wait for the archive."""
        count, sealed_max = len(self._sealed_ends), self._sealed_max
        if sealed_max is None or count < sealed_max:
            return True
        entries = self._segment_lsn - self._archived_lsn
        are_large = entries * LARGE_BATCH_BYTES <= count * self.segment_bytes
        return are_large and count < LARGE_SEALED_FACTOR * sealed_max

    def _encode(self, entries: Sequence[JournalEntry], segment: Segment, first_lsn: int) -> tuple[list[Buffer], int]:
        place = global_position(segment.number, self._position)
        parts = encode_frame(entries, segment.identity, first_lsn, self._durable_lsn, place)
        return parts, sum(map(len, parts))

    def _roll(self) -> Segment:
        """Go on in a new segment. Commits still unsynced in the old one keep its file and sync it themselves.

        A spare takes the place of a segment without frames: recovery takes each one for the continuation of the last.
        """
        assert self._active is not None
        is_complete = self._position > HEADER_SPACE
        assert is_complete or self._spare_identity is not None, "an empty segment is as good as a new one"
        number = self._active.number + is_complete
        if is_complete:
            self._active.fill_up(self.segment_bytes)
        if self._spare_identity is not None:
            segment = activate_spare(self._files, self.directory, number, self._spare_identity)
            self._spare_identity = None
        else:
            segment = create_segment(self._files, self.directory, number)
        if is_complete:
            self._sealed_ends[self._active.number] = self._next_lsn
            self._unsynced.completed(self._active.number, self._segment_lsn)
        self._active = segment
        self._position, self._segment_lsn = HEADER_SPACE, self._next_lsn
        self._prepare_asked = False
        if self._sealed_ends:
            self._ports.segment_sealed()
        return segment

    def sync(self, ticket: Ticket) -> None:
        """Return when the commit is as durable as the flush policy wants it."""
        try:
            if ticket.file is not None:
                self._sync_files(ticket.segments, ticket.file)
        except OSError as error:
            with self._write_lock:
                self._fail(error)
        if self._failure is not None:
            self._refuse()
        if ticket.file is not None:
            assert ticket.segment is not None, "it is whose file that is"
            with self._write_lock:
                ticket.segment.give_back(ticket.file)
                ticket.file = None
                self._synced(ticket.first_lsn + ticket.entry_count, ticket.segments, ticket.first_lsn)

    def _sync_files(self, segments: tuple[int, ...], file: File) -> None:
        for number in segments:
            with suppress(RecycledError), self._readable.reading(number) as complete:
                complete.sync_data()
        file.sync_data()

    def _synced(self, end_lsn: int, segments: tuple[int, ...], lsn: int | None = None) -> None:
        self._unsynced.synced(end_lsn, segments, lsn)
        self._durable_lsn = self._unsynced.durable_lsn(self._next_lsn)

    def sync_written(self) -> None:
        """Sync what was written and not synced; blocks, and raises JournalFailed."""
        with self._write_lock:
            if self._closed or self._failure is not None or self._active is None:
                return
            self.flush_policy.all_synced()
            if not self._unsynced:
                return
            segment, end_lsn, segments = self._active, self._next_lsn, tuple(self._unsynced.segments)
            file = segment.take_file()
        try:
            self._sync_files(segments, file)
        except OSError as error:
            with self._write_lock:
                self._fail(error)
        with self._write_lock:
            segment.give_back(file)
            self._synced(end_lsn, segments)

    def prepare_ahead(self) -> None:
        """Zero-fill the next segment, off the request path; returns at once when one is ready.

        An OSError (say, a full disk) leaves the journal as it was: it goes on in segments that grow.
        """
        with self._prepare_lock:
            if self.has_spare or self._closed:
                return
            identity = prepare_spare(self._files, self.directory, self.segment_bytes, lambda: self._closed)
            with self._write_lock:
                self._spare_identity = identity

    # What is complete goes to the archive, and its space comes back

    def seal(self) -> None:
        """Begin a new segment, unless nothing was written to the last one: everything so far may be archived then.

        Raises OSError when there is no room for one (the last goes on), JournalFailed when there is another failure.
        """
        with self._write_lock:
            if self._failure is None and not self._closed and self._position > HEADER_SPACE and self._may_roll():
                try:
                    self._roll()
                except OSError as error:
                    if is_passing(error):
                        raise
                    self._fail(error)

    def sealed(self) -> list[tuple[int, int]]:
        """The complete segments whose commits are durable, oldest first: number, and the LSN behind it."""
        with self._write_lock:
            acknowledged_lsn = self._unsynced.acknowledged_lsn(self._next_lsn)
            return [(number, end) for number, end in self._sealed_ends.items() if end <= acknowledged_lsn]

    def archive_waits(self, obstacle: OSError | None) -> None:
        """Say why nothing can be archived now, so that a writer who waits for that knows; None when that has passed."""
        with self._write_lock:
            self.room.archive_waits(obstacle)

    def attach_archiver(self, sealed_max: int) -> None:
        """An archiver recycles segments from now on: a writer waits for it where so many are sealed or space is out."""
        self._sealed_max = sealed_max

    def detach_archiver(self) -> None:
        """Nothing is recycled any more: who waits for that goes on in further segments, who waits for space fails."""
        with self._write_lock:
            self._sealed_max = None
            self.room.notify()
        self._ports.archiver_detached()

    def sealed_entries(self, number: int, end_lsn: int, from_lsn: int = 0) -> Iterator[StoredEntry]:
        """What a complete segment holds from an LSN on; see `recovery.sealed_entries`."""
        return sealed_entries(self._files, self.directory, number, end_lsn, from_lsn)

    def recycle(self, number: int) -> None:
        """Use the space of a complete segment, and of all older ones, again; may wait for their readers.

        The archive holds them; from here on places in them are gone (RecycledError). May be called again after an
        OSError.
        """
        for each in [each for each in self._sealed_ends if each <= number]:
            self._recycle_one(each)

    def _recycle_one(self, number: int) -> None:
        self._readable.retire(number)
        with self._prepare_lock:
            path = segment_path(self.directory, number)
            has_use = not self.has_spare and not self._closed
            identity = recycle_segment(self._files, self.directory, path, self.segment_bytes) if has_use else None
            if identity is None:
                discard_segment(self._files, path)
            with self._write_lock:
                self._archived_lsn = self._sealed_ends.pop(number)
                self._unsynced.recycled(number)
                if identity is not None:
                    self._spare_identity = identity
                self.room.notify()

    def close(self) -> None:
        """Give the directory up.

        Space not used is cut off, so that the next start need not look through it; an empty commit declares all
        others durable, so that damage to the last one is no torn tail; a mark says that all of that went well.
        """
        self._closed = True
        with self._write_lock:
            self.room.notify()
        with self._prepare_lock, self._write_lock:
            try:
                if self._active is not None and self._failure is None and not self._unsynced.is_syncing:
                    self._end(self._active)
            except OSError as error:  # what was acknowledged is durable; the next start finds what a kill leaves
                logger.warning("the end of the journal cannot be marked: %s", error)
            finally:
                self._readable.close()
                self._active = None
                self._directory_lock.release()

    def _end(self, segment: Segment) -> None:
        if self._unsynced:  # to survive a power cut was not promised until now
            for number in (*self._sealed_ends, segment.number):
                self._readable.find(number).sync_data()
            self._durable_lsn = self._next_lsn
        self._seal(segment)
        self._mark(segment)

    def _seal(self, segment: Segment) -> None:
        file = segment.take_file()
        parts, size = self._encode((), segment, self._next_lsn)
        write_all(file, parts, self._position)
        self._position += size
        file.truncate(self._position)
        file.sync_data()

    def _mark(self, segment: Segment) -> None:
        manifest = self._ports.manifest_end()
        if manifest is not None and self._directory_lock.is_in_place():  # else it would go to whoever took our place
            mark = CleanShutdown(segment.number, segment.identity, self._position, self._next_lsn, manifest)
            write_mark(self._files, self.directory.parent, mark)

    def _fail(self, error: OSError) -> NoReturn:
        if self._failure is None:
            self._failure = error
        self.room.notify()
        raise JournalFailed(f"the journal cannot be written: {error}") from error

    def _refuse(self) -> NoReturn:
        if self._failure is None:
            raise JournalFailed("the journal is closed")
        raise JournalFailed(f"the journal failed earlier: {self._failure}") from self._failure


assert HEADER_SPACE + FRAME_HEADER_SIZE < SEGMENT_BYTES_MIN
