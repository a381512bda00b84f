"""Resources of the test process: descriptors, threads and child processes. A test must release all that it acquires.

Some resources disappear with a delay: librdkafka and Trio end things in their own threads, and reference cycles need a
garbage collection. Only resources that survive both count as leaked.

* Trio keeps idle threads for a moment, so they do not count.
* Threads and descriptors count by identity, not by number: a shared broker has others after it was reset.
* Pipes do not count: librdkafka creates them at any time.
* Parents of forks (`tests/forks.py`) do not count; their forks count in their place.
* A worker process of a broker ends when it is idle, or with its broker (tests/node/test_worker_process.py).
"""

import gc
import os
import re
import threading
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import attrs

from tests.forks import PARENTS

IDLE_THREAD = "Trio thread "
WORKER = "pipeline_broker.worker.child"
PROC = "/proc/self"
INODE = re.compile(r"\[\d+\]$")


@attrs.frozen
class Belongings:
    """Targets of descriptors, names of threads, and ids of child processes, with a description of each."""

    descriptors: Counter[str]
    threads: Counter[str]
    children: frozenset[int]

    def others(self, before):
        """Return the resources that are not in `before`."""
        return Belongings(
            self.descriptors - before.descriptors, self.threads - before.threads, self.children - before.children
        )

    def __bool__(self):
        return bool(self.descriptors or self.threads or self.children)

    def __str__(self):
        words = [f"descriptor of {target}" for target in sorted(self.descriptors.elements())]
        words += [f"thread {name}" for name in self.threads.elements()]
        words += [f"process {child}: {command_of(child)}" for child in sorted(self.children)]
        return ", ".join(words)


def belongings():
    """Return the current resources of this process. Runs around every test, so it must be fast."""
    children = children_of("self")
    for parent in PARENTS:
        if parent.pid in children:
            children.remove(parent.pid)
            children += children_of(parent.pid)
    children = [child for child in children if WORKER not in command_of(child)]
    threads = Counter(thread.name for thread in threading.enumerate() if not thread.name.startswith(IDLE_THREAD))
    targets = map(target_of, os.listdir(f"{PROC}/fd"))
    descriptors = Counter(target for target in targets if target and not target.startswith("pipe:"))
    return Belongings(descriptors, threads, frozenset(children))


def children_of(process):
    children = []
    for task in os.listdir(f"/proc/{process}/task"):  # a child may end at the same time
        with suppress(OSError), open(f"/proc/{process}/task/{task}/children", encoding="ascii") as file:
            children += map(int, file.read().split())
    return children


def target_of(descriptor):
    """Return the target of a descriptor without the inode number; None if it is closed."""
    try:
        return INODE.sub("", os.readlink(f"{PROC}/fd/{descriptor}"))
    except FileNotFoundError:
        return None


def left_behind(before, seconds_max):
    """Return the new resources that remain after a grace period."""
    deadline = time.monotonic() + seconds_max
    while (left := belongings().others(before)) and time.monotonic() < deadline:
        if not gc.collect():  # in each round: a thread that ends leaves reference cycles
            time.sleep(0.02)
    return left


def command_of(process):
    try:
        return (
            Path(f"/proc/{process}/cmdline").read_text().replace("\0", " ") or "is a zombie: its exit was not awaited"
        )
    except (FileNotFoundError, ProcessLookupError):
        return "has ended"
