"""A standby goes on within a session and three seconds, whatever of a journal is not archived.

What there is to read then is bounded by the journal: 64 MB, and here each of a thousand partitions has a part of it.
`make object-faults` asserts the time; an ordinary run takes less of everything, on a machine that has other work.
"""

import time

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.conftest import CAMPAIGN, READY_SECONDS_MAX, read_line
from tests.crashes.broker_under_test import BrokerUnderTest
from tests.crashes.ledger import CYCLES
from tests.crashes.on_objects.stores import SERVER, VERSITYGW, kinds, open_store
from tests.crashes.on_objects.takeover import another, wait_until_ready
from tests.free_ports import free_port

pytestmark = [pytest.mark.faults, pytest.mark.object_faults]
AT_LENGTH = CYCLES > 5
SESSION_SECONDS = 6.0 if AT_LENGTH else 1.0
TAKEOVER_SECONDS_MAX = SESSION_SECONDS + (3.0 if AT_LENGTH else 20.0)
PARTITIONS = 1_000 if AT_LENGTH else 100
BYTES = (64 << 20) if AT_LENGTH else (4 << 20)
VALUE_BYTES = 8_000
WAIT_SECONDS = 60.0


def test_a_standby_takes_over_in_time(tmp_path, record_property):
    kind = kinds(SERVER, VERSITYGW)[-1]
    settings = (f"broker.session.timeout.ms={SESSION_SECONDS * 1000:.0f}",)
    with open_store(kind, 0, tmp_path / "store") as store:
        owner = BrokerUnderTest(
            tmp_path / "owner",
            free_port(),
            settings=settings,
            arguments=store.arguments,
            environment=store.environment,
            variant="unarchived",
        )
        standby = another(owner, free_port(), tmp_path / "standby", (*store.arguments, "--standby"))
        standby.variant = None
        try:
            owner.start("pipelined", "always")
            count = fill(owner)
            standby.launch("pipelined", "always")
            assert read_line(standby.process, READY_SECONDS_MAX) == "standing by"
            began = time.monotonic()
            owner.kill()
            wait_until_ready(standby)
            ready = time.monotonic() - began
            acknowledged = produce_one(standby, began)
            assert end_offsets(standby) == count + 1
        finally:
            owner.kill()
            standby.kill()
    size = f"{BYTES >> 20} MB not archived, {PARTITIONS} partitions, {kind}"
    record_property(
        CAMPAIGN, f"{size}: a standby served {ready:.1f} s after the kill, and acknowledged after {acknowledged:.1f} s"
    )
    assert acknowledged < TAKEOVER_SECONDS_MAX


def address(broker):
    return {"bootstrap.servers": "{}:{}".format(*broker.address)}


def fill(broker):
    """How many records there are."""
    admin = AdminClient(address(broker))
    admin.create_topics([NewTopic("t", PARTITIONS, 1)])["t"].result(WAIT_SECONDS)
    producer = confluent_kafka.Producer({**address(broker), "linger.ms": 20, "enable.idempotence": True})
    count = BYTES // VALUE_BYTES
    for number in range(count):
        producer.produce("t", bytes(VALUE_BYTES), partition=number % PARTITIONS)
        producer.poll(0)
        if len(producer) > 2_000:
            producer.flush(WAIT_SECONDS)
    assert producer.flush(WAIT_SECONDS) == 0
    return count


def produce_one(broker, began):
    """Seconds from `began` on until it acknowledges a record of a client that did not know of it before."""
    producer = confluent_kafka.Producer({**address(broker), "linger.ms": 0})
    producer.produce("t", b"after", partition=0)
    assert producer.flush(WAIT_SECONDS) == 0
    return time.monotonic() - began


def end_offsets(broker):
    """The sum over all partitions."""
    consumer = confluent_kafka.Consumer({**address(broker), "group.id": "ends"})
    try:
        return sum(
            consumer.get_watermark_offsets(confluent_kafka.TopicPartition("t", index), WAIT_SECONDS)[1]
            for index in range(PARTITIONS)
        )
    finally:
        consumer.close()
