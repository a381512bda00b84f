"""A broker whose store answers nothing any more ends when it is asked to, in time."""

import time

import pytest

from tests.crashes.lengths import drawn
from tests.crashes.on_objects.stores import SERVER, open_store
from tests.crashes.scene import Scene

pytestmark = [pytest.mark.faults]
LOAD_SECONDS = 0.5
END_SECONDS_MAX = 10.0
STARTS_LATE_SECONDS = 2.0
"""What a machine with other work may take beyond that."""


@pytest.mark.parametrize("wal", drawn("objects", "disk", count=2))
def test_a_broker_ends_in_time_although_its_store_hangs(tmp_path, wal):
    with open_store(SERVER, 0, tmp_path / "store") as store:
        arguments = (*store.arguments[:2], "--wal", wal)
        variant = {"objects": "rolling-objects", "disk": "rolling"}[wal]
        scene = Scene(1, tmp_path / "broker", arguments=arguments, environment=store.environment, variant=variant)
        with scene:
            scene.start()
            scene.prepare()
            load = scene.load()
            time.sleep(LOAD_SECONDS)
            store.process.hold()
            time.sleep(LOAD_SECONDS)
            began = time.monotonic()
            code = scene.broker.stop()
            seconds = time.monotonic() - began
            store.process.release()
            load.join()
            assert code == (1 if wal == "objects" else 0), scene.broker.stderr
            assert seconds < END_SECONDS_MAX + STARTS_LATE_SECONDS
            scene.start()
            scene.verify()
