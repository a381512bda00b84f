"""A run of takeovers: the owner of a journal in a store is stopped under load, another goes on, and the owner wakes up.

Rules of this file: what was acknowledged by either is there afterwards, so an owner that acknowledges behind a takeover
is found as a lost record. Woken up, it ends by itself with exit code 3 and one line. Successors are standbys, or
processes that were just started, in turns of the dice; some are killed while they take over. Clients find a successor
at its own address, as on another machine.
"""

import random
import shutil
import time

import attrs

from tests.conftest import READY_SECONDS_MAX, read_line
from tests.crashes.broker_under_test import StartFailed
from tests.crashes.kill_run import LOAD_SECONDS, RECOVERY_KILL_SECONDS, RECOVERY_KILL_SHARE, Counts
from tests.crashes.on_objects.object_kill_run import ObjectKillRun
from tests.crashes.on_objects.takeover import another, stop, wait_until_ready, wake_up
from tests.crashes.producers import PlainProducer
from tests.crashes.scene import PARTITIONS, Load
from tests.free_ports import free_port

STANDBY_SHARE = 0.4
SESSION_SETTINGS = ("broker.session.timeout.ms=1500", "broker.heartbeat.interval.ms=300")
STANDING_BY = "standing by"
LATE_LOAD_SHARE = 0.5


@attrs.define
class ZombieCounts(Counts):
    """What the takeovers were, beside what a run of kills counts (its kills are the takeovers)."""

    by_standbys: int = 0


class ZombieRun(ObjectKillRun):
    """See the module."""

    counts_type = ZombieCounts
    answer_seconds_max = 50.0  # an owner that is stopped answers nothing until another one serves

    def __init__(self, seed, directory, store, **options):
        super().__init__(seed, directory, store, settings=SESSION_SETTINGS, **options)
        self._ports = (self.broker.port, free_port())
        self._brokers = 1
        self._successor = None

    @property
    def bootstrap(self):
        return ",".join(f"127.0.0.1:{port}" for port in self._ports)

    def load(self):
        """As Scene.load; a standby may look on."""
        self._successor = self._another("--standby") if self.random.random() < STANDBY_SHARE else None
        if self._successor is not None:
            self._launch(self._successor)
            if (said := read_line(self._successor.process, READY_SECONDS_MAX)) != STANDING_BY:
                raise StartFailed(f"a standby said {said!r}; on stderr:\n{self._successor.stderr}")
        return super().load()

    def resolve(self):
        """By the broker that is there."""
        super().load().stop()

    def end_under_load(self, seconds):
        """Stop the owner, have another go on, and wake it up."""
        time.sleep(seconds)
        zombie = self.broker
        stop(zombie)
        self.broker = self._take_over()
        if self.random.random() < LATE_LOAD_SHARE:
            self._load_the_successor()
        wake_up(zombie)

    def recover(self):
        """The successor serves already."""

    def _take_over(self):
        """A broker that serves where the owner cannot."""
        successor, self._successor = self._successor, None
        if successor is not None:
            self.counts.by_standbys += 1
        while successor is None:
            successor = self._another()
            self._launch(successor)
            if self.random.random() < RECOVERY_KILL_SHARE:
                successor.kill_after(self.random.uniform(*RECOVERY_KILL_SECONDS))
                shutil.rmtree(successor.data, ignore_errors=True)
                self.counts.kills_in_recovery += 1
                successor = None
        wait_until_ready(successor)
        successor.arguments = self.store.arguments
        return successor

    def _load_the_successor(self):
        """Others write there while the owner is held."""
        topic_ids = self.clients[0].topic_ids
        dice = random.Random(self.random.random())
        load = Load(self.broker.address, self.history, [PlainProducer(self.history, dice, topic_ids, PARTITIONS)])
        time.sleep(self.random.uniform(*LOAD_SECONDS))
        load.stop()

    def _another(self, *arguments):
        """A broker at the port that the owner does not have, on a machine of its own."""
        self._brokers += 1
        (port,) = set(self._ports) - {self.broker.port}
        directory = self.broker.directory.parent / f"broker-{self._brokers}"
        other = another(self.broker, port, directory, (*self.store.arguments, *arguments))
        self.callback(other.kill)
        return other

    def _launch(self, broker):
        broker.launch(*self.draw_mode())
