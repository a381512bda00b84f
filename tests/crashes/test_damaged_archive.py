"""Damage to the files of a stopped broker: wrong bytes are never served, and whatever can be made anew is.

The directory is a real one with everything in it (`deeds.py`); each test damages a copy.
"""

import random
import shutil
from pathlib import Path

import pytest

from pipeline_broker.base.error_code import ErrorCode
from tests.crashes.broker_under_test import BrokerUnderTest, StartFailed
from tests.crashes.deeds import SETTINGS, Deeds
from tests.crashes.kept_client import start_of
from tests.crashes.lengths import drawn
from tests.crashes.wire_client import WireClient, fetch_request
from tests.free_ports import free_port

pytestmark = [pytest.mark.faults]
INDEXES = ("index", "timeindex")
FLIPS = 3


@pytest.fixture(scope="module")
def stopped(tmp_path_factory):
    """A directory and what must be in it."""
    directory = tmp_path_factory.mktemp("stopped")
    broker = BrokerUnderTest(directory, free_port(), settings=SETTINGS, variant="small-segments")
    broker.start("pipelined", "always")
    try:
        deeds = Deeds(random.Random(0), broker.address, broker.data)
        assert deeds.run()
        deeds.verify()
        assert broker.stop() == 0
    finally:
        broker.kill()
    return broker.data, deeds


@pytest.fixture
def copy(stopped, tmp_path):
    """A broker, not started, on a copy, and what must be in it."""
    data, deeds = stopped
    shutil.copytree(data, tmp_path / "data")
    broker = BrokerUnderTest(tmp_path, free_port(), settings=SETTINGS)
    deeds.address, deeds.data = broker.address, broker.data
    yield broker, deeds
    broker.kill()


def flip(path, dice):
    data = bytearray(path.read_bytes())
    data[dice.randrange(len(data))] ^= 1 << dice.randrange(8)
    path.write_bytes(data)


def flip_one(path):
    flip(path, random.Random(1))


def assert_every_offset_is_found(deeds):
    """Reads that begin anywhere go by the index."""
    with WireClient(deeds.address) as client:
        for (topic, index), kept in deeds.kept.items():
            topic_id = deeds.topic_ids[topic]
            for offset in sorted(kept.acknowledged.values()):
                if offset >= start_of(client, kept):
                    answer = client.ask(fetch_request(topic_id, index, offset))
                    assert answer.responses[0].partitions[0].error_code == ErrorCode.NONE


def cut(path):
    path.write_bytes(path.read_bytes()[:-3])


def lengthen(path):
    path.write_bytes(path.read_bytes() + bytes(range(24)))


def replace_by_another(path):
    """Stale: the index of the segment in front of it, or of no segment at all."""
    others = sorted(path.parent.glob(f"*{path.suffix}"))
    path.write_bytes(others[others.index(path) - 1].read_bytes()[:-8])


@pytest.mark.parametrize(
    "damage",
    drawn(flip_one, replace_by_another, cut, lengthen, Path.unlink, count=2),
    ids=lambda damage: damage.__name__,
)
def test_an_index_that_is_shorter_longer_stale_missing_or_flipped_does_no_harm(copy, damage):
    """Cases 29 and 32."""
    broker, deeds = copy
    paths = [path for suffix in INDEXES for path in sorted(broker.data.glob(f"archive/*/*.{suffix}"))]
    assert paths
    for path in paths:
        if path.stat().st_size:
            damage(path)
    for _ in range(2):
        broker.start("pipelined", "always")
        deeds.verify()
        assert_every_offset_is_found(deeds)
        assert broker.stop() == 0


@pytest.mark.parametrize("seed", drawn(*range(FLIPS)))
def test_a_flipped_bit_in_a_segment_is_an_error_of_its_partition_at_every_start(copy, seed):
    """Case 28."""
    broker, deeds = copy
    folder = next(broker.data.glob("archive/short-*"))
    flip(min(folder.glob("*.log")), random.Random(seed))
    damaged = ("short", 0)
    for mode in ("pipelined", "classic"):
        broker.start(mode, "always")
        with WireClient(broker.address) as client:
            kept, topic_id = deeds.kept[damaged], deeds.topic_ids["short"]
            codes = set()
            for offset in range(start_of(client, kept), max(kept.acknowledged.values()) + 1):
                (answer,) = client.ask(fetch_request(topic_id, 0, offset)).responses[0].partitions
                codes.add(answer.error_code)
        assert ErrorCode.CORRUPT_MESSAGE in codes
        assert codes <= {ErrorCode.NONE, ErrorCode.CORRUPT_MESSAGE}
        others = {key: kept for key, kept in deeds.kept.items() if key != damaged}
        sound = Deeds(random.Random(0), broker.address, broker.data)
        sound.history, sound.topic_ids, sound.kept = deeds.history, deeds.topic_ids, others
        sound.verify()
        assert broker.stop() == 0


@pytest.mark.parametrize("seed", drawn(*range(FLIPS)))
@pytest.mark.parametrize("pattern", ["archive/__cluster_metadata-*/*.log", "archive/__consumer_offsets-*/*.log"])
def test_a_flipped_bit_in_the_stores_of_state_refuses_the_start(copy, pattern, seed):
    """Topics, settings, users, rules and offsets are records in these two; the damage is reported first. Case 30."""
    broker, _ = copy
    path = next(broker.data.glob(pattern))
    flip(path, random.Random(seed))
    before = path.read_bytes()
    with pytest.raises(StartFailed):
        broker.start("pipelined", "always")
    told = broker.stderr.splitlines()
    assert len(told) <= 2
    assert all(f"{path.parent.name}/{path.name} is damaged" in line for line in told)
    assert path.read_bytes() == before


@pytest.mark.parametrize("seed", drawn(*range(FLIPS)))
def test_a_flipped_bit_in_the_manifest_refuses_the_start_with_one_line(copy, seed):
    """It also holds the state of idempotent producers; damage at its very end would be a torn edit. Case 29."""
    broker, _ = copy
    path = broker.data / "archive" / "manifest"
    whole = bytearray(path.read_bytes())
    whole[random.Random(seed).randrange(len(whole) // 2)] ^= 4
    path.write_bytes(whole)
    with pytest.raises(StartFailed):
        broker.start("pipelined", "always")
    assert len(broker.stderr.splitlines()) == 1
    assert "damaged" in broker.stderr
