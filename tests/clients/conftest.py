"""One broker per mode for the scenarios that leave it running, and the clients connected to it."""

import itertools

import pytest

from tests.clients.aiokafka_client import AioKafkaClient
from tests.clients.confluent_client import ConfluentClient
from tests.clients.kafka_python_client import KafkaPythonClient
from tests.conftest import start_broker

MODES = ("classic", "pipelined")
SETTINGS = ("group.initial.rebalance.delay.ms=0", "offsets.topic.num.partitions=4", "log.retention.ms=-1")
"""Groups form at once; few partitions for offsets are created soon; messages of 2020 stay while they are read."""


@pytest.fixture(params=MODES)
def mode(request):
    return request.param


@pytest.fixture(scope="session", params=MODES)
def broker(request, tmp_path_factory):
    directory = tmp_path_factory.mktemp(f"clients-{request.param}")
    process = start_broker(directory, mode=request.param, settings=SETTINGS)
    yield process
    process.stop()
    process.process.stdout.close()


@pytest.fixture(params=[ConfluentClient, KafkaPythonClient, AioKafkaClient], ids=lambda kind: kind.name)
def client_kind(request):
    return request.param


@pytest.fixture
def connect():
    """Connects a client; all are closed at the end."""
    clients = []

    def connected(kind, bootstrap):
        clients.append(kind(bootstrap))
        return clients[-1]

    yield connected
    for client in clients:
        client.close()


@pytest.fixture
def client(client_kind, broker, connect):
    return connect(client_kind, broker.bootstrap)


@pytest.fixture(scope="session")
def new_name():
    """Names for topics and groups that nobody else has."""
    numbers = itertools.count()
    return lambda: f"name-{next(numbers)}"
