"""Search by time: the first record at or after a time, or that with the largest time of all.

Rules of this file: as of `reading`. What the archive holds comes first; a search that must wait for the disk becomes a
ColdRead. Only what is durable is found.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from pipeline_broker.log.entry import LEADER_EPOCH
from pipeline_broker.log.partition.reading import ColdRead, TimestampedOffset
from pipeline_broker.records.batch import iterate_batches
from pipeline_broker.records.record import iterate_records

if TYPE_CHECKING:
    from pipeline_broker.log.entry import Buffer
    from pipeline_broker.log.partition.partition_log import PartitionLog

__all__ = ["Found", "max_timestamp", "offset_for_timestamp"]

SEARCHED_AT_ONCE_MAX = 3_000
"""Records of a batch in memory that is searched at once; one with more is searched in a thread, as one on the disk."""

Found: TypeAlias = TimestampedOffset | ColdRead[TimestampedOffset | None] | None
"""What a search by time has found, or the work that finds it, or nothing."""


def offset_for_timestamp(log: PartitionLog, timestamp: int) -> Found:
    """The first record at or after the time that is not in front of the start; None when there is none."""
    in_journal = _search_from_start(log, timestamp)
    if log.archived is None:
        return in_journal
    return _or_else(log.archived.offset_for_timestamp(timestamp, log.log_start_offset), in_journal)


def _search_from_start(log: PartitionLog, timestamp: int) -> Found:
    """The same in what only the journal holds."""
    start = log.log_start_offset
    first = max(0, log.index.find(start))
    number = log.index.first_since(timestamp, first)
    found = _search(log, number, timestamp, start)
    if number is None or number > first or log.index.bases[first] >= start:
        return found
    # The start lies within the batch: perhaps only what is in front of it is that late.
    return _or_else(found, _search(log, log.index.first_since(timestamp, first + 1), timestamp, start))


def max_timestamp(log: PartitionLog) -> Found:
    """The first record with the largest timestamp; None in an empty log.

    As in Apache Kafka it is looked for in all that is stored: it may lie in front of the start.
    """
    latest = log.index.timestamps[-1] if log.index.timestamps else None
    archived = log.archived if log.archived is not None and log.archived.manifest.segments else None
    if archived is not None and (latest is None or archived.max_timestamp >= latest):
        return archived.offset_for_timestamp(archived.max_timestamp, 0)
    if latest is None:
        return None
    return _search(log, log.index.latest(), latest)


def _search(log: PartitionLog, number: int | None, timestamp: int, start_offset: int = 0) -> Found:
    if number is None:
        return None
    result = log.read_batches(number, number + 1)
    if result.cold is None:
        batch = b"".join(result.parts)
        if any(header.record_count > SEARCHED_AT_ONCE_MAX for header, _ in iterate_batches(batch)):
            return ColdRead(lambda: _first_record_since([batch], timestamp, start_offset), len(batch))
        return _first_record_since([batch], timestamp, start_offset)
    cold = log.or_from_archive(result.cold, log.index.bases[number], 0, log.high_watermark)
    return ColdRead(lambda: _first_record_since(cold(), timestamp, start_offset), cold.size_bytes)


def _or_else(found: Found, other: Found) -> Found:
    """What was found, or else what the other search has found."""
    if not isinstance(found, ColdRead):
        return other if found is None else found

    def work() -> TimestampedOffset | None:
        first = found()
        if first is not None:
            return first
        return other() if isinstance(other, ColdRead) else other

    return ColdRead(work, found.size_bytes)


def _first_record_since(parts: list[Buffer], timestamp: int, start_offset: int) -> TimestampedOffset | None:
    for header, batch in iterate_batches(b"".join(parts)):
        for record in iterate_records(batch, header):
            if record.timestamp >= timestamp and record.offset >= start_offset:
                return TimestampedOffset(record.timestamp, record.offset, LEADER_EPOCH)
    return None
