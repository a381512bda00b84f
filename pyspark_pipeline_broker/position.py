"""The start or end of a read: one for all partitions, or an offset or time for each.

The JSON is that of Spark's Kafka source: `{"topic": {"0": 23, "1": -2}}`, where -2 is the earliest offset and -1 the
latest. It must name exactly the partitions of the read, so that a mistyped number is an error.
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

Places = Mapping[tuple[str, int], int]


@attrs.frozen
class Position:
    """The start or end of a read.

    Attributes:
        option: its name, for messages.
        offsets: EARLIEST or LATEST for all partitions, or an offset for each.
        times_ms: the time of the first record, for all partitions or each; overrides `offsets`. LATEST and EARLIEST
            mean the same here.
        else_latest: take the end if no record is so late; otherwise that is an error.
    """

    option: str
    offsets: int | Places = EARLIEST
    times_ms: int | Places | None = None
    else_latest: bool = True

    @classmethod
    def read(cls, options: Mapping[str, str], names: tuple[str, str, str], default: int) -> Position:
        """Read the first of three options that is set.

        Args:
            options: by their names.
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
                raise ValueError(f"{for_all} is a number of milliseconds: {error}") from None
        if by_time in options:
            return cls(by_time, times_ms=numbers_of(by_time, options[by_time]))
        text = options.get(by_offset)
        if text is None:
            return cls(by_offset, default)
        word = WORDS.get(text.strip().lower())
        return cls(by_offset, numbers_of(by_offset, text) if word is None else word)

    def refuse(self, offset: int, reason: str) -> None:
        """Raise ValueError if EARLIEST or LATEST is the offset of any partition; times are not checked."""
        places = {"": self.offsets} if isinstance(self.offsets, int) else self.offsets
        if self.times_ms is None and offset in places.values():
            word = next(word for word, number in WORDS.items() if number == offset)
            raise ValueError(f"{self.option} cannot be {word} ({offset}) in a batch: {reason}")

    def check(self, partitions: Collection[tuple[str, int]]) -> None:
        """Raise ValueError unless the numbers per partition, if any, are of exactly these."""
        said = self.offsets if self.times_ms is None else self.times_ms
        if isinstance(said, int):
            return
        for those, what in (
            (said.keys() - set(partitions), "names {}, which is not read"),
            (set(partitions) - said.keys(), "lacks {}; -1 is the latest offset, -2 the earliest"),
        ):
            if those:
                names = ", ".join(f"{topic}-{partition}" for topic, partition in sorted(those))
                raise ValueError(f"{self.option} {what.format(names)}")

    def find(self, log: PartitionLog, end_offset: int, *, skips_gone: bool) -> int:
        """Find the offset in a log.

        Args:
            log: from `read_logs`, after `check`.
            end_offset: the end of its visible records.
            skips_gone: move an offset outside the log to the nearest one in it.

        Raises:
            RecordsGoneError: the offset is outside the log.
            ValueError: no record is so late.
        """
        if self.times_ms is not None:
            time_ms = _said(self.times_ms, log)
            if time_ms not in WORDS.values():
                return self._since(log, time_ms, end_offset)
            offset = time_ms
        else:
            offset = _said(self.offsets, log)
        if offset == LATEST:
            return end_offset
        if offset == EARLIEST:
            return min(log.log_start_offset, end_offset)
        if not log.log_start_offset <= offset <= end_offset and not skips_gone:
            is_empty = log.log_start_offset >= end_offset
            there = "no records" if is_empty else f"{log.log_start_offset} to {end_offset - 1}"
            raise RecordsGoneError(
                f"{self.option}: offset {offset} of {log.folder} does not exist, it has {there}. To start at the "
                "nearest offset, set failOnDataLoss=false"
            )
        return max(min(offset, end_offset), min(log.log_start_offset, end_offset))

    def _since(self, log: PartitionLog, time_ms: int, end_offset: int) -> int:
        found = log.offset_for_timestamp(time_ms)
        if isinstance(found, ColdRead):
            found = found()
        if found is not None:
            return min(found.offset, end_offset)
        if self.else_latest:
            return end_offset
        raise ValueError(
            f"{log.folder} has no record since {time_ms}. To start at its end, set "
            "startingOffsetsByTimestampStrategy=latest"
        )


def _said(numbers: int | Places, log: PartitionLog) -> int:
    return numbers if isinstance(numbers, int) else numbers[log.topic, log.partition]
