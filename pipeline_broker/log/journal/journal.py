"""The journal of a data directory: the write-ahead log that every commit is written to before it is acknowledged.

Longer than most files: its methods share the fields that two locks guard.
"""

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NoReturn

import attrs

from pipeline_broker.base.buffer import Buffer
from pipeline_broker.files.errors import is_passing
from pipeline_broker.files.file_system import File, FileSystem, SystemFileSystem, write_all
from pipeline_broker.files.large_reads import LargeReader
from pipeline_broker.files.large_writes import LARGE_WRITE_BYTES_MIN, LargeWriter
from pipeline_broker.log.errors import JournalFailed, RecycledError
from pipeline_broker.log.journal.clean_shutdown import CleanShutdown, ManifestEnd, remove_mark, write_mark
from pipeline_broker.log.journal.entry import JournalEntry
from pipeline_broker.log.journal.flush_policy import Flush, FlushPolicy
from pipeline_broker.log.journal.frame import ENTRY_OVERHEAD, FRAME_HEADER_SIZE, StoredEntry, encode_frame
from pipeline_broker.log.journal.journal_files import JournalFiles
from pipeline_broker.log.journal.journal_port import StoredObject
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
from pipeline_broker.log.journal.writer_room import WriterRoom, lacks_margin

SEGMENT_BYTES: Final = 64 << 20
SEGMENT_BYTES_MIN: Final = 2 * HEADER_SPACE
# Copying a larger commit would block the event loop, so a thread writes it.
NOWAIT_BYTES_MAX: Final = 64 << 10
# Recovery takes microseconds per entry, and a segment of small batches could hold a million of them.
SEGMENT_ENTRIES_MAX = 1 << 18
# Five times as many segments may wait for the archive if their batches average LARGE_BATCH_BYTES or more. Recovery of
# such a segment takes 0.06 s, and 3 s for one full of small batches. So a burst of a gigabyte need not wait.
LARGE_BATCH_BYTES: Final = 64 << 10
LARGE_SEALED_FACTOR: Final = 5

logger = logging.getLogger(__name__)


@attrs.frozen(kw_only=True)
class JournalPorts:
    """Callbacks of a journal. `segment_sealed`, `prepare_wanted` and `sync_wanted` run in the writing thread.

    Attributes:
        manifest_end: called by `close`; returns the end of the archive's manifest, or None if it cannot be trusted.
        segment_sealed: called when a segment is complete.
        prepare_wanted: called when the active segment is half full and no spare is ready.
        sync_wanted: called when `FlushPolicy.sync_within_ms` was set or became shorter.
        archiver_detached: called by `detach_archiver`, to end the archiver's waiting.
    """

    manifest_end: Callable[[], ManifestEnd | None] = ManifestEnd
    segment_sealed: Callable[[], None] = lambda: None
    prepare_wanted: Callable[[], None] = lambda: None
    sync_wanted: Callable[[], None] = lambda: None
    archiver_detached: Callable[[], None] = lambda: None


NO_PORTS: Final = JournalPorts()


class Journal:
    """The journal of one data directory. Exhaust `recover` before writing.

    `write` and `sync` may be called by several threads at once. Writes are serialized, in LSN order; each caller waits
    for its own sync. The caller must acknowledge commits in LSN order, because a commit counts only with all commits
    before it.

    The first failed write or sync fails the journal permanently. The kernel reports a failed write-back once and then
    treats the lost pages as clean, so a later sync that succeeds proves nothing. The exception is a write that the
    system refused for lack of space or descriptors. With an archiver attached, the writer then waits and tries again at
    the same position.

    Args:
        taken: the locked directory; `close` releases it.
        flush: default for logs without a flush setting: a commit is durable once synced ("always") or once written
            ("os").
        segment_bytes: size of a segment file.
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
        # Complete segments of small batches that may wait for `recycle` before writers wait; None for any number.
        self._sealed_max: int | None = None
        self._write_lock = threading.Lock()
        self._writer = LargeWriter()
        self._archiver_reader = LargeReader()
        self.room = WriterRoom(self._write_lock)
        self._prepare_lock = threading.Lock()
        self._readable = JournalFiles(files, directory)
        self.read_cached = self._readable.read_cached
        self.read = self._readable.read
        self.name_of = self._readable.name_of
        self._sealed_ends: dict[int, int] = {}  # complete segments, oldest first: number to end LSN (exclusive)
        self._failure: OSError | None = None
        self._closed = False
        self._active: Segment | None = None
        # Set by `_start`, at the end of recovery.
        self._archived_lsn: int  # of the first entry in complete segments, or lower
        self._position: int  # of the next frame in the active segment
        self._next_lsn: int
        self._segment_lsn: int  # of the first entry in the active segment
        self._durable_lsn: int  # all entries below it are synced
        self._unsynced = UnsyncedWrites()
        self._spare_identity: int | None = None
        self._prepare_asked = False
        self._commit_bytes = 0.0  # moving average over about the last 16 commits

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
        return cls(TakenDirectory.take(data_directory, files or SystemFileSystem()), flush, segment_bytes, ports)

    @property
    def data_directory(self) -> Path:
        return self.directory.parent.absolute()

    def is_in_place(self) -> bool:
        return self._directory_lock.is_in_place()

    def is_owned(self) -> bool:
        return True  # the directory lock is held until this process ends

    def disk_space(self) -> tuple[int, int]:
        return self._files.total_bytes(self.directory), self._files.free_bytes(self.directory)

    def recover(self, archived_lsn: int = 0) -> Iterator[StoredEntry]:
        assert self._active is None, "a journal is recovered once"
        self._archived_lsn = archived_lsn
        recovery = Recovery(
            self._files,
            self.directory,
            must_sync=lambda: self.flush_policy.must_sync_recovered,
            archived_lsn=archived_lsn,
            clean=self.clean_shutdown,
        )
        yield from recovery.batches()
        assert recovery.end is not None
        # The mark must be durably removed before the first write. Otherwise a crash would look like a clean shutdown.
        remove_mark(self._files, self.directory.parent)
        self._start(recovery.end, is_synced=recovery.is_synced)

    def _start(self, end: JournalEnd, *, is_synced: bool) -> None:
        self._active = end.segment
        self._position = end.position
        self._next_lsn = end.next_lsn
        self._segment_lsn = end.segment_lsn
        # 0 claims nothing. A frame may declare only synced entries durable, or recovery would report a torn tail as
        # damage.
        self._durable_lsn = end.next_lsn if is_synced else 0
        if not is_synced:
            self._unsynced.recovered(0, end.next_lsn, list(end.sealed_ends))
        self._spare_identity = end.spare_identity
        self._sealed_ends = dict(end.sealed_ends)
        self._readable.first_number = next(iter(self._sealed_ends), end.segment.number)

    @property
    def next_lsn(self) -> int:
        return self._next_lsn

    @property
    def segment_count(self) -> int:
        return self._active.number - self._readable.first_number + 1 if self._active is not None else 0

    @property
    def has_spare(self) -> bool:
        return self._spare_identity is not None

    def write(self, entries: Sequence[JournalEntry]) -> Ticket:
        """Append one commit and set the positions of its entries. The commit is durable only after `sync`.

        Raises:
            JournalFailed: the write failed, or the journal has failed or is closed.
        """
        with self._write_lock:
            if self._failure is not None or self._closed:
                self._refuse()
            assert self._active is not None, "exhaust recover() before writing"
            if not entries:
                return Ticket(self._next_lsn, 0, 0, None, None)
            ticket = self._write_when_possible(entries)
            asks = self._asks_for_spare()
        if asks:
            self._ports.prepare_wanted()
        return ticket

    def write_nowait(self, entries: Sequence[JournalEntry]) -> Ticket | None:
        size = FRAME_HEADER_SIZE + sum(entry.size_bytes + ENTRY_OVERHEAD for entry in entries)
        if size > NOWAIT_BYTES_MAX or not self._write_lock.acquire(blocking=False):
            return None
        try:
            if self._failure is not None or self._closed:
                self._refuse()
            # While an obstacle holds writers up, this commit has to wait too.
            if not entries or self.room.obstacle is not None or not self._fits(size, len(entries)):
                return None
            try:
                ticket = self._write(entries)
            except OSError as error:
                # A lack of space or descriptors is left to `write`, which waits in a thread and tries again.
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
        assert self._active is not None, "exhaust recover() before writing"
        has_room = self._position + size <= self.segment_bytes
        return has_room and self._next_lsn + count - self._segment_lsn <= SEGMENT_ENTRIES_MAX and not self._has_better()

    def _has_better(self) -> bool:
        """Return whether to roll early, from a growing segment to a zero-filled spare, for its faster syncs."""
        assert self._active is not None
        return self.has_spare and not self._active.zero_filled and self._is_worth_filling() and self._may_roll()

    def _write_when_possible(self, entries: Sequence[JournalEntry]) -> Ticket:
        while True:
            obstacle = self.room.obstacle
            may_wait = self._sealed_max is not None and not self._closed and self._failure is None
            if obstacle is not None and may_wait and lacks_margin(obstacle, self.disk_space):
                self.room.wait(obstacle)
                continue
            try:
                ticket = self._write(entries)
            except OSError as error:
                if self._sealed_max is None or not is_passing(error):
                    self._fail(error)
                self.room.wait(error)  # if the journal was closed or failed during the wait, `_place` refuses
            else:
                if self.room.obstacle_passed():
                    self._prepare_asked = False  # preparing the spare failed for the same reason: request it again
                return ticket

    def _write(self, entries: Sequence[JournalEntry]) -> Ticket:
        parts, size, segment = self._place(entries)
        first_lsn = self._next_lsn
        # The fields change only after the write. A refused write leaves the position as it was, and the next attempt
        # overwrites whatever part of the frame was written.
        file = segment.take_file()
        is_synced = self.flush_policy.must_sync(entries)
        # A large commit bypasses the page cache if it must be synced and its pages are not in the cache yet: for
        # batches of 1 MB, more than half of the processor time went into allocating pages.
        if segment.zero_filled or not is_synced:
            write_all(file, parts, self._position)
        else:
            self._writer.write(file, parts, size, self._position)
        self._position += size
        self._commit_bytes += (size - self._commit_bytes) / 16
        self._next_lsn = first_lsn + len(entries)
        if is_synced:
            self.flush_policy.sync_begins(self._next_lsn)
        else:
            self.flush_policy.written(entries)
        # Before the lock is released, so that no later frame can declare this commit durable.
        self._unsynced.written(first_lsn, is_synced=is_synced)
        if not is_synced:
            segment.give_back(file)
            return Ticket(first_lsn, len(entries), size, None, None)
        return Ticket(first_lsn, len(entries), size, segment, file, tuple(self._unsynced.segments))

    def _place(self, entries: Sequence[JournalEntry]) -> tuple[list[Buffer], int, Segment]:
        """Encode a commit for the segment that it fits in; wait while no further segment is allowed.

        Returns the parts of the frame, its size in bytes, and the segment.
        """
        while True:
            segment = self._active
            if self._closed or self._failure is not None:
                self._refuse()
            assert segment is not None, "close() sets _closed before it clears the active segment"
            if self._has_better():
                segment = self._roll()
            parts, size = self._encode(entries, segment, self._next_lsn)
            # A commit larger than a whole segment gets a segment of its own.
            if self._fits(size, len(entries)) or self._position == HEADER_SPACE:
                return parts, size, segment
            if self._may_roll():
                self._roll()
            else:
                # Waiting releases the write lock, so everything is checked again afterwards.
                self.room.wait_for_archive()

    def _asks_for_spare(self) -> bool:
        asks = not self._prepare_asked and self._wants_spare()
        self._prepare_asked = self._prepare_asked or asks
        return asks

    def _is_worth_filling(self) -> bool:
        # Zero-filling writes every byte twice. For large commits that costs more than the faster syncs save.
        return self._commit_bytes < LARGE_WRITE_BYTES_MIN

    def _wants_spare(self) -> bool:
        entries = self._next_lsn - self._segment_lsn
        is_half_full = self._position > self.segment_bytes // 2 or entries > SEGMENT_ENTRIES_MAX // 2
        return is_half_full and self._is_worth_filling() and not self.has_spare

    def _may_roll(self) -> bool:
        """Return whether one more complete segment may wait for the archive.

        The limit bounds the number of entries that recovery has to replay.
        """
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
        """Make a new segment the active one. Unsynced commits in the old one keep its file and sync it themselves.

        A spare replaces an active segment without frames, under the same number: recovery expects each segment to
        continue the one before it.
        """
        assert self._active is not None
        is_complete = self._position > HEADER_SPACE
        assert is_complete or self._spare_identity is not None, "an empty segment is replaced only by a spare"
        number = self._active.number + is_complete
        if is_complete:
            # Only a file of the full size can be recycled as a spare.
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
        try:
            if ticket.file is not None:
                self._sync_files(ticket.segments, ticket.file)
        except OSError as error:
            with self._write_lock:
                # The file is not given back: the kernel has reported the error to it once and would not do so again.
                self._fail(error)
        # The sync of another commit may have failed. This commit may lie after that one, and recovery would cut both.
        if self._failure is not None:
            self._refuse()
        if ticket.file is not None:
            assert ticket.segment is not None, "a ticket with a file names its segment"
            with self._write_lock:
                ticket.segment.give_back(ticket.file)
                ticket.file = None
                self._synced(ticket.first_lsn + ticket.entry_count, ticket.segments, ticket.first_lsn)

    def _sync_files(self, segments: tuple[int, ...], file: File) -> None:
        for number in segments:
            # A recycled segment needs no sync: the archive holds its records durably.
            with suppress(RecycledError), self._readable.reading(number) as complete:
                complete.sync_data()
        file.sync_data()

    def _synced(self, end_lsn: int, segments: tuple[int, ...], lsn: int | None = None) -> None:
        self.flush_policy.synced(end_lsn)
        self._unsynced.synced(end_lsn, segments, lsn)
        self._durable_lsn = self._unsynced.durable_lsn(self._next_lsn)

    def sync_written(self) -> None:
        with self._write_lock:
            if self._closed or self._failure is not None or self._active is None:
                return
            self.flush_policy.sync_begins(self._next_lsn)
            if not self._unsynced:
                return
            segment, end_lsn, segments = self._active, self._next_lsn, tuple(self._unsynced.segments)
            # Taken under the lock, before the sync: later writes are not covered, and `end_lsn` does not claim them.
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
        """Zero-fill a spare segment; return at once if one is ready. Blocks: call it in a thread.

        Without a spare, the journal continues with segments that grow.

        Raises:
            OSError: the spare cannot be written, for example on a full disk. The journal is unchanged.
        """
        with self._prepare_lock:
            if self.has_spare or self._closed:
                return
            identity = prepare_spare(self._files, self.directory, self.segment_bytes, lambda: self._closed)
            with self._write_lock:
                self._spare_identity = identity

    # Archiving and recycling of complete segments

    def seal(self) -> None:
        with self._write_lock:
            if self._failure is None and not self._closed and self._position > HEADER_SPACE and self._may_roll():
                try:
                    self._roll()
                except OSError as error:
                    # Nothing was written yet, so the journal is intact.
                    if is_passing(error):
                        raise
                    self._fail(error)

    def sealed(self) -> list[tuple[int, int]]:
        with self._write_lock:
            acknowledged_lsn = self._unsynced.acknowledged_lsn(self._next_lsn)
            return [(number, end) for number, end in self._sealed_ends.items() if end <= acknowledged_lsn]

    def archive_waits(self, obstacle: OSError | None) -> None:
        with self._write_lock:
            self.room.archive_waits(obstacle)

    def attach_archiver(self, sealed_max: int) -> None:
        self._sealed_max = sealed_max

    def detach_archiver(self) -> None:
        with self._write_lock:
            self._sealed_max = None
            self.room.notify()
        self._ports.archiver_detached()

    def sealed_entries(self, number: int, end_lsn: int, from_lsn: int = 0) -> Iterator[StoredEntry]:
        return sealed_entries(self._files, self.directory, number, end_lsn, from_lsn, self._archiver_reader)

    def origin(self, place: int, size_bytes: int) -> StoredObject | None:
        del place, size_bytes
        return None  # the archive may not share a segment

    def recycle(self, number: int) -> None:
        # Oldest first: a crash in between must not leave a gap in the numbers, which recovery takes for damage.
        for each in [each for each in self._sealed_ends if each <= number]:
            self._recycle_one(each)

    def _recycle_one(self, number: int) -> None:
        # First of all: a reader must never see the frames of a file's next use.
        self._readable.retire(number)
        with self._prepare_lock:
            path = segment_path(self.directory, number)
            has_use = not self.has_spare and not self._closed
            identity = recycle_segment(self._files, self.directory, path, self.segment_bytes) if has_use else None
            # A spare is ready already, or the file does not have the full size.
            if identity is None:
                discard_segment(self._files, path)
            with self._write_lock:
                self._archived_lsn = self._sealed_ends.pop(number)
                self._unsynced.recycled(number)
                if identity is not None:
                    self._spare_identity = identity
                self.room.notify()

    def close(self) -> None:
        """Mark a clean shutdown and release the data directory. A failure to write the mark is logged.

        The mark is omitted if the journal has failed, or a commit was written and not synced yet.
        """
        self._closed = True
        with self._write_lock:
            self.room.notify()
        with self._prepare_lock, self._write_lock:
            try:
                # With a commit between write and sync, nothing may be declared durable. The next startup recovers as
                # after a crash.
                if self._active is not None and self._failure is None and not self._unsynced.is_syncing:
                    self._end(self._active)
            except OSError as error:  # acknowledged commits are durable, and the next startup recovers as after a kill
                logger.warning(
                    "the end of the journal cannot be marked, so the next startup recovers as after a crash: %s", error
                )
            finally:
                self._readable.close()
                self._active = None
                self._directory_lock.release()

    def _end(self, segment: Segment) -> None:
        # With flush=os, acknowledged commits may be unsynced. The mark declares all of them durable.
        if self._unsynced:
            for number in (*self._sealed_ends, segment.number):
                self._readable.find(number).sync_data()
            self._durable_lsn = self._next_lsn
        self._seal(segment)
        self._mark(segment)

    def _seal(self, segment: Segment) -> None:
        file = segment.take_file()
        # An empty commit declares all commits before it durable. Damage to the last of them is then no longer a torn
        # tail.
        parts, size = self._encode((), segment, self._next_lsn)
        write_all(file, parts, self._position)
        self._position += size
        # Without the unused space, the next startup need not search it for frames.
        file.truncate(self._position)
        file.sync_data()

    def _mark(self, segment: Segment) -> None:
        manifest = self._ports.manifest_end()
        # If the directory was replaced, the mark would end up in the new one.
        if manifest is not None and self._directory_lock.is_in_place():
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


# Even the smallest segment has space for the empty commit that `close` appends.
assert HEADER_SPACE + FRAME_HEADER_SIZE < SEGMENT_BYTES_MIN
