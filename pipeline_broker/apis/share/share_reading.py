"""What a share fetch reads of a partition: whole batches, then only those that were acquired.

Rules of this file: it knows buffers and offsets, not members. Batches are found by their headers and handed on as
slices of what was read; nothing is copied.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import attrs

from pipeline_broker.apis.storage_error import storage_error
from pipeline_broker.config.duration import BY_DURATION, iso_milliseconds
from pipeline_broker.log.errors import LogError
from pipeline_broker.log.partition.committed_reads import end_of
from pipeline_broker.log.read_result import ColdRead
from pipeline_broker.records.batch import HEADER, HEADER_SIZE, BatchHeader
from pipeline_broker.state.share_partitions.messages import Acquired, FetchedBatch
from pipeline_broker.wire.error import ErrorCode

if TYPE_CHECKING:
    from pipeline_broker.broker.share_partition_manager import ActivePartition
    from pipeline_broker.log.journal.entry import Buffer
    from pipeline_broker.log.partition.partition_log import PartitionLog
    from pipeline_broker.log.producers.aborted_transactions import AbortedTransaction

__all__ = ["ReadBatches", "Reading", "bytes_wanted", "read_partition", "start_offset"]

READ_BYTES_MAX = 1 << 20
"""Of one partition from the archive, where it is not known how many records that is."""


class Located(NamedTuple):
    """A batch, and where it is in what was read: from where to where."""

    batch: FetchedBatch
    start: int
    end: int


class ReadBatches:
    """What was read.

    Args:
        parts: one behind the other; a large batch may go on in the next part.
        aborted: transactions whose records the group may not see; None where it may see all, markers too.

    Attributes:
        batches: their offsets, in order.
    """

    def __init__(self, parts: Sequence[Buffer], aborted: Iterable[AbortedTransaction] | None) -> None:
        self._parts = [memoryview(part) for part in parts]
        self._aborted = None if aborted is None else list(aborted)
        self._located = list(self._locate())

    @property
    def batches(self) -> list[FetchedBatch]:
        return [located.batch for located in self._located]

    def holding(self, acquired: Sequence[Acquired]) -> list[Buffer]:
        """The bytes of the batches from the first to the last that was acquired."""
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
        """The header that begins there; of a batch in parts its end may be in the next one."""
        head = self._parts[number][position : position + HEADER_SIZE]
        if len(head) < HEADER_SIZE:
            head = memoryview(b"".join((head, self._parts[number + 1][: HEADER_SIZE - len(head)])))
        return BatchHeader(*HEADER.unpack(head))

    def _is_visible(self, header: BatchHeader) -> bool:
        if self._aborted is None or header.is_control or not header.is_transactional:
            return True
        return not any(
            it.producer_id == header.producer_id and it.first_offset <= header.base_offset <= it.last_offset
            for it in self._aborted
        )


def bytes_wanted(log: PartitionLog, first: int, last: int) -> int:
    """About how many bytes the batches from one offset to another have: more would be read in vain."""
    index = log.index
    if not index.bases or first < index.bases[0]:
        return READ_BYTES_MAX
    return index.totals[max(0, index.find(last)) + 1] - index.totals[max(0, index.find(first))]


@attrs.define(eq=False)
class Reading:
    """One partition on its way: read, or still to be read from the disk.

    Attributes:
        active: the share partition.
        offset: where it is read.
        parts: what was read.
        aborted: transactions in it whose records the group may not see; None where it may see all.
        cold: gets both from the disk.
        error: why there is nothing.
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
    """Read, or find out that the disk is needed; a disk that fails is an error of the partition.

    Args:
        active: the share partition.
        at_least_one: the first batch comes whatever its size.
        committed: only what was committed may be seen, and nothing undecided.
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
    """Where a group begins that has never read a partition, or the work that finds it.

    Args:
        reset: the group's `share.auto.offset.reset`.
        now_ms: wall clock.
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
