"""A run of power cuts: one data directory on a disk that forgets what was not synced, through several cuts under load.

Rules of this file: a run is drawn from its seed, as a run of kills is. What a client hears between the disk's end and
the broker's may be an error of storage; an acknowledgement counts like any other. A violation leaves a copy of the data
directory behind.
"""

import attrs

from tests.crashes.kill_run import Counts, KillRun
from tests.crashes.power import CutLosses, Power

IN_RECOVERY = ("at once", "disk first")


@attrs.define
class CutCounts(Counts, CutLosses):
    """The losses of the cuts, and the counts of a run of kills, whose kills are the cuts."""


class PowerCutRun(KillRun):
    """See the module; `mount` is a ForgetfulMount."""

    counts_type = CutCounts

    def __init__(self, seed, directory, mount, *, flush="always", style=None, **options):
        super().__init__(seed, directory, data=mount.path / "data", **options)
        self.flushes = (flush,)
        self._power = Power(mount, self.broker, self.random, self.counts, style)

    def run(self, cuts):
        """As KillRun.run."""
        with self._power.copying_on_failure():
            super().run(cuts)

    def end_under_load(self, seconds):
        """See KillRun."""
        self._power.cut_after(seconds)

    def end_in_recovery(self, seconds):
        """See KillRun."""
        self._power.cut_after(seconds, IN_RECOVERY)

    def verify(self):
        """As Scene.verify, of a disk that was without power."""
        self.forgive_storage_errors()
        return super().verify()
