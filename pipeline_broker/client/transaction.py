"""One transaction of a producer (KIP-98): begun by one process, perhaps ended by another.

The requests are those of clients before KIP-890: an end leaves the producer's epoch as it is. So the end of a
transaction can be repeated, by any process that knows id and epoch, until the next transaction of its id begins.
"""

from __future__ import annotations

from collections.abc import Collection

import trio

from pipeline_broker.client.cluster import INIT_PRODUCER_ID_VERSIONS, Cluster
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

    Args:
        cluster: of its coordinator and partitions.
        identity: its producer.

    Attributes:
        is_empty: true until the first partition is added; an empty transaction needs no end.
    """

    def __init__(self, cluster: Cluster, identity: ProducerIdentity) -> None:
        self._cluster = cluster
        self.identity = identity
        self._added: set[TopicPartition] = set()
        self._adding = trio.Lock()

    @property
    def is_empty(self) -> bool:
        return not self._added

    async def add(self, partitions: Collection[TopicPartition]) -> None:
        """Add partitions before the first write to them.

        Raises:
            ClientError: the coordinator refuses, or another producer has taken the transactional id.
        """
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
        """Commit or abort it; see `end_transaction`."""
        if self._added:
            await end_transaction(self._cluster, self.identity, is_committed=is_committed)


async def begin_transaction(cluster: Cluster, transactional_id: str, timeout_ms: int) -> Transaction:
    """Begin a transaction; an open one of the same id is aborted first, and its producer is fenced.

    Args:
        cluster: where.
        transactional_id: which.
        timeout_ms: after this time the coordinator aborts it.

    Raises:
        ClientError: the coordinator refuses.
    """
    request = InitProducerIdRequest(transactional_id, timeout_ms)

    async def attempt(node: int) -> ProducerIdentity:
        answer = await cluster.ask(request, InitProducerIdResponse, node=node, versions=INIT_PRODUCER_ID_VERSIONS)
        check(answer.error_code, f"transaction {transactional_id}")
        return ProducerIdentity(transactional_id, answer.producer_id, answer.producer_epoch)

    return Transaction(cluster, await cluster.at_coordinator(transactional_id, attempt, TRANSACTION))


async def end_transaction(cluster: Cluster, identity: ProducerIdentity, *, is_committed: bool) -> None:
    """Commit or abort a transaction, which may have been ended in the same way before.

    Raises:
        ClientError: the coordinator refuses: it was ended in the other way, or a later one of its id was begun.
    """
    request = EndTxnRequest(identity.transactional_id, identity.producer_id, identity.epoch, is_committed)
    what = f"{'committing' if is_committed else 'aborting'} transaction {identity.transactional_id}"

    async def attempt(node: int) -> None:
        answer = await cluster.ask(request, EndTxnResponse, node=node, versions=_END_VERSIONS)
        check(answer.error_code, what)

    await cluster.at_coordinator(identity.transactional_id, attempt, TRANSACTION)
