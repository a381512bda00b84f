"""Compaction decisions for records and batches: which are kept, dropped or emptied.

The rules are those of Apache Kafka:

* Of each key the record with the latest offset is kept; after the mapped range, every record. Records without a key are
  dropped.
* A tombstone is kept until its delete horizon, which the first round that meets it writes into its batch.
* Records of aborted transactions are dropped. A marker is kept as long as a batch of its transaction exists, and then
  until a horizon that the first round without one writes.
* A batch without remaining records is dropped, except in two cases, so that replay loses neither producers nor offsets.
  Its header is kept if it has the last sequence of a live producer. While the producer has no data, the marker with its
  epoch is kept instead. The last batch below the upper bound of the round is also kept.
"""

from collections.abc import Iterable, Iterator, Mapping

import attrs

from pipeline_broker.base.buffer import Buffer
from pipeline_broker.log.compaction.offset_map import OffsetMap
from pipeline_broker.log.compaction.rebuild import KeptRecords, empty_batch, rebuilt_batch
from pipeline_broker.log.compaction.transactions import AbortedTransaction, TransactionsRead
from pipeline_broker.records.batch import CHECKED_FROM, BatchHeader
from pipeline_broker.records.checksum import crc32c
from pipeline_broker.records.errors import WrongChecksum
from pipeline_broker.records.record import record_bytes
from pipeline_broker.records.record_places import RecordPlace, record_places

TIME_MS_MAX = 2**63 - 1

Batch = tuple[BatchHeader, Buffer]


@attrs.frozen(slots=True)
class LastRecord:
    """The last write of a live producer.

    Attributes:
        last_data_offset: None if only a marker is known.
    """

    producer_epoch: int
    last_data_offset: int | None


@attrs.frozen(slots=True, kw_only=True)
class RoundParameters:
    """Constants of one round.

    Attributes:
        upper_bound_offset: the first uncleanable offset of the plan.
        last_records: last writes by producer id; expired producers are missing.
    """

    now_ms: int
    delete_retention_ms: int
    upper_bound_offset: int
    last_records: Mapping[int, LastRecord] = attrs.field(factory=dict)


class DirtyPart:
    """The dirty segments of a log, whose keys are mapped one segment after the other until the map is full."""

    def __init__(
        self, offset_map: OffsetMap, first_dirty_offset: int, aborted: Iterable[AbortedTransaction] = ()
    ) -> None:
        self._map = offset_map
        self._first_offset = first_dirty_offset
        self._transactions = TransactionsRead(aborted)

    @property
    def end_offset(self) -> int:
        """The end of the mapped range, which is the checkpoint after the round."""
        return max(self._map.latest_offset + 1, self._first_offset)

    def add_segment(self, batches: Iterable[Batch], next_base_offset: int) -> bool:
        """Map the keys of a segment; return False if the map is full.

        Args:
            batches: the batches of the segment.
            next_base_offset: end of the segment; offsets up to it count as mapped.

        Raises:
            RecordError: a batch is damaged.
        """
        for header, batch in batches:
            if header.last_offset < self._first_offset:
                continue
            check_batch(header, batch)
            if not header.is_control and not self._transactions.is_aborted(header) and not self._add(header, batch):
                return False
            self._map.latest_offset = header.last_offset
        # The offsets up to the next segment are empty, so they count as mapped.
        self._map.latest_offset = next_base_offset - 1
        return True

    def _add(self, header: BatchHeader, batch: Buffer) -> bool:
        put, first_offset = self._map.put, self._first_offset
        base_offset, data = header.base_offset, record_bytes(batch, header)
        for place in record_places(data, 0, len(data)):
            key, offset = place[5], base_offset + place[4]
            if key is not None and offset >= first_offset and not put(key, offset):
                return False
        return True


class CleaningRound:
    """The rewriting of all batches of a log in one round. Call `clean` for each group of segments, in order."""

    def __init__(
        self, offset_map: OffsetMap, parameters: RoundParameters, aborted: Iterable[AbortedTransaction] = ()
    ) -> None:
        self._map = offset_map
        self._parameters = parameters
        self._transactions = TransactionsRead(aborted)
        self._new_horizon_ms = min(parameters.now_ms + parameters.delete_retention_ms, TIME_MS_MAX)

    def clean(self, batches: Iterable[Batch]) -> Iterator[Batch]:
        """Yield the batches of the segment that replaces this group.

        Raises:
            RecordError: a batch is damaged.
        """
        for header, batch in batches:
            # Rebuilding would give a damaged batch a valid checksum, and a damaged key would remove another key's
            # record.
            check_batch(header, batch)
            cleaned = self._clean_control(header, batch) if header.is_control else self._clean_data(header, batch)
            if cleaned is not None:
                yield cleaned

    def take_aborted(self) -> list[AbortedTransaction]:
        """Return and forget the aborted transactions for the index of the group that was cleaned last."""
        taken, self._transactions.retained = self._transactions.retained, []
        return taken

    def _clean_control(self, header: BatchHeader, batch: Buffer) -> Batch | None:
        if header.record_count == 0:
            return self._emptied(header, batch)
        is_spent = self._transactions.is_spent(header, batch)
        if is_spent and self._horizon_has_passed(header):
            return self._emptied(header, batch)
        if is_spent and header.delete_horizon_ms is None:
            data = record_bytes(batch, header)
            kept = KeptRecords.of(record_places(data, 0, len(data)))
            return rebuilt_batch(header, data, kept, self._new_horizon_ms)
        return header, batch

    def _clean_data(self, header: BatchHeader, batch: Buffer) -> Batch | None:
        if self._transactions.is_aborted(header):
            return self._emptied(header, batch)
        data = record_bytes(batch, header)
        kept = KeptRecords.of(self._staying(header, data))
        if not kept.count:
            return self._emptied(header, batch)
        # The horizon starts with the first round that meets the tombstone. Until then a consumer that reads from the
        # start still learns of the deletion (KIP-534).
        sets_horizon = kept.has_tombstone and header.delete_horizon_ms is None
        if kept.count == header.record_count and not sets_horizon:
            return header, batch
        return rebuilt_batch(header, data, kept, self._new_horizon_ms if sets_horizon else None)

    def _staying(self, header: BatchHeader, data: bytes) -> Iterator[RecordPlace]:
        latest_offset, latest_of = self._map.latest_offset, self._map.get
        base_offset = header.base_offset
        drops_tombstones = self._horizon_has_passed(header)
        for place in record_places(data, 0, len(data)):
            _, _, _, _, offset_delta, key, is_tombstone = place
            offset = base_offset + offset_delta
            # The map says nothing about records after the mapped range.
            if offset <= latest_offset:
                if key is None:
                    continue
                if latest_of(key) > offset or (is_tombstone and drops_tombstones):
                    continue
            yield place

    def _horizon_has_passed(self, header: BatchHeader) -> bool:
        horizon_ms = header.delete_horizon_ms
        return horizon_ms is not None and horizon_ms <= self._parameters.now_ms

    def _emptied(self, header: BatchHeader, batch: Buffer) -> Batch | None:
        if not self._is_needed_empty(header):
            return None
        return (header, batch) if header.record_count == 0 else empty_batch(header)

    def _is_needed_empty(self, header: BatchHeader) -> bool:
        # Without its last batch, a replay of the log would not know that these offsets were assigned. Kafka learns it
        # from the name of the next segment.
        if header.last_offset + 1 == self._parameters.upper_bound_offset:
            return True
        last = self._parameters.last_records.get(header.producer_id) if header.producer_id >= 0 else None
        if last is None:
            return False
        if last.last_data_offset is None:
            return header.is_control and header.producer_epoch == last.producer_epoch
        return header.last_offset == last.last_data_offset


def check_batch(header: BatchHeader, batch: Buffer) -> None:
    if crc32c(memoryview(batch)[CHECKED_FROM : header.size_bytes]) != header.crc:
        raise WrongChecksum(f"the checksum of the batch at offset {header.base_offset} does not match")
