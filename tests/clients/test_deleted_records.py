"""Deleted records as any client sees them, and what a data directory is said to hold."""

import pytest

from tests.clients.client import Message, read, read_topic, wait_until, write
from tests.clients.confluent_client import ConfluentClient
from tests.clients.conftest import SETTINGS
from tests.clients.kafka_python_client import KafkaPythonClient

pytestmark = pytest.mark.clients

MESSAGES = [Message(b"%d" % number) for number in range(10)]


def values(messages):
    return [(message.offset, message.value) for message in messages]


def numbered(first):
    return [(number, b"%d" % number) for number in range(first, len(MESSAGES))]


def test_readers_begin_where_the_deleted_records_end(client, new_name):
    """Batches of several records: the start lies within one of them."""
    topic = new_name()
    client.create_topic(topic, 1)
    write(client, topic, *MESSAGES)
    assert client.delete_records(topic, 4) == 4
    assert values(read_topic(client, topic, 6)) == numbered(4)
    assert client.delete_records(topic, 2) == 4, "the start only rises"
    assert client.delete_records(topic, -1) == len(MESSAGES)
    assert write(client, topic, Message(b"next")) == [len(MESSAGES)]
    assert values(read_topic(client, topic, 1)) == [(len(MESSAGES), b"next")]


def test_a_reader_that_is_overtaken_goes_on_behind_the_gap(client, new_name):
    """A slow consumer learns that its offset is deleted, and follows its settings. Case 82."""
    topic = new_name()
    client.create_topic(topic, 1)
    consumer = client.consumer(topic)
    try:
        write(client, topic, MESSAGES[0])
        assert values(read(consumer, 1)) == [(0, b"0")]
        write(client, topic, *MESSAGES[1:])
        client.delete_records(topic, 7)
        found = []

        def has_the_last():
            found.extend(consumer.poll())
            return bool(found) and found[-1].offset == len(MESSAGES) - 1

        wait_until(has_the_last, "reading on behind the gap")
        offsets = [message.offset for message in found]
        # What was fetched ahead before the deletion is the consumer's: it may show these too.
        assert offsets[-3:] == [7, 8, 9]
        assert offsets == sorted(set(offsets))
    finally:
        consumer.close()


@pytest.mark.parametrize("ends_by", ["kill", "stop"])
def test_deleted_records_stay_deleted(broker_process, mode, ends_by, connect, new_name):
    topic = new_name()
    broker = broker_process(mode=mode, settings=SETTINGS)
    client = connect(ConfluentClient, broker.bootstrap)
    client.create_topic(topic, 1)
    write(client, topic, *MESSAGES)
    assert client.delete_records(topic, 4) == 4
    getattr(broker, ends_by)()
    again = broker_process(mode=mode, settings=SETTINGS, data=broker.data)
    client = connect(ConfluentClient, again.bootstrap)
    assert values(read_topic(client, topic, 6)) == numbered(4)
    assert client.delete_records(topic, 0) == 4


def test_kafka_python_is_told_what_the_data_directory_holds(broker, connect, new_name):
    client, topic = connect(KafkaPythonClient, broker.bootstrap), new_name()
    client.create_topic(topic, 2)
    write(client, topic, Message(bytes(1000)))

    (answer,) = client.admin.describe_log_dirs({topic: [0, 1]})
    (directory,) = answer["log_dirs"]
    sizes = {part["partition_index"]: part["partition_size"] for part in directory["topics"][0]["partitions"]}
    assert sizes[0] > 1000
    assert sizes[1] == 0
    assert directory["log_dir"] == str(broker.data.absolute())
    assert 0 < directory["usable_bytes"] <= directory["total_bytes"]
