"""Addresses that clients elsewhere use, such as an application in a container.

127.0.0.2 stands for the name of the host inside the container: it reaches a listener on all addresses, but not one on
127.0.0.1.
"""

import socket

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient

from pipeline_broker import EmbeddedBroker

SECONDS_MAX = 30
SETTINGS = {
    "listeners": ["PLAINTEXT://127.0.0.1:0", "CONTAINER://0.0.0.0:0"],
    "advertised.listeners": ["PLAINTEXT://127.0.0.1:0", "CONTAINER://127.0.0.2:0"],
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTAINER:PLAINTEXT",
}
"""As in docs/guides/testing.md, with an address that this machine has."""


@pytest.fixture
def broker():
    with EmbeddedBroker(settings=SETTINGS) as broker:
        yield broker


def brokers_of(servers):
    metadata = AdminClient({"bootstrap.servers": servers}).list_topics(timeout=SECONDS_MAX)
    return [f"{broker.host}:{broker.port}" for broker in metadata.brokers.values()]


def test_an_application_in_a_container_and_the_test_share_a_broker(broker):
    host, port = broker.addresses["CONTAINER"]
    assert host == "127.0.0.2"
    in_container = f"{host}:{port}"
    assert brokers_of(in_container) == [in_container]
    assert brokers_of(broker.bootstrap_servers) == [broker.bootstrap_servers]

    producer = Producer({"bootstrap.servers": in_container})
    producer.produce("orders", "3 apples")
    assert producer.flush(SECONDS_MAX) == 0
    consumer = Consumer({"bootstrap.servers": in_container, "group.id": "g", "auto.offset.reset": "earliest"})
    consumer.subscribe(["orders"])
    assert consumer.poll(SECONDS_MAX).value() == b"3 apples"
    consumer.close()
    broker.assert_records("orders", ["3 apples"])


def test_the_listener_of_the_test_is_reached_from_this_machine_only(broker):
    _, port = broker.addresses["PLAINTEXT"]
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", port), timeout=SECONDS_MAX)


def test_bootstrap_servers_is_the_address_that_the_broker_advertises():
    with EmbeddedBroker(settings={"listeners": "PLAINTEXT://0.0.0.0:0"}) as broker:
        assert broker.bootstrap_servers.startswith("127.0.0.1:")
        assert brokers_of(broker.bootstrap_servers) == [broker.bootstrap_servers]
    named = {"listeners": "PLAINTEXT://0.0.0.0:0", "advertised.listeners": "PLAINTEXT://127.0.0.2:0"}
    with EmbeddedBroker(settings=named) as broker:
        assert broker.bootstrap_servers.startswith("127.0.0.2:")
        assert brokers_of(broker.bootstrap_servers) == [broker.bootstrap_servers]
