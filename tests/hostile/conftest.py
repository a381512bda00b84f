"""One prepared directory for all brokers of a run, whichever worker starts them."""

import fcntl
import os
import pickle

import pytest

from tests.crashes.lengths import AT_LENGTH
from tests.hostile import prepared


@pytest.fixture(scope="session")
def filled(tmp_path_factory):
    """The folder of the prepared directory, and what is in it; the worker that comes first prepares it."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "hostile"
    folder.mkdir(exist_ok=True)
    world = folder / "world"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not world.exists():
            world.write_bytes(
                pickle.dumps(prepared.prepare(folder, prepared.LARGE if AT_LENGTH else prepared.ORDINARY))
            )
    return folder, pickle.loads(world.read_bytes())
