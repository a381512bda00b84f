"""How large a broker is, sampled while it works, and whether it stays so.

Rules of this file: sizes are those of the process and of its data directory. The first third of a run is warm-up. What
is asked for then: the median of the last third is at most `GROWTH_MAX` times that of the middle third, plus a margin.
"""

import os
import statistics
import threading
import time
from pathlib import Path

import attrs

INTERVAL_SECONDS = 2.0
SETTLING_SECONDS = 3.0
"""After a start, before it is sampled."""
GROWTH_MAX = 1.15
MARGINS = {"resident_bytes": 8 << 20, "descriptors": 5, "threads": 16, "disk_bytes": 8 << 20}
"""Threads of work that may block are kept for ten seconds, and on a busy machine more of them overlap: 5 and then 12 of
them are no leak, which would have no end.
"""


@attrs.frozen
class Sample:
    """One look at it."""

    at_seconds: float
    resident_bytes: int
    descriptors: int
    threads: int
    disk_bytes: int


def take_sample(process_id, directory, at_seconds):
    """Raises OSError when it has ended meanwhile."""
    process = Path(f"/proc/{process_id}")
    status = dict(
        line.split(":", 1) for line in (process / "status").read_text(encoding="ascii").splitlines() if ":" in line
    )
    if "VmRSS" not in status:
        raise ProcessLookupError(process_id)
    return Sample(
        at_seconds,
        int(status["VmRSS"].split()[0]) << 10,
        len(os.listdir(process / "fd")),  # noqa: PTH208 - names only
        int(status["Threads"]),
        disk_bytes(directory),
    )


def disk_bytes(directory):
    """What the files take, those left out that go in this moment."""
    total = 0
    for folder, _, names in os.walk(directory):
        for name in names:
            try:
                total += (Path(folder) / name).lstat().st_blocks * 512
            except FileNotFoundError:
                continue
    return total


class Sampler:
    """Samples the process that `working` names; nothing while it names none."""

    def __init__(self, directory):
        self.samples = []
        self._directory = directory
        self._working = None
        self._ended = threading.Event()
        self._began = time.monotonic()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def works(self, process_id):
        """A broker has been started."""
        self._working = process_id, time.monotonic() + SETTLING_SECONDS

    def rests(self):
        """It is about to end."""
        self._working = None

    def close(self):
        self._ended.set()
        self._thread.join()

    def _run(self):
        while not self._ended.wait(INTERVAL_SECONDS):
            working = self._working
            if working is None or time.monotonic() < working[1]:
                continue
            try:
                sample = take_sample(working[0], self._directory, time.monotonic() - self._began)
            except OSError:
                continue
            if self._working is working:
                self.samples.append(sample)


def medians(samples, seconds):
    """Measure -> (median of the middle third, of the last third)."""
    middle = [sample for sample in samples if seconds / 3 <= sample.at_seconds < 2 * seconds / 3]
    last = [sample for sample in samples if sample.at_seconds >= 2 * seconds / 3]
    return {
        name: tuple(statistics.median(getattr(sample, name) for sample in third) for third in (middle, last))
        for name in MARGINS
    }


def growth(found):
    """Each measure that grew, as a text."""
    return [
        f"{name} grew from {middle} to {last}"
        for name, (middle, last) in found.items()
        if last > GROWTH_MAX * middle + MARGINS[name]
    ]
