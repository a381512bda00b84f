"""Reads and verifies the journal of a data directory.

Rules of this file: read only, no lock, so that a running broker's journal can be looked at as well; one segment at a
time in memory. It judges as recovery does: what counts is the contiguous prefix of frames in LSN order; what follows
it is a torn tail, unless an intact frame further on declares that the missing one had been durable: then it is damage.
Beyond recovery it checks every batch: its checksum, its length, and that the offsets of a partition have no gap.
"""

from collections.abc import Generator, Iterator
from pathlib import Path

import attrs

from pipeline_broker.inspect.findings import (
    BatchFound,
    Damage,
    Finding,
    FrameFound,
    JournalTotals,
    SegmentEnd,
    SegmentFound,
    TornTail,
)
from pipeline_broker.inspect.secrets import without_secrets
from pipeline_broker.log.frame import (
    FRAME_HEADER_SIZE,
    MAGIC_BYTES,
    FrameHeader,
    is_intact,
    iterate_entries,
    read_frame_header,
    split_key,
)
from pipeline_broker.log.journal import JOURNAL_NAME
from pipeline_broker.log.segment import HEADER_SPACE, SEGMENT_SUFFIX, decode_header, segment_path
from pipeline_broker.records.batch import CHECKED_FROM, BatchHeader, read_header
from pipeline_broker.records.checksum import crc32c
from pipeline_broker.records.errors import RecordError
from pipeline_broker.records.record import Record, iterate_records

__all__ = ["JournalReader", "NoDataDirectoryError"]


class NoDataDirectoryError(Exception):
    """There is no journal to inspect; the text is one line that says why."""


@attrs.frozen
class _Segment:
    """One segment's file, read."""

    number: int
    data: memoryview
    identity: int | None

    def header_at(self, position: int) -> FrameHeader | None:
        """The frame header there, if the frame could fit; its contents are not looked at."""
        return read_frame_header(self.data, position, len(self.data) - position)

    def frame_at(self, position: int) -> FrameHeader | None:
        """The intact frame there that was written for this segment."""
        header = self.header_at(position)
        if header is None or header.identity != self.identity or not is_intact(header, self.data, position):
            return None
        return header

    def frames_anywhere(self, position: int) -> Iterator[FrameHeader]:
        """Intact frames wherever their magic is found behind `position`."""
        data = self.data.obj
        assert isinstance(data, bytes)
        while (position := data.find(MAGIC_BYTES, position)) >= 0:
            header = self.frame_at(position)
            if header is not None:
                yield header
                position += FRAME_HEADER_SIZE + header.body_size - len(MAGIC_BYTES)
            position += len(MAGIC_BYTES)

    def used_until(self, position: int) -> int:
        """The end of what is not zero behind `position`."""
        rest = bytes(self.data[position:])
        return position + len(rest.rstrip(b"\0"))

    def why_not(self, position: int, next_lsn: int) -> str:
        """Why the prefix does not go on at `position`."""
        header = self.header_at(position)
        if header is None:
            return "no frame header, or a frame longer than the file"
        if header.identity != self.identity:
            return "a frame of an earlier life of this space"
        if not is_intact(header, self.data, position):
            return "the frame does not match its checksum"
        return f"the frame begins with LSN {header.first_lsn}, not {next_lsn}"


class JournalReader:
    """One pass over a journal.

    Args:
        data_directory: a broker's.
        with_records: read the records of each batch too.

    Raises:
        NoDataDirectoryError: there is no journal in it.
    """

    def __init__(self, data_directory: Path, *, with_records: bool = False) -> None:
        self.directory = data_directory / JOURNAL_NAME
        self._with_records = with_records
        self._totals = JournalTotals()
        self._next_offsets: dict[bytes, int] = {}
        self._next_lsn = 0
        self._last_kept = 0
        self._declared_durable = 0
        self._suspects: list[TornTail] = []
        self._prefix_ended = False
        try:
            names = [entry.name for entry in self.directory.iterdir()]
        except FileNotFoundError:
            what = "is no data directory: it has no journal" if data_directory.is_dir() else "does not exist"
            raise NoDataDirectoryError(f"{data_directory} {what}") from None
        except OSError as error:
            raise NoDataDirectoryError(f"{self.directory} cannot be read: {error.strerror}") from None
        stems = [name.removesuffix(SEGMENT_SUFFIX) for name in names if name.endswith(SEGMENT_SUFFIX)]
        self._numbers = sorted(int(stem) for stem in stems if stem.isdecimal())

    def findings(self) -> Iterator[Finding]:
        """Everything in the order in which it lies there; the verdict on the end and the totals come last.

        Raises:
            NoDataDirectoryError: a file cannot be read.
        """
        for finding in self._walk():
            self._count(finding)
            yield finding
        yield attrs.evolve(self._totals, next_lsn=self._next_lsn)

    def _count(self, finding: Finding) -> None:
        totals = self._totals
        if isinstance(finding, SegmentFound):
            totals = attrs.evolve(totals, segments=totals.segments + 1)
        elif isinstance(finding, BatchFound):
            count = finding.header.record_count if finding.header is not None else 0
            totals = attrs.evolve(
                totals,
                entries=totals.entries + 1,
                records=totals.records + count,
                batch_bytes=totals.batch_bytes + finding.size_bytes,
            )
        elif isinstance(finding, FrameFound):
            totals = attrs.evolve(totals, frames=totals.frames + 1)
        elif isinstance(finding, TornTail):
            totals = attrs.evolve(totals, torn_tails=totals.torn_tails + 1)
        elif isinstance(finding, Damage):
            totals = attrs.evolve(totals, damages=totals.damages + 1)
        self._totals = totals

    def _walk(self) -> Iterator[Finding]:
        numbers = self._numbers
        if numbers != list(range(1, len(numbers) + 1)):
            yield Damage(None, 0, f"segments are missing: found the numbers {numbers}")
        for number in numbers:
            yield from self._read_segment(self._open(number))
        yield from self._judge_end()

    def _open(self, number: int) -> _Segment:
        path = segment_path(self.directory, number)
        try:
            data = memoryview(path.read_bytes())
        except OSError as error:
            raise NoDataDirectoryError(f"{path} cannot be read: {error.strerror}") from None
        return _Segment(number, data, decode_header(data[:HEADER_SPACE]))

    def _read_segment(self, segment: _Segment) -> Iterator[Finding]:
        size = len(segment.data)
        identity = None if segment.identity is None else f"{segment.identity:016x}"
        yield SegmentFound(segment.number, identity, size)
        if segment.identity is None:
            self._prefix_ended = True
            if size > HEADER_SPACE:
                yield Damage(segment.number, 0, "the header of the segment is damaged")
            else:
                yield TornTail(segment.number, 0, size, "the segment's creation was cut short")
            return
        before = self._totals
        position = HEADER_SPACE
        if not self._prefix_ended:
            position = yield from self._read_frames(segment)
            if self._totals.frames > before.frames:
                self._last_kept = segment.number
            else:
                self._prefix_ended = segment.number > 1
        end = segment.used_until(position)
        if end > position:
            reason = segment.why_not(position, self._next_lsn)
            self._suspects.append(TornTail(segment.number, position, end - position, reason))
        for header in segment.frames_anywhere(position):
            self._declared_durable = max(self._declared_durable, header.durable_lsn)
        yield SegmentEnd(
            segment.number,
            self._totals.frames - before.frames,
            self._totals.entries - before.entries,
            self._next_lsn,
            position,
            size - end,
        )

    def _read_frames(self, segment: _Segment) -> Generator[Finding, None, int]:
        """The segment's frames that continue the prefix; the generator's value is the position behind the last."""
        position = HEADER_SPACE
        while (header := segment.frame_at(position)) is not None and header.first_lsn == self._next_lsn:
            size = FRAME_HEADER_SIZE + header.body_size
            yield FrameFound(segment.number, position, size, header.first_lsn, header.entry_count, header.durable_lsn)
            try:
                yield from self._read_entries(segment, header, position)
            except ValueError as error:
                yield Damage(segment.number, position, str(error))
            self._next_lsn += header.entry_count
            position += size
        return position

    def _read_entries(self, segment: _Segment, frame: FrameHeader, position: int) -> Iterator[Finding]:
        for lsn, entry in enumerate(iterate_entries(frame, segment.data, position, 0), frame.first_lsn):
            batch = entry.batch
            header, problem = _check(batch)
            records: tuple[Record, ...] = ()
            topic_id, partition = split_key(entry.key)
            if header is not None and not problem and self._with_records:
                try:
                    records = tuple(without_secrets(topic_id, record) for record in iterate_records(batch, header))
                except RecordError as error:
                    problem = str(error)
            yield BatchFound(segment.number, entry.place, lsn, topic_id, partition, len(batch), header, records)
            if header is not None and not problem:
                expected = self._next_offsets.get(entry.key, header.base_offset)
                if header.base_offset != expected:
                    problem = f"offset {expected} of the partition should follow, not {header.base_offset}"
                self._next_offsets[entry.key] = header.last_offset + 1
            if problem:
                yield Damage(segment.number, entry.place, f"batch at LSN {lsn}: {problem}")

    def _judge_end(self) -> Iterator[Finding]:
        """Torn, or damaged: what the frames behind the prefix declare decides."""
        next_lsn = self._next_lsn
        is_damaged = self._declared_durable > next_lsn
        for suspect in self._suspects:
            if is_damaged and suspect.segment >= self._last_kept:
                lost = f"records {next_lsn} to {self._declared_durable - 1} were durable and cannot be read"
                yield Damage(suspect.segment, suspect.position, f"{suspect.reason}; {lost}")
                return
            yield suspect


def _check(batch: memoryview) -> tuple[BatchHeader | None, str]:
    """The header of a batch, and what is wrong with it if anything is."""
    try:
        header = read_header(batch)
    except RecordError as error:
        return None, str(error)
    if header.size_bytes != len(batch):
        return header, f"it has {len(batch)} bytes and says {header.size_bytes}"
    if crc32c(batch[CHECKED_FROM:]) != header.crc:
        return header, "its checksum does not match"
    return header, ""
