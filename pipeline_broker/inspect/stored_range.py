"""Ranges of a partition's log that lie in one file each, small enough to send to another process and read there."""

from collections.abc import Iterator
from itertools import groupby

import attrs

from pipeline_broker.inspect.errors import RecordsGoneError, StoredDataError
from pipeline_broker.inspect.stored_logs import READS_MAX, StoredFiles, read_logs
from pipeline_broker.inspect.stored_place import StoredPlace
from pipeline_broker.log.archive.manifest import PartitionManifest
from pipeline_broker.log.errors import DamagedSegment, SegmentGone
from pipeline_broker.log.journal.offset_index import OffsetIndex
from pipeline_broker.log.journal.segment import split_position
from pipeline_broker.log.partition.committed_reads import end_of
from pipeline_broker.log.partition.partition_log import PartitionLog
from pipeline_broker.log.producers.aborted_transactions import AbortedTransaction
from pipeline_broker.log.producers.producer_state import ProducerStates
from pipeline_broker.log.read_result import BYTES_PER_READ, ColdRead

__all__ = ["StoredBatches", "StoredRange", "stored_ranges"]


@attrs.frozen
class StoredBatches:
    """Consecutive whole batches.

    Attributes:
        data: their bytes.
        offset, end_offset: the range of the wanted offsets; the end is exclusive.
        aborted: producer ids and first offsets of aborted transactions, to skip; None to use all records.
    """

    data: bytes
    offset: int
    end_offset: int
    aborted: list[tuple[int, int]] | None


@attrs.frozen
class StoredRange:
    """A range of offsets in one archived segment, or in one segment of the journal.

    A running broker may archive or compact the records before they are read. Then the range is located again.

    Attributes:
        place: the data of the broker that leads the partition.
        first_offset, end_offset: the offsets; the end is exclusive.
        archived: the partition with only this segment; None for data in the journal.
        placed: the batches in the journal: first offset, place in the journal, size in bytes, largest timestamp.
        aborted: aborted transactions with records in the range, to skip; None to use all records.
    """

    place: StoredPlace
    topic: str
    topic_id: bytes
    partition: int
    first_offset: int
    end_offset: int
    archived: PartitionManifest | None
    placed: tuple[tuple[int, int, int, int], ...]
    aborted: tuple[AbortedTransaction, ...] | None

    def read(self, stored: StoredPlace, *, skips_gone: bool = False) -> Iterator[StoredBatches]:
        """Yield the batches of the range, a few megabytes at a time.

        Args:
            stored: a data directory, a node in a store, or the directory of a cluster.
            skips_gone: skip records that were deleted.

        Raises:
            RecordsGoneError: records were deleted since the range was made, and `skips_gone` is False.
            StoredDataError: the data is damaged, also when it is located again.
            NoDataDirectoryError: the data cannot be read.
        """
        pending, offset = [self], self.first_offset
        tries, tried_from = 0, -1
        while pending:
            current = pending.pop(0)
            offset = max(offset, current.first_offset)
            try:
                for batches in current._batches(offset):  # noqa: SLF001 - another StoredRange
                    yield batches
                    offset = batches.end_offset
                offset = current.end_offset
            except (DamagedSegment, SegmentGone, FileNotFoundError) as error:
                # Count tries at one offset only: a busy broker moves files all the time, and progress resets the count.
                tries = tries + 1 if offset == tried_from else 1
                tried_from = offset
                if tries >= READS_MAX:
                    raise StoredDataError(str(error)) from None
                pending = self._located_again(stored, offset, skips_gone=skips_gone)

    def _batches(self, offset: int) -> Iterator[StoredBatches]:
        log = self._log(StoredFiles(self.place))
        while offset < self.end_offset:
            result = log.read(offset, BYTES_PER_READ, at_least_one=True)
            parts = result.parts if result.cold is None else result.cold()
            if not parts:
                return  # compaction has removed the last records
            end_offset = min(end_of(parts), self.end_offset)
            yield StoredBatches(b"".join(parts), offset, end_offset, self._aborted(offset, end_offset))
            offset = end_offset

    def _aborted(self, offset: int, end_offset: int) -> list[tuple[int, int]] | None:
        if self.aborted is None:
            return None
        concerned = (it for it in self.aborted if it.first_offset < end_offset and it.last_offset >= offset)
        return [(it.producer_id, it.first_offset) for it in concerned]

    def _log(self, files: StoredFiles) -> PartitionLog:
        log = files.empty_log(self.topic, self.topic_id, self.partition)
        if self.archived is not None:
            log.attach(files.archived(self.archived), ProducerStates())
        for batch in self.placed:
            log.index.append(*batch)
        log.log_end_offset = log.high_watermark = self.end_offset
        return log

    def _located_again(self, stored: StoredPlace, offset: int, *, skips_gone: bool) -> "list[StoredRange]":
        logs = read_logs(stored, lambda name: name == self.topic)
        log = next((it for it in logs if (it.topic_id, it.partition) == (self.topic_id, self.partition)), None)
        start = self.end_offset if log is None else log.log_start_offset
        if start > offset and not skips_gone:
            raise RecordsGoneError(
                f"records of {self.topic}-{self.partition}, offset {offset} and later, were deleted during the read"
            )
        if log is None:
            return []
        return stored_ranges(log, logs[log], max(start, offset), self.end_offset, committed=self.aborted is not None)


def stored_ranges(
    log: PartitionLog,
    place: StoredPlace,
    first_offset: int,
    end_offset: int,
    *,
    committed: bool,
    since_ms: int | None = None,
) -> list[StoredRange]:
    """Split a log between two offsets into ranges of one file each.

    Args:
        log, place: a log from `read_logs`, and its place.
        first_offset, end_offset: the offsets, not below the log start; the end is exclusive.
        committed: skip records of aborted transactions. For open ones, the caller lowers `end_offset`.
        since_ms: skip files with older records only, in milliseconds since the epoch; None for no limit.
    """
    found = []
    for start, end, archived, placed in _pieces(log, first_offset, end_offset, since_ms):
        aborted = None
        if committed:
            transactions = log.aborted_transactions(start, end)
            aborted = tuple(transactions() if isinstance(transactions, ColdRead) else transactions)
        found.append(StoredRange(place, log.topic, log.topic_id, log.partition, start, end, archived, placed, aborted))
    return found


_Piece = tuple[int, int, PartitionManifest | None, tuple[tuple[int, int, int, int], ...]]


def _pieces(log: PartitionLog, first_offset: int, end_offset: int, since_ms: int | None) -> Iterator[_Piece]:
    if log.archived is not None:
        manifest = log.archived.manifest
        for segment in manifest.segments:
            start, end = max(first_offset, segment.base_offset), min(end_offset, segment.last_offset + 1)
            if start < end and (since_ms is None or segment.max_timestamp >= since_ms):
                only = attrs.evolve(manifest, segments=(segment,), producers=b"", open_transactions=())
                yield start, end, only, ()
    index = log.index
    numbers = range(max(0, index.find(first_offset)), index.find(end_offset - 1) + 1)
    for _, group in groupby(numbers, lambda number: split_position(index.places[number])[0]):
        batches = list(group)
        following = batches[-1] + 1
        end = min(end_offset, index.bases[following] if following < len(index) else log.high_watermark)
        placed = tuple(_placed(index, number) for number in batches)
        start = max(first_offset, index.bases[batches[0]])
        if start < end and (since_ms is None or max(timestamp for *_, timestamp in placed) >= since_ms):
            yield start, end, None, placed


def _placed(index: OffsetIndex, number: int) -> tuple[int, int, int, int]:
    return index.bases[number], index.places[number], index.size_of(number), index.own_timestamps[number]
