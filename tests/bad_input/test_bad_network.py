"""Real clients over a network that delays packets and breaks connections: nothing is lost, doubled or reordered."""

import os

import pytest

from tests.breaking_proxy import Proxy
from tests.clients.aiokafka_client import AioKafkaClient
from tests.clients.client import Message, read_topic
from tests.clients.confluent_client import ConfluentClient

pytestmark = [pytest.mark.clients]
LONG = os.environ.get("LONG") == "1"
LATENCY_SECONDS = 0.5 if LONG else 0.01
CHUNKS_PER_RESET = 20 if LONG else 10
ROUNDS = 200 if LONG else 10
MESSAGES_PER_ROUND = 20


@pytest.mark.parametrize("mode", ["classic", "pipelined"])
@pytest.mark.parametrize("client_kind", [ConfluentClient, AioKafkaClient], ids=lambda kind: kind.name)
def test_an_idempotent_producer_over_a_bad_network(broker_process, mode, client_kind):
    """Case 53: every tenth packet resets its connection; what was acknowledged is there once and in order."""
    with Proxy(LATENCY_SECONDS) as proxy:
        advertised = f"advertised.listeners=PLAINTEXT://127.0.0.1:{proxy.port}"
        broker = broker_process(mode=mode, arguments=["--flush", "os"], settings=[advertised])
        proxy.target_port = broker.port
        client = client_kind(f"127.0.0.1:{proxy.port}")
        try:
            client.create_topic("bad-network", 1)
            producer = client.producer("bad-network", idempotent=True)
            producer.send(Message(b"first"))
            assert producer.flush() == [0]
            # from here on: clients give up when their very first connection is reset
            proxy.chunks_per_reset = CHUNKS_PER_RESET
            values = [b"%d" % number for number in range(ROUNDS * MESSAGES_PER_ROUND)]
            offsets = []
            for start in range(0, len(values), MESSAGES_PER_ROUND):
                for value in values[start : start + MESSAGES_PER_ROUND]:
                    producer.send(Message(value))
                offsets += producer.flush()
            producer.close()
            proxy.chunks_per_reset = None
            assert offsets == list(range(1, len(values) + 1))
            read = read_topic(client, "bad-network", len(values) + 1)
            assert [message.value for message in read] == [b"first", *values]
        finally:
            client.close()
        assert proxy.resets > 0
        broker.stop()
        assert broker.stderr == ""
