"""What is done to the topics of an embedded broker: created, deleted, produced to.

Rules of this file: on the event loop; asked as a client asks, and refused as a client is.
"""

from __future__ import annotations

from collections.abc import Mapping

from pipeline_broker.embedded.calls import ask
from pipeline_broker.embedded.errors import RefusedError
from pipeline_broker.embedded.life import Running
from pipeline_broker.embedded.shown import Record
from pipeline_broker.records.batch import NewRecord, build_batch
from pipeline_broker.records.murmur2 import partition_of
from pipeline_broker.state.metadata_records import Topic
from pipeline_broker.wire.error import ErrorCode

__all__ = ["create_topic", "delete_topic", "produce"]

DEFAULT = -1
"""Asks for the broker's own number of partitions and copies."""
ALL = -1
TIMEOUT_MS = 30_000
NO_TIME = -1


async def create_topic(
    running: Running, name: str, partitions: int | None, configs: Mapping[str, str], now_ms: int
) -> None:
    """Create a topic; raises RefusedError."""
    from pipeline_broker.wire.messages.topics.create_topics import CreateTopicsRequest  # noqa: PLC0415 - when it is asked for

    wanted = CreateTopicsRequest.CreatableTopic(
        name=name,
        num_partitions=DEFAULT if partitions is None else partitions,
        replication_factor=DEFAULT,
        assignments=[],
        configs=[CreateTopicsRequest.CreatableTopicConfig(name=key, value=text) for key, text in configs.items()],
    )
    answer = await ask(running, CreateTopicsRequest(topics=[wanted], timeout_ms=TIMEOUT_MS), now_ms)
    _check(f"create_topic({name!r})", answer.topics[0].error_code, answer.topics[0].error_message)


async def delete_topic(running: Running, name: str, now_ms: int) -> None:
    """Delete a topic; raises RefusedError."""
    from pipeline_broker.wire.messages.topics.delete_topics import DeleteTopicsRequest  # noqa: PLC0415 - see above

    wanted = DeleteTopicsRequest.DeleteTopicState(name=name)
    answer = await ask(running, DeleteTopicsRequest(topics=[wanted], topic_names=[], timeout_ms=TIMEOUT_MS), now_ms)
    _check(f"delete_topic({name!r})", answer.responses[0].error_code, answer.responses[0].error_message)


async def produce(running: Running, name: str, record: NewRecord, partition: int | None, now_ms: int) -> Record:
    """Append a record to a topic, which is created if it may be; raises RefusedError.

    Args:
        record: what is appended.
        partition: where; None for the one that Kafka's clients choose for the key, and 0 without a key.
        now_ms: wall clock.
    """
    from pipeline_broker.wire.messages.data.produce import ProduceRequest  # noqa: PLC0415 - see above

    topic = await _existing(running, name, now_ms)
    if partition is None:
        partition = 0 if record.key is None else partition_of(bytes(record.key), topic.partitions)
    data = ProduceRequest.PartitionProduceData(index=partition, records=build_batch([record]))
    message = ProduceRequest(
        acks=ALL,
        timeout_ms=TIMEOUT_MS,
        topic_data=[ProduceRequest.TopicProduceData(name=name, topic_id=topic.topic_id, partition_data=[data])],
    )
    if not 0 <= partition < topic.partitions:
        there = f"there is no partition {partition} of {topic.partitions}"
        raise RefusedError(f"produce({name!r})", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, there)
    answer = (await ask(running, message, now_ms)).responses[0].partition_responses[0]
    _check(f"produce({name!r})", answer.error_code, answer.error_message)
    key = None if record.key is None else bytes(record.key)
    value = None if record.value is None else bytes(record.value)
    headers = tuple((title, None if content is None else bytes(content)) for title, content in record.headers)
    timestamp = record.timestamp if answer.log_append_time_ms == NO_TIME else answer.log_append_time_ms
    return Record(name, partition, answer.base_offset, timestamp, key, value, headers)


async def _existing(running: Running, name: str, now_ms: int) -> Topic:
    topic = running.broker.topics.get(name)
    if topic is None:
        if not running.broker.config.auto_create_topics_enable:
            raise RefusedError(f"produce({name!r})", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        await create_topic(running, name, None, {}, now_ms)
        topic = running.broker.topics.get(name)
        assert topic is not None, "what was created is there"
    return topic


def _check(asked: str, code: int, message: str | None) -> None:
    if code != ErrorCode.NONE:
        raise RefusedError(asked, code, message)
