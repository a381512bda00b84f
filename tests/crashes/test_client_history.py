"""What confluent-kafka's clients are told while the power of the broker is cut has none of Jepsen's anomalies.

Idempotent producers and consumers with assigned partitions live through all cuts; at the end everything is read.
"""

import collections
import logging
import threading
import time

import confluent_kafka
import pytest

from tests.crashes.read_back import read_contents, read_with_confluent
from tests.crashes.scene import PARTITIONS, TOPICS, Scene
from tests.tools.history_checker import OK, POLL, SEND, UNKNOWN, Operation, Poll, Send, anomalies, forbidden

pytestmark = [pytest.mark.faults, pytest.mark.clients]
CUTS = 3
LOAD_SECONDS = 1.0
READS_SECONDS_MAX = 20
QUEUE_MAX = 40
POLL_SECONDS = 0.01
FLUSH_SECONDS_MAX = 30.0
PROCESSES = 2
RECONNECTS = {
    "reconnect.backoff.ms": 10,
    "reconnect.backoff.max.ms": 50,
    "retry.backoff.ms": 20,
    "topic.metadata.refresh.fast.interval.ms": 20,
    "error_cb": lambda _: None,
}


class RecordedClients:
    """Producers and consumers, each with a thread of its own, and their operations in the order in which they ended."""

    def __init__(self, address):
        self.history = []
        self._ending = threading.Event()
        self._silent = logging.getLogger(f"{__name__}.silent")
        self._silent.disabled = True  # lost connections are what this is about
        self._settings = {"bootstrap.servers": "{}:{}".format(*address), **RECONNECTS}
        works = [*[self._produce] * PROCESSES, *[self._consume] * PROCESSES]
        self._threads = [
            threading.Thread(target=work, args=(f"{work.__name__}-{number}",), daemon=True)
            for number, work in enumerate(works)
        ]
        for thread in self._threads:
            thread.start()

    def end(self):
        """What is in flight is delivered first."""
        self._ending.set()
        for thread in self._threads:
            thread.join(2 * FLUSH_SECONDS_MAX)
            assert not thread.is_alive()

    def _produce(self, process):
        producer = confluent_kafka.Producer(
            {**self._settings, "enable.idempotence": True, "message.timeout.ms": 300_000}, logger=self._silent
        )
        sent = 0
        while not self._ending.is_set():
            if len(producer) < QUEUE_MAX:
                topic, index = PARTITIONS[sent % len(PARTITIONS)]
                value = f"{process}/{sent}".encode()
                producer.produce(topic, value, partition=index, on_delivery=self._note_send(process))
                sent += 1
            producer.poll(0 if len(producer) < QUEUE_MAX else POLL_SECONDS)
        assert producer.flush(FLUSH_SECONDS_MAX) == 0

    def _note_send(self, process):
        def note(error, message):
            place = message.topic(), message.partition()
            told = Send(place, message.value(), None if error else message.offset())
            self.history.append(Operation(process, SEND, (told,), UNKNOWN if error else OK))

        return note

    def _consume(self, process):
        consumer = confluent_kafka.Consumer(
            {**self._settings, "group.id": process, "enable.auto.commit": False, "fetch.error.backoff.ms": 20},
            logger=self._silent,
        )
        start = confluent_kafka.OFFSET_BEGINNING
        consumer.assign([confluent_kafka.TopicPartition(*partition, start) for partition in PARTITIONS])
        while not self._ending.is_set():
            records = collections.defaultdict(list)
            for message in consumer.consume(QUEUE_MAX, timeout=POLL_SECONDS):
                if message.error() is None:
                    records[message.topic(), message.partition()].append((message.offset(), message.value()))
            if records:
                self.history.append(Operation(process, POLL, (Poll(dict(records)),)))
        consumer.close()

    def wait_for_reads(self, count):
        """Go on under load for a moment, and until so many polls found something."""
        deadline = time.monotonic() + READS_SECONDS_MAX
        time.sleep(LOAD_SECONDS)
        while sum(operation.kind == POLL for operation in self.history) < count and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)


def test_clients_that_live_through_power_cuts_see_no_anomaly(mount_forgetful, tmp_path):
    with mount_forgetful(tmp_path / "disk") as disk, Scene(1, tmp_path / "run", data=disk.path / "data") as scene:
        scene.start()
        scene.prepare()
        clients = RecordedClients(scene.broker.address)
        for seed in range(CUTS):
            clients.wait_for_reads(seed + 1)
            disk.cut(seed)
            scene.broker.kill()
            disk.power_on()
            scene.start(("classic", "pipelined")[seed % 2])
        clients.wait_for_reads(CUTS + 1)
        clients.end()
        ends = read_contents(scene.broker.address, set(TOPICS)).high_watermarks
        final = read_with_confluent(scene.broker.address, ends)
        clients.history.append(Operation("last", POLL, (Poll(final),)))
    assert sum(operation.kind == POLL for operation in clients.history) > CUTS
    assert sum(operation.kind == SEND for operation in clients.history) > CUTS * len(PARTITIONS)
    assert forbidden(anomalies(clients.history)) == []
