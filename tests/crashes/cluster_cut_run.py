"""A run of power cuts of a cluster: its brokers share a disk that forgets unsynced bytes, and lose power at once.

Rules of this file: see `power_cut_run`.
"""

import attrs

from tests.crashes.cluster_run import ClusterCounts, ClusterRun
from tests.crashes.kill_run import RECOVERY_KILL_SECONDS, RECOVERY_KILL_SHARE
from tests.crashes.power import WAYS, CutLosses, Power
from tests.crashes.power_cut_run import IN_RECOVERY


@attrs.define
class ClusterCutCounts(ClusterCounts, CutLosses):
    """The losses of the cuts, and the counts of a run of kills, whose kills are the cuts."""

    kills_in_recovery: int = 0


class ClusterCutRun(ClusterRun):
    """See the module; `mount` is a ForgetfulMount."""

    counts_type = ClusterCutCounts

    def __init__(self, seed, directory, mount, *, flush="always", style=None):
        super().__init__(seed, directory, flush=flush, data=mount.path / "data")
        self._power = Power(mount, self.broker, self.random, self.counts, style)

    def run(self, cuts):
        """As ClusterRun.run."""
        with self._power.copying_on_failure():
            super().run(cuts)

    def end_under_load(self, seconds):
        """See ClusterRun."""
        self._power.cut_after(seconds, WAYS)
        while self.random.random() < RECOVERY_KILL_SHARE:
            self.broker.launch(*self.mode_and_flush)
            self._power.cut_after(self.random.uniform(*RECOVERY_KILL_SECONDS), IN_RECOVERY)
            self.counts.kills_in_recovery += 1
        self.start()
