"""What a scenario asks of any third-party client, so that one scenario judges the broker by all of them.

Rules: a scenario says nothing of a library; a library's file says nothing of a scenario. Every wait has an end.
"""

import time
from typing import Protocol

import attrs
import pytest

RESTARTS_BROKERS = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
"""For a scenario that connects while no broker listens: kafka-python then leaves sockets to the garbage collector."""
WAIT_SECONDS_MAX = 30.0
POLL_SECONDS = 0.1


@attrs.frozen
class Message:
    """A record as every client shows it; `offset` is None before it is sent."""

    value: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp_ms: int | None = None
    partition: int = 0
    offset: int | None = None


class Producer(Protocol):
    """Sends to one topic; batches are sent as the library likes."""

    def send(self, message: Message) -> None:
        """Hand a message over without waiting for it."""

    def flush(self) -> list[int]:
        """Wait for all that was handed over; their offsets, in that order. Raises where one was refused."""

    def close(self) -> None: ...


class Consumer(Protocol):
    """Reads one topic, as the member of a group or with partition 0 of its own."""

    def poll(self) -> list[Message]: ...

    def assignment(self) -> set[int]: ...

    def commit(self) -> None:
        """Commit what was polled."""

    def seek_to_time(self, timestamp_ms: int) -> None:
        """Continue in partition 0 with the first message at a time or later."""

    def close(self) -> None: ...


class Client(Protocol):
    """One library, connected to one broker."""

    name: str
    codecs: tuple[str, ...]
    null_headers: bool
    """Whether it can send a header without a value."""

    def producer(self, topic: str, *, codec: str = "none", idempotent: bool = False) -> Producer: ...

    def consumer(self, topic: str, *, group: str | None = None) -> Consumer: ...

    def poll_together(self, consumers: list[Consumer]) -> list[Message]:
        """Poll the members of a group."""

    def create_topic(self, topic: str, partitions: int) -> None: ...

    def delete_topic(self, topic: str) -> None: ...

    def grow_topic(self, topic: str, partitions: int) -> None:
        """Give a topic so many partitions in all."""

    def delete_records(self, topic: str, offset: int) -> int:
        """Delete what is in front of an offset of partition 0, of all that there is for -1; where it starts then."""

    def partition_counts(self) -> dict[str, int]:
        """All topics."""

    def close(self) -> None: ...


def wait_until(condition, what):
    """Ask until it holds."""
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not happen within {WAIT_SECONDS_MAX} s"


def read(consumer, count):
    """The next messages, exactly as many, else it fails."""
    messages = []

    def enough():
        messages.extend(consumer.poll())
        return len(messages) >= count

    wait_until(enough, f"reading {count} messages")
    assert len(messages) == count
    return messages


def read_topic(client, topic, count):
    """Partition 0 of a topic from its start."""
    consumer = client.consumer(topic)
    try:
        return read(consumer, count)
    finally:
        consumer.close()


def write(client, topic, *messages, **options):
    """Send and wait; the offsets."""
    producer = client.producer(topic, **options)
    try:
        for message in messages:
            producer.send(message)
        return producer.flush()
    finally:
        producer.close()
