"""Where reading begins or ends: the same for all partitions, or an offset or a time for each.

Rules of this file: no Spark. The JSON is that of Spark's Kafka source: `{"topic": {"0": 23, "1": -2}}`, where -2 is the
earliest offset and -1 the latest.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

import attrs

from pipeline_broker.inspect.errors import RecordsGoneError
from pipeline_broker.log.partition.partition_log import PartitionLog
from pipeline_broker.log.partition.reading import ColdRead

__all__ = ["EARLIEST", "LATEST", "Position", "offsets_of"]

LATEST, EARLIEST = -1, -2
WORDS = {"earliest": EARLIEST, "latest": LATEST}

Places = Mapping[tuple[str, int], int]


def offsets_of(option: str, text: str) -> dict[tuple[str, int], int]:
    """Read numbers by topic and partition; raises ValueError."""
    try:
        return {
            (topic, int(partition)): int(number)
            for topic, numbers in json.loads(text).items()
            for partition, number in numbers.items()
        }
    except (AttributeError, TypeError, ValueError):
        raise ValueError(f'{option} is not JSON like {{"topic": {{"0": 23}}}}: {text}') from None


@attrs.frozen
class Position:
    """See the rules of the file.

    Attributes:
        offsets: an offset for all partitions, EARLIEST or LATEST, or one for each.
        times_ms: the first record since the time, for all partitions or each; counts instead of offsets.
        else_latest: where no record is so late the end is meant; else that is an error.
    """

    offsets: int | Places = EARLIEST
    times_ms: int | Places | None = None
    else_latest: bool = True

    @classmethod
    def read(cls, option: str, text: str) -> Position:
        """Read an option that says `earliest`, `latest` or an offset for each partition; raises ValueError."""
        word = WORDS.get(text.strip().lower())
        return cls(offsets_of(option, text) if word is None else word)

    def find(self, log: PartitionLog, end_offset: int, *, skips_gone: bool) -> int:
        """The offset in a log.

        Args:
            log: of `read_logs`.
            end_offset: of what is shown of it.
            skips_gone: take the nearest offset that there is.

        Raises:
            RecordsGoneError: an offset is not there.
            ValueError: nothing is said about the log, or no record is so late.
        """
        if self.times_ms is not None:
            return self._since(log, _said(self.times_ms, log), end_offset)
        offset = _said(self.offsets, log)
        if offset == LATEST:
            return end_offset
        if offset == EARLIEST:
            return min(log.log_start_offset, end_offset)
        if not log.log_start_offset <= offset <= end_offset and not skips_gone:
            there = f"it has {log.log_start_offset} to {end_offset - 1}"
            raise RecordsGoneError(
                f"offset {offset} of {log.folder} is not there, {there}; failOnDataLoss=false takes the nearest"
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
            f"{log.folder} has no record since {time_ms}; startingOffsetsByTimestampStrategy=latest begins at its end"
        )


def _said(numbers: int | Places, log: PartitionLog) -> int:
    if isinstance(numbers, int):
        return numbers
    try:
        return numbers[log.topic, log.partition]
    except KeyError:
        raise ValueError(f"nothing is said about partition {log.partition} of topic {log.topic}") from None
