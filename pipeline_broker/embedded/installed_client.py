"""Producers and consumers of the client library that the project under test has installed."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from pipeline_broker.embedded.errors import EmbeddedBrokerError

__all__ = ["CLIENTS", "installed_client"]

FLUSH_SECONDS_MAX = 1.0  # the test has ended: a record that still waits has a reason, such as a closed broker


class Client(NamedTuple):
    """A client library.

    Attributes:
        module: its module.
        producer, consumer: context managers for its clients; they receive the module and the address, and a consumer
            the name of its group.
    """

    module: str
    producer: Callable[[Any, str], contextlib.AbstractContextManager[Any]]
    consumer: Callable[[Any, str, str], contextlib.AbstractContextManager[Any]]


@contextlib.contextmanager
def _confluent_producer(module: Any, servers: str) -> Iterator[Any]:
    producer = module.Producer({"bootstrap.servers": servers})
    yield producer
    if producer.flush(FLUSH_SECONDS_MAX):
        producer.purge()  # without it librdkafka prints a warning
        producer.flush(FLUSH_SECONDS_MAX)


@contextlib.contextmanager
def _confluent_consumer(module: Any, servers: str, group: str) -> Iterator[Any]:
    consumer = module.Consumer({"bootstrap.servers": servers, "group.id": group, "auto.offset.reset": "earliest"})
    yield consumer
    consumer.close()


@contextlib.contextmanager
def _kafka_python_producer(module: Any, servers: str) -> Iterator[Any]:
    producer = module.KafkaProducer(bootstrap_servers=servers)
    yield producer
    producer.close(FLUSH_SECONDS_MAX)


@contextlib.contextmanager
def _kafka_python_consumer(module: Any, servers: str, group: str) -> Iterator[Any]:
    consumer = module.KafkaConsumer(bootstrap_servers=servers, group_id=group, auto_offset_reset="earliest")
    yield consumer
    consumer.close()


CLIENTS = {
    "confluent-kafka": Client("confluent_kafka", _confluent_producer, _confluent_consumer),
    "kafka-python": Client("kafka", _kafka_python_producer, _kafka_python_consumer),
}


def installed_client(wanted: str) -> tuple[Client, Any]:
    """Return a client library and its module.

    Args:
        wanted: its name; empty for the first installed one of CLIENTS.

    Raises:
        EmbeddedBrokerError: the library is unknown or not installed.
    """
    names = [wanted] if wanted else list(CLIENTS)
    if wanted and wanted not in CLIENTS:
        raise EmbeddedBrokerError(f"kafka_client {wanted!r} is unknown; use one of {', '.join(CLIENTS)}")
    for name in names:
        with contextlib.suppress(ModuleNotFoundError):
            return CLIENTS[name], importlib.import_module(CLIENTS[name].module)
    raise EmbeddedBrokerError(f"{' or '.join(names)} is not installed; run: pip install {names[0]}")
