"""Requests to the transaction coordinator of a producer, if it is another broker.

Before the first batch of a transaction in a partition, the leader asks the coordinator to add the partition, or to
verify that the client has added it (KIP-890). Later requests of the connection wait for the answer, so that batches
keep their order.

Counterpart in Kafka: `AddPartitionsToTxnManager`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import attrs

from pipeline_broker.apis.steps import Stepwise
from pipeline_broker.apis.transactions.transaction_errors import Joining
from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.broker.leadership import NO_BROKER
from pipeline_broker.state.transactions.coordinator import Producer
from pipeline_broker.state.transactions.transaction import Partition
from pipeline_broker.wire.messages.transactions.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
)
from stages.request import Waiting

if TYPE_CHECKING:
    from collections.abc import Callable

    from pipeline_broker.apis.call import Call
    from pipeline_broker.log.partition.partition_log import PartitionLog

__all__ = ["RemoteAnswer", "ask_coordinator", "coordinator_elsewhere"]

RequestTransaction = AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction
RequestTopic = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic


@attrs.frozen(eq=False)
class RemoteAnswer:
    """The answer of the coordinator about one partition.

    Attributes:
        code: NONE if the partition is part of the transaction.
        marker_offset: offset of the producer's last marker in the partition at the time of the question.
    """

    code: ErrorCode
    marker_offset: int

    def code_now(self, log: PartitionLog, producer_id: int) -> ErrorCode:
        """Return the code for a batch that is appended now.

        A new marker may have ended the transaction. A batch after that marker would begin a transaction without an
        end, so the client tries again (Kafka's verification guard).
        """
        is_same = log.producers.last_marker_offset(producer_id) == self.marker_offset
        return self.code if is_same else ErrorCode.CONCURRENT_TRANSACTIONS


def coordinator_elsewhere(call: Call, transactional_id: str) -> int | None:
    """Return the broker that coordinates an id; None if it is this one, or NO_BROKER while it is out of reach."""
    broker = call.broker
    topic = broker.transactions.topic
    if broker.members is None or not transactional_id or not topic.exists:
        return None
    leader = broker.leadership.leader_of(topic.name, topic.partition_of(transactional_id)).broker_id
    return None if leader == broker.leadership.broker_id else leader


def ask_coordinator(
    call: Call,
    coordinator: int,
    transactional_id: str,
    producer: Producer,
    logs: Sequence[PartitionLog],
    joining: Joining,
) -> Stepwise[Mapping[PartitionLog, RemoteAnswer]]:
    """Ask another broker to add or verify partitions, and wait for its answers."""
    before = {log: log.producers.last_marker_offset(producer.producer_id) for log in logs}
    if coordinator == NO_BROKER:
        return {log: RemoteAnswer(ErrorCode.COORDINATOR_NOT_AVAILABLE, before[log]) for log in logs}
    topics: dict[str, list[int]] = {}
    for log in logs:
        topics.setdefault(log.topic, []).append(log.partition)
    request = AddPartitionsToTxnRequest(
        [
            RequestTransaction(
                transactional_id,
                producer.producer_id,
                producer.epoch,
                verify_only=joining is not Joining.ADDED,
                topics=[RequestTopic(name, numbers) for name, numbers in topics.items()],
            )
        ]
    )
    answers: list[AddPartitionsToTxnResponse | None] = []
    cluster = call.broker.ports.cluster
    assert cluster is not None, "another broker coordinates the id"

    def begin(go_on: Callable[[], None]) -> None:
        def answered(response: AddPartitionsToTxnResponse | None) -> None:
            answers.append(response)
            go_on()

        cluster.ask(coordinator, request, AddPartitionsToTxnResponse, answered)

    # The coordinator may need several turns for its answer. If requests kept their places during the wait, two brokers
    # could wait for each other.
    call.broker.large_requests.leave(call)
    yield Waiting(begin)
    codes = _codes(answers[0])
    unanswered = ErrorCode.COORDINATOR_NOT_AVAILABLE
    return {log: RemoteAnswer(codes.get(Partition(log.topic, log.partition), unanswered), before[log]) for log in logs}


def _codes(response: AddPartitionsToTxnResponse | None) -> Mapping[Partition, ErrorCode]:
    if response is None or response.error_code:
        return {}
    return {
        Partition(topic.name, partition.partition_index): ErrorCode(partition.partition_error_code)
        for result in response.results_by_transaction
        for topic in result.topic_results
        for partition in topic.results_by_partition
    }
