"""Which stretches of which logs are read.

Rules of this file: no Spark. Every question looks at the directory anew: a running broker goes on writing to it.
"""

from __future__ import annotations

from collections.abc import Mapping

from pipeline_broker.inspect.errors import NoDataDirectoryError, RecordsGoneError
from pipeline_broker.inspect.stored_logs import read_logs
from pipeline_broker.inspect.stored_range import StoredRange, stored_ranges
from pipeline_broker.log.partition.partition_log import PartitionLog
from pyspark_pipeline_broker.bounds import Bounds
from pyspark_pipeline_broker.options import ReadOptions
from pyspark_pipeline_broker.position import Position

__all__ = ["Offsets", "batch_ranges", "offsets_at", "stream_ranges"]

Offsets = Mapping[str, Mapping[str, int]]
"""Of a stream, by topic and the number of the partition as text, as they are kept in its checkpoint."""


def batch_ranges(options: ReadOptions, bounds: Bounds) -> list[StoredRange]:
    """All that a batch reads."""
    found = []
    for log in _logs(options):
        end_offset = _end(log, options)
        start = options.starting.find(log, end_offset, skips_gone=options.skips_gone)
        end = options.ending.find(log, end_offset, skips_gone=options.skips_gone)
        if bounds.first_offset is not None:
            start = max(start, bounds.first_offset)
        if bounds.end_offset is not None:
            end = min(end, bounds.end_offset)
        if start < end and bounds.take(log.topic, log.partition):
            found += stored_ranges(log, start, end, committed=options.is_committed, since_ms=bounds.since_ms)
    return found


def offsets_at(options: ReadOptions, position: Position) -> dict[str, dict[str, int]]:
    """Where a position is now."""
    offsets: dict[str, dict[str, int]] = {}
    for log in _logs(options):
        offset = position.find(log, _end(log, options), skips_gone=options.skips_gone)
        offsets.setdefault(log.topic, {})[str(log.partition)] = offset
    return offsets


def stream_ranges(options: ReadOptions, start: Offsets, end: Offsets) -> list[StoredRange]:
    """What lies between the offsets of a stream; a partition that the start does not know is read from its beginning.

    Raises:
        RecordsGoneError: records in between were deleted.
    """
    found = []
    logs = {(log.topic, str(log.partition)): log for log in _logs(options)}
    for topic, partitions in end.items():
        for partition, end_offset in partitions.items():
            log = logs.get((topic, partition))
            first = start.get(topic, {}).get(partition)
            if log is not None and (first is None or (first < log.log_start_offset and options.skips_gone)):
                first = log.log_start_offset
            if first is None or first >= end_offset:
                continue
            if log is None or first < log.log_start_offset or end_offset > log.high_watermark:
                if options.skips_gone:
                    continue
                raise RecordsGoneError(
                    f"records {first} to {end_offset - 1} of {topic}-{partition} are not there any more; "
                    "failOnDataLoss=false goes on without them"
                )
            found += stored_ranges(log, first, end_offset, committed=options.is_committed)
    return found


def _end(log: PartitionLog, options: ReadOptions) -> int:
    return log.last_stable_offset if options.is_committed else log.high_watermark


def _logs(options: ReadOptions) -> list[PartitionLog]:
    """Those that are meant; raises NoDataDirectoryError where one that is named is not there."""
    logs = read_logs(options.stored, options.wants)
    missing = set(options.topics or ()) - {log.topic for log in logs}
    if options.partitions is not None:
        there = {(log.topic, log.partition) for log in logs}
        missing |= {f"{topic}-{partition}" for topic, partition in options.partitions - there}
        logs = [log for log in logs if (log.topic, log.partition) in options.partitions]
    if missing:
        raise NoDataDirectoryError(f"{options.stored} has no topic {', '.join(sorted(missing))}")
    return logs
