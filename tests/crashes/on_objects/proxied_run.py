"""A run of kills behind a proxy that loses, delays and doubles what goes to the store and comes from it.

Rules of this file: as for a run of kills; what is late at a kill is let through behind it. A start gives a store up
that fails five times in a row, so that less of it is spoiled then.
"""

import attrs

from tests.crashes.kill_run import Counts
from tests.crashes.on_objects.object_kill_run import ObjectKillRun

SHARES = (0.02, 0.1, 0.3)
"""Of all requests to the store, how many are spoiled in a run."""
SHARE_AT_START = 0.03


@attrs.define
class ProxiedCounts(Counts):
    """What the proxy did, beside what a run of kills counts."""

    lost: int = 0
    late: int = 0
    doubled: int = 0
    refused: int = 0


class ProxiedRun(ObjectKillRun):
    """See the module."""

    counts_type = ProxiedCounts

    def __init__(self, seed, directory, store, **options):
        super().__init__(seed, directory, store, **options)
        self._share = self.random.choice(SHARES)
        self.store.proxy.share = SHARE_AT_START

    def start(self, *how):
        """See Scene."""
        self.store.proxy.share = SHARE_AT_START
        super().start(*how)
        self.store.proxy.share = self._share

    def _count(self):
        super()._count()
        met = self.store.proxy.counts
        self.counts.lost = met["lost before"] + met["lost after"]
        self.counts.late = met["late"] + met["slow"]
        self.counts.doubled = met["twice"] + met["again later"]
        self.counts.refused = met["refused"] + met["conflict"]
