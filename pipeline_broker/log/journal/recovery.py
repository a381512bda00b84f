"""Recovery of the journal at startup: replay the intact frames, cut a torn tail, refuse damage."""

from collections.abc import Callable, Generator, Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from pipeline_broker.files.file_system import FileSystem, write_all
from pipeline_broker.files.large_reads import LARGE_WINDOW_BYTES, LargeReader
from pipeline_broker.log.errors import JournalCorrupt
from pipeline_broker.log.journal.clean_shutdown import MARK_NAME, CleanShutdown
from pipeline_broker.log.journal.frame import (
    FRAME_HEADER_SIZE,
    FrameHeader,
    StoredEntry,
    iterate_entries,
    read_run,
)
from pipeline_broker.log.journal.segment import (
    HEADER_SPACE,
    SEGMENT_FILE_BYTES_MAX,
    SPARE_NAME,
    Segment,
    create_segment,
    decode_header,
    global_position,
    is_zero_after,
    open_segment_file,
    segment_number,
    segment_path,
)
from pipeline_broker.log.journal.segment_window import SegmentWindow


class JournalEnd(NamedTuple):
    """The end of the recovered journal, where writing continues.

    Attributes:
        segment, position, next_lsn: segment, position and LSN of the next frame.
        segment_lsn: the LSN of the first frame in `segment`.
        spare_identity: identity of the spare segment; None without one.
        sealed_ends: end LSN (exclusive) of each complete segment by number, oldest first.
    """

    segment: Segment
    position: int
    next_lsn: int
    segment_lsn: int
    spare_identity: int | None
    sealed_ends: dict[int, int]


class _Piece(NamedTuple):
    number: int
    position: int
    size_bytes: int
    end_lsn: int


class Recovery:
    """One pass over the journal's files.

    * It keeps the longest prefix of frames in LSN order, each intact and of its segment's identity.
    * It cuts everything else, durably, before anything new is written. Otherwise a frame that was never acknowledged
      could reappear after a later one.
    * If a later frame declares a missing one durable, the tail is not torn but damaged. Recovery then raises
      JournalCorrupt and changes nothing.
    * After a clean shutdown the journal must end exactly at the mark, and nothing is cut or written.
    * After a crash at any point of a recovery, the next recovery gives the same result.

    Args:
        must_sync: called at the end of `batches`; returns whether the kept frames must be durable.
        archived_lsn: the archive holds all entries below it. Always a boundary between segments.
        clean: the mark of a clean shutdown; None after a crash.

    Attributes:
        end: set once `batches` is exhausted.
        is_synced: whether all kept frames are durable.
    """

    def __init__(
        self,
        files: FileSystem,
        directory: Path,
        *,
        must_sync: Callable[[], bool],
        archived_lsn: int = 0,
        clean: CleanShutdown | None = None,
    ) -> None:
        self._files = files
        self._directory = directory
        self._must_sync = must_sync
        self.is_synced = False
        self._archived_lsn = archived_lsn
        self._clean = clean
        self._next_lsn = archived_lsn
        self._ends: dict[int, int] = {}
        self._last_first_lsn: int  # first LSN of the last kept segment
        self._lags: bool  # whether the journal ends before the archive does
        self._unproven: list[_Piece] = []  # frames that no later frame declares durable, oldest first
        self.end: JournalEnd | None = None

    def batches(self) -> Iterator[StoredEntry]:
        """Yield all entries in LSN order, then cut the tail. A batch is valid until the next one is requested.

        Raises:
            JournalCorrupt: durable entries are damaged or missing. The files are unchanged.
            OSError: the disk failed.
        """
        numbers = self._segment_numbers()
        last: tuple[int, int, int] | None = None  # number, identity and end of the last segment with a valid header
        archived = kept = self._note_archived(numbers)
        for number in numbers[archived:]:
            window = self._window(number)
            identity = self._identity(window, number)
            # A crash interrupted the creation of this segment. It has no frames, and `_cut` deletes it.
            if identity is None:
                break
            if kept == archived:
                self._begin(window, number)
            elif window.frame_at(HEADER_SPACE, self._next_lsn) is None:
                break  # frames of a segment count only if they continue those of the segment before
            self._last_first_lsn = self._next_lsn
            end = yield from self._segment_batches(window, number)
            last = (number, identity, end)
            self._ends[number] = self._next_lsn
            kept += 1
        self._skip_to_archive_end(last)
        if not self._ends_as_marked(last, len(numbers) - kept):
            # Both checks come before the first change of a file.
            self._refuse_damage(numbers[max(0, kept - 1) :], last)
            self._refuse_other_end()
            self.is_synced = self._must_sync()
            if self.is_synced and kept:
                self._make_durable(numbers[:kept])
        else:
            self.is_synced = True
        self.end = self._cut(numbers[kept:], last)

    def _ends_as_marked(self, last: tuple[int, int, int] | None, rejected_count: int) -> bool:
        """Return whether the journal ends at the mark of a clean shutdown, so that all of it is durable."""
        clean = self._clean
        # A clean shutdown leaves no segments after the marked one.
        if clean is None or rejected_count:
            return False
        return last == (clean.number, clean.identity, clean.position) and self._next_lsn == clean.next_lsn

    def _refuse_other_end(self) -> None:
        if self._clean is not None:
            last, marked = self._next_lsn - 1, self._clean.next_lsn - 1
            difference = (
                f"ends with entry {last} as at the clean shutdown, but its segments have changed since"
                if last == marked
                else f"can be read up to entry {last}, but at the clean shutdown its last entry was {marked}"
            )
            raise JournalCorrupt(
                f"{self._directory} {difference}; nothing was changed. Restore the directory from a backup, or "
                f"delete the file {MARK_NAME} to start with the readable entries"
            )

    def _segment_numbers(self) -> list[int]:
        names = self._files.list_directory(self._directory)
        numbers = sorted(number for name in names if (number := segment_number(name)) is not None)
        for before, number in pairwise(numbers):  # missing segments at the beginning are found by `_begin`
            if number != before + 1:
                raise JournalCorrupt(
                    f"segments are missing in {self._directory}: {number} follows {before}; nothing was changed. "
                    "Restore the segments between them, or move away files that another program put there"
                )
        return numbers

    def _window(self, number: int, reader: LargeReader | None = None) -> SegmentWindow:
        file = open_segment_file(self._files, self._directory, number)
        return SegmentWindow(file) if reader is None else SegmentWindow(reader.source(file), LARGE_WINDOW_BYTES)

    def _begin(self, window: SegmentWindow, number: int) -> None:
        """Start at the first LSN of the oldest segment; raises JournalCorrupt if it is above the archive's end."""
        header = window.frame_at(HEADER_SPACE)
        if header is None:
            return
        if header.first_lsn > self._archived_lsn:
            raise JournalCorrupt(
                f"{segment_path(self._directory, number)} begins with entry {header.first_lsn}, but the archive ends "
                f"with entry {self._archived_lsn - 1}; nothing was changed. Restore the directory from a backup"
            )
        self._next_lsn = header.first_lsn

    def _identity(self, window: SegmentWindow, number: int) -> int | None:
        """Return the identity of a segment; None if its creation was interrupted, so that it has no frames yet."""
        if window.identity is None and window.size_bytes > HEADER_SPACE:
            raise JournalCorrupt(
                f"the header of {segment_path(self._directory, number)} is damaged. Restore the directory from a backup"
            )
        return window.identity

    def _note_archived(self, numbers: list[int]) -> int:
        """Return the number of oldest segments to skip, because the archive holds all of their entries.

        They are the segments before the last one that begins at or below the archive's end. Damage in them is harmless.
        """
        if not self._archived_lsn:
            return 0
        firsts = [self._first_lsn(number) for number in numbers]
        found = [place for place, lsn in enumerate(firsts) if lsn is not None and lsn <= self._archived_lsn]
        count = found[-1] if found else 0
        for place in range(count):
            self._ends[numbers[place]] = next(lsn for lsn in firsts[place + 1 :] if lsn is not None)
        return count

    def _first_lsn(self, number: int) -> int | None:
        header = self._window(number).frame_at(HEADER_SPACE)
        return None if header is None else header.first_lsn

    def _skip_to_archive_end(self, last: tuple[int, int, int] | None) -> None:
        """Continue at the archive's end if the journal ends before it, having lost entries that are archived."""
        self._lags = self._next_lsn < self._archived_lsn
        if self._lags:
            assert last is not None, "without a segment the journal begins at the archive's end"
            self._next_lsn = self._ends[last[0]] = self._archived_lsn

    def _segment_batches(self, window: SegmentWindow, number: int) -> Generator[StoredEntry, None, int]:
        """Yield the entries of a segment; return the end position of its last valid frame."""
        position = HEADER_SPACE
        while True:
            entries, end = self._run(window, number, position)
            yield from entries
            if end == position:
                header = window.frame_at(position, self._next_lsn)  # the frame may reach beyond the window
                if header is None:
                    return position
                yield from self._entries(window, number, header, position)
                end = position + FRAME_HEADER_SIZE + header.body_size
            position = end

    def _run(self, window: SegmentWindow, number: int, position: int) -> tuple[list[StoredEntry], int]:
        start, lsn = window.start, self._next_lsn
        assert position >= start, "a segment is read forwards"
        assert window.identity is not None, "batches() skips segments without an identity"
        place = global_position(number, start)
        try:
            run = read_run(window.data, position - start, window.identity, lsn, self._archived_lsn, place)
        except ValueError as error:
            raise self._malformed(number, position, error) from error
        end = start + run.end
        if end > position:
            self._next_lsn = run.end_lsn
            self._note(run.durable_lsn, _Piece(number, position, end - position, run.end_lsn))
        return run.entries, end

    def _entries(self, window: SegmentWindow, number: int, header: FrameHeader, position: int) -> Iterator[StoredEntry]:
        start = window.start
        try:
            if header.first_lsn >= self._archived_lsn:
                yield from iterate_entries(header, window.data, position - start, global_position(number, start))
        except ValueError as error:
            raise self._malformed(number, position, error) from error
        self._next_lsn += header.entry_count
        self._note(header.durable_lsn, _Piece(number, position, FRAME_HEADER_SIZE + header.body_size, self._next_lsn))

    def _malformed(self, number: int, position: int, error: ValueError) -> JournalCorrupt:
        return JournalCorrupt(f"{segment_path(self._directory, number)} is damaged at byte {position}: {error}")

    def sealed_batches(self, number: int, end_lsn: int, reader: LargeReader | None = None) -> Iterator[StoredEntry]:
        window = self._window(number, reader)
        self._identity(window, number)
        first = window.frame_at(HEADER_SPACE)
        if first is not None:  # a complete segment has at least one frame
            self._next_lsn = first.first_lsn
            yield from self._segment_batches(window, number)
            if self._next_lsn == end_lsn:
                return
        raise JournalCorrupt(
            f"{segment_path(self._directory, number)} is damaged: entries {self._next_lsn} to {end_lsn - 1} "
            "cannot be read"
        )

    def _note(self, durable_lsn: int, piece: _Piece) -> None:
        """Add frames to the unproven ones, and drop those that they declare durable.

        The unproven frames are those that were in flight together at the crash.
        """
        unproven = self._unproven
        if unproven and unproven[0].end_lsn <= durable_lsn:
            self._unproven = unproven = [one for one in unproven if one.end_lsn > durable_lsn]
        unproven.append(piece)

    def _make_durable(self, numbers: list[int]) -> None:
        """Write the unproven frames once more and sync them.

        After a failed sync the kernel takes the lost pages for clean. They can still be read, and another sync succeeds
        without writing them. Headers are rewritten too, because they may be among the lost pages.
        """
        kept = {numbers[-1], *(piece.number for piece in self._unproven)}
        files = {number: open_segment_file(self._files, self._directory, number) for number in kept}
        for file in files.values():
            # Written through the descriptor that is synced below, so that it reports an error of this write-back.
            write_all(file, [file.read(HEADER_SPACE, 0)], 0)
        for piece in self._unproven:
            file = files[piece.number]
            write_all(file, [file.read(piece.size_bytes, piece.position)], piece.position)
        for file in files.values():
            file.sync_data()
        self._files.sync_directory(self._directory)

    def _refuse_damage(self, numbers: list[int], last: tuple[int, int, int] | None) -> None:
        """Refuse a frame after the cut that declares a missing entry durable.

        Raises:
            JournalCorrupt: such a frame exists, a segment header is damaged, or the search would take very long.
        """
        for number in numbers:
            window = self._window(number)
            self._identity(window, number)
            start = last[2] if last is not None and last[0] == number else HEADER_SPACE
            for header in window.frames_anywhere(start):
                if header.durable_lsn > self._next_lsn:
                    raise JournalCorrupt(
                        f"{segment_path(self._directory, number)} is damaged: entries {self._next_lsn} to "
                        f"{header.durable_lsn - 1} were durable and cannot be read; nothing was changed. Restore the"
                        " directory from a backup"
                    )

    def _cut(self, rejected: list[int], last: tuple[int, int, int] | None) -> JournalEnd:
        for number in reversed(rejected):  # last first, so that a crash in between leaves no gap in the numbers
            self._files.unlink(segment_path(self._directory, number))
            self._files.sync_directory(self._directory)
        spare_identity = self._spare_identity()
        if last is None:
            segment = create_segment(self._files, self._directory, rejected[0] if rejected else 1)
            return JournalEnd(segment, HEADER_SPACE, self._next_lsn, self._next_lsn, spare_identity, {})
        number, identity, position = last
        if self._lags:  # LSNs in one segment are contiguous, so entries after the gap need a new segment
            segment = create_segment(self._files, self._directory, number + 1)
            return JournalEnd(segment, HEADER_SPACE, self._next_lsn, self._next_lsn, spare_identity, self._ends)
        path = segment_path(self._directory, number)
        file = open_segment_file(self._files, self._directory, number)
        # A zero-filled rest keeps its space: syncs in it are faster.
        zero_filled = is_zero_after(file, position)
        if not zero_filled and file.size_bytes() > position:
            # Durably, before the next frame is written: a torn frame must not reappear after it.
            file.truncate(position)
            file.sync_data()
        segment = Segment(self._files, path, number, identity, zero_filled=zero_filled)
        segment.give_back(file)
        del self._ends[number]
        return JournalEnd(segment, position, self._next_lsn, self._last_first_lsn, spare_identity, self._ends)

    def _spare_identity(self) -> int | None:
        """Return the identity of the spare of an earlier run; None without one. Delete an invalid spare."""
        if SPARE_NAME not in self._files.list_directory(self._directory):
            return None
        file = self._files.open(self._directory / SPARE_NAME)
        identity = decode_header(file.read(HEADER_SPACE, 0))
        if identity is None or file.size_bytes() > SEGMENT_FILE_BYTES_MAX:
            identity = None
            # A broken spare is worthless.
            self._files.unlink(self._directory / SPARE_NAME)
        return identity


def sealed_entries(
    files: FileSystem, directory: Path, number: int, end_lsn: int, from_lsn: int = 0, reader: LargeReader | None = None
) -> Iterator[StoredEntry]:
    """Yield the entries of a complete segment. Blocks. A batch is valid until the next one is requested.

    Args:
        reader: reads large windows; None to read through the page cache.
        end_lsn: the LSN after the segment's last entry.
        from_lsn: entries below it are skipped. A segment may begin with archived entries: after a power cut, the
            journal can continue in an archived segment whose successor was lost.

    Raises:
        JournalCorrupt: the segment is damaged.
        OSError: the disk cannot be read.
    """
    reading = Recovery(files, directory, must_sync=lambda: False, archived_lsn=from_lsn)
    yield from reading.sealed_batches(number, end_lsn, reader)
