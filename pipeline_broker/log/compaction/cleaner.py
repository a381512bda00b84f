"""One round of compaction over one log: map the keys of the dirty part, then say what every batch becomes.

Rules of this file: batches come in offset order and go out in offset order; nothing gets another offset. An unchanged
batch goes out as the very bytes that came in. A batch whose checksum does not match ends the round with a RecordError,
before damage gets a checksum of its own or a damaged key costs another record. What stays is what Apache Kafka keeps:
- Of a key the record with the latest offset; of what lies behind the mapped part, everything.
- No record without a key.
- A tombstone until the delete horizon, which the first round that meets it writes into its batch.
- No record of an aborted transaction. A marker until no batch of its transaction is left and the horizon, written by
  the first round that finds none, has passed.
- As an empty header, if it holds no record: the batch with the last sequence of a live producer (or, while it has no
  data, the marker with its epoch), and the batch before the offset that the round may not pass, so that neither
  producers nor offsets are forgotten when the log is read again.
"""

from collections.abc import Iterable, Iterator, Mapping

import attrs

from pipeline_broker.log.compaction.offset_map import OffsetMap
from pipeline_broker.log.compaction.rebuild import KeptRecords, empty_batch, rebuilt_batch
from pipeline_broker.log.compaction.transactions import AbortedTransaction, TransactionsRead
from pipeline_broker.records.batch import CHECKED_FROM, BatchHeader, Buffer
from pipeline_broker.records.checksum import crc32c
from pipeline_broker.records.errors import WrongChecksum
from pipeline_broker.records.record import record_bytes
from pipeline_broker.records.record_places import RecordPlace, record_places

TIME_MS_MAX = 2**63 - 1

Batch = tuple[BatchHeader, Buffer]


@attrs.frozen(slots=True)
class LastRecord:
    """What a live producer wrote last, as producer state has it."""

    producer_epoch: int
    last_data_offset: int | None
    """None when only a marker is known of it."""


@attrs.frozen(slots=True, kw_only=True)
class RoundParameters:
    """What holds for a whole round."""

    now_ms: int
    delete_retention_ms: int
    upper_bound_offset: int
    """The first uncleanable offset of the plan."""
    last_records: Mapping[int, LastRecord] = attrs.field(factory=dict)
    """By producer id; producers that were forgotten are not in here."""


class DirtyPart:
    """Maps the keys of the dirty segments, one after the other, until the map is full."""

    def __init__(
        self, offset_map: OffsetMap, first_dirty_offset: int, aborted: Iterable[AbortedTransaction] = ()
    ) -> None:
        self._map = offset_map
        self._first_offset = first_dirty_offset
        self._transactions = TransactionsRead(aborted)

    @property
    def end_offset(self) -> int:
        """The new checkpoint once the round is done; what lies below it is clean then."""
        return max(self._map.latest_offset + 1, self._first_offset)

    def add_segment(self, batches: Iterable[Batch], next_base_offset: int) -> bool:
        """Map one segment, which ends where the next one starts; false when there was no place for all of it."""
        for header, batch in batches:
            if header.last_offset < self._first_offset:
                continue
            check_batch(header, batch)
            if not header.is_control and not self._transactions.is_aborted(header) and not self._add(header, batch):
                return False
            self._map.latest_offset = header.last_offset
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
    """Says what every batch of a log becomes; `clean` is called for each group of segments in order."""

    def __init__(
        self, offset_map: OffsetMap, parameters: RoundParameters, aborted: Iterable[AbortedTransaction] = ()
    ) -> None:
        self._map = offset_map
        self._parameters = parameters
        self._transactions = TransactionsRead(aborted)
        self._new_horizon_ms = min(parameters.now_ms + parameters.delete_retention_ms, TIME_MS_MAX)

    def clean(self, batches: Iterable[Batch]) -> Iterator[Batch]:
        """What the segment that replaces this group holds."""
        for header, batch in batches:
            check_batch(header, batch)
            cleaned = self._clean_control(header, batch) if header.is_control else self._clean_data(header, batch)
            if cleaned is not None:
                yield cleaned

    def take_aborted(self) -> list[AbortedTransaction]:
        """The index entries of the segment that replaces the group which was cleaned last."""
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
        sets_horizon = kept.has_tombstone and header.delete_horizon_ms is None
        if kept.count == header.record_count and not sets_horizon:
            return header, batch
        return rebuilt_batch(header, data, kept, self._new_horizon_ms if sets_horizon else None)

    def _staying(self, header: BatchHeader, data: bytes) -> Iterator[RecordPlace]:
        """The records that stay."""
        latest_offset, latest_of = self._map.latest_offset, self._map.get
        base_offset = header.base_offset
        drops_tombstones = self._horizon_has_passed(header)
        for place in record_places(data, 0, len(data)):
            _, _, _, _, offset_delta, key, is_tombstone = place
            offset = base_offset + offset_delta
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
        """Nothing, or the header alone where it is needed."""
        if not self._is_needed_empty(header):
            return None
        return (header, batch) if header.record_count == 0 else empty_batch(header)

    def _is_needed_empty(self, header: BatchHeader) -> bool:
        if header.last_offset + 1 == self._parameters.upper_bound_offset:
            return True
        last = self._parameters.last_records.get(header.producer_id) if header.producer_id >= 0 else None
        if last is None:
            return False
        if last.last_data_offset is None:
            return header.is_control and header.producer_epoch == last.producer_epoch
        return header.last_offset == last.last_data_offset


def check_batch(header: BatchHeader, batch: Buffer) -> None:
    """Refuse a batch that is not as it was written."""
    if crc32c(memoryview(batch)[CHECKED_FROM : header.size_bytes]) != header.crc:
        raise WrongChecksum(f"the checksum of the batch at offset {header.base_offset} does not match")
