"""The fixed sequence of deeds, killed at one operation of the broker's file system, started again and checked.

Rules of this file: a point is an operation, its number and when (see `killing_files.py`); a run without a point counts
what there is. How the operations of the archiver's threads fall between those of the deeds is the system's choice, so
a point late in the sequence may not be reached: then the run is one without a kill, and counts as that.
"""

import collections
import contextlib
import itertools
import random
import shutil

import attrs

from tests.crashes.broker_under_test import BrokerUnderTest, StartFailed
from tests.crashes.deeds import SETTINGS, Deeds
from tests.crashes.killing_files import AFTER, BEFORE, HALF, KILL_AT, OPERATIONS_LOG, kill_at
from tests.free_ports import free_port

VARIANT = "counting"
MODES = ("pipelined", "classic")
KILLS_IN_RECOVERY = ("sync", "sync directory", "write", "truncate", "unlink", "rename", "create", "make directory")
NUMBERS_IN_RECOVERY = (1, 3)
RECOVERY_KILL_SHARE = 0.5


@attrs.define
class PointCounts:
    """What a run went through."""

    kills: int = 0
    not_reached: int = 0
    kills_in_recovery: int = 0
    compared: int = 0


def points_of(counts):
    """Every point, from the number of operations of each kind."""
    for operation, count in sorted(counts.items()):
        times = {"write": (BEFORE, HALF), "sync": (BEFORE, AFTER)}.get(operation, (BEFORE,))
        for number, when in itertools.product(range(1, count + 1), times):
            yield operation, number, when


class PointRun:
    """One run; its directory goes when it went well."""

    def __init__(self, directory, point=None, *, variant=VARIANT, prefix=()):
        self.log = directory / "operations"
        self.point = point
        self.counts = PointCounts()
        self.broker = BrokerUnderTest(
            directory,
            free_port(),
            settings=SETTINGS,
            variant=variant,
            prefix=prefix,
            environment={OPERATIONS_LOG: str(self.log)},
        )
        self._random = random.Random(str(point))
        self._mode = self._random.choice(MODES)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.broker.kill()

    def operations(self):
        """[(operation, path)] of all starts so far."""
        lines = self.log.read_text(encoding="utf-8").splitlines()
        return [(line.split()[0].replace("-", " "), line.partition(" ")[2]) for line in lines]

    def count(self):
        """Do the deeds without a kill; gives how many operations of each kind there were, the end in order included."""
        deeds = self._deeds()
        self.broker.start(self._mode, "always")
        assert deeds.run()
        self._finish(deeds)
        return collections.Counter(operation for operation, _ in self.operations())

    def run(self):
        """Do the deeds until the kill, then start again, perhaps with a kill on the way, and check."""
        deeds = self._deeds()
        with self._killing(*self.point), contextlib.suppress(StartFailed):
            self.broker.start(self._mode, "always")
            if deeds.run():
                self.broker.stop()  # the point may be one of the end
            else:
                self.broker.wait()
        self.broker.kill()
        was_reached = self._was_reached()
        self.counts.kills, self.counts.not_reached = int(was_reached), int(not was_reached)
        self._start_again()
        self._finish(deeds)
        shutil.rmtree(self.broker.directory)

    def _was_reached(self):
        operation, number, _ = self.point
        return sum(found == operation for found, _ in self.operations()) >= number

    def _start_again(self):
        if self._random.random() < RECOVERY_KILL_SHARE:
            victim = self._random.choice(KILLS_IN_RECOVERY), self._random.randint(*NUMBERS_IN_RECOVERY)
            with self._killing(*victim, BEFORE), contextlib.suppress(StartFailed):
                self.broker.start(self._mode, "always")
            self.broker.kill()  # where the start did not come to that
            self.counts.kills_in_recovery += 1
        self.broker.start(self._mode, "always")

    def _finish(self, deeds):
        self.counts.compared += deeds.verify()
        deeds.write_everywhere()
        self.counts.compared += deeds.verify()
        code = self.broker.stop()
        assert code == 0, f"SIGTERM ended the broker with {code}: {self.broker.stderr}"

    def _deeds(self):
        return Deeds(self._random, self.broker.address, self.broker.data)

    @contextlib.contextmanager
    def _killing(self, operation, number, when):
        self.broker.environment[KILL_AT] = kill_at(operation, number, when)
        try:
            yield
        finally:
            del self.broker.environment[KILL_AT]
