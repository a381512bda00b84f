"""The machine and the software of an experiment, and the time that other programs of the machine took.

It needs the standard library only, and records no host or user names.
"""

import contextlib
import os
import platform
import subprocess
from collections.abc import Iterable
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Self

from pipeline_broker._package_check import commit

_PROC = Path("/proc")
_STEAL = 7
"""Index of "steal" in /proc/stat: time that the hypervisor gave to other machines. Fields 0 to 7 add up to all time."""
_KERNEL = "2 (kthreadd) "
"""Start of the stat of the kernel's process, whose children are its threads. They write and send for the experiment."""


def describe_machine() -> dict[str, str | int]:
    return {
        "cpu": _cpu_name(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 0,
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
    }


PACKAGES = ("pipeline-broker", "trio", "confluent-kafka", "pyspark")
"""Packages whose version may affect the results."""
_ROOT = Path(__file__).parents[3]
_GIT_SECONDS_MAX = 10.0


def describe_software() -> dict[str, str]:
    found = {"date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"), "commit": commit() or source_commit(_ROOT)}
    for name in PACKAGES:
        with contextlib.suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return {name: value for name, value in found.items() if value}


def source_commit(root: Path) -> str:
    """Return the commit of a checkout, with `-changed` if its files differ.

    Returns:
        an empty text if `root` is not a checkout or Git fails.
    """
    if not (root / ".git").exists():
        return ""
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        found = subprocess.run(  # noqa: S603 - no part of it is user input
            ["git", "-C", str(root), "describe", "--always", "--abbrev=12", "--exclude=*", "--dirty=-changed"],  # noqa: S607 - the user's own Git
            capture_output=True,
            text=True,
            check=True,
            timeout=_GIT_SECONDS_MAX,
        )
        return found.stdout.strip()
    return ""


class Surroundings:
    """The shares of processor time that others took during a block; those that the system does not report are None.

    Args:
        proc: where the system shows its processes (proc(5)).
    """

    def __init__(self, proc: Path = _PROC) -> None:
        self._proc = proc
        self._times: tuple[int, ...] = ()
        self._others: int | None = None
        self._steal_share: float | None = None
        self._others_share: float | None = None

    def __enter__(self) -> Self:
        self._others, self._times = _ticks_of_others(self._proc), _processor_times(self._proc)
        return self

    def __exit__(self, *exception: object) -> None:
        # In the same order as before the block: the walk over all processes takes as long as a short block.
        others, times = _ticks_of_others(self._proc), _processor_times(self._proc)
        self._steal_share = steal_share(self._times, times)
        if self._others is not None and others is not None:
            self._others_share = _share(others - self._others, self._times, times)

    def describe(self) -> dict[str, float | None]:
        """Return the shares of other processes of this machine, and of other machines of the hypervisor."""
        return {"others_share": self._others_share, "steal_share": self._steal_share}


def steal_share(before: tuple[int, ...], after: tuple[int, ...]) -> float | None:
    """Return the share of processor time that the hypervisor gave to other machines between two readings.

    Returns:
        None if the system does not report it, or no time has passed.
    """
    if min(len(before), len(after)) <= _STEAL:
        return None
    return _share(after[_STEAL] - before[_STEAL], before, after)


def _share(ticks: int, before: tuple[int, ...], after: tuple[int, ...]) -> float | None:
    spent = sum(after[: _STEAL + 1]) - sum(before[: _STEAL + 1])
    # Processes end during the two walks, so their ticks can exceed the time of all cores.
    return round(min(1.0, max(0, ticks) / spent), 4) if spent > 0 else None


def ticks_of_others(stats: Iterable[str], ours: int) -> int:
    """Return the processor time, in ticks, of all processes that are not below a process and not of the kernel.

    The time of ended children is part of their parent's, so processes that began and ended between two readings count.

    Args:
        stats: contents of `/proc/PID/stat` (proc_pid_stat(5)).
        ours: number of a process.
    """
    parents, ticks = {}, {}
    left_out = {ours}
    for text in stats:
        number, _, rest = text.partition(" ")
        words = rest.rpartition(")")[2].split()  # a name may contain blanks and parentheses
        parents[int(number)], ticks[int(number)] = int(words[1]), sum(map(int, words[11:15]))
        if text.startswith(_KERNEL):  # a container has another process of this number
            left_out.add(int(number))
    while found := {number for number, parent in parents.items() if parent in left_out} - left_out:
        left_out |= found
    return sum(spent for number, spent in ticks.items() if number not in left_out)


def _ticks_of_others(proc: Path) -> int | None:
    stats = []
    for path in proc.glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # the process has ended
            stats.append(path.read_text(encoding="utf-8", errors="replace"))
    return ticks_of_others(stats, os.getpid()) if stats else None


def _processor_times(proc: Path) -> tuple[int, ...]:
    """Return the first line of /proc/stat: ticks of all cores.

    The fields are user, nice, system, idle, iowait, irq, softirq and steal; later ones are already part of these.
    """
    try:
        line = (proc / "stat").read_text(encoding="utf-8").partition("\n")[0]
    except OSError:
        return ()
    return tuple(int(word) for word in line.split()[1:])


def _cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())
