"""Clients that outlive the broker fixtures of their tests, in a foreign project."""

import pytest

from tests.plugin_runs import Tree

OUTLIVING = """
    import atexit
    import time

    import pytest
    from confluent_kafka import Consumer, Producer
    from kafka import KafkaProducer

    kept = []
    atexit.register(lambda: [client.flush() for client in kept if hasattr(client, "flush")])

    @pytest.mark.kafka(mode=["classic", "pipelined"])
    def test_it(kafka_broker, kafka_topic):
        use(kafka_broker.bootstrap_servers, kafka_topic)

    def test_after_advance(kafka_broker, kafka_topic):
        use(kafka_broker.bootstrap_servers, kafka_topic)
        kafka_broker.advance(60)

    def test_fresh(kafka_broker_fresh):
        use(kafka_broker_fresh.bootstrap_servers, "fresh")

    def test_that_clients_notice_an_end():
        time.sleep(2)

    def use(servers, topic):
        producer = Producer({"bootstrap.servers": servers})
        producer.produce(topic, "value")
        consumer = Consumer({"bootstrap.servers": servers, "group.id": topic, "auto.offset.reset": "earliest"})
        consumer.subscribe([topic])
        assert consumer.poll(30).value() == b"value"
        other = KafkaProducer(bootstrap_servers=servers)
        other.send(topic, b"value").get(30)
        kept.extend([producer, consumer, other])
"""


@pytest.mark.clients
@pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["alone", "xdist"])
def test_clients_that_outlive_their_broker_fixture_print_nothing(tmp_path, workers):
    outcome = Tree(tmp_path)({"test_it.py": OUTLIVING}, "-W", "ignore::DeprecationWarning", *workers, is_fork=False)
    assert outcome.counts() == {"passed": 5}, outcome.text
    assert outcome.errors == ""
