"""A topic is cut, grown, deleted and created again while one client writes to it and members of a group read it.

What clients meet meanwhile is theirs: some retry, some raise. In the end the topic holds what was acknowledged since it
was created last, each record once and in order; who wrote and read before goes on without being started again.
"""

import threading
import time

import attrs
import pytest

from tests.clients.client import Message, wait_until
from tests.clients.confluent_client import ConfluentClient
from tests.clients.conftest import SETTINGS
from tests.clients.kafka_python_client import KafkaPythonClient

pytestmark = pytest.mark.clients

ROUNDS = 3
ACKNOWLEDGED_MIN = 20
REFRESH_MS = 200
"""How often clients look for topics that have come back: by default they wait for minutes."""
ABSENT_SECONDS = 0.5
"""In some rounds the topic is away for so long; in the others it is back before most have noticed."""
JOIN_SECONDS_MAX = 60.0


class RefreshingConfluentClient(ConfluentClient):
    def __init__(self, bootstrap):
        super().__init__(bootstrap)
        self.common |= {"topic.metadata.refresh.interval.ms": REFRESH_MS}

    def producer(self, topic, **options):
        self.common |= {"message.timeout.ms": 2000}
        try:
            return super().producer(topic, **options)
        finally:
            del self.common["message.timeout.ms"]


class RefreshingKafkaPythonClient(KafkaPythonClient):
    def __init__(self, bootstrap):
        super().__init__(bootstrap)
        self.common |= {"metadata_max_age_ms": REFRESH_MS}

    def producer(self, topic, **options):
        self.common |= {"max_block_ms": 1000}
        try:
            return super().producer(topic, **options)
        finally:
            del self.common["max_block_ms"]


@attrs.define
class Activity:
    """Something that is done over and over in a thread, whatever becomes of each attempt."""

    attempt: object
    done: list = attrs.Factory(list)
    errors: list = attrs.Factory(list)
    ends: threading.Event = attrs.Factory(threading.Event)
    thread: threading.Thread | None = None

    def __enter__(self):
        self.thread = threading.Thread(target=self.run)
        self.thread.start()
        return self

    def run(self):
        while not self.ends.is_set():
            try:
                self.done += self.attempt()
            except Exception as error:  # noqa: BLE001 - each library has its own
                self.errors.append(error)
                time.sleep(0.05)

    def __exit__(self, *_):
        self.ends.set()
        self.thread.join(JOIN_SECONDS_MAX)
        assert not self.thread.is_alive()

    def wait_for(self, count, what):
        """So many more from now on."""
        wanted = len(self.done) + count
        wait_until(lambda: len(self.done) >= wanted, f"{what}, after {self.errors[-3:]},")


def writing(producer):
    """One message at a time: its value, which says when it was sent, and its offset."""

    def attempt():
        sent_ns = time.monotonic_ns()
        producer.send(Message(b"%d" % sent_ns))
        (offset,) = producer.flush()
        return [(sent_ns, offset)]

    return attempt


def reading(consumer):
    def attempt():
        messages = consumer.poll()
        if messages:
            consumer.commit()
        return messages

    return attempt


def read_all(client, topic, end_offset):
    """Partition 0 from its start."""
    consumer = client.consumer(topic)
    found = []

    def has_the_last():
        found.extend(consumer.poll())
        return bool(found) and found[-1].offset >= end_offset - 1

    try:
        wait_until(has_the_last, "reading all")
    finally:
        consumer.close()
    return found


@pytest.mark.parametrize("kind", [RefreshingConfluentClient, RefreshingKafkaPythonClient], ids=lambda kind: kind.name)
@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
def test_a_topic_may_change_under_those_who_use_it(broker_process, mode, kind, connect, new_name):
    """Case 79."""
    broker = broker_process(mode=mode, settings=(*SETTINGS, "auto.create.topics.enable=false"))
    admin, writer, reader = (connect(kind, broker.bootstrap) for _ in range(3))
    topic = new_name()
    admin.create_topic(topic, 1)
    producer, consumer = writer.producer(topic), reader.consumer(topic, group=new_name())
    try:
        with Activity(writing(producer)) as writes, Activity(reading(consumer)) as reads:
            reads.wait_for(1, "reading")
            for round_ in range(ROUNDS):
                admin.delete_records(topic, -1)
                admin.grow_topic(topic, round_ + 2)
                writes.wait_for(3, "writing to a larger topic")
                admin.delete_topic(topic)
                if round_ % 2:
                    time.sleep(ABSENT_SECONDS)
                admin.create_topic(topic, 1)
                created_ns = time.monotonic_ns()
                writes.wait_for(ACKNOWLEDGED_MIN, "writing to the new topic")
            reads.wait_for(ACKNOWLEDGED_MIN, "reading the new topic")
    finally:
        consumer.close()
        producer.close()
    acknowledged = {offset: sent_ns for sent_ns, offset in writes.done if sent_ns > created_ns}
    found = read_all(connect(kind, broker.bootstrap), topic, max(acknowledged) + 1)
    assert [message.offset for message in found] == list(range(len(found)))
    held = {message.offset: int(message.value) for message in found}
    assert {offset: held.get(offset) for offset in acknowledged} == acknowledged
    assert admin.partition_counts()[topic] == 1
    assert "Traceback" not in broker.stderr
