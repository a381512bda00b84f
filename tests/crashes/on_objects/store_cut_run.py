"""A run of outages of a store: killed with what is on its way, or held, under load; the broker goes on behind them.

Rules of this file: the process of the store is what ends, and it keeps what it has answered. The broker lives through
outages, and is killed, with its directory, behind some. How long they are is drawn: in the shorter ones all wait, in
the longer ones writes are refused with an error of storage, and go on by themselves.
"""

import time

import attrs

from tests.crashes.kill_run import LOAD_SECONDS, Counts
from tests.crashes.on_objects.object_kill_run import ObjectKillRun

OUTAGE_SECONDS = ((0.0, 0.5), (0.0, 0.5), (0.5, 5.0))
HELD_SHARE = 0.25
KILL_SHARE = 0.4


@attrs.define
class StoreCutCounts(Counts):
    """What the outages were, beside what a run of kills counts (its kills are the outages)."""

    held: int = 0
    outage_ms: int = 0
    kills_of_the_broker: int = 0


class StoreCutRun(ObjectKillRun):
    """See the module."""

    counts_type = StoreCutCounts

    def _load_until_killed(self, confluent):
        confluent.active.set()
        load = self.load()
        time.sleep(self.random.uniform(*LOAD_SECONDS))
        self._cut(self.random.uniform(*self.random.choice(OUTAGE_SECONDS)))
        time.sleep(self.random.uniform(*LOAD_SECONDS))
        if self.random.random() < KILL_SHARE:
            self.end_under_load(0)
            self.counts.kills_of_the_broker += 1
        confluent.active.clear()
        load.stop()
        self.counts.kills += 1

    def recover(self):
        """Where the broker was killed, too."""
        if self.broker.process is None:
            super().recover()

    def _cut(self, seconds):
        process = self.store.process
        is_held = self.random.random() < HELD_SHARE
        (process.hold if is_held else process.kill)()
        time.sleep(seconds)
        (process.release if is_held else process.start)()
        self.counts.held += is_held
        self.counts.outage_ms += round(seconds * 1000)
