"""The records of a fetched partition that an application may see.

Rules of this file: no I/O; a batch is decompressed when its turn comes, and to a largest size, so that an answer of
many batches never stands in memory as a whole. Control records are nobody's business; records of transactions that were
aborted are left out where committed ones are asked for, as Kafka's CompletedFetch does it: the answer tells which
producers aborted from which offset on, and the marker that ends it tells until where.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import attrs

from pipeline_broker.client.errors import ClientError
from pipeline_broker.records.batch import APPEND_TIME_BIT, CHECKED_FROM, BatchHeader, Buffer, iterate_batches
from pipeline_broker.records.checksum import crc32c
from pipeline_broker.records.control_batch import ABORT, control_type
from pipeline_broker.records.errors import RecordError
from pipeline_broker.records.record import Record, iterate_records

__all__ = ["BATCH_BYTES_MAX", "VisibleBatch", "visible_batches"]

BATCH_BYTES_MAX = 512 << 20
"""Of the records of one batch, decompressed."""


@attrs.frozen(slots=True)
class VisibleBatch:
    """What one batch holds for an application.

    Attributes:
        records: perhaps none.
        next_offset: where reading goes on behind it.
        is_append_time: the broker gave the timestamps.
    """

    records: list[Record]
    next_offset: int
    is_append_time: bool


def visible_batches(
    data: Buffer, offset: int, stop: int | None, aborted: Iterable[tuple[int, int]] | None
) -> Iterator[VisibleBatch]:
    """The batches of an answer, one after the other.

    Args:
        data: as fetched.
        offset: records in front of it are left out: the first batch may begin earlier.
        stop: records from it on are left out; None: none.
        aborted: producer ids and first offsets of transactions that were aborted; None: all records are asked for.

    Raises:
        ClientError: a batch is damaged, or larger than is read.
    """
    coming = sorted(aborted or (), key=lambda it: it[1], reverse=True)
    gone: set[int] = set()
    try:
        for header, batch in iterate_batches(data):
            while coming and coming[-1][1] <= header.last_offset:
                gone.add(coming.pop()[0])
            if crc32c(batch[CHECKED_FROM:]) != header.crc:
                raise ClientError(f"the batch at offset {header.base_offset} is damaged: its checksum does not match")
            is_seen = not header.is_control and not (header.is_transactional and header.producer_id in gone)
            if header.is_control and control_type(header, batch) == ABORT:
                gone.discard(header.producer_id)
            records = list(_within(header, batch, offset, stop)) if is_seen else []
            yield VisibleBatch(records, header.last_offset + 1, bool(header.attributes & APPEND_TIME_BIT))
    except RecordError as error:
        raise ClientError(f"a batch behind offset {offset} cannot be read: {error}") from None


def _within(header: BatchHeader, batch: Buffer, offset: int, stop: int | None) -> Iterator[Record]:
    for record in iterate_records(batch, header, size_max=BATCH_BYTES_MAX, name_errors="surrogateescape"):
        if record.offset >= offset and (stop is None or record.offset < stop):
            yield record
