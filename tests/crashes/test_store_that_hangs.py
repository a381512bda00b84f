"""A broker whose store answers nothing any more ends when it is asked to, in time."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.crashes.on_objects.stores import SERVER, open_store
from tests.crashes.scene import Scene

pytestmark = [pytest.mark.faults]
LOAD_SECONDS = 0.5
END_SECONDS_MAX = 10.0
STARTS_LATE_SECONDS = 2.0
"""What a machine with other work may take beyond that."""
VARIANTS = {"objects": "rolling-objects", "disk": "rolling"}


def test_a_broker_ends_in_time_although_its_store_hangs(tmp_path):
    """Both kinds of journal, at once: most of it is waiting."""
    with ThreadPoolExecutor(len(VARIANTS)) as pool:
        list(pool.map(lambda wal: end_while_the_store_hangs(tmp_path / wal, wal), VARIANTS))


def end_while_the_store_hangs(folder, wal):
    with open_store(SERVER, 0, folder / "store") as store:
        arguments = (*store.arguments[:2], "--wal", wal)
        scene = Scene(1, folder / "broker", arguments=arguments, environment=store.environment, variant=VARIANTS[wal])
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
