"""A run of power cuts of a broker that keeps everything in a directory: as objects, on a disk that forgets.

Rules of this file: as for a run of power cuts, but that the data directory is on another disk and is emptied each time.
"""

import shutil

from tests.crashes.on_objects.object_kill_run import SETTINGS
from tests.crashes.on_objects.stores import on_objects
from tests.crashes.power_cut_run import PowerCutRun


class ObjectPowerCutRun(PowerCutRun):
    """See the module."""

    def __init__(self, seed, directory, mount, variant=None, **options):
        if variant is None:
            variant = (None, "rolling-objects")[seed // 2 % 2]
        arguments = on_objects(f"file://{mount.path}/store")
        super().__init__(seed, directory, mount, variant=variant, settings=SETTINGS, arguments=arguments, **options)
        self.broker.data = directory / "data"

    def end_under_load(self, seconds):
        """See KillRun."""
        super().end_under_load(seconds)
        shutil.rmtree(self.broker.data, ignore_errors=True)

    def end_in_recovery(self, seconds):
        """See KillRun."""
        super().end_in_recovery(seconds)
        shutil.rmtree(self.broker.data, ignore_errors=True)
