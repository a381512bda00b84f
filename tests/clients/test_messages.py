"""Messages of each library, read by the others: keys, headers, timestamps, empty and null values, every codec."""

import itertools

import attrs
import pytest

from tests.clients.aiokafka_client import AioKafkaClient
from tests.clients.client import Message, read, read_topic, write
from tests.clients.confluent_client import ConfluentClient
from tests.clients.kafka_python_client import KafkaPythonClient
from tests.crashes.lengths import drawn

pytestmark = [
    pytest.mark.clients,
    pytest.mark.parametrize("broker", drawn("classic", "pipelined"), indirect=True),
]

BASE_MS = 1_600_000_000_000


def messages_of(codec, start, *, null_header):
    """One codec's share: with and without key, value, headers; compressible, empty and repeated names."""
    headers = (("nothing", None),) if null_header else ()
    return (
        Message(f"{codec} ".encode() * 500, b"key", (("a", b"1"), ("a", b"2"), ("b", b"")), start),
        Message(None, b"tombstone", headers, start + 1),
        Message(b"", None, (), start + 2),
    )


@pytest.mark.parametrize("reader", [ConfluentClient, KafkaPythonClient, AioKafkaClient], ids=lambda kind: kind.name)
def test_keys_headers_timestamps_and_codecs_survive(client, reader, broker, connect, new_name):
    """A client that lacks a codec neither writes it nor is asked to read it."""
    topic = new_name()
    client.create_topic(topic, 1)
    codecs = [codec for codec in client.codecs if codec in reader.codecs]
    starts = itertools.count(BASE_MS, 1000)
    sent = []
    for codec, start in zip(codecs, starts, strict=False):
        messages = messages_of(codec, start, null_header=client.null_headers)
        assert write(client, topic, *messages, codec=codec) == [len(sent) + index for index in range(len(messages))]
        sent += messages

    found = read_topic(connect(reader, broker.bootstrap), topic, len(sent))

    assert found == [attrs.evolve(message, offset=offset) for offset, message in enumerate(sent)]


def test_a_consumer_seeks_by_time(client, new_name):
    topic = new_name()
    client.create_topic(topic, 1)
    write(client, topic, *(Message(b"%d" % number, timestamp_ms=BASE_MS + 1000 * number) for number in range(10)))

    consumer = client.consumer(topic)
    try:
        consumer.seek_to_time(BASE_MS + 4500)

        assert [message.value for message in read(consumer, 5)] == [b"5", b"6", b"7", b"8", b"9"]
    finally:
        consumer.close()


def test_topics_come_and_go(client, new_name):
    topic = new_name()

    client.create_topic(topic, 3)
    assert client.partition_counts()[topic] == 3

    client.delete_topic(topic)
    assert topic not in client.partition_counts()
