"""The power of a machine: cut for its disk and its brokers, which end with it, and switched on again.

Rules of this file: the power goes in one of three ways: for the brokers and their disk in the same moment; for the disk
first, so that the brokers meet errors before their end; or with a certain call. When the style of the cuts is given,
the survivors are not drawn and the power goes in the first way, so that all unsynced bytes are lost for certain.
"""

import contextlib
import shutil
import time

import attrs

from pipeline_broker.node.admin_socket import ADMIN_NAME
from tests.tools.forgetful_mount import MountFailed

WAYS = ("at once", "at once", "disk first", "with a call")
DISK_FIRST_SECONDS = (0.0, 0.1)
CALLS = ("sync", "sync", "sync", "write", "sync directory", "rename", "create")
CALLS_BEFORE = (0, 60)
CALL_SECONDS_MAX = 1.0  # such a call need not come
POLL_SECONDS = 0.005
SYNC_DELAYS_SECONDS = (0.0, 0.002, 0.01)  # of a disk that takes its time, more is at risk


@attrs.define(slots=False)  # another class of counts inherits it beside a second one
class CutLosses:
    """The bytes and names that the cuts took and left."""

    bytes_at_risk: int = 0
    names_at_risk: int = 0
    bytes_kept: int = 0
    names_kept: int = 0

    def add(self, losses):
        """One cut."""
        for field in attrs.fields(CutLosses):
            setattr(self, field.name, getattr(self, field.name) + losses[field.name])


class Power:
    """See the module; `mount` is a ForgetfulMount, and `counts` are CutLosses."""

    def __init__(self, mount, broker, random, counts, style=None):
        self._mount = mount
        self._broker = broker
        self._random = random
        self._counts = counts
        self._style = style
        self._sync_delay_seconds = random.choice(SYNC_DELAYS_SECONDS)
        self._slow_down()

    def cut_after(self, seconds, ways=WAYS):
        """The power goes, in one of the ways, and comes back; the brokers have ended."""
        way = self._random.choice(ways) if self._style is None else "at once"
        if way == "with a call":
            self._cut_with_a_call()
        else:
            time.sleep(seconds)
            self._cut(suspends_first=way == "at once")
        self._broker.kill()
        self._mount.ask("clear_faults")
        self._slow_down()
        self._mount.power_on()

    @contextlib.contextmanager
    def copying_on_failure(self):
        """Keep a copy of the data directory if the block fails."""
        try:
            yield
        except Exception:
            with contextlib.suppress(OSError, shutil.Error, MountFailed):  # the report is about the failure itself
                self._mount.power_on()
                ignored = shutil.ignore_patterns(ADMIN_NAME, "*.socket")
                target = self._broker.directory / "data"
                shutil.copytree(self._broker.data, target, ignore=ignored, dirs_exist_ok=True)
            raise

    def _slow_down(self):
        if self._sync_delay_seconds:
            self._mount.add_fault("sync", delay_seconds=self._sync_delay_seconds)

    def _cut(self, *, suspends_first):
        seed = self._random.random()
        if suspends_first:
            self._broker.suspend()
        self._counts.add(attrs.asdict(self._mount.cut(seed, self._style)))
        if not suspends_first:
            time.sleep(self._random.uniform(*DISK_FIRST_SECONDS))

    def _cut_with_a_call(self):
        call, number = self._random.choice(CALLS), self._random.randint(*CALLS_BEFORE)
        self._mount.add_fault(call, "*", cut_seed=self._random.randrange(2**32), skip_count=number)
        deadline = time.monotonic() + CALL_SECONDS_MAX
        while (losses := self._mount.ask("losses")) is None and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)
        if losses is None:
            self._cut(suspends_first=True)
        else:
            self._counts.add(losses)
