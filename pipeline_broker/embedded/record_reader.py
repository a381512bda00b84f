"""Direct reads of a topic's logs, without a consumer."""

from __future__ import annotations

from collections.abc import Sequence

import trio

from pipeline_broker.broker.broker import Broker
from pipeline_broker.log.errors import OffsetOutOfRange
from pipeline_broker.log.partition.partition_log import PartitionLog
from pipeline_broker.log.producers.aborted_transactions import AbortedTransaction
from pipeline_broker.log.read_result import ColdRead
from pipeline_broker.records.batch import read_header

__all__ = ["RecordReader"]

# Bounds a turn of the event loop, unless a single batch is larger.
READ_BYTES_MAX = 1 << 20


class RecordReader:
    """The undecoded batches of a topic; each `read` adds new ones.

    It runs on the event loop and copies batches. Another thread decodes them, so a large topic does not block the loop.

    Args:
        brokers: the brokers that may lead its partitions.
        topic: may be created later.
        partition: read only this partition. None for all.
        is_committed: leave out records of open and aborted transactions.

    Attributes:
        batches: (partition, first offset, batch) triples, ordered by partition and offset. Records before the first
            offset do not count.
        count: the number of records in the batches, without transaction markers.
    """

    def __init__(self, brokers: Sequence[Broker], topic: str, partition: int | None, *, is_committed: bool) -> None:
        self.brokers = brokers
        self._topic = topic
        self.partition = partition
        self.is_committed = is_committed
        self._next_offsets: dict[int, int] = {}
        self._batches: dict[int, list[tuple[int, bytes]]] = {}
        self.count = 0

    @property
    def batches(self) -> list[tuple[int, int, bytes]]:
        return [(partition, *batch) for partition in sorted(self._batches) for batch in self._batches[partition]]

    async def read(self) -> None:
        for log in [log for broker in self.brokers for log in broker.logs.partitions(self._topic)]:
            if self.partition in (None, log.partition):
                await self._read_log(log)

    async def count_undecided(self) -> tuple[int, int]:
        # The numbers of records in open transactions, and of further records that wait for their end.
        found: list[int] = [0, 0]
        for broker in self.brokers:
            for log in broker.logs.partitions(self._topic):
                if self.partition in (None, log.partition) and log.last_stable_offset < log.high_watermark:
                    rest = RecordReader([broker], self._topic, log.partition, is_committed=False)
                    rest._next_offsets[log.partition] = log.last_stable_offset
                    await rest.read()
                    for _, first_offset, batch in rest.batches:
                        header = read_header(batch)
                        is_open = header.is_transactional and log.producers.open_transaction(header.producer_id)
                        found[0 if is_open else 1] += min(header.record_count, header.last_offset - first_offset + 1)
        return found[0], found[1]

    async def _read_log(self, log: PartitionLog) -> None:
        while True:
            offset = max(self._next_offsets.get(log.partition, 0), log.log_start_offset)
            end_offset = log.last_stable_offset if self.is_committed else log.high_watermark
            if offset >= end_offset:
                return
            try:
                result = log.read(offset, READ_BYTES_MAX, at_least_one=True, committed=self.is_committed)
            except OffsetOutOfRange:  # retention raised the log start
                continue
            parts = result.parts if result.cold is None else await trio.to_thread.run_sync(result.cold)
            data = b"".join(parts)
            if data:
                await self._add(log, offset, data)
            else:  # the records were deleted or compacted away
                self._next_offsets[log.partition] = end_offset
            await trio.lowlevel.checkpoint()

    async def _add(self, log: PartitionLog, offset: int, data: bytes) -> None:
        batches, position = [], 0
        while position < len(data):
            header = read_header(data, position)
            batches.append((header, data[position : position + header.size_bytes]))
            position += header.size_bytes
        end_offset = batches[-1][0].last_offset + 1
        aborted = await self._aborted(log, offset, end_offset) if self.is_committed else []
        kept = self._batches.setdefault(log.partition, [])
        for header, batch in batches:
            is_aborted = header.is_transactional and any(
                it.producer_id == header.producer_id and it.first_offset <= header.base_offset < it.last_offset
                for it in aborted
            )
            if not header.is_control and not is_aborted and header.last_offset >= offset:
                kept.append((offset, batch))
                self.count += min(header.record_count, header.last_offset - offset + 1)
        self._next_offsets[log.partition] = end_offset

    @staticmethod
    async def _aborted(log: PartitionLog, offset: int, end_offset: int) -> list[AbortedTransaction]:
        found = log.aborted_transactions(offset, end_offset)
        return await trio.to_thread.run_sync(found) if isinstance(found, ColdRead) else found
