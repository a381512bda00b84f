"""An idempotent producer whose broker is killed: all records exist once, in order, at the acknowledged offsets."""

import pytest

from tests.clients.client import RESTARTS_BROKERS, Message, read_topic
from tests.clients.conftest import SETTINGS

pytestmark = [pytest.mark.clients, RESTARTS_BROKERS]

COUNT = 200


def test_an_idempotent_producer_outlives_a_killed_broker(broker_process, mode, client_kind, connect, new_name):
    """The broker is killed with messages on their way; the producer sends again what was not acknowledged."""
    topic = new_name()
    broker = broker_process(mode=mode, settings=SETTINGS)
    client = connect(client_kind, broker.bootstrap)
    client.create_topic(topic, 1)
    producer = client.producer(topic, idempotent=True)
    try:
        producer.send(Message(b"first"))
        assert producer.flush() == [0]
        for number in range(COUNT):
            producer.send(Message(b"%d" % number))

        broker.kill()
        broker_process(mode=mode, settings=SETTINGS, arguments=["--port", str(broker.port)])
        for number in range(COUNT, 2 * COUNT):
            producer.send(Message(b"%d" % number))

        assert producer.flush() == list(range(1, 2 * COUNT + 1))
    finally:
        producer.close()
    values = [message.value for message in read_topic(client, topic, 2 * COUNT + 1)]
    assert values == [b"first", *(b"%d" % number for number in range(2 * COUNT))]
