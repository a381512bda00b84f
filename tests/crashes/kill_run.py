"""A run: one broker's data directory through several kills under load, and what must be left after each.

Rules of this file: a run is drawn from its seed: modes, flush, loads, the moments of the kills. (The operating system's
schedule is not, so a seed repeats the run and not its interleaving.) A run ends at the first violation, with its data
directory left behind. How a broker is ended is for a subclass to change.
"""

import random
import shutil

import attrs

from tests.crashes.producers import ConfluentProducer
from tests.crashes.read_back import read_with_confluent, read_with_kafka_python
from tests.crashes.scene import PARTITIONS, Scene, Violated

MODES = ("classic", "pipelined")
FLUSHES = ("always", "always", "always", "os")
LOAD_SECONDS = (0.05, 0.6)
RECOVERY_KILL_SHARE = 0.3
RECOVERY_KILL_SECONDS = (0.0, 0.4)


@attrs.define
class Counts:
    """What a run went through."""

    kills: int = 0
    kills_in_recovery: int = 0
    acknowledged: int = 0
    read_back: int = 0


class KillRun(Scene):
    """See the module."""

    flushes = FLUSHES
    counts_type = Counts

    def __init__(self, seed, directory, variant=None, **options):
        if variant is None:
            variant = (None, "rolling")[seed // 2 % 2]
        super().__init__(seed, directory, variant=variant, **options)
        self.counts = self.counts_type()
        self._mode_index = seed

    def run(self, kills):
        """Go through so many kills under load, then a stop in order; raises Violated."""
        with self:
            self.callback(self._count)
            self.start(*self.draw_mode())
            self.prepare()
            confluent = ConfluentProducer(self.history, random.Random(self.random.random()), self.bootstrap, PARTITIONS)
            self.callback(confluent.end)
            for _ in range(kills):
                self._load_until_killed(confluent)
                self.recover()
                self._check()
            self._finish(confluent)
        shutil.rmtree(self.broker.directory)

    @property
    def bootstrap(self):
        """Where a client finds the broker, whichever it is."""
        return "{}:{}".format(*self.broker.address)

    def _count(self):
        self.counts.acknowledged = self.history.acknowledged_count

    def draw_mode(self):
        self._mode_index += 1
        return MODES[self._mode_index % len(MODES)], self.random.choice(self.flushes)

    def _load_until_killed(self, confluent):
        confluent.active.set()
        load = self.load()
        self.end_under_load(self.random.uniform(*LOAD_SECONDS))
        confluent.active.clear()
        load.join()
        self.counts.kills += 1

    def recover(self):
        """Start it again, and kill it once more now and then."""
        while self.random.random() < RECOVERY_KILL_SHARE:
            self._kill_in_recovery()
        self.start(*self.draw_mode())

    def _kill_in_recovery(self):
        self.broker.launch(*self.draw_mode())
        self.end_in_recovery(self.random.uniform(*RECOVERY_KILL_SECONDS))
        self.counts.kills_in_recovery += 1

    def end_under_load(self, seconds):
        """After so many seconds, while clients work."""
        self.broker.kill_after(seconds)

    def end_in_recovery(self, seconds):
        """After so many seconds of a start."""
        self.broker.kill_after(seconds)

    def _check(self):
        contents = self.verify()
        self.counts.read_back += sum(map(len, contents.records.values()))
        return contents

    def _finish(self, confluent):
        """Let the idempotent producers hear of everything, read with other clients, and stop and start in order."""
        self.resolve()
        confluent.finish()
        contents = self._check()
        for read in (read_with_confluent, read_with_kafka_python):
            if read(self.broker.address, contents.high_watermarks) != contents.records:
                raise Violated(f"{read.__name__} and our own client do not read the same")
        code = self.broker.stop()
        if code:
            raise Violated(f"SIGTERM ended the broker with {code}: {self.broker.stderr}")
        self.start(*self.draw_mode())
        self._check()
