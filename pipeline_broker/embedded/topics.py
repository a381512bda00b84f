"""Changes to the topics of an embedded broker, through the broker's request handlers.

All functions raise RefusedError with the error that a client would receive.
"""

from __future__ import annotations

from collections.abc import Mapping

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.embedded.brokers import Brokers
from pipeline_broker.embedded.calls import ask
from pipeline_broker.embedded.errors import RefusedError
from pipeline_broker.embedded.life import Running
from pipeline_broker.embedded.shown import Record
from pipeline_broker.records.batch import NewRecord, build_batch
from pipeline_broker.records.murmur2 import partition_of
from pipeline_broker.state.metadata_records import Topic

__all__ = ["DEFAULT", "create_topic", "delete_topic", "produce"]

DEFAULT = -1  # the broker's default number of partitions and replicas
ALL_REPLICAS = -1  # acks
TIMEOUT_MS = 30_000
NO_TIMESTAMP = -1


async def create_topic(
    running: Running,
    name: str,
    partitions: int | None,
    configs: Mapping[str, str],
    now_ms: int,
    replicas: int = DEFAULT,
) -> None:
    from pipeline_broker.wire.messages.topics.create_topics import CreateTopicsRequest  # noqa: PLC0415 - not imported at startup

    wanted = CreateTopicsRequest.CreatableTopic(
        name=name,
        num_partitions=DEFAULT if partitions is None else partitions,
        replication_factor=replicas,
        assignments=[],
        configs=[CreateTopicsRequest.CreatableTopicConfig(name=key, value=text) for key, text in configs.items()],
    )
    answer = await ask(running, CreateTopicsRequest(topics=[wanted], timeout_ms=TIMEOUT_MS), now_ms)
    _check(f"create_topic({name!r})", answer.topics[0].error_code, answer.topics[0].error_message)


async def delete_topic(running: Running, name: str, now_ms: int) -> None:
    from pipeline_broker.wire.messages.topics.delete_topics import DeleteTopicsRequest  # noqa: PLC0415 - see above

    wanted = DeleteTopicsRequest.DeleteTopicState(name=name)
    answer = await ask(running, DeleteTopicsRequest(topics=[wanted], topic_names=[], timeout_ms=TIMEOUT_MS), now_ms)
    _check(f"delete_topic({name!r})", answer.responses[0].error_code, answer.responses[0].error_message)


async def produce(brokers: Brokers, name: str, record: NewRecord, partition: int | None, now_ms: int) -> Record:
    """Append a record to a topic, and create the topic if the broker allows it.

    Args:
        partition: None chooses the partition of the key like Kafka's clients, or partition 0 without a key.
    """
    from pipeline_broker.wire.messages.data.produce import ProduceRequest  # noqa: PLC0415 - see above

    topic = await _existing(brokers, name, now_ms)
    if partition is None:
        partition = 0 if record.key is None else partition_of(bytes(record.key), topic.partitions)
    data = ProduceRequest.PartitionProduceData(index=partition, records=build_batch([record]))
    message = ProduceRequest(
        acks=ALL_REPLICAS,
        timeout_ms=TIMEOUT_MS,
        topic_data=[ProduceRequest.TopicProduceData(name=name, topic_id=topic.topic_id, partition_data=[data])],
    )
    leader = brokers.leader(f"produce({name!r})", name, partition).running
    answer = (await ask(leader, message, now_ms)).responses[0].partition_responses[0]
    reasons = [each.batch_index_error_message for each in answer.record_errors]
    _check(f"produce({name!r})", answer.error_code, *reasons or [answer.error_message])
    key = None if record.key is None else bytes(record.key)
    value = None if record.value is None else bytes(record.value)
    headers = tuple((title, None if content is None else bytes(content)) for title, content in record.headers)
    timestamp = record.timestamp if answer.log_append_time_ms == NO_TIMESTAMP else answer.log_append_time_ms
    return Record(name, partition, answer.base_offset, timestamp, key, value, headers)


async def _existing(brokers: Brokers, name: str, now_ms: int) -> Topic:
    running = brokers.running
    topic = running.broker.topics.get(name)
    if topic is None:
        if not running.broker.config.auto_create_topics_enable:
            raise RefusedError(f"produce({name!r})", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        await create_topic(brokers.controller, name, None, {}, now_ms)
        topic = running.broker.topics.get(name)
        assert topic is not None, "it was just created"
    return topic


def _check(asked: str, code: int, message: str | None) -> None:
    if code != ErrorCode.NONE:
        raise RefusedError(asked, code, message)
