"""A wall clock that jumps or steps: nothing that is young by its own timestamps goes, and everything goes on.

The wall clock of the broker is ahead by what a file says (`broker_variant.py wandering-clock`; under faketime, sleeps
fail where the monotonic clock is left alone). The last test has a monotonic clock that began long ago. What is older
than retention.ms by the clock as it is goes, as in Apache Kafka: records are stamped here by the clock that the broker
has.
"""

import os
import subprocess
import threading
import time

import pytest

from pipeline_broker.node.admin_socket import ask
from tests.crashes.broker_variant import CLOCK_AHEAD
from tests.crashes.kept import RETAINED, KeptPartition
from tests.crashes.kept_client import read_held, write
from tests.crashes.scene import TOPICS, Scene
from tests.crashes.wire_client import WireClient, describe_topics
from tests.required import absent

pytestmark = [pytest.mark.faults]
DAY_SECONDS = 86_400
SETTINGS = ("log.retention.ms=3600000", "log.segment.bytes=1048576", "log.segment.delete.delay.ms=0")
RECORDS = 15
VALUE_BYTES = 100_000
STEPS = (3_600, -3_600, 0, DAY_SECONDS, -DAY_SECONDS)
STEP_SECONDS = 0.2
LOAD_SECONDS = 2.0
MONOTONIC_SECONDS = 10_000_000


class Clock:
    """How far a broker's wall clock is ahead."""

    def __init__(self, directory):
        directory.mkdir(exist_ok=True)
        self._path = directory / "clock"
        self.options = {"variant": "wandering-clock", "environment": {CLOCK_AHEAD: str(self._path)}}
        self.set_ahead(0)

    def set_ahead(self, seconds):
        new = self._path.with_suffix(".new")
        new.write_text(f"{seconds}\n", encoding="ascii")
        new.rename(self._path)


@pytest.fixture
def clock(tmp_path):
    return Clock(tmp_path)


def fill(client, topic_ids, kept, ahead_seconds):
    """Records that are stamped by a clock that is so far ahead."""
    for number in range(RECORDS):
        timestamp_ms = int((time.time() + ahead_seconds) * 1000)
        write(client, topic_ids, kept, None, os.urandom(VALUE_BYTES), timestamp_ms + number)


@pytest.mark.parametrize(("days", "goes"), [(400, True), (-1, False)])
def test_retention_lets_no_young_record_go_when_the_clock_jumps(tmp_path, clock, days, goes):
    """Records written before a jump ahead are old and may be deleted; records written after it stay. Case 39."""
    with Scene(1, tmp_path, settings=SETTINGS, **clock.options) as scene:
        scene.start()
        scene.prepare()
        topic_ids = scene.clients[0].topic_ids
        kept = KeptPartition(TOPICS[0], 0, RETAINED)
        with WireClient(scene.broker.address) as client:
            fill(client, topic_ids, kept, 0)
            ask(scene.broker.data, "retain")
            assert read_held(client, topic_ids[TOPICS[0]], kept).start_after == 0
            clock.set_ahead(days * DAY_SECONDS)
            fill(client, topic_ids, kept, days * DAY_SECONDS)
            ask(scene.broker.data, "retain")
            held = read_held(client, topic_ids[TOPICS[0]], kept)
        assert kept.violations(held) == []
        assert 0 < held.start_after <= RECORDS if goes else held.start_after == 0
        scene.broker.kill()
        scene.start()
        with WireClient(scene.broker.address) as client:
            again = read_held(client, topic_ids[TOPICS[0]], kept)
        assert kept.violations(again) == []
        assert again.records == held.records


def test_a_clock_that_steps_back_and_forth_disturbs_nobody(tmp_path, clock):
    """Case 40."""
    settings = ("log.message.timestamp.type=LogAppendTime",)
    with Scene(2, tmp_path, settings=settings, **clock.options) as scene:
        scene.start()
        scene.prepare()
        load = scene.load()
        deadline = time.monotonic() + LOAD_SECONDS
        while time.monotonic() < deadline:
            for step in STEPS:
                clock.set_ahead(step)
                time.sleep(STEP_SECONDS)
        before = scene.history.acknowledged_count
        load.stop()
        assert scene.history.acknowledged_count >= before > 0
        scene.verify()
        scene.broker.kill()
        scene.start()
        scene.verify()
        assert scene.broker.stop() == 0


def test_the_fake_clock_is_the_brokers(tmp_path, clock):
    """Otherwise the tests above say nothing: a record without a time of its own gets the broker's."""
    clock.set_ahead(400 * DAY_SECONDS)
    with Scene(3, tmp_path, **clock.options, settings=SETTINGS) as scene:
        scene.start()
        scene.prepare()
        kept = KeptPartition(TOPICS[0], 0, RETAINED)
        with WireClient(scene.broker.address) as client:
            fill(client, scene.clients[0].topic_ids, kept, 0)
            ask(scene.broker.data, "retain")
            held = read_held(client, describe_topics(client)[TOPICS[0]].topic_id, kept)
        assert held.start_after > 0


def test_a_monotonic_clock_that_began_long_ago_is_as_good_as_another(tmp_path):
    """Case 40."""
    prefix = ("unshare", "--time", "--fork", "--monotonic", str(MONOTONIC_SECONDS))
    if subprocess.run([*prefix, "true"], capture_output=True, check=False).returncode:
        absent("only root may give a program a clock of its own, and not on every kernel")
    with Scene(4, tmp_path, prefix=prefix) as scene:
        scene.start()
        scene.prepare()
        load = scene.load()
        threading.Event().wait(STEP_SECONDS)
        load.stop()
        assert scene.history.acknowledged_count > 0
        scene.verify()
        assert scene.broker.stop() == 0
