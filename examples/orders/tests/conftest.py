import pytest
from confirmations import Confirmations


@pytest.fixture
def broker(kafka_broker):
    """An empty broker; a reset takes milliseconds."""
    kafka_broker.reset()
    kafka_broker.create_topic("orders", partitions=2)
    return kafka_broker


@pytest.fixture
def service(broker):
    started = Confirmations(broker.bootstrap_servers)
    yield started
    started.close()
