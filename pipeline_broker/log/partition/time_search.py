"""Search by time: the first record at or after a time, or that with the largest time of all.

Rules of this file: as of `reading`. What the archive holds comes first; a search that must wait for the disk becomes a
ColdRead. Only what is durable is found.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import attrs

from pipeline_broker.log.archive.archived_log import ArchivedLog
from pipeline_broker.log.journal.entry import LEADER_EPOCH, Buffer
from pipeline_broker.log.journal.offset_index import OffsetIndex
from pipeline_broker.log.read_result import ColdRead, ReadResult, TimestampedOffset
from pipeline_broker.log.segments.log_segment import NO_TIMESTAMP
from pipeline_broker.records.batch import iterate_batches
from pipeline_broker.records.record import iterate_records

__all__ = ["Found", "TimeSearch"]

SEARCHED_AT_ONCE_MAX = 3_000
"""Records of a batch in memory that is searched at once; one with more is searched in a thread, as one on the disk."""

Found: TypeAlias = TimestampedOffset | ColdRead[TimestampedOffset | None] | None
"""What a search by time has found, or the work that finds it, or nothing."""


@attrs.frozen(eq=False)
class TimeSearch:
    """Search in one log as it is now.

    Args:
        archived: what the archive holds of it.
        index: what only the journal holds.
        log_start_offset: what stands in front of it is not found by time.
        stored_from: nothing of the index before it is stored any more, as far as clients can tell.
        read_batch: a batch of the index, by its number.
    """

    _archived: ArchivedLog | None
    _index: OffsetIndex
    _log_start_offset: int
    _stored_from: int
    _read_batch: Callable[[int], ReadResult]

    def offset_for_timestamp(self, timestamp: int) -> Found:
        """The first record at or after the time that is not in front of the start; None when there is none."""
        in_journal = self._search_from_start(timestamp)
        if self._archived is None:
            return in_journal
        return _or_else(self._archived.offset_for_timestamp(timestamp, self._log_start_offset), in_journal)

    def _search_from_start(self, timestamp: int) -> Found:
        """The same in what only the journal holds."""
        start, index = self._log_start_offset, self._index
        first = max(0, index.find(start))
        number = index.first_since(timestamp, first)
        found = self._search(number, timestamp, start)
        if number is None or number > first or index.bases[first] >= start:
            return found
        # The start lies within the batch: perhaps only what is in front of it is that late.
        return _or_else(found, self._search(index.first_since(timestamp, first + 1), timestamp, start))

    def max_timestamp(self) -> Found:
        """The first record with the largest timestamp; None in an empty log.

        Like Kafka it searches all that is stored: after DeleteRecords the record may lie before the start. What
        retention has deleted is not stored, although the journal may still have it.
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
