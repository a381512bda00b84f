"""Everything a broker holds, read by our own client and by others.

Rules of this file: it reads what is there and judges nothing, except that a read must succeed.
"""

import time
import warnings

import confluent_kafka

from pipeline_broker.records.batch import iterate_batches
from pipeline_broker.records.record import iterate_records
from pipeline_broker.wire.messages.configs.describe_configs import DescribeConfigsRequest
from pipeline_broker.wire.messages.groups.offset_fetch import OffsetFetchRequest
from tests.crashes.clerk import MESSAGE_BYTES, TOPIC_RESOURCE
from tests.crashes.history import Contents
from tests.crashes.wire_client import WireClient, describe_topics, fetch_request

READ_SECONDS_MAX = 20.0
CONSUMER_OFFSETS = "__consumer_offsets"
SOURCE_TOPIC = 1  # of a setting: set for the topic itself


def read_contents(address, names, commits=()):
    """The contents of the topics named, what was committed, and which topics there are with what settings."""
    with WireClient(address) as client:
        topics = describe_topics(client)
        assert all(topic.error_code == 0 for topic in topics.values())
        records, high_watermarks = {}, {}
        for name in names & topics.keys():
            for index in range(len(topics[name].partitions)):
                partition = name, index
                records[partition], high_watermarks[partition] = read_partition(client, topics[name].topic_id, index)
        return Contents(
            records=records,
            high_watermarks=high_watermarks,
            topics={name: (topic.topic_id, len(topic.partitions)) for name, topic in topics.items()},
            message_bytes_max=read_message_bytes_max(client, topics),
            offsets={key: read_committed(client, topics, *key) for key in commits},
        )


def read_message_bytes_max(client, names):
    """Topic -> the max.message.bytes that was set for it, None for none."""
    resource = DescribeConfigsRequest.DescribeConfigsResource
    request = DescribeConfigsRequest([resource(TOPIC_RESOURCE, name, [MESSAGE_BYTES]) for name in names])
    found = {}
    for result in client.ask(request).results:
        assert result.error_code == 0, f"DescribeConfigs of {result.resource_name} got error {result.error_code}"
        (config,) = result.configs
        found[result.resource_name] = config.value if config.config_source == SOURCE_TOPIC else None
    return found


def read_committed(client, topics, group, topic, index):
    """The committed offset, None for none."""
    if CONSUMER_OFFSETS not in topics:
        return None
    wanted = OffsetFetchRequest.OffsetFetchRequestTopics(topic_id=topics[topic].topic_id, partition_indexes=[index])
    request = OffsetFetchRequest(groups=[OffsetFetchRequest.OffsetFetchRequestGroup(group, topics=[wanted])])
    (found,) = client.ask(request).groups
    assert found.error_code == 0, f"OffsetFetch of {group} got error {found.error_code}"
    (partition,) = found.topics[0].partitions
    assert partition.error_code == 0, f"OffsetFetch of {group} got error {partition.error_code}"
    return partition.committed_offset if partition.committed_offset >= 0 else None


def read_partition(client, topic_id, index):
    """[(offset, value)] up to the high watermark of the first answer at least, and that of the last one."""
    found, enough, end = [], None, None
    while enough is None or len(found) < enough:
        offset = found[-1][0] + 1 if found else 0
        answer = client.ask(fetch_request(topic_id, index, offset))
        ((topic,), _) = answer.responses, answer.error_code
        (data,) = topic.partitions
        assert data.error_code == 0, f"Fetch of partition {index} from {offset} got error {data.error_code}"
        end = data.high_watermark
        enough = end if enough is None else enough
        before = len(found)
        for header, batch in iterate_batches(data.records or b""):
            records = iterate_records(batch, header)
            found += [(record.offset, record.value) for record in records if record.offset >= offset]
        if len(found) == before:
            break
    return found, end


def read_with_confluent(address, ends):
    """partition -> [(offset, value)] of the partitions in `ends`, up to those offsets."""
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": "{}:{}".format(*address), "group.id": "read-back", "enable.auto.commit": False}
    )
    wanted = {partition for partition, end in ends.items() if end}
    found = {partition: [] for partition in ends}
    deadline = time.monotonic() + READ_SECONDS_MAX
    try:
        start = confluent_kafka.OFFSET_BEGINNING
        consumer.assign([confluent_kafka.TopicPartition(*partition, start) for partition in wanted])
        while any(len(found[partition]) < ends[partition] for partition in wanted):
            assert time.monotonic() < deadline, f"confluent-kafka got {sum(map(len, found.values()))} records"
            for message in consumer.consume(1_000, timeout=0.05):
                assert message.error() is None, message.error()
                found[message.topic(), message.partition()].append((message.offset(), message.value()))
    finally:
        consumer.close()
    return found


def read_with_kafka_python(address, ends):
    """The same with kafka-python."""
    with warnings.catch_warnings(action="ignore", category=DeprecationWarning):  # of how it reads its own files
        import kafka
    wanted = [kafka.TopicPartition(*partition) for partition, end in ends.items() if end]
    found = {partition: [] for partition in ends}
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=["{}:{}".format(*address)], group_id=None, consumer_timeout_ms=int(READ_SECONDS_MAX * 1000)
    )
    try:
        consumer.assign(wanted)
        consumer.seek_to_beginning(*wanted)
        while any(len(found[partition]) < ends[partition] for partition in wanted):
            polled = consumer.poll(timeout_ms=int(READ_SECONDS_MAX * 1000), max_records=10_000)
            assert polled, f"kafka-python got {sum(map(len, found.values()))} of {sum(ends.values())} records"
            for partition, messages in polled.items():
                found[tuple(partition)] += [(message.offset, message.value) for message in messages]
    finally:
        consumer.close()
    return found
