"""An embedded broker with several listeners, SASL and ACLs."""

import pytest

from pipeline_broker import EmbeddedBroker

pytestmark = pytest.mark.clients

PATIENCE = 30.0
JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="secret";'
SETTINGS = {
    "listeners": "PLAINTEXT://127.0.0.1:0,SASL://127.0.0.1:0",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.sasl.plain.sasl.jaas.config": JAAS,
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:alice",
}


def produce(servers, **config):
    """Produce a message; return the name of the error, or None."""
    from confluent_kafka import Producer

    errors = []
    producer = Producer(
        {"bootstrap.servers": servers, **{name.replace("_", "."): text for name, text in config.items()}}
    )
    producer.produce("t", b"value", on_delivery=lambda error, _: errors.append(error and error.name()))
    producer.flush(PATIENCE)
    return errors[0]


@pytest.fixture
def broker():
    with EmbeddedBroker(settings=SETTINGS) as started:
        yield started


def produce_as_alice(broker):
    servers = "{}:{}".format(*broker.addresses["SASL"])
    proof = {"sasl_mechanism": "PLAIN", "sasl_username": "alice", "sasl_password": "secret"}
    return produce(servers, security_protocol="SASL_PLAINTEXT", **proof)


def test_acls_apply_to_clients(broker):
    broker.create_topic("t")
    assert produce(broker.bootstrap_servers) == "TOPIC_AUTHORIZATION_FAILED"
    assert produce_as_alice(broker) is None
    assert len(broker.records("t")) == 1


def test_methods_of_the_broker_need_no_rights(broker):
    broker.produce("t", "value")
    assert (len(broker.records("t")), broker.groups(), broker.lag("g")) == (1, [], {})
    broker.delete_topic("t")


def test_the_listeners_keep_their_addresses_after_a_reset(broker):
    before = broker.addresses
    broker.reset()
    assert broker.addresses == before
    assert produce_as_alice(broker) is None
