"""A transaction of a producer (KIP-98), which one process may begin and another end.

It uses the requests of clients before KIP-890, where the end of a transaction keeps the producer's epoch. So any
process that knows id and epoch can repeat the end, until the next transaction of the transactional id begins.
"""

from __future__ import annotations

from collections.abc import Collection

import trio

from pipeline_broker.client.cluster_client import INIT_PRODUCER_ID_VERSIONS, ClusterClient
from pipeline_broker.client.errors import check
from pipeline_broker.client.topology import TopicPartition
from pipeline_broker.client.transaction_state import TRANSACTION, ProducerIdentity
from pipeline_broker.wire.messages.transactions.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
)
from pipeline_broker.wire.messages.transactions.end_txn import EndTxnRequest, EndTxnResponse
from pipeline_broker.wire.messages.transactions.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

__all__ = ["Transaction", "begin_transaction", "end_transaction"]

_END_VERSIONS = range(5)  # version 5 raises the epoch (KIP-890)
_ADD_VERSIONS = range(4)  # later versions are for brokers


class Transaction:
    """An open transaction.

    Attributes:
        is_empty: true until the first partition is added; an empty transaction needs no end.
    """

    def __init__(self, cluster: ClusterClient, identity: ProducerIdentity) -> None:
        self._cluster = cluster
        self.identity = identity
        self._added: set[TopicPartition] = set()
        self._adding = trio.Lock()

    @property
    def is_empty(self) -> bool:
        return not self._added

    async def add(self, partitions: Collection[TopicPartition]) -> None:
        """Add partitions to the transaction. Required before the first write to them.

        Raises:
            ClientError: the coordinator rejects the request, for example because the producer is fenced.
        """
        # Another task that needs the same partitions waits here until they are added.
        async with self._adding:
            new = [partition for partition in partitions if partition not in self._added]
            if new:
                await self._add(new)
                self._added.update(new)

    async def _add(self, partitions: Collection[TopicPartition]) -> None:
        of_topic: dict[str, list[int]] = {}
        for topic, partition in partitions:
            of_topic.setdefault(topic, []).append(partition)
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.identity.transactional_id,
            v3_and_below_producer_id=self.identity.producer_id,
            v3_and_below_producer_epoch=self.identity.epoch,
            v3_and_below_topics=[
                AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(topic, numbers) for topic, numbers in of_topic.items()
            ],
        )

        async def attempt(node: int) -> None:
            answer = await self._cluster.ask(request, AddPartitionsToTxnResponse, node=node, versions=_ADD_VERSIONS)
            for topic in answer.results_by_topic_v3_and_below:
                for it in topic.results_by_partition:
                    what = f"adding {topic.name}-{it.partition_index} to transaction {self.identity.transactional_id}"
                    check(it.partition_error_code, what)

        await self._cluster.at_coordinator(self.identity.transactional_id, attempt, TRANSACTION)

    async def end(self, *, is_committed: bool) -> None:
        """Commit or abort the transaction; see `end_transaction`. Does nothing for an empty one."""
        if self._added:
            await end_transaction(self._cluster, self.identity, is_committed=is_committed)


async def begin_transaction(cluster: ClusterClient, transactional_id: str, timeout_ms: int) -> Transaction:
    """Begin a transaction. Aborts an open one of the same transactional id, and fences its producer.

    Args:
        timeout_ms: the time after which the coordinator aborts the transaction.

    Raises:
        ClientError: the coordinator rejects the request, or cannot be reached.
    """
    request = InitProducerIdRequest(transactional_id, timeout_ms)

    async def attempt(node: int) -> ProducerIdentity:
        answer = await cluster.ask(request, InitProducerIdResponse, node=node, versions=INIT_PRODUCER_ID_VERSIONS)
        check(answer.error_code, f"transaction {transactional_id}")
        return ProducerIdentity(transactional_id, answer.producer_id, answer.producer_epoch)

    return Transaction(cluster, await cluster.at_coordinator(transactional_id, attempt, TRANSACTION))


async def end_transaction(cluster: ClusterClient, identity: ProducerIdentity, *, is_committed: bool) -> None:
    """Commit or abort a transaction. Repeating the same end is harmless.

    Raises:
        ClientError: the transaction has the other outcome, a later one of its transactional id has begun, or the
            coordinator cannot be reached.
    """
    request = EndTxnRequest(identity.transactional_id, identity.producer_id, identity.epoch, is_committed)
    what = f"{'committing' if is_committed else 'aborting'} transaction {identity.transactional_id}"

    async def attempt(node: int) -> None:
        answer = await cluster.ask(request, EndTxnResponse, node=node, versions=_END_VERSIONS)
        check(answer.error_code, what)

    await cluster.at_coordinator(identity.transactional_id, attempt, TRANSACTION)
