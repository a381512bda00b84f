"""Reading the journal back after a stop or a crash.

Rules of this file: what is kept is the contiguous prefix: frames in LSN order, each intact and written for the segment
it lies in. What follows the first one that is not is cut off, durably, before anything new is written: else a frame
that was never acknowledged could come back to life behind a later one. But when a frame further on says that the
missing one had been durable, then this is no torn tail: the start is refused and nothing is touched.
After a clean shutdown there is nothing to cut off or to write: the journal ends where the mark says, or was damaged.
What no later frame declares durable is written once more before it is synced: after a sync that failed, the kernel
takes the pages that it lost for written, so they can be read, and another sync succeeds without them.
Killed at any point, it does the same again.
"""

from collections.abc import Callable, Generator, Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from pipeline_broker.files.file_system import FileSystem, write_all
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
    is_zero_behind,
    open_segment_file,
    segment_number,
    segment_path,
)
from pipeline_broker.log.journal.segment_window import SegmentWindow


class JournalEnd(NamedTuple):
    """Where writing goes on.

    Attributes:
        segment, position, next_lsn: of the next frame.
        segment_lsn: of the first frame in that segment.
        spare_identity: of the spare, if there is one.
        sealed_ends: of each segment in front of the last, by its number, oldest first: the LSN behind it.
    """

    segment: Segment
    position: int
    next_lsn: int
    segment_lsn: int
    spare_identity: int | None
    sealed_ends: dict[int, int]


class _Piece(NamedTuple):
    """Where frames lie one behind the other, and the LSN behind them."""

    number: int
    position: int
    size_bytes: int
    end_lsn: int


class Recovery:
    """One pass over the journal's files; `end` is known when `batches` is exhausted.

    Args:
        files: the file system.
        directory: of the journal.
        must_sync: asked at the end of `batches` whether what is kept must be durable when that is exhausted.
        archived_lsn: everything in front of it is in the archive, at the boundary of two segments.
        clean: the mark of the clean shutdown that the journal ended with, if it did.
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
        self.is_synced = False  # what is kept is durable
        self._archived_lsn = archived_lsn
        self._clean = clean
        self._next_lsn = archived_lsn
        self._ends: dict[int, int] = {}
        self._last_first_lsn: int  # of the last segment that is kept
        self._lags: bool  # what is in the journal ends in front of the archive's end
        self._unproven: list[_Piece] = []  # frames that no later one declares durable, oldest first
        self.end: JournalEnd | None = None

    def batches(self) -> Iterator[StoredEntry]:
        """All batches in LSN order, each valid until the next is asked for; then the torn tail is cut."""
        numbers = self._segment_numbers()
        last: tuple[int, int, int] | None = None  # number, identity and end of the last segment with a valid header
        archived = kept = self._note_archived(numbers)
        for number in numbers[archived:]:
            window = self._window(number)
            identity = self._identity(window, number)
            if identity is None:
                break
            if kept == archived:
                self._begin(window, number)
            elif window.frame_at(HEADER_SPACE, self._next_lsn) is None:
                break
            self._last_first_lsn = self._next_lsn
            end = yield from self._segment_batches(window, number)
            last = (number, identity, end)
            self._ends[number] = self._next_lsn
            kept += 1
        self._go_on_behind_the_archive(last)
        if not self._ends_as_marked(last, len(numbers) - kept):
            self._refuse_damage(numbers[max(0, kept - 1) :], last)
            self._refuse_other_end()
            self.is_synced = self._must_sync()
            if self.is_synced and kept:
                self._make_durable(numbers[:kept])
        else:
            self.is_synced = True
        self.end = self._cut(numbers[kept:], last)

    def _ends_as_marked(self, last: tuple[int, int, int] | None, rejected_count: int) -> bool:
        """Whether the journal ends as it did at a clean shutdown: then nothing is torn, and all of it is durable."""
        clean = self._clean
        if clean is None or rejected_count:
            return False
        return last == (clean.number, clean.identity, clean.position) and self._next_lsn == clean.next_lsn

    def _refuse_other_end(self) -> None:
        if self._clean is not None:
            raise JournalCorrupt(
                f"{self._directory} can be read up to record {self._next_lsn - 1} only, but the broker had stopped in "
                f"order with {self._clean.next_lsn - 1}; nothing was changed; without the file {MARK_NAME} what is "
                "left counts as that of a crash"
            )

    def _segment_numbers(self) -> list[int]:
        names = self._files.list_directory(self._directory)
        numbers = sorted(number for name in names if (number := segment_number(name)) is not None)
        for before, number in pairwise(numbers):  # `_begin` looks at those before
            if number != before + 1:
                raise JournalCorrupt(
                    f"segments are missing in {self._directory}: {number} follows {before}; nothing was changed; "
                    "restore the files between them, or move those away that another program has put there"
                )
        return numbers

    def _window(self, number: int) -> SegmentWindow:
        return SegmentWindow(open_segment_file(self._files, self._directory, number))

    def _begin(self, window: SegmentWindow, number: int) -> None:
        """The oldest segment must begin where the archive ends, or in front of it."""
        header = window.frame_at(HEADER_SPACE)
        if header is None:
            return
        if header.first_lsn > self._archived_lsn:
            raise JournalCorrupt(
                f"{segment_path(self._directory, number)} begins with record {header.first_lsn}, but the archive ends "
                f"with {self._archived_lsn - 1}; nothing was changed"
            )
        self._next_lsn = header.first_lsn

    def _identity(self, window: SegmentWindow, number: int) -> int | None:
        """None for a segment whose creation was cut short: no frame is written before the header is durable."""
        if window.identity is None and window.size_bytes > HEADER_SPACE:
            raise JournalCorrupt(f"the header of {segment_path(self._directory, number)} is damaged")
        return window.identity

    def _note_archived(self, numbers: list[int]) -> int:
        """How many segments, from the oldest on, need not be read, because the archive has all that is in them.

        Those are the ones in front of the last one that begins at or before the end of the archive. What is damaged in
        them costs nothing.
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
        """Of the segment's first frame; None when there is none that can be read."""
        header = self._window(number).frame_at(HEADER_SPACE)
        return None if header is None else header.first_lsn

    def _go_on_behind_the_archive(self, last: tuple[int, int, int] | None) -> None:
        """A journal that ends in front of the archive's end, because it lost what is archived, goes on at that end."""
        self._lags = self._next_lsn < self._archived_lsn
        if self._lags:
            assert last is not None, "without a segment the journal begins at the archive's end"
            self._next_lsn = self._ends[last[0]] = self._archived_lsn

    def _segment_batches(self, window: SegmentWindow, number: int) -> Generator[StoredEntry, None, int]:
        """The segment's batches; the generator's value is the position behind its last valid frame."""
        position = HEADER_SPACE
        while True:
            entries, end = self._run(window, number, position)
            yield from entries
            if end == position:
                header = window.frame_at(position, self._next_lsn)  # perhaps the window ends too early
                if header is None:
                    return position
                yield from self._entries(window, number, header, position)
                end = position + FRAME_HEADER_SIZE + header.body_size
            position = end

    def _run(self, window: SegmentWindow, number: int, position: int) -> tuple[list[StoredEntry], int]:
        """Entries of valid frames that the window holds, and the position behind these; it may be none."""
        start, lsn = window.start, self._next_lsn
        assert position >= start, "a segment is read forwards"
        assert window.identity is not None, "asked before"
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
        """The entries of a valid frame, which lies in the window."""
        start = window.start
        try:
            if header.first_lsn >= self._archived_lsn:
                yield from iterate_entries(header, window.data, position - start, global_position(number, start))
        except ValueError as error:
            raise self._malformed(number, position, error) from error
        self._next_lsn += header.entry_count
        self._note(header.durable_lsn, _Piece(number, position, FRAME_HEADER_SIZE + header.body_size, self._next_lsn))

    def _malformed(self, number: int, position: int, error: ValueError) -> JournalCorrupt:
        return JournalCorrupt(f"{segment_path(self._directory, number)} at {position}: {error}")

    def sealed_batches(self, number: int, end_lsn: int) -> Iterator[StoredEntry]:
        """The batches of one segment that the archive has not; `end_lsn` is behind its last. See `sealed_entries`."""
        window = self._window(number)
        self._identity(window, number)
        first = window.frame_at(HEADER_SPACE)
        if first is not None:  # one without a frame was never complete
            self._next_lsn = first.first_lsn
            yield from self._segment_batches(window, number)
            if self._next_lsn == end_lsn:
                return
        raise JournalCorrupt(
            f"{segment_path(self._directory, number)} is damaged: records {self._next_lsn} to {end_lsn - 1} "
            "cannot be read"
        )

    def _note(self, durable_lsn: int, piece: _Piece) -> None:
        """Keep in mind which frames are not proved durable; they are those that were in flight together."""
        unproven = self._unproven
        if unproven and unproven[0].end_lsn <= durable_lsn:
            self._unproven = unproven = [one for one in unproven if one.end_lsn > durable_lsn]
        unproven.append(piece)

    def _make_durable(self, numbers: list[int]) -> None:
        """Write what may be in the page cache only once more, and sync it: the kept end of the journal, and its names.

        The header of a segment is written again with its frames, and that of the last one in any case.
        """
        kept = {numbers[-1], *(piece.number for piece in self._unproven)}
        files = {number: open_segment_file(self._files, self._directory, number) for number in kept}
        for file in files.values():
            write_all(file, [file.read(HEADER_SPACE, 0)], 0)
        for piece in self._unproven:
            file = files[piece.number]
            write_all(file, [file.read(piece.size_bytes, piece.position)], piece.position)
        for file in files.values():
            file.sync_data()
        self._files.sync_directory(self._directory)

    def _refuse_damage(self, numbers: list[int], last: tuple[int, int, int] | None) -> None:
        """Look behind the cut for frames that declare what is missing durable."""
        for number in numbers:
            window = self._window(number)
            self._identity(window, number)
            start = last[2] if last is not None and last[0] == number else HEADER_SPACE
            for header in window.frames_anywhere(start):
                if header.durable_lsn > self._next_lsn:
                    raise JournalCorrupt(
                        f"{segment_path(self._directory, number)} is damaged: records {self._next_lsn} to "
                        f"{header.durable_lsn - 1} were durable and cannot be read; nothing was changed"
                    )

    def _cut(self, rejected: list[int], last: tuple[int, int, int] | None) -> JournalEnd:
        for number in reversed(rejected):  # from the end, so that a crash in between leaves no gap in the numbers
            self._files.unlink(segment_path(self._directory, number))
            self._files.sync_directory(self._directory)
        spare_identity = self._spare_identity()
        if last is None:
            segment = create_segment(self._files, self._directory, rejected[0] if rejected else 1)
            return JournalEnd(segment, HEADER_SPACE, self._next_lsn, self._next_lsn, spare_identity, {})
        number, identity, position = last
        if self._lags:  # a frame behind the gap would not be found in the segment that has it
            segment = create_segment(self._files, self._directory, number + 1)
            return JournalEnd(segment, HEADER_SPACE, self._next_lsn, self._next_lsn, spare_identity, self._ends)
        path = segment_path(self._directory, number)
        file = open_segment_file(self._files, self._directory, number)
        zero_filled = is_zero_behind(file, position)
        if not zero_filled and file.size_bytes() > position:
            file.truncate(position)
            file.sync_data()
        segment = Segment(self._files, path, number, identity, zero_filled=zero_filled)
        segment.give_back(file)
        del self._ends[number]
        return JournalEnd(segment, position, self._next_lsn, self._last_first_lsn, spare_identity, self._ends)

    def _spare_identity(self) -> int | None:
        """The spare that an earlier run left."""
        if SPARE_NAME not in self._files.list_directory(self._directory):
            return None
        file = self._files.open(self._directory / SPARE_NAME)
        identity = decode_header(file.read(HEADER_SPACE, 0))
        if identity is None or file.size_bytes() > SEGMENT_FILE_BYTES_MAX:
            identity = None
            self._files.unlink(self._directory / SPARE_NAME)
        return identity


def sealed_entries(
    files: FileSystem, directory: Path, number: int, end_lsn: int, from_lsn: int = 0
) -> Iterator[StoredEntry]:
    """The batches of a segment that is complete, each valid until the next is asked for; may block.

    Args:
        files: the file system.
        directory: of the journal.
        number: of the segment.
        end_lsn: behind its last entry.
        from_lsn: what lies in front of it is left out. A power cut may take the segment that followed, so that one
            that was archived goes on.

    Raises:
        JournalCorrupt: it does not hold what was written to it.
        OSError: the disk cannot be read.
    """
    reading = Recovery(files, directory, must_sync=lambda: False, archived_lsn=from_lsn)
    yield from reading.sealed_batches(number, end_lsn)
