"""Reading of whole batches for a share fetch, and selection of the batches with acquired records.

Batches are located by their headers and returned as slices of the read buffers, without copies.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import attrs

from pipeline_broker.apis.storage_error import storage_error
from pipeline_broker.base.duration import BY_DURATION, iso_milliseconds
from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.log.errors import LogError
from pipeline_broker.log.partition.committed_reads import end_of
from pipeline_broker.log.read_result import ColdRead
from pipeline_broker.records.batch import HEADER, HEADER_SIZE, BatchHeader
from pipeline_broker.state.share_partitions.messages import Acquired, FetchedBatch

if TYPE_CHECKING:
    from pipeline_broker.base.buffer import Buffer
    from pipeline_broker.broker.share_partition_manager import ActivePartition
    from pipeline_broker.log.partition.partition_log import PartitionLog
    from pipeline_broker.log.producers.aborted_transactions import AbortedTransaction

__all__ = ["ReadBatches", "Reading", "bytes_wanted", "read_partition", "start_offset"]

# Bytes read from one partition in the archive, where the offsets of batches are not known in advance.
READ_BYTES_MAX = 1 << 20


class Located(NamedTuple):
    batch: FetchedBatch
    start: int
    end: int


class ReadBatches:
    """The batches in the buffers of one read.

    Args:
        parts: consecutive buffers; a large batch may continue in the next one.
        aborted: transactions whose records the group may not see; None for read_uncommitted, which sees all.
    """

    def __init__(self, parts: Sequence[Buffer], aborted: Iterable[AbortedTransaction] | None) -> None:
        self._parts = [memoryview(part) for part in parts]
        self._aborted = None if aborted is None else list(aborted)
        self._located = list(self._locate())

    @property
    def batches(self) -> list[FetchedBatch]:
        return [located.batch for located in self._located]

    def holding(self, acquired: Sequence[Acquired]) -> list[Buffer]:
        """Return the bytes of the batches from the first to the last acquired record, as slices of the buffers.

        Args:
            acquired: not empty, in the order of offsets.
        """
        first, last = acquired[0].first, acquired[-1].last
        wanted = [located for located in self._located if located.batch.last >= first and located.batch.first <= last]
        start, end = wanted[0].start, wanted[-1].end
        slices: list[Buffer] = []
        for part in self._parts:
            if end > 0 and start < len(part):
                slices.append(part[max(0, start) : end])
            start, end = start - len(part), end - len(part)
        return slices

    def _locate(self) -> Iterator[Located]:
        position = before = 0
        for number, part in enumerate(self._parts):
            while position < len(part):
                header = self._header(number, position)
                start = before + position
                batch = FetchedBatch(header.base_offset, header.last_offset, self._is_visible(header))
                yield Located(batch, start, start + header.size_bytes)
                position += header.size_bytes
            position -= len(part)
            before += len(part)

    def _header(self, number: int, position: int) -> BatchHeader:
        head = self._parts[number][position : position + HEADER_SIZE]
        # The header of a batch may continue in the next part.
        if len(head) < HEADER_SIZE:
            head = memoryview(b"".join((head, self._parts[number + 1][: HEADER_SIZE - len(head)])))
        return BatchHeader(*HEADER.unpack(head))

    def _is_visible(self, header: BatchHeader) -> bool:
        if self._aborted is None or header.is_control or not header.is_transactional:
            return True
        # A batch of an aborted transaction lies within its offsets.
        return not any(
            it.producer_id == header.producer_id and it.first_offset <= header.base_offset <= it.last_offset
            for it in self._aborted
        )


def bytes_wanted(log: PartitionLog, first: int, last: int) -> int:
    """Return the approximate size of the batches between two offsets, to limit a read.

    The size is READ_BYTES_MAX if the first offset is before the log's index, because its batch is in the archive.
    """
    index = log.index
    if not index.bases or first < index.bases[0]:
        return READ_BYTES_MAX
    return index.totals[max(0, index.find(last)) + 1] - index.totals[max(0, index.find(first))]


@attrs.define(eq=False)
class Reading:
    """A read of one partition, finished or waiting for the disk.

    Attributes:
        active: the share partition.
        offset: first offset to read.
        parts: the buffers read.
        aborted: aborted transactions in the buffers; None for read_uncommitted.
        cold: the disk work that fills `parts` and `aborted`; None if no disk is needed.
        error: the reason for a failed read; NONE otherwise.
    """

    active: ActivePartition
    offset: int
    parts: Sequence[Buffer] = ()
    aborted: Sequence[AbortedTransaction] | None = None
    cold: ColdRead[None] | None = None
    error: ErrorCode = ErrorCode.NONE


def read_partition(
    active: ActivePartition, offset: int, bytes_max: int, *, at_least_one: bool, committed: bool
) -> Reading:
    """Read a partition, or prepare a read from disk. A disk error becomes the error of the reading.

    Args:
        bytes_max: limit of the bytes to read.
        at_least_one: whether the first batch may exceed `bytes_max`.
        committed: whether to read only up to the last stable offset, without aborted transactions.
    """
    log = active.log
    try:
        result = log.read(offset, bytes_max, at_least_one=at_least_one, committed=committed)
    except (OSError, LogError) as error:
        return Reading(active, offset, error=storage_error(log, error))
    reading = Reading(active, offset, result.parts)
    view = log.aborted_view(offset) if committed else None
    found = None if view is None or result.cold is not None else view.find(offset, end_of(result.parts))
    if result.cold is None and not isinstance(found, ColdRead):
        reading.aborted = found
        return reading

    def work() -> None:
        try:
            reading.parts = result.parts if result.cold is None else result.cold()
            if view is not None:
                aborted = view.find(offset, end_of(reading.parts))
                reading.aborted = aborted() if isinstance(aborted, ColdRead) else aborted
        except (OSError, LogError) as error:
            reading.parts, reading.error = (), storage_error(log, error)

    size_bytes = result.size_bytes if result.cold is None else result.cold.size_bytes
    reading.cold = ColdRead(work, size_bytes)
    return reading


def start_offset(log: PartitionLog, reset: str, now_ms: int) -> int | ColdRead[int]:
    """Return the start offset of a partition that is new to the group, or the disk work that finds it.

    Args:
        reset: the group's `share.auto.offset.reset`.
        now_ms: wall clock, milliseconds since the epoch.
    """
    if reset == "earliest":
        return log.log_start_offset
    if not reset.startswith(BY_DURATION):
        return log.high_watermark
    end = log.high_watermark
    found = log.offset_for_timestamp(now_ms - (iso_milliseconds(reset.removeprefix(BY_DURATION)) or 0))
    if isinstance(found, ColdRead):
        search = found

        def work() -> int:
            result = search()
            return end if result is None else result.offset

        return ColdRead(work, found.size_bytes)
    return end if found is None else found.offset
