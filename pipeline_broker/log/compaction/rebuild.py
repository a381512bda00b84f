"""Rebuilding of a batch with fewer records, or with a delete horizon, byte for byte as Apache Kafka writes it.

Base offset, last offset, producer, sequence, epochs, flags and codec stay. Records are copied. If the base timestamp
changes (to the delete horizon, or because the first record was removed), only their timestamp deltas and lengths are
encoded again. The max timestamp is that of the kept records, unless the topic uses log append time.
"""

from array import array
from collections.abc import Iterable

import attrs

from pipeline_broker.records.batch import (
    APPEND_TIME_BIT,
    COMPRESSION_MASK,
    CONTROL_BIT,
    DELETE_HORIZON_BIT,
    TRANSACTIONAL_BIT,
    BatchHeader,
    assembled,
)
from pipeline_broker.records.compression import compress
from pipeline_broker.records.record_places import RecordPlace, append_shifted

NO_TIMESTAMP = -1
# As in Kafka's DefaultRecordBatch.writeEmptyHeader: an empty batch has neither a codec nor a delete horizon.
_KEPT_WHEN_EMPTY = APPEND_TIME_BIT | TRANSACTIONAL_BIT | CONTROL_BIT


@attrs.frozen(slots=True)
class KeptRecords:
    """The kept records of a batch as runs of bytes, so that a batch of millions takes little memory.

    Attributes:
        runs: start and end of each run, alternating.
        count: number of records.
        first_delta, highest_delta: timestamp deltas of the first record, and the highest of all.
        has_tombstone: whether a kept record is a tombstone.
    """

    runs: "array[int]"
    count: int
    first_delta: int
    highest_delta: int
    has_tombstone: bool

    @classmethod
    def of(cls, places: Iterable[RecordPlace]) -> "KeptRecords":
        runs = array("q")
        count = run_end = first = highest = 0
        has_tombstone = False
        for start, _, end, timestamp_delta, _, _, is_tombstone in places:
            if not count:
                first = highest = timestamp_delta
                runs.append(start)
            elif start != run_end:
                runs.extend((run_end, start))
            run_end = end
            count += 1
            if timestamp_delta > highest:
                highest = timestamp_delta
            if is_tombstone:
                has_tombstone = True
        if count:
            runs.append(run_end)
        return cls(runs, count, first, highest, has_tombstone)


def rebuilt_batch(
    header: BatchHeader, data: bytes, kept: KeptRecords, new_horizon_ms: int | None
) -> tuple[BatchHeader, bytes]:
    """Return the header and the bytes of the batch with only the kept records.

    Args:
        header: header of the old batch.
        data: decompressed records of the old batch.
        kept: the records to keep.
        new_horizon_ms: delete horizon to set, in milliseconds since 1970; None keeps the old one, if any.
    """
    append_time = bool(header.attributes & APPEND_TIME_BIT)
    old_base, attributes = header.base_timestamp, header.attributes
    highest = header.max_timestamp if append_time else max(NO_TIMESTAMP, old_base + kept.highest_delta)
    if new_horizon_ms is not None:
        base, attributes = new_horizon_ms, attributes | DELETE_HORIZON_BIT
    elif header.delete_horizon_ms is not None:
        base = old_base
    else:
        base = highest if append_time else old_base + kept.first_delta
    if append_time:
        payload = _with_shifted_times(data, kept, highest - base, all_alike=True)
    elif base != old_base:
        payload = _with_shifted_times(data, kept, old_base - base)
    else:
        payload = b"".join(data[start:end] for start, end in _runs(kept))
    compression = attributes & COMPRESSION_MASK
    changed = header._replace(
        attributes=attributes, base_timestamp=base, max_timestamp=highest, record_count=kept.count
    )
    return assembled(changed, compress(compression, payload) if compression else payload)


def empty_batch(header: BatchHeader) -> tuple[BatchHeader, bytes]:
    """Return the header and the bytes of the batch without records. Offsets and the producer's last sequence stay."""
    changed = header._replace(
        attributes=header.attributes & _KEPT_WHEN_EMPTY, base_timestamp=NO_TIMESTAMP, record_count=0
    )
    return assembled(changed, b"")


def _runs(kept: KeptRecords) -> Iterable[tuple[int, int]]:
    return zip(kept.runs[::2], kept.runs[1::2], strict=True)


def _with_shifted_times(data: bytes, kept: KeptRecords, shift_ms: int, *, all_alike: bool = False) -> bytes:
    target = bytearray()
    for run_start, run_end in _runs(kept):
        append_shifted(target, data, run_start, run_end, shift_ms, all_alike=all_alike)
    return bytes(target)
