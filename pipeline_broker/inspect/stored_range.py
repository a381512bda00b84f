"""A stretch of one partition's log that lies in one file: small enough to be sent to another process and read there.

Rules of this file: read only. It carries what is known of its batches: their segment of the archive, or their places
in one of the journal. What a running broker has moved into the archive meanwhile, or compacted, is looked for anew.
"""

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
    """Whole batches one behind the other.

    Attributes:
        data: their bytes.
        offset, end_offset: only records from the one to in front of the other are meant.
        aborted: producer ids and first offsets of the transactions whose records do not count; None: all count.
    """

    data: bytes
    offset: int
    end_offset: int
    aborted: list[tuple[int, int]] | None


@attrs.frozen
class StoredRange:
    """See the rules of the file.

    Attributes:
        topic, topic_id, partition: whose records.
        first_offset, end_offset: which: from the one to in front of the other.
        archived: of what is in the archive: the partition, with no segment but this one.
        placed: of what is in the journal, the batches: first offset, place, size in bytes, largest timestamp.
        aborted: transactions with records among them that do not count; None: all count.
    """

    topic: str
    topic_id: bytes
    partition: int
    first_offset: int
    end_offset: int
    archived: PartitionManifest | None
    placed: tuple[tuple[int, int, int, int], ...]
    aborted: tuple[AbortedTransaction, ...] | None

    def read(self, stored: StoredPlace, *, skips_gone: bool = False) -> Iterator[StoredBatches]:
        """Its batches, a few megabytes of them at once.

        Args:
            stored: where they are.
            skips_gone: leave out what is not there any more.

        Raises:
            RecordsGoneError: records of it were deleted since it was made.
            StoredDataError: a batch is not what was written.
        """
        coming, offset = [self], self.first_offset
        looks, looked_from = 0, -1
        while coming:
            one = coming.pop(0)
            offset = max(offset, one.first_offset)
            try:
                for batches in one._batches(stored, offset):  # noqa: SLF001 - one of its own kind
                    yield batches
                    offset = batches.end_offset
                offset = one.end_offset
            except (DamagedSegment, SegmentGone, FileNotFoundError) as error:
                looks = looks + 1 if offset == looked_from else 1  # a busy broker moves its files all the time
                looked_from = offset
                if looks >= READS_MAX:
                    raise StoredDataError(str(error)) from None
                coming = self._looked_for_anew(stored, offset, skips_gone=skips_gone)

    def _batches(self, stored: StoredPlace, offset: int) -> Iterator[StoredBatches]:
        log = self._log(StoredFiles(stored))
        while offset < self.end_offset:
            result = log.read(offset, BYTES_PER_READ, at_least_one=True)
            parts = result.parts if result.cold is None else result.cold()
            if not parts:
                return  # compaction has taken the last ones
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

    def _looked_for_anew(self, stored: StoredPlace, offset: int, *, skips_gone: bool) -> "list[StoredRange]":
        logs = read_logs(stored, lambda name: name == self.topic)
        log = next((it for it in logs if (it.topic_id, it.partition) == (self.topic_id, self.partition)), None)
        start = self.end_offset if log is None else log.log_start_offset
        if start > offset and not skips_gone:
            where = f"{self.topic}-{self.partition} from offset {offset} on"
            raise RecordsGoneError(f"records of {where} were deleted while they were read")
        if log is None:
            return []
        return stored_ranges(log, max(start, offset), self.end_offset, committed=self.aborted is not None)


def stored_ranges(
    log: PartitionLog, first_offset: int, end_offset: int, *, committed: bool, since_ms: int | None = None
) -> list[StoredRange]:
    """The stretches of a log between two offsets.

    Args:
        log: of `read_logs`.
        first_offset, end_offset: from the one, which is not in front of the log's start, to in front of the other.
        committed: leave out records of aborted transactions; that of open ones is a matter of `end_offset`.
        since_ms: files whose records are all older may be left out.
    """
    found = []
    for start, end, archived, placed in _pieces(log, first_offset, end_offset, since_ms):
        aborted = None
        if committed:
            transactions = log.aborted_transactions(start, end)
            aborted = tuple(transactions() if isinstance(transactions, ColdRead) else transactions)
        found.append(StoredRange(log.topic, log.topic_id, log.partition, start, end, archived, placed, aborted))
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
        behind = batches[-1] + 1
        end = min(end_offset, index.bases[behind] if behind < len(index) else log.high_watermark)
        placed = tuple(_placed(index, number) for number in batches)
        start = max(first_offset, index.bases[batches[0]])
        if start < end and (since_ms is None or max(timestamp for *_, timestamp in placed) >= since_ms):
            yield start, end, None, placed


def _placed(index: OffsetIndex, number: int) -> tuple[int, int, int, int]:
    return index.bases[number], index.places[number], index.size_of(number), index.own_timestamps[number]
