"""Search of a log by timestamp, for ListOffsets.

The archive is searched before the journal. A search that must wait for the disk becomes a ColdRead. Only durable
records are found.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import attrs

from pipeline_broker.base.buffer import Buffer
from pipeline_broker.log.archive.archived_log import ArchivedLog
from pipeline_broker.log.journal.offset_index import OffsetIndex
from pipeline_broker.log.read_result import ColdRead, ReadResult, TimestampedOffset
from pipeline_broker.log.segments.log_segment import NO_TIMESTAMP
from pipeline_broker.records.batch import iterate_batches
from pipeline_broker.records.record import iterate_records

__all__ = ["Found", "TimeSearch"]

SEARCHED_AT_ONCE_MAX = 3_000
"""Limit on the records of a batch that the event loop searches. A thread searches larger ones."""

Found: TypeAlias = TimestampedOffset | ColdRead[TimestampedOffset | None] | None
"""The result of a search, or the work that finds it; None without a match."""


@attrs.frozen(eq=False)
class TimeSearch:
    """A search in one log at one moment.

    Args:
        archived: the archived part of the log.
        index: index of the batches in the journal.
        log_start_offset: records below it are not found by timestamp.
        stored_from: batches of the index below it were deleted by retention.
        read_batch: reads a batch of the index by its number.
    """

    _archived: ArchivedLog | None
    _index: OffsetIndex
    _log_start_offset: int
    _stored_from: int
    _read_batch: Callable[[int], ReadResult]

    def offset_for_timestamp(self, timestamp: int) -> Found:
        in_journal = self._search_from_start(timestamp)
        if self._archived is None:
            return in_journal
        return _or_else(self._archived.offset_for_timestamp(timestamp, self._log_start_offset), in_journal)

    def _search_from_start(self, timestamp: int) -> Found:
        start, index = self._log_start_offset, self._index
        first = max(0, index.find(start))
        number = index.first_since(timestamp, first)
        found = self._search(number, timestamp, start)
        if number is None or number > first or index.bases[first] >= start:
            return found
        # The log start lies within the batch, and perhaps only deleted records of it match. Then a later batch counts.
        return _or_else(found, self._search(index.first_since(timestamp, first + 1), timestamp, start))

    def max_timestamp(self) -> Found:
        """Find the first record with the largest timestamp; None in an empty log.

        All stored records are searched, as in Kafka. So after DeleteRecords the result may lie below the log start.
        Records that retention deleted do not count, although the journal may still have them.
        """
        latest = self._index.latest(self._stored_from)
        archived = self._archived if self._archived is not None and self._archived.manifest.segments else None
        timestamp = NO_TIMESTAMP if latest is None else self._index.own_timestamps[latest]
        if archived is not None and (latest is None or archived.max_timestamp >= timestamp):
            return archived.offset_for_timestamp(archived.max_timestamp, 0)
        return self._search(latest, timestamp)

    def _search(self, number: int | None, timestamp: int, start_offset: int = 0) -> Found:
        if number is None:
            return None
        result = self._read_batch(number)
        if result.cold is None:
            batch = b"".join(result.parts)
            if any(header.record_count > SEARCHED_AT_ONCE_MAX for header, _ in iterate_batches(batch)):
                return ColdRead(lambda: _first_record_since([batch], timestamp, start_offset), len(batch))
            return _first_record_since([batch], timestamp, start_offset)
        cold = result.cold
        return ColdRead(lambda: _first_record_since(cold(), timestamp, start_offset), cold.size_bytes)


def _or_else(found: Found, other: Found) -> Found:
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
                return TimestampedOffset(record.timestamp, record.offset, header.partition_leader_epoch)
    return None
