"""Data directories that were not made here and now: of an earlier release, or a copy of one that is in use."""

import json
import shutil
import signal
import tarfile
import time

import pytest

from tests.bad_input.raw_client import wait_until
from tests.crashes.broker_under_test import BrokerUnderTest
from tests.crashes.deeds import SETTINGS
from tests.crashes.history import violations
from tests.crashes.kept import KeptPartition
from tests.crashes.kept_client import read_held, write
from tests.crashes.lengths import drawn
from tests.crashes.make_data_directory import CONTENTS_NAME, DIRECTORIES, contents_of
from tests.crashes.read_back import read_contents
from tests.crashes.scene import TOPICS, Scene
from tests.crashes.wire_client import WireClient
from tests.free_ports import free_port

pytestmark = [pytest.mark.faults]
RELEASES = sorted(DIRECTORIES.glob("*.tar.xz"))
LOAD_SECONDS = 0.4
NEXT_NUMBER = 10_000
"""Of a record that is written to a directory of an earlier release."""


def test_there_is_a_directory_of_a_release():
    assert RELEASES


@pytest.mark.parametrize("release", RELEASES, ids=lambda path: path.name)
@pytest.mark.parametrize("mode", drawn("pipelined", "classic"))
def test_the_directory_of_an_earlier_release_opens_with_all_that_is_in_it(tmp_path, release, mode):
    """It was left by a killed broker; it can be written, too. Case 34."""
    with tarfile.open(release) as archive:
        archive.extractall(tmp_path, filter="data")
    expected = json.loads((tmp_path / CONTENTS_NAME).read_text(encoding="utf-8"))
    kept = [KeptPartition(name, int(index)) for name, index in map(str.split, expected["partitions"])]
    topic_ids = {name: bytes.fromhex(topic_id) for name, (topic_id, _) in expected["topics"].items()}
    commits = tuple((group, topic, int(index)) for group, topic, index in map(str.split, expected["offsets"]))
    broker = BrokerUnderTest(tmp_path, free_port(), settings=SETTINGS)
    try:
        for _ in range(2):
            broker.start(mode, "always")
            assert contents_of(broker.address, topic_ids, kept, commits) == expected
            assert broker.stop() == 0
        broker.start(mode, "always")
        with WireClient(broker.address) as client:
            one = kept[0]
            one.next_number = NEXT_NUMBER
            write(client, topic_ids, one, b"key", b"value", 1)
            found = read_held(client, topic_ids[one.topic], one).records[-1]
            assert (found.number, found.value) == (NEXT_NUMBER, b"value")
        assert broker.stop() == 0
    finally:
        broker.kill()


@pytest.mark.parametrize("variant", drawn("rolling", "hoarding"))
def test_a_copy_of_a_directory_in_use_opens_beside_it(tmp_path, variant):
    """Taken at one moment, as a snapshot of a file system is: the broker stands still meanwhile. Case 34."""
    with Scene(1, tmp_path, variant=variant) as scene:
        scene.start()
        scene.prepare()
        load = scene.load()
        time.sleep(LOAD_SECONDS)
        wait_until(lambda: scene.history.acknowledged_count > 0, "nothing is acknowledged")
        scene.broker.process.send_signal(signal.SIGSTOP)
        try:
            shutil.copytree(scene.broker.data, tmp_path / "copied" / "data", ignore=shutil.ignore_patterns("*.socket"))
            copy = BrokerUnderTest(tmp_path / "copied", free_port(), settings=scene.broker.settings)
            try:
                copy.start("pipelined", "always")
                known = scene.history.snapshot()
                contents = read_contents(copy.address, set(TOPICS), tuple(scene.history.commits))
                assert violations(scene.history, known, contents) == []
                assert scene.history.acknowledged_count > 0
                assert copy.stop() == 0
            finally:
                copy.kill()
        finally:
            scene.broker.process.send_signal(signal.SIGCONT)
        load.stop()
        scene.verify()
        assert scene.broker.stop() == 0
