"""The start or the end of a read: one for all partitions, or an offset or time per partition.

The JSON is that of Spark's Kafka source: `{"topic": {"0": 23, "1": -2}}`, where -2 is the earliest offset and -1 the
latest. The JSON must name exactly the partitions of the read, so that a mistyped number is an error.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import attrs

from pipeline_broker.inspect.errors import RecordsGoneError
from pipeline_broker.log.partition.partition_log import PartitionLog
from pipeline_broker.log.read_result import ColdRead
from pyspark_pipeline_broker.numbers_by_partition import numbers_of, whole_number

__all__ = ["EARLIEST", "LATEST", "Position"]

LATEST, EARLIEST = -1, -2
WORDS = {"earliest": EARLIEST, "latest": LATEST}

PartitionNumbers = Mapping[tuple[str, int], int]


@attrs.frozen
class Position:
    """The start or the end of a read.

    Attributes:
        option: the name of the option, for messages.
        offsets: EARLIEST or LATEST for all partitions, or an offset per partition.
        times_ms: the earliest time of the first record, for all partitions or per partition; overrides `offsets`.
            LATEST and EARLIEST keep their meaning here.
        else_latest: use the end offset if all records are older than the time; if False, that is an error.
    """

    option: str
    offsets: int | PartitionNumbers = EARLIEST
    times_ms: int | PartitionNumbers | None = None
    else_latest: bool = True

    @classmethod
    def read(cls, options: Mapping[str, str], names: tuple[str, str, str], default: int) -> Position:
        """Read the first of three options that is set.

        Args:
            options: all options by name.
            names: the options for one time, for a time per partition, and for offsets.
            default: the offset if none is set.

        Raises:
            ValueError: the option is malformed.
        """
        for_all, by_time, by_offset = names
        if for_all in options:
            try:
                return cls(for_all, times_ms=whole_number(options[for_all]))
            except ValueError as error:
                raise ValueError(f"{for_all} must be a number of milliseconds: {error}") from None
        if by_time in options:
            return cls(by_time, times_ms=numbers_of(by_time, options[by_time]))
        text = options.get(by_offset)
        if text is None:
            return cls(by_offset, default)
        word = WORDS.get(text.strip().lower())
        return cls(by_offset, numbers_of(by_offset, text) if word is None else word)

    def refuse(self, offset: int, reason: str) -> None:
        """Raise ValueError if any partition has this offset, EARLIEST or LATEST. Times are not checked."""
        offsets = {"": self.offsets} if isinstance(self.offsets, int) else self.offsets
        if self.times_ms is None and offset in offsets.values():
            word = next(word for word, number in WORDS.items() if number == offset)
            raise ValueError(f"{self.option} cannot be {word} ({offset}) in a batch: {reason}")

    def check(self, partitions: Collection[tuple[str, int]]) -> None:
        """Raise ValueError if numbers are given per partition, but not for exactly these partitions."""
        numbers = self.offsets if self.times_ms is None else self.times_ms
        if isinstance(numbers, int):
            return
        for wrong, reason in (
            (numbers.keys() - set(partitions), "names {}, which is not read"),
            (set(partitions) - numbers.keys(), "lacks {}; -1 is the latest offset, -2 the earliest"),
        ):
            if wrong:
                names = ", ".join(f"{topic}-{partition}" for topic, partition in sorted(wrong))
                raise ValueError(f"{self.option} {reason.format(names)}")

    def find(self, log: PartitionLog, end_offset: int, *, skips_gone: bool) -> int:
        """Return the offset of this position in a log.

        Args:
            log: from `read_logs`; `check` has accepted its partition.
            end_offset: the end of the log's visible records.
            skips_gone: move an offset outside the log to the nearest one in it.

        Raises:
            RecordsGoneError: the offset is outside the log, and `skips_gone` is False.
            ValueError: all records are older than the time, and `else_latest` is False.
        """
        if self.times_ms is not None:
            time_ms = _number_for(self.times_ms, log)
            if time_ms not in WORDS.values():
                return self._since(log, time_ms, end_offset)
            offset = time_ms
        else:
            offset = _number_for(self.offsets, log)
        if offset == LATEST:
            return end_offset
        if offset == EARLIEST:
            return min(log.log_start_offset, end_offset)
        if not log.log_start_offset <= offset <= end_offset and not skips_gone:
            is_empty = log.log_start_offset >= end_offset
            existing = "no records" if is_empty else f"offsets {log.log_start_offset} to {end_offset - 1}"
            raise RecordsGoneError(
                f"{self.option}: offset {offset} of {log.folder} does not exist; the partition has {existing}. To use "
                "the nearest offset, set failOnDataLoss=false"
            )
        return max(min(offset, end_offset), min(log.log_start_offset, end_offset))

    def _since(self, log: PartitionLog, time_ms: int, end_offset: int) -> int:
        found = log.offset_for_timestamp(time_ms)
        # The answer is in an archived file, which the call reads.
        if isinstance(found, ColdRead):
            found = found()
        if found is not None:
            return min(found.offset, end_offset)
        if self.else_latest:
            return end_offset
        raise ValueError(
            f"{log.folder} has no record since the time {time_ms} (milliseconds since 1970). To start at its end, set "
            "startingOffsetsByTimestampStrategy=latest"
        )


def _number_for(numbers: int | PartitionNumbers, log: PartitionLog) -> int:
    return numbers if isinstance(numbers, int) else numbers[log.topic, log.partition]
