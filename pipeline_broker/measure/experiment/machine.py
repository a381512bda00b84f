"""The machine and the software of an experiment, and the load of other programs on the machine.

It needs the standard library only, and records no host or user names.
"""

import contextlib
import os
import platform
import subprocess
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Self

from pipeline_broker._package_check import commit

_STAT = Path("/proc/stat")
_STEAL = 7
"""Index of "steal" in /proc/stat: time that the hypervisor gave to other machines. Fields 0 to 7 add up to all time."""


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
    """The load of the machine around a block; values that the system does not report are None."""

    def __init__(self) -> None:
        self._before: float | None = None
        self._after: float | None = None
        self._times: tuple[int, ...] = ()
        self._steal_share: float | None = None

    def __enter__(self) -> Self:
        self._before, self._times = _load_average(), _processor_times()
        return self

    def __exit__(self, *exception: object) -> None:
        self._after = _load_average()
        self._steal_share = steal_share(self._times, _processor_times())

    def describe(self) -> dict[str, float | None]:
        """Return the load averages of one minute, and the share of processor time given to other machines."""
        return {
            "load_average_before": self._before,
            "load_average_after": self._after,
            "steal_share": self._steal_share,
        }


def steal_share(before: tuple[int, ...], after: tuple[int, ...]) -> float | None:
    """Return the share of processor time that the hypervisor gave to other machines between two readings.

    Returns:
        None if the system does not report it, or no time has passed.
    """
    if min(len(before), len(after)) <= _STEAL:
        return None
    spent = [late - early for early, late in zip(before[: _STEAL + 1], after[: _STEAL + 1], strict=True)]
    return round(max(0, spent[_STEAL]) / sum(spent), 4) if sum(spent) > 0 else None


def _load_average() -> float | None:
    try:
        return round(os.getloadavg()[0], 2)
    except OSError:
        return None


def _processor_times() -> tuple[int, ...]:
    """Return the first line of /proc/stat: ticks of all cores.

    The fields are user, nice, system, idle, iowait, irq, softirq and steal; later ones are already part of these.
    """
    try:
        line = _STAT.read_text(encoding="utf-8").partition("\n")[0]
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
