"""Transactions of a cluster: list, describe, find hanging ones, abort (KIP-664).

Names and rules are those of Kafka's TransactionsCommand.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Sequence
from typing import Any

import attrs

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.client.answers import answer_to, answers_to
from pipeline_broker.client.cluster_client import ClusterClient
from pipeline_broker.client.errors import ClientError, NoSuchPartition, NoSuchTransaction, check, check_topic
from pipeline_broker.client.topology import TopicPartition, Topology, partition_words
from pipeline_broker.client.transaction_state import TRANSACTION, TransactionDescription
from pipeline_broker.wire.messages.transactions.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
)
from pipeline_broker.wire.messages.transactions.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from pipeline_broker.wire.messages.transactions.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from pipeline_broker.wire.messages.transactions.write_txn_markers import (
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

__all__ = [
    "ActiveProducer",
    "HangingTransaction",
    "ListedTransaction",
    "TransactionDescription",
    "abort_transaction",
    "describe_transaction",
    "find_hanging",
    "list_transactions",
    "producers_of",
]

NO_OFFSET = -1
NO_TIME = -1


@attrs.frozen
class ListedTransaction:
    transactional_id: str
    coordinator: int
    producer_id: int
    state: str


@attrs.frozen
class ActiveProducer:
    """A producer that the leader of a partition remembers.

    Attributes:
        last_sequence: the sequence number of the last batch; -1: unknown.
        last_ms: the timestamp of the last batch, milliseconds since 1970; -1: unknown.
        coordinator_epoch: the coordinator epoch of the last marker; -1: no marker.
        started_at: the first offset of the open transaction; None: no open transaction.
    """

    topic: str
    partition: int
    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_ms: int
    coordinator_epoch: int
    started_at: int | None


@attrs.frozen
class HangingTransaction:
    """An open transaction of a partition that no coordinator will end.

    Attributes:
        transactional_id: the id of the producer at its coordinator; None if no coordinator knows it.
    """

    producer: ActiveProducer
    transactional_id: str | None


async def list_transactions(
    cluster: ClusterClient, states: Collection[str] = (), producer_ids: Collection[int] = ()
) -> list[ListedTransaction]:
    """Return the transactions of a cluster, sorted by transactional id. Every broker lists those that it coordinates.

    Args:
        states: Kafka's names of states, such as Ongoing; empty: all.
        producer_ids: producer ids; empty: all.

    Raises:
        ClientError: a state is unknown, or a broker cannot be reached.
    """
    topology = await cluster.refresh(())
    found: list[ListedTransaction] = []
    for node in sorted(topology.brokers):

        async def attempt(node: int = node) -> ListTransactionsResponse:
            request = ListTransactionsRequest(list(states), list(producer_ids))
            answer = await cluster.ask(request, ListTransactionsResponse, node=node)
            check(answer.error_code, f"the transactions of broker {node}")
            if answer.unknown_state_filters:
                unknown = ", ".join(sorted(answer.unknown_state_filters))
                raise ClientError(f"unknown state {unknown}: use Kafka's names, such as Ongoing")
            return answer

        answer = await cluster.retrying(attempt)
        found += [
            ListedTransaction(it.transactional_id, node, it.producer_id, it.transaction_state)
            for it in answer.transaction_states
        ]
    return sorted(found, key=lambda it: it.transactional_id)


async def describe_transaction(cluster: ClusterClient, transactional_id: str) -> TransactionDescription:
    """Describe a transaction.

    Raises:
        NoSuchTransaction: the coordinator does not know the transactional id.
        ClientError: the coordinator cannot be reached, or reports another error.
    """

    async def attempt(node: int) -> TransactionDescription:
        answer = await cluster.ask(
            DescribeTransactionsRequest([transactional_id]), DescribeTransactionsResponse, node=node
        )
        named = ((it.transactional_id, it) for it in answer.transaction_states)
        it = answer_to(transactional_id, named, f"transaction {transactional_id}")
        if it.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
            raise NoSuchTransaction(f"unknown transaction {transactional_id!r}: see `transactions list`")
        check(it.error_code, f"transaction {transactional_id}")
        partitions = ((topic.topic, partition) for topic in it.topics for partition in topic.partitions)
        return TransactionDescription(
            it.transactional_id,
            node,
            it.producer_id,
            it.producer_epoch,
            it.transaction_state,
            it.transaction_timeout_ms,
            None if it.transaction_start_time_ms == NO_TIME else it.transaction_start_time_ms,
            tuple(sorted(partitions)),
        )

    return await cluster.at_coordinator(transactional_id, attempt, TRANSACTION)


async def producers_of(cluster: ClusterClient, topic: str, partitions: Collection[int] = ()) -> list[ActiveProducer]:
    """Return the producers that the leaders of a topic's partitions remember, sorted by partition.

    Args:
        partitions: partition numbers; empty: all.

    Raises:
        NoSuchTopic: the topic is unknown.
        NoSuchPartition: the topic has fewer partitions.
        ClientError: a leader cannot be reached.
    """

    async def find() -> list[TopicPartition]:
        of_topic = (await cluster.refresh([topic])).topic(topic)
        numbers = [of_topic.partition(number).index for number in partitions] or [
            it.index for it in of_topic.partitions
        ]
        return [(topic, number) for number in sorted(set(numbers))]

    async def attempt(node: int, led: list[TopicPartition]) -> dict[TopicPartition, list[ActiveProducer]]:
        asked = DescribeProducersRequest.TopicRequest(topic, [number for _, number in led])
        answer = await cluster.ask(DescribeProducersRequest([asked]), DescribeProducersResponse, node=node)
        named = (((each.name, it.partition_index), it) for each in answer.topics for it in each.partitions)
        found = answers_to(led, named, partition_words)
        for partition, it in found.items():
            check_topic(it.error_code, topic, f"producers of {partition_words(partition)}", it.error_message)
        return {
            partition: [_producer(*partition, state) for state in it.active_producers]
            for partition, it in found.items()
        }

    wanted = await cluster.retrying(find)
    found = await cluster.at_leaders(wanted, attempt)
    return [producer for partition in wanted for producer in found[partition]]


def _producer(topic: str, partition: int, state: DescribeProducersResponse.ProducerState) -> ActiveProducer:
    started = state.current_txn_start_offset
    return ActiveProducer(
        topic,
        partition,
        state.producer_id,
        state.producer_epoch,
        state.last_sequence,
        state.last_timestamp,
        state.coordinator_epoch,
        None if started == NO_OFFSET else started,
    )


async def find_hanging(
    cluster: ClusterClient, topics: Sequence[str], partitions: Collection[int], before_ms: int
) -> list[HangingTransaction]:
    """Return open transactions of partitions that no coordinator will end.

    Args:
        topics: topics; empty: all.
        partitions: partition numbers; empty: all. Without `topics`, topics with fewer partitions are skipped.
        before_ms: ignore producers whose last batch is not older than this timestamp, milliseconds since 1970.

    Raises:
        NoSuchTopic: a topic is unknown.
        NoSuchPartition: one of `topics` has fewer partitions.
        ClientError: a broker cannot be reached.
    """
    topology: Topology = await cluster.refresh(list(topics) or None)
    open_ones: list[ActiveProducer] = []
    for name in sorted(topics or topology.topics):
        try:
            found = await producers_of(cluster, name, partitions)
        # With `partitions` but without `topics`, topics with fewer partitions are skipped.
        except NoSuchPartition:
            if topics:
                raise
            continue
        open_ones += [it for it in found if it.started_at is not None and it.last_ms < before_ms]
    if not open_ones:
        return []
    known = {
        it.producer_id: it.transactional_id
        for it in await list_transactions(cluster, producer_ids={it.producer_id for it in open_ones})
    }
    described: dict[str, TransactionDescription] = {}
    for name in sorted(set(known.values())):
        # An id may expire after it was listed; then no coordinator knows its transaction.
        with contextlib.suppress(NoSuchTransaction):
            described[name] = await describe_transaction(cluster, name)
    hanging = []
    for producer in open_ones:
        transactional_id = known.get(producer.producer_id)
        coordinated = described.get(transactional_id) if transactional_id is not None else None
        place = (producer.topic, producer.partition)
        # The open transactions of the coordinator list their partitions; a partition that is missing there gets no
        # marker (KIP-664).
        if coordinated is None or place not in coordinated.partitions:
            hanging.append(HangingTransaction(producer, transactional_id))
    return hanging


async def abort_transaction(cluster: ClusterClient, topic: str, partition: int, start_offset: int) -> ActiveProducer:
    """Abort the transaction that began at an offset of a partition, by writing a marker. Return its producer.

    Raises:
        NoSuchTopic: the topic is unknown.
        NoSuchPartition: the topic has fewer partitions.
        ClientError: no open transaction or more than one began at the offset, or the leader rejects the marker.
    """
    found = [it for it in await producers_of(cluster, topic, [partition]) if it.started_at == start_offset]
    if not found:
        raise ClientError(
            f"no open transaction of {topic}-{partition} began at offset {start_offset}: see `transactions producers`"
        )
    if len(found) > 1:
        raise ClientError(
            f"the broker names {len(found)} producers with a transaction that began at offset {start_offset}: none was"
            " aborted"
        )
    (producer,) = found
    marker = WriteTxnMarkersRequest.WritableTxnMarker(
        producer.producer_id,
        producer.producer_epoch,
        transaction_result=False,
        topics=[WriteTxnMarkersRequest.WritableTxnMarkerTopic(topic, [partition])],
        # Without an earlier marker the coordinator epoch is unknown; TransactionsCommand sends 0 then.
        coordinator_epoch=max(producer.coordinator_epoch, 0),
    )
    request = WriteTxnMarkersRequest([marker])

    async def attempt(node: int, led: list[TopicPartition]) -> dict[TopicPartition, Any]:
        answer = await cluster.ask(request, WriteTxnMarkersResponse, node=node)
        named = (
            ((written.producer_id, in_topic.name, it.partition_index), it)
            for written in answer.markers
            for in_topic in written.topics
            for it in in_topic.partitions
        )
        what = f"aborting the transaction of {topic}-{partition}"
        it = answer_to((producer.producer_id, topic, partition), named, f"the marker for {topic}-{partition}")
        check(it.error_code, what)
        return dict.fromkeys(led, it)

    await cluster.at_leaders([(topic, partition)], attempt)
    return producer
