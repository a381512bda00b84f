"""A run of power cuts: one data directory on a disk that forgets what was not synced, through several cuts under load.

Rules of this file: a run is drawn from its seed, as a run of kills is. The power goes in one of three ways: for the
broker and its disk in the same moment; for the disk first, so that the broker meets errors before its end; or with a
certain call. When the style of the cuts is given, what survives is not drawn and the power goes in the first way, so
that what nobody synced is lost for certain. What a client hears between the disk's end and the broker's may be an error
of storage; an acknowledgement counts like any other. A violation leaves a copy of the data directory behind.
"""

import contextlib
import os
import shutil
import signal
import time

import attrs

from pipeline_broker.node.admin_socket import ADMIN_NAME
from tests.crashes.kill_run import Counts, KillRun
from tests.tools.forgetful_mount import MountFailed

FLUSHES = ("always",)
WAYS = ("at once", "at once", "disk first", "with a call")
DISK_FIRST_SECONDS = (0.0, 0.1)
CALLS = ("sync", "sync", "sync", "write", "sync directory", "rename", "create")
CALLS_BEFORE = (0, 60)
CALL_SECONDS_MAX = 1.0  # such a call need not come
POLL_SECONDS = 0.005
SYNC_DELAYS_SECONDS = (0.0, 0.002, 0.01)  # of a disk that takes its time, more is at risk


@attrs.define
class CutCounts(Counts):
    """What the cuts took and left, beside what a run of kills counts (its kills are the cuts)."""

    bytes_at_risk: int = 0
    names_at_risk: int = 0
    bytes_kept: int = 0
    names_kept: int = 0

    def add(self, losses):
        """One cut."""
        self.bytes_at_risk += losses["bytes_at_risk"]
        self.names_at_risk += losses["names_at_risk"]
        self.bytes_kept += losses["bytes_kept"]
        self.names_kept += losses["names_kept"]


class PowerCutRun(KillRun):
    """See the module; `mount` is a ForgetfulMount."""

    flushes = FLUSHES
    counts_type = CutCounts

    def __init__(self, seed, directory, mount, *, flush="always", style=None, **options):
        super().__init__(seed, directory, data=mount.path / "data", **options)
        self.flushes = (flush,)
        self._mount = mount
        self._style = style
        self._sync_delay_seconds = self.random.choice(SYNC_DELAYS_SECONDS)

    def run(self, cuts):
        """As KillRun.run."""
        self._slow_down()
        try:
            super().run(cuts)
        except Exception:
            with contextlib.suppress(OSError, shutil.Error, MountFailed):  # the failure itself is told, not this one
                self._mount.power_on()
                shutil.copytree(
                    self.broker.data,
                    self.broker.directory / "data",
                    ignore=shutil.ignore_patterns(ADMIN_NAME),
                    dirs_exist_ok=True,
                )
            raise

    def end_under_load(self, seconds):
        """See KillRun."""
        way = self.random.choice(WAYS) if self._style is None else "at once"
        if way == "with a call":
            self._cut_with_a_call()
        else:
            time.sleep(seconds)
            self._cut(stops_first=way == "at once")
        self._end()

    def end_in_recovery(self, seconds):
        """See KillRun."""
        time.sleep(seconds)
        self._cut(stops_first=self.random.random() < 0.5)
        self._end()

    def _slow_down(self):
        if self._sync_delay_seconds:
            self._mount.add_fault("sync", delay_seconds=self._sync_delay_seconds)

    def _cut(self, *, stops_first):
        seed = self.random.random()
        if stops_first and self.broker.process.poll() is None:
            os.killpg(self.broker.process.pid, signal.SIGSTOP)
        self.counts.add(attrs.asdict(self._mount.cut(seed, self._style)))
        if not stops_first:
            time.sleep(self.random.uniform(*DISK_FIRST_SECONDS))

    def _cut_with_a_call(self):
        call, number = self.random.choice(CALLS), self.random.randint(*CALLS_BEFORE)
        self._mount.add_fault(call, "*", cut_seed=self.random.randrange(2**32), skip_count=number)
        deadline = time.monotonic() + CALL_SECONDS_MAX
        while (losses := self._mount.ask("losses")) is None and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)
        if losses is None:
            self._cut(stops_first=True)
        else:
            self.counts.add(losses)

    def _end(self):
        """The broker goes with the power, and the power comes back."""
        self.broker.kill()
        self._mount.ask("clear_faults")
        self._slow_down()
        self._mount.power_on()

    def verify(self):
        """As Scene.verify, of a disk that was without power."""
        self.forgive_storage_errors()
        return super().verify()
