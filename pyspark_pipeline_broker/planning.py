"""Planning of the offset ranges that batches and streams read.

Every function reads the directory again, because a running broker keeps writing to it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from pipeline_broker.inspect.errors import NoDataDirectoryError, RecordsGoneError
from pipeline_broker.inspect.stored_logs import read_logs
from pipeline_broker.inspect.stored_place import StoredPlace
from pipeline_broker.inspect.stored_range import StoredRange, stored_ranges
from pipeline_broker.log.partition.partition_log import PartitionLog
from pyspark_pipeline_broker.bounds import Bounds
from pyspark_pipeline_broker.options import ReadOptions

__all__ = ["Offsets", "batch_ranges", "initial_offsets", "latest_offsets", "limited", "stream_ranges"]

Offsets = Mapping[str, Mapping[str, int]]
"""Offsets of a stream by topic and partition (as text), as in its checkpoint."""


def batch_ranges(options: ReadOptions, bounds: Bounds) -> list[StoredRange]:
    """Return the ranges that a batch reads.

    Args:
        bounds: from the filters of the query.

    Raises:
        NoDataDirectoryError: a named topic or partition is missing, or the data cannot be read.
        StoredDataError: the data is damaged.
        RecordsGoneError: a given offset does not exist, and `options.skips_gone` is False.
        ValueError: the start is after the end, or `Position.check` or `Position.find` refuses an option.
    """
    found = []
    logs = _logs(options)
    for position in (options.starting, options.ending):
        position.check([(log.topic, log.partition) for log in logs])
    for log, place in logs.items():
        end_offset = _end(log, options)
        start = options.starting.find(log, end_offset, skips_gone=options.skips_gone)
        end = options.ending.find(log, end_offset, skips_gone=options.skips_gone)
        if start > end:
            raise ValueError(
                f"{log.folder} would be read from offset {start} to {end}: {options.starting.option} is after "
                f"{options.ending.option}. Change one of them"
            )
        if bounds.first_offset is not None:
            start = max(start, bounds.first_offset)
        if bounds.end_offset is not None:
            end = min(end, bounds.end_offset)
        if start < end and bounds.take(log.topic, log.partition):
            found += stored_ranges(log, place, start, end, committed=options.is_committed, since_ms=bounds.since_ms)
    return found


def initial_offsets(options: ReadOptions) -> dict[str, dict[str, int]]:
    """Return the starting offsets of a stream; raises the errors of `batch_ranges`."""
    logs = _logs(options)
    options.starting.check([(log.topic, log.partition) for log in logs])
    return _by_topic(
        {log: options.starting.find(log, _end(log, options), skips_gone=options.skips_gone) for log in logs}
    )


def latest_offsets(options: ReadOptions) -> dict[str, dict[str, int]]:
    return _by_topic({log: _end(log, options) for log in _logs(options)})


def limited(options: ReadOptions, start: Offsets, end: Offsets, offsets_max: int) -> dict[str, dict[str, int]]:
    """Return end offsets at or before `end`, limited to about `offsets_max` records.

    Each partition with new records gets a share by its size, and at least one record, like
    `KafkaMicroBatchStream.rateLimit`. The total can therefore exceed the limit by the number of partitions.

    Raises:
        NoDataDirectoryError, StoredDataError: as in `batch_ranges`, if `end` has a partition that `start` lacks.
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
        # At least one record per partition, or large partitions would starve a small one.
        share = max(1, math.floor(offsets_max * size / total)) if size > 0 else size
        ends.setdefault(topic, {})[partition] = end[topic][partition] - size + min(size, share)
    return ends


def stream_ranges(options: ReadOptions, start: Offsets, end: Offsets) -> list[StoredRange]:
    """Return the ranges between two offsets of a stream. A new partition is read from its start.

    Unless `options.skips_gone` is set, lost data is an error, as in Spark's Kafka source. Data is lost if

    * a record or partition was deleted,
    * a partition ends before the offset it was read to, because its topic was recreated,
    * a new partition does not start at offset 0.

    Raises:
        RecordsGoneError: records were lost, or may have been, and `options.skips_gone` is False.
        NoDataDirectoryError: a named topic or partition is missing, or the data cannot be read.
        StoredDataError: the data is damaged.
    """
    found = []
    places = _logs(options)
    logs = {(log.topic, str(log.partition)): log for log in places}
    if not options.skips_gone:
        for topic, partitions in start.items():
            for partition in partitions.keys() - end.get(topic, {}).keys():
                raise _gone(f"{topic}-{partition} was deleted; it was read up to offset {partitions[partition]}")
    for topic, partitions in end.items():
        for partition, end_offset in partitions.items():
            log = logs.get((topic, partition))
            first = start.get(topic, {}).get(partition)
            if not options.skips_gone:
                _check(f"{topic}-{partition}", log, first, end_offset)
            if log is None:
                continue
            first = log.log_start_offset if first is None else max(first, log.log_start_offset)
            # A recreated topic can end before the checkpoint's offset.
            last = min(end_offset, log.high_watermark)
            if first < last:
                found += stored_ranges(log, places[log], first, last, committed=options.is_committed)
    return found


def _check(name: str, log: PartitionLog | None, first: int | None, end_offset: int) -> None:
    if log is None:
        raise _gone(f"{name} was deleted; it would be read up to offset {end_offset}")
    if first is None:
        if log.log_start_offset:
            raise _gone(f"{name} is new, but starts at offset {log.log_start_offset} instead of 0")
        first = 0
    if first > end_offset or end_offset > log.high_watermark:
        raise _gone(
            f"{name} ends at offset {min(end_offset, log.high_watermark)}, before offset {max(first, end_offset)}, "
            "which the stream had reached. The topic was recreated, or the stream started after the partition's end"
        )
    if first < min(log.log_start_offset, end_offset):
        raise _gone(f"records {first} to {min(log.log_start_offset, end_offset) - 1} of {name} were deleted")


def _gone(reason: str) -> RecordsGoneError:
    return RecordsGoneError(f"{reason}. To continue without the lost records, set failOnDataLoss=false")


def _starts(options: ReadOptions, start: Offsets, end: Offsets) -> dict[tuple[str, str], int]:
    """Return the start of each partition: its offset in `start`, or its log start offset if it is new."""
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


def _logs(options: ReadOptions) -> dict[PartitionLog, StoredPlace]:
    """Return the selected logs, as `read_logs` does.

    Raises:
        NoDataDirectoryError: a named topic or partition is missing.
    """
    logs = read_logs(options.stored, options.topics.has)
    if missing := sorted(set(options.topics.names or ()) - {log.topic for log in logs}):
        option = "subscribe" if options.topics.partitions is None else "assign"
        raise NoDataDirectoryError(f"{options.stored} has no topic {', '.join(missing)}. Correct the option {option}")
    if options.topics.partitions is None:
        return logs
    existing = {(log.topic, log.partition) for log in logs}
    if missing_partitions := sorted(options.topics.partitions - existing):
        names = ", ".join(f"{partition} of topic {topic}" for topic, partition in missing_partitions)
        raise NoDataDirectoryError(f"{options.stored} has no partition {names}. Correct the option assign")
    return {log: place for log, place in logs.items() if (log.topic, log.partition) in options.topics.partitions}
