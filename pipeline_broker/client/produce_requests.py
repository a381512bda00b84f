"""Produce requests: the options of a producer, its requests, and the answers of brokers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

import attrs

from pipeline_broker.client.cluster import Cluster
from pipeline_broker.client.link import HELLO, Link
from pipeline_broker.client.outbox import IN_FLIGHT_MAX
from pipeline_broker.records.compression import Compression
from pipeline_broker.wire.messages.cluster.api_versions import ApiVersionsResponse
from pipeline_broker.wire.messages.data.produce import ProduceRequest, ProduceResponse

__all__ = ["ACKS_ALL", "Answers", "ProducerOptions", "send_batches"]

ACKS_ALL = -1
_VERSIONS = range(3, 13)  # those that name topics
_TRANSACTIONAL_VERSIONS = range(3, 12)  # from 12 on the epoch is raised at the end of each transaction (KIP-890)

Answers = dict[int, tuple[int, int, str | None]]
"""By partition: error code, offset of the first record, and the broker's words."""


@attrs.frozen(slots=True)
class ProducerOptions:
    """The options of a producer.

    Attributes:
        acks: -1, 0 or 1.
        compression: of batches.
        is_idempotent: a retry stores a record once.
        in_flight_max: requests to a leader that are not answered, 1 to 5. Without idempotence a partition has one batch
            on its way, so that records keep their order.
    """

    acks: int = ACKS_ALL
    compression: Compression = Compression.NONE
    is_idempotent: bool = True
    in_flight_max: int = IN_FLIGHT_MAX


def send_batches(
    cluster: Cluster,
    node: int,
    link: Link,
    topic: str,
    encoded: Mapping[int, bytes],
    acks: int,
    transactional_id: str | None = None,
) -> Callable[[], Awaitable[Answers]]:
    """Send a batch to each of some partitions now, and return a function that waits for the answers.

    Args:
        cluster: of the broker.
        node: the broker's number.
        link: a connection to it.
        topic: the name of the topic.
        encoded: the batch of each partition.
        acks: -1, 0 or 1.
        transactional_id: of an open transaction that has all these partitions; None: they belong to none.

    Raises:
        ClientError: the request cannot be sent. The wait raises it too.
    """
    data = [ProduceRequest.PartitionProduceData(partition, batch) for partition, batch in encoded.items()]
    of_topic = ProduceRequest.TopicProduceData(name=topic, partition_data=data)
    request = ProduceRequest(transactional_id, acks, round(cluster.timeout_s * 1000), [of_topic])
    if acks == 0:
        link.tell(request, _VERSIONS)
        # Nothing answers it; but when the next request is answered it was handled, and the broker did not hang up.
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
    """Return the broker's message about a single record, else the one about the whole batch, which is vaguer."""
    for it in answer.record_errors:
        if it.batch_index_error_message:
            return it.batch_index_error_message
    return answer.error_message
