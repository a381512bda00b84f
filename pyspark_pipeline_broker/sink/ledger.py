"""The ledger of a sink's decided batches: a compacted topic with one partition. Its last committed record is valid."""

from __future__ import annotations

import time

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.client.cluster_client import ClusterClient
from pipeline_broker.client.consumer import Position, Reader
from pipeline_broker.client.errors import BrokerRefused, NoSuchTopic, check
from pipeline_broker.client.offsets import READ_COMMITTED, bounds_of
from pipeline_broker.client.topics import create_topic
from pipeline_broker.client.topology import TopicPartition
from pipeline_broker.client.transaction import Transaction
from pipeline_broker.client.transaction_state import ProducerIdentity
from pipeline_broker.client.visible import VisibleBatch
from pipeline_broker.records.batch import NewRecord, build_batch
from pipeline_broker.wire.messages.data.produce import ProduceRequest, ProduceResponse
from pyspark_pipeline_broker.sink.commit_plan import LedgerEntry

__all__ = ["Ledger"]

KEY = b"last"
LOOK_BACK = 8
"""Offsets to read first. An entry and its marker take two offsets, and aborted entries can follow them."""
GROWTH = 16
_PRODUCE_VERSIONS = range(3, 12)  # version 12 adds partitions to the transaction by itself (KIP-890)


class Ledger:
    """The ledger of one sink, written by the producer that has fenced all others.

    Args:
        topic: the topic's name; it is created if it is missing.
        producer: the producer of the sink's transactional id.
    """

    def __init__(self, cluster: ClusterClient, topic: str, producer: ProducerIdentity) -> None:
        self._cluster = cluster
        self._partition: TopicPartition = (topic, 0)
        self._producer = producer
        # A newly fenced producer starts its sequence at 0.
        self._sequence = 0

    async def last(self) -> LedgerEntry | None:
        """Return the last decided batch; None if the ledger is empty. Creates the topic if it is missing.

        Raises:
            ClientError: the topic cannot be created or read, or its last record is not an entry.
        """
        topic, _ = self._partition
        try:
            await self._cluster.ready([topic])
        except NoSuchTopic:
            await self._create(topic)
        bounds = (await bounds_of(self._cluster, [self._partition], READ_COMMITTED))[self._partition]
        # Search backwards in growing steps: the last offsets may hold only markers and aborted entries.
        back = LOOK_BACK
        while True:
            start = max(bounds.start, bounds.end - back)
            found: list[bytes] = []

            async def note(_partition: TopicPartition, batch: VisibleBatch, found: list[bytes] = found) -> int:
                found += [bytes(record.value or b"") for record in batch.records]
                return batch.next_offset

            if start < bounds.end:
                await Reader(self._cluster, {self._partition: Position(start, bounds.end)}, note).run()
            if found:
                return LedgerEntry.decoded(found[-1])
            if start == bounds.start:
                return None
            back *= GROWTH

    async def _create(self, topic: str) -> None:
        try:
            await create_topic(self._cluster, topic, partitions=1, configs={"cleanup.policy": "compact"})
        except BrokerRefused as error:
            if error.code != ErrorCode.TOPIC_ALREADY_EXISTS:
                raise
        await self._cluster.ready([topic], is_new=True)

    async def store(self, entry: LedgerEntry) -> None:
        """Append an entry in a transaction; it becomes the last one.

        Raises:
            ClientError: the entry cannot be written, or another driver has fenced this one.
        """
        transaction = Transaction(self._cluster, self._producer)
        await transaction.add([self._partition])
        batch = build_batch(
            [NewRecord(entry.encoded(), KEY, time.time_ns() // 1_000_000)],
            producer_id=self._producer.producer_id,
            producer_epoch=self._producer.epoch,
            base_sequence=self._sequence,
            transactional=True,
        )
        self._sequence += 1
        name, number = self._partition
        topic = ProduceRequest.TopicProduceData(
            name=name, partition_data=[ProduceRequest.PartitionProduceData(number, batch)]
        )
        timeout_ms = round(self._cluster.timeout_s * 1000)
        request = ProduceRequest(self._producer.transactional_id, -1, timeout_ms, [topic])

        async def attempt(node: int, led: list[TopicPartition]) -> dict[TopicPartition, None]:
            answer = await self._cluster.ask(request, ProduceResponse, node=node, versions=_PRODUCE_VERSIONS)
            for it in (it for answered in answer.responses for it in answered.partition_responses):
                if it.error_code != ErrorCode.DUPLICATE_SEQUENCE_NUMBER:  # a retry of a request that succeeded
                    check(it.error_code, f"a record of {name}", it.error_message)
            return dict.fromkeys(led)

        await self._cluster.at_leaders([self._partition], attempt)
        await transaction.end(is_committed=True)
