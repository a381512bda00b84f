"""A user's share of a disk that is used up (EDQUOT): as a full disk, whatever was acknowledged is there afterwards."""

import time

import pytest

from tests.faults.lengths import drawn
from tests.faults.scene import Scene

pytestmark = [pytest.mark.faults]
MODES = pytest.mark.parametrize("mode", drawn("classic", "pipelined"))
WRITES_BEFORE = 60
LOAD_SECONDS = 0.4
DELAY_SECONDS = 0.01
STEPS_MAX = 1_500


@MODES
@pytest.mark.parametrize("operation", drawn("write", "create"))
def test_a_quota_that_is_used_up_costs_nothing_that_was_acknowledged(mount_forgetful, tmp_path, mode, operation):
    """The broker ends or goes on without; with room again, and after a power cut, everything is there."""
    with (
        mount_forgetful(tmp_path / "disk") as disk,
        Scene(1, tmp_path / "broker", mode=mode, variant="rolling", data=disk.path / "data") as scene,
    ):
        scene.start()
        scene.prepare()
        load = scene.load()
        time.sleep(LOAD_SECONDS)
        disk.add_fault(operation, "*", error="EDQUOT", skip_count=WRITES_BEFORE if operation == "write" else 0)
        for _ in range(STEPS_MAX):
            if disk.ask("hits")[0]:
                break
            time.sleep(DELAY_SECONDS)
        else:
            pytest.fail("the quota was never met")
        time.sleep(LOAD_SECONDS)
        disk.cut(mode, "nothing")
        scene.broker.kill()
        load.join()
        disk.ask("clear_faults")
        disk.power_on()
        scene.forgive_storage_errors()
        assert scene.history.acknowledged_count > 0
        scene.start()
        scene.verify()
        scene.resolve()
        scene.verify()
        assert scene.broker.stop() == 0
