"""Produce requests: the options of a producer, its requests, and the responses of brokers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

import attrs

from pipeline_broker.client.cluster_client import ClusterClient
from pipeline_broker.client.link import HELLO, Link
from pipeline_broker.client.outbox import IN_FLIGHT_MAX
from pipeline_broker.records.compression import Compression
from pipeline_broker.wire.messages.cluster.api_versions import ApiVersionsResponse
from pipeline_broker.wire.messages.data.produce import ProduceRequest, ProduceResponse

__all__ = ["ACKS_ALL", "Answers", "ProducerOptions", "send_batches"]

ACKS_ALL = -1
_VERSIONS = range(3, 13)  # those with topic names instead of ids
_TRANSACTIONAL_VERSIONS = range(3, 12)  # version 12 raises the epoch at the end of each transaction (KIP-890)

Answers = dict[int, tuple[int, int, str | None]]
"""By partition: error code, offset of the first record, and the broker's message."""


@attrs.frozen(slots=True)
class ProducerOptions:
    """The options of a producer.

    Attributes:
        acks: acknowledgements to wait for: -1 (all in-sync replicas), 0 (none) or 1 (the leader).
        compression: the codec of batches.
        is_idempotent: store each record once, also after retries.
        in_flight_max: most unacknowledged requests to a leader, 1 to 5. Without idempotence a partition has one batch
            in flight, which keeps the order of records.
    """

    acks: int = ACKS_ALL
    compression: Compression = Compression.NONE
    is_idempotent: bool = True
    in_flight_max: int = IN_FLIGHT_MAX


def send_batches(
    cluster: ClusterClient,
    node: int,
    link: Link,
    topic: str,
    encoded: Mapping[int, bytes],
    acks: int,
    transactional_id: str | None = None,
) -> Callable[[], Awaitable[Answers]]:
    """Send a Produce request now, and return a function that waits for the response.

    Args:
        node: the id of the broker.
        link: a connection to the broker.
        encoded: an encoded batch by partition.
        acks: -1, 0 or 1.
        transactional_id: the id of an open transaction with all these partitions; None: no transaction.

    Raises:
        ClientError: the request cannot be sent. The returned function raises it too.
    """
    data = [ProduceRequest.PartitionProduceData(partition, batch) for partition, batch in encoded.items()]
    of_topic = ProduceRequest.TopicProduceData(name=topic, partition_data=data)
    request = ProduceRequest(transactional_id, acks, round(cluster.timeout_s * 1000), [of_topic])
    if acks == 0:
        link.send_oneway(request, _VERSIONS)
        # A broker does not answer acks=0, and closes the connection on an error. The response to the next request
        # proves that the broker has handled this one.
        hello = link.send(HELLO, ApiVersionsResponse)

        async def unanswered() -> Answers:
            await cluster.answer(link, HELLO, hello, node=node)
            return dict.fromkeys(encoded, (0, -1, None))

        return unanswered
    answer = link.send(request, ProduceResponse, _VERSIONS if transactional_id is None else _TRANSACTIONAL_VERSIONS)

    async def answers() -> Answers:
        response = await cluster.answer(link, request, answer, node=node)
        return {
            it.index: (it.error_code, it.base_offset, _words(it))
            for answered in response.responses
            for it in answered.partition_responses
        }

    return answers


def _words(answer: ProduceResponse.PartitionProduceResponse) -> str | None:
    # The message about a record is more precise than the one about the batch.
    for it in answer.record_errors:
        if it.batch_index_error_message:
            return it.batch_index_error_message
    return answer.error_message
