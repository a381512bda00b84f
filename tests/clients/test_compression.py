"""Every client reads topics whose batches the broker compresses itself."""

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.clients.aiokafka_client import AioKafkaClient
from tests.clients.client import WAIT_SECONDS_MAX, Message, read_topic, write
from tests.clients.confluent_client import ConfluentClient
from tests.clients.kafka_python_client import KafkaPythonClient
from tests.crashes.lengths import drawn

pytestmark = [
    pytest.mark.clients,
    pytest.mark.parametrize("broker", drawn("classic", "pipelined"), indirect=True),
]

READERS = (ConfluentClient, KafkaPythonClient, AioKafkaClient)
BASE_MS = 1_600_000_000_000
TYPES = {"uncompressed": "none", "gzip": "gzip", "snappy": "snappy", "lz4": "lz4", "zstd": "zstd"}
VALUE = b"value that repeats " * 200


@pytest.fixture(params=TYPES)
def topic(request, broker, new_name):
    """A topic and the codec that its batches are to be in."""
    name = new_name()
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    settings = {"compression.type": request.param, "max.message.bytes": "4000"}
    admin.create_topics([NewTopic(name, 1, 1, config=settings)])[name].result(WAIT_SECONDS_MAX)
    return name, TYPES[request.param]


def test_records_survive_a_codec_that_the_topic_asks_for(client, broker, connect, topic):
    """From every codec of the writer, by a producer that is idempotent where it can be, to all who know the topic's."""
    name, codec = topic
    sent = []
    for number, written_in in enumerate(client.codecs):
        message = Message(VALUE[:3000], b"key", (("a", b"1"), ("b", b"")), BASE_MS + 1000 * number)
        assert write(client, name, message, Message(None, b"gone", (), BASE_MS), codec=written_in) == [
            len(sent),
            len(sent) + 1,
        ]
        sent += [message, Message(None, b"gone", (), BASE_MS)]

    for reader in (reader for reader in READERS if codec in reader.codecs):
        found = read_topic(connect(reader, broker.bootstrap), name, len(sent))

        assert [(it.value, it.key, it.headers, it.timestamp_ms) for it in found] == [
            (it.value, it.key, it.headers, it.timestamp_ms) for it in sent
        ], reader.name
        assert [it.offset for it in found] == list(range(len(sent))), reader.name


def test_an_idempotent_producer_goes_on_after_a_batch_that_grew_too_large(broker, new_name):
    """The record that does not fit without compression is refused; the ones around it are there once, in order."""
    name = new_name()
    settings = {"bootstrap.servers": broker.bootstrap, "log_level": 0}
    made = NewTopic(name, 1, 1, config={"compression.type": "uncompressed", "max.message.bytes": "2000"})
    admin = AdminClient(settings)  # must outlive what it was asked for
    admin.create_topics([made])[name].result(WAIT_SECONDS_MAX)
    producer = confluent_kafka.Producer({**settings, "compression.type": "gzip", "enable.idempotence": True})
    errors = []
    for value in (b"before", bytes(3000), b"after"):
        producer.produce(name, value, on_delivery=lambda error, _: errors.append(error and error.code()))
        assert producer.flush(WAIT_SECONDS_MAX) == 0
    assert errors == [None, confluent_kafka.KafkaError.MSG_SIZE_TOO_LARGE, None]
    client = ConfluentClient(broker.bootstrap)
    try:
        assert [message.value for message in read_topic(client, name, 2)] == [b"before", b"after"]
    finally:
        client.close()
