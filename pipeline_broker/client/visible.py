"""The records of a Fetch response that an application may see.

Control records are hidden, and under READ_COMMITTED also records of aborted transactions, as in Kafka's CompletedFetch.
The response lists producers with the first offset of their aborted transactions, and an abort marker ends each.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import attrs

from pipeline_broker.base.buffer import Buffer
from pipeline_broker.client.errors import ClientError
from pipeline_broker.records.batch import APPEND_TIME_BIT, CHECKED_FROM, BatchHeader, iterate_batches
from pipeline_broker.records.checksum import crc32c
from pipeline_broker.records.control_batch import ABORT, control_type
from pipeline_broker.records.errors import RecordError
from pipeline_broker.records.record import Record, iterate_records

__all__ = ["BATCH_BYTES_MAX", "VisibleBatch", "visible_batches"]

BATCH_BYTES_MAX = 512 << 20
"""Largest decompressed batch."""


@attrs.frozen(slots=True)
class VisibleBatch:
    """The visible records of one batch.

    Attributes:
        records: the records, possibly none.
        next_offset: the offset after the batch.
        is_append_time: whether timestamps are the broker's append time.
    """

    records: list[Record]
    next_offset: int
    is_append_time: bool


def visible_batches(
    data: Buffer, offset: int, stop: int | None, aborted: Iterable[tuple[int, int]] | None
) -> Iterator[VisibleBatch]:
    """Iterate over the batches of a partition in a Fetch response. Decompresses one batch at a time, to bound memory.

    Args:
        data: the fetched bytes.
        offset: the fetch offset; the first batch may begin before it.
        stop: the offset at which visible records end; None: no limit.
        aborted: producer ids and first offsets of aborted transactions; None: READ_UNCOMMITTED.

    Raises:
        ClientError: a batch is damaged or too large.
    """
    # In descending order, so that the next one is popped from the end.
    upcoming = sorted(aborted or (), key=lambda it: it[1], reverse=True)
    aborted_producers: set[int] = set()
    try:
        for header, batch in iterate_batches(data):
            while upcoming and upcoming[-1][1] <= header.last_offset:
                aborted_producers.add(upcoming.pop()[0])
            if crc32c(batch[CHECKED_FROM:]) != header.crc:
                raise ClientError(f"the batch at offset {header.base_offset} is damaged: its checksum does not match")
            is_seen = not header.is_control and not (
                header.is_transactional and header.producer_id in aborted_producers
            )
            if header.is_control and control_type(header, batch) == ABORT:
                # The marker ends the aborted transaction; later batches of the producer are visible again.
                aborted_producers.discard(header.producer_id)
            records = list(_within(header, batch, offset, stop)) if is_seen else []
            yield VisibleBatch(records, header.last_offset + 1, bool(header.attributes & APPEND_TIME_BIT))
    except RecordError as error:
        raise ClientError(f"a batch after offset {offset} cannot be read: {error}") from None


def _within(header: BatchHeader, batch: Buffer, offset: int, stop: int | None) -> Iterator[Record]:
    # surrogateescape: header names that are not UTF-8 must survive unchanged.
    for record in iterate_records(batch, header, size_max=BATCH_BYTES_MAX, name_errors="surrogateescape"):
        if record.offset >= offset and (stop is None or record.offset < stop):
            yield record
