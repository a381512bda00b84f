"""Verification of the journal of a data directory, with the rules of recovery."""

from collections.abc import Generator, Iterator
from itertools import pairwise
from pathlib import Path

import attrs

from pipeline_broker.files.file_system import FileSystem
from pipeline_broker.inspect.entry_check import EntryCheck
from pipeline_broker.inspect.findings import (
    Damage,
    Finding,
    FrameFound,
    SegmentEnd,
    SegmentFound,
    Superseded,
    TornTail,
)
from pipeline_broker.inspect.journal_files import extra_files, segment_numbers
from pipeline_broker.inspect.journal_segment import JournalSegment, Rest, journal_file, open_segment
from pipeline_broker.inspect.stored_archive import Manifests
from pipeline_broker.log.errors import JournalCorrupt
from pipeline_broker.log.journal.frame import FRAME_HEADER_SIZE, FrameHeader, StoredEntry, iterate_entries
from pipeline_broker.log.journal.segment import HEADER_SPACE, segment_path
from pipeline_broker.log.journal.taken_directory import JOURNAL_NAME

__all__ = ["JournalReader"]


@attrs.frozen
class _Suspect:
    """Bytes after the valid frames that may be a torn or a damaged frame."""

    segment: int
    rest: Rest
    found: TornTail


class JournalReader:
    """One pass over a journal, one segment at a time.

    The valid part of the journal is the contiguous prefix of frames in LSN order. It starts where the archive ends, or
    earlier. The rest is a torn tail, unless a later intact frame declares that a missing one was durable: then it is
    damage. Unlike recovery, the pass also checks every batch (see `entry_check`).

    A running broker removes the oldest segments. Then the pass starts over with the next one.

    Args:
        data_directory: a broker's data directory.
        manifests: the manifest of the archive.
        check: receives all valid entries in order, and starts over with the pass.
    """

    def __init__(
        self,
        files: FileSystem,
        data_directory: Path,
        manifests: Manifests,
        check: EntryCheck,
    ) -> None:
        self._files = files
        self._directory = data_directory / JOURNAL_NAME
        self._manifests = manifests
        self._check = check
        #: The LSN after the last valid entry.
        self.next_lsn = 0
        self._archived_lsn: int | None = None
        self._first_kept: int | None = None
        self._last_kept = 0
        self._declared_durable = 0
        self._suspects: list[_Suspect] = []
        self._prefix_ended = False
        self._frames = self._entries = 0  # of the current segment
        # Number, identity and end of the last segment with a valid frame.
        self._last_end: tuple[int, int | None, int] | None = None

    def findings(self) -> Iterator[Finding]:
        self._restart()
        numbers = segment_numbers(self._files, self._directory)
        if not numbers and self.next_lsn:
            reason = f"it has no segments, but the archive ends with LSN {self.next_lsn - 1}"
            yield Damage(JOURNAL_NAME, 0, reason)
        if numbers and numbers != list(range(numbers[0], numbers[0] + len(numbers))):
            before, after = next(pair for pair in pairwise(numbers) if pair[1] != pair[0] + 1)
            yield Damage(JOURNAL_NAME, 0, f"segments are missing: {after} follows {before}")
        for number in numbers:
            segment = open_segment(self._files, self._directory, number)
            if segment is None:
                yield self._superseded(number)
                continue
            try:
                yield from self._read_segment(segment)
            except JournalCorrupt as error:
                yield Damage(segment.file, 0, str(error))
        yield from self._judge_end()
        yield from self._check.unarchived()
        yield from extra_files(self._files, self._directory)

    def ends_at(self, number: int, identity: int, position: int) -> bool:
        return self._last_end == (number, identity, position)

    def _restart(self) -> None:
        manifest = self._manifests.refreshed() if self._manifests.manifest is not None else None
        self._check.begin(manifest)
        self._archived_lsn = None if manifest is None else manifest.lsn
        self.next_lsn = self._archived_lsn or 0
        self._first_kept = None
        self._last_kept = 0
        self._last_end = None
        self._suspects.clear()
        self._declared_durable = 0
        self._prefix_ended = False

    def _superseded(self, number: int) -> Superseded:
        # A running broker reuses only archived segments. So the journal may start at the next one.
        self._restart()
        return Superseded(journal_file(segment_path(self._directory, number).name))

    def _read_segment(self, segment: JournalSegment) -> Iterator[Finding]:
        size = segment.size_bytes
        yield SegmentFound(segment.number, None if segment.identity is None else f"{segment.identity:016x}", size)
        if segment.identity is None:
            # Without a header nothing in the segment is valid, so the prefix ends before it.
            self._prefix_ended = True
            if size > HEADER_SPACE:
                yield Damage(segment.file, 0, "the header of the segment is damaged")
            else:
                yield TornTail(segment.file, 0, size, "the segment's creation was cut short")
            return
        if self._first_kept is None and not self._prefix_ended:
            yield from self._begin(segment)
        self._frames = self._entries = 0
        position = HEADER_SPACE
        while not self._prefix_ended:
            position = yield from self._read_frames(segment, position)
            now = self._reread(segment, position)
            if now is None:
                yield self._superseded(segment.number)
                return
            if now is segment:
                break
            segment = now
        if self._frames:
            self._last_kept = segment.number
            self._last_end = (segment.number, segment.identity, position)
        elif self._first_kept != segment.number:
            self._prefix_ended = True
        yield self._end(segment, position)

    def _begin(self, segment: JournalSegment) -> Iterator[Finding]:
        first = segment.frame_at(HEADER_SPACE)
        if first is not None and first.first_lsn > (self._archived_lsn or 0):
            # The gap may not be real: a running broker may have archived and removed the previous segment.
            self._restart()
        self._first_kept = segment.number
        if first is None:
            return
        archived_lsn = self._archived_lsn
        if archived_lsn is not None and first.first_lsn > archived_lsn:
            lost = f"LSN {archived_lsn} to {first.first_lsn - 1} are neither in the archive nor in the journal"
            yield Damage(segment.file, HEADER_SPACE, lost)
        self.next_lsn = first.first_lsn

    def _read_frames(self, segment: JournalSegment, position: int) -> Generator[Finding, None, int]:
        """Yield the segment's frames that continue the prefix, and return the position after them."""
        while (header := segment.frame_at(position)) is not None and header.first_lsn == self.next_lsn:
            size = FRAME_HEADER_SIZE + header.body_size
            self._frames += 1
            yield FrameFound(segment.number, position, size, header.first_lsn, header.entry_count, header.durable_lsn)
            try:
                for lsn, entry in enumerate(_entries_of(segment, header, position), header.first_lsn):
                    self._entries += 1
                    yield from self._check.findings(segment, lsn, entry)
            except ValueError as error:
                yield Damage(segment.file, position, str(error))
            self.next_lsn += header.entry_count
            position += size
        return position

    def _reread(self, segment: JournalSegment, position: int) -> JournalSegment | None:
        """Return the segment, read again if frames arrived during the read; None if it was removed."""
        # A file is read from start to end while the broker writes. So the last frames may be seen without an earlier
        # one.
        self._note_declared(segment, position)
        if self._declared_durable <= self.next_lsn:
            return segment
        now = open_segment(self._files, self._directory, segment.number)
        if now is None:
            return None
        header = now.frame_at(position)
        return now if header is not None and header.first_lsn == self.next_lsn else segment

    def _note_declared(self, segment: JournalSegment, position: int) -> None:
        for header in segment.frames_anywhere(position):
            self._declared_durable = max(self._declared_durable, header.durable_lsn)

    def _end(self, segment: JournalSegment, position: int) -> SegmentEnd:
        frames, entries = self._frames, self._entries
        self._note_declared(segment, position)
        end, rest = segment.used_until(position), segment.rest_at(position)
        # Frames of an earlier use are expected in a recycled segment, and are not a torn tail.
        earlier_bytes = end - position if rest is Rest.EARLIER else 0
        if rest in {Rest.OWN, Rest.UNKNOWN}:
            reason = segment.why_not(position, self.next_lsn) if rest is Rest.OWN else rest.value
            found = TornTail(segment.file, position, end - position, reason)
            self._suspects.append(_Suspect(segment.number, rest, found))
        is_archived = self._archived_lsn is not None and bool(frames) and self.next_lsn <= self._archived_lsn
        unused_bytes = segment.size_bytes - end
        return SegmentEnd(
            segment.number, frames, entries, self.next_lsn, position, earlier_bytes, unused_bytes, is_archived
        )

    def _judge_end(self) -> Iterator[Finding]:
        next_lsn = self.next_lsn
        # A frame after the prefix may declare that the missing entries were durable.
        is_damaged = self._declared_durable > next_lsn
        for suspect in self._suspects:
            found = suspect.found
            # Later segments continue without a gap, so nothing of this tail was needed.
            if suspect.segment < self._last_kept:
                if suspect.rest is Rest.OWN:
                    yield attrs.evolve(
                        found,
                        reason=f"{found.reason}; no entry is missing, because the next segment continues without a gap",
                    )
            elif is_damaged:
                lost = f"LSN {next_lsn} to {self._declared_durable - 1} were durable and cannot be read"
                yield Damage(found.file, found.position, f"{found.reason}; {lost}")
                return
            else:
                yield found
        if is_damaged:
            reason = f"LSN {next_lsn} to {self._declared_durable - 1} were durable and are missing"
            yield Damage(JOURNAL_NAME, 0, reason)
        elif self._archived_lsn is not None and next_lsn < self._archived_lsn:
            reason = f"it ends before LSN {next_lsn}, and the archive holds the missing entries"
            yield TornTail(JOURNAL_NAME, 0, 0, reason)


def _entries_of(segment: JournalSegment, header: FrameHeader, position: int) -> Iterator[StoredEntry]:
    return iterate_entries(header, segment.data, position - segment.start, segment.start)
