"""Which stretches of which logs are read.

Every question looks at the directory anew: a running broker goes on writing to it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from pipeline_broker.inspect.errors import NoDataDirectoryError, RecordsGoneError
from pipeline_broker.inspect.stored_logs import read_logs
from pipeline_broker.inspect.stored_range import StoredRange, stored_ranges
from pipeline_broker.log.partition.partition_log import PartitionLog
from pyspark_pipeline_broker.bounds import Bounds
from pyspark_pipeline_broker.options import ReadOptions

__all__ = ["Offsets", "batch_ranges", "initial_offsets", "latest_offsets", "limited", "stream_ranges"]

Offsets = Mapping[str, Mapping[str, int]]
"""Of a stream, by topic and the number of the partition as text, as they are kept in its checkpoint."""


def batch_ranges(options: ReadOptions, bounds: Bounds) -> list[StoredRange]:
    """All that a batch reads.

    Raises:
        RecordsGoneError, ValueError: as `Position.find` says, or the start is behind the end.
    """
    found = []
    logs = _logs(options)
    for position in (options.starting, options.ending):
        position.check([(log.topic, log.partition) for log in logs])
    for log in logs:
        end_offset = _end(log, options)
        start = options.starting.find(log, end_offset, skips_gone=options.skips_gone)
        end = options.ending.find(log, end_offset, skips_gone=options.skips_gone)
        if start > end:
            raise ValueError(
                f"{log.folder} would be read from offset {start} to {end}: {options.starting.option} is behind "
                f"{options.ending.option}"
            )
        if bounds.first_offset is not None:
            start = max(start, bounds.first_offset)
        if bounds.end_offset is not None:
            end = min(end, bounds.end_offset)
        if start < end and bounds.take(log.topic, log.partition):
            found += stored_ranges(log, start, end, committed=options.is_committed, since_ms=bounds.since_ms)
    return found


def initial_offsets(options: ReadOptions) -> dict[str, dict[str, int]]:
    """Where a stream begins; raises as `Position.find` says."""
    logs = _logs(options)
    options.starting.check([(log.topic, log.partition) for log in logs])
    return _by_topic(
        {log: options.starting.find(log, _end(log, options), skips_gone=options.skips_gone) for log in logs}
    )


def latest_offsets(options: ReadOptions) -> dict[str, dict[str, int]]:
    """Where the logs end now."""
    return _by_topic({log: _end(log, options) for log in _logs(options)})


def limited(options: ReadOptions, start: Offsets, end: Offsets, offsets_max: int) -> dict[str, dict[str, int]]:
    """An end in front of `end`: each partition has its share of `offsets_max` by how much there is of it.

    As Spark's Kafka source does: none goes without (`KafkaMicroBatchStream.rateLimit`), so they may be a few more.
    """
    first = _starts(options, start, end)
    sizes = {
        (topic, partition): end_offset - first.get((topic, partition), end_offset)
        for topic, partitions in end.items()
        for partition, end_offset in partitions.items()
    }
    total = sum(size for size in sizes.values() if size > 0)
    if total <= offsets_max:
        return {topic: dict(partitions) for topic, partitions in end.items()}
    ends: dict[str, dict[str, int]] = {}
    for (topic, partition), size in sizes.items():
        share = max(1, math.floor(offsets_max * size / total)) if size > 0 else size
        ends.setdefault(topic, {})[partition] = end[topic][partition] - size + min(size, share)
    return ends


def stream_ranges(options: ReadOptions, start: Offsets, end: Offsets) -> list[StoredRange]:
    """What lies between the offsets of a stream.

    A partition that the start does not know is read from its beginning. What Spark's Kafka source takes for lost data
    is an error here too, unless `options.skips_gone`: a partition that is not there any more, one that ends in front of
    where it was read to, since its topic was made again, and a new one that does not begin with offset 0.

    Raises:
        RecordsGoneError: records in between were deleted, or may have been.
    """
    found = []
    logs = {(log.topic, str(log.partition)): log for log in _logs(options)}
    if not options.skips_gone:
        for topic, partitions in start.items():
            for partition in partitions.keys() - end.get(topic, {}).keys():
                raise _gone(f"{topic}-{partition} is not there any more; it was read up to {partitions[partition]}")
    for topic, partitions in end.items():
        for partition, end_offset in partitions.items():
            log = logs.get((topic, partition))
            first = start.get(topic, {}).get(partition)
            if not options.skips_gone:
                _check(f"{topic}-{partition}", log, first, end_offset)
            if log is None:
                continue
            first = log.log_start_offset if first is None else max(first, log.log_start_offset)
            last = min(end_offset, log.high_watermark)
            if first < last:
                found += stored_ranges(log, first, last, committed=options.is_committed)
    return found


def _check(name: str, log: PartitionLog | None, first: int | None, end_offset: int) -> None:
    """Raise RecordsGoneError where a stream may have missed records of a partition."""
    if log is None:
        raise _gone(f"{name} is not there any more; it would be read up to {end_offset}")
    if first is None:
        if log.log_start_offset:
            raise _gone(f"{name} is new, and begins with offset {log.log_start_offset} instead of 0")
        first = 0
    if first > end_offset or end_offset > log.high_watermark:
        raise _gone(
            f"{name} ends at offset {min(end_offset, log.high_watermark)}, in front of {max(first, end_offset)}, which "
            "was reached before: its topic was made again, or the stream began behind its end"
        )
    if first < min(log.log_start_offset, end_offset):
        raise _gone(f"records {first} to {min(log.log_start_offset, end_offset) - 1} of {name} were deleted")


def _gone(reason: str) -> RecordsGoneError:
    return RecordsGoneError(f"{reason}. Records may be missed; failOnDataLoss=false goes on without them")


def _starts(options: ReadOptions, start: Offsets, end: Offsets) -> dict[tuple[str, str], int]:
    """Where each partition begins of those that the start knows, and of the new ones."""
    known = {(topic, partition): first for topic, found in start.items() for partition, first in found.items()}
    if all((topic, partition) in known for topic, found in end.items() for partition in found):
        return known
    return {(log.topic, str(log.partition)): log.log_start_offset for log in _logs(options)} | known


def _by_topic(offsets: Mapping[PartitionLog, int]) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for log, offset in offsets.items():
        found.setdefault(log.topic, {})[str(log.partition)] = offset
    return found


def _end(log: PartitionLog, options: ReadOptions) -> int:
    return log.last_stable_offset if options.is_committed else log.high_watermark


def _logs(options: ReadOptions) -> list[PartitionLog]:
    """Those that are meant; raises NoDataDirectoryError where one that is named is not there."""
    logs = read_logs(options.stored, options.topics.has)
    if missing := sorted(set(options.topics.names or ()) - {log.topic for log in logs}):
        raise NoDataDirectoryError(f"{options.stored} has no topic {', '.join(missing)}")
    if options.topics.partitions is None:
        return logs
    there = {(log.topic, log.partition) for log in logs}
    if lacking := sorted(options.topics.partitions - there):
        names = ", ".join(f"{partition} of topic {topic}" for topic, partition in lacking)
        raise NoDataDirectoryError(f"{options.stored} has no partition {names}")
    return [log for log in logs if (log.topic, log.partition) in options.topics.partitions]
