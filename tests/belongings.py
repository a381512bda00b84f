"""What a test process holds open: descriptors, threads, child processes. A test gives back all that it took.

Rules: what librdkafka, Trio and the like end on threads of their own ends a moment later, and what is in a cycle of
objects with the next search for garbage: only what is still there after both was left behind, in whatever order. Trio's
idle threads are kept for the next that needs one, and end by themselves. Threads and descriptors count by what they
are, not by number: a broker that several tests share has others after it was put back. Pipes do not count: librdkafka
makes them at any time. Parents of forks (`tests/forks.py`) stay, and what they have forked counts in their place. A
worker process of a broker ends when it is idle, or with its broker (tests/node/test_worker_process.py).
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
    """What descriptors lead to, names of threads, and ids of child processes, with words for each."""

    descriptors: Counter[str]
    threads: Counter[str]
    children: frozenset[int]

    def others(self, before):
        """What was not there before."""
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
    """What this process holds now; asked around every test, so in as few steps as there can be."""
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
    """The processes that it started."""
    children = []
    for task in os.listdir(f"/proc/{process}/task"):  # one of them may end meanwhile
        with suppress(OSError), open(f"/proc/{process}/task/{task}/children", encoding="ascii") as file:
            children += map(int, file.read().split())
    return children


def target_of(descriptor):
    """What a descriptor leads to, without the number of its inode; None of one that is closed by now."""
    try:
        return INODE.sub("", os.readlink(f"{PROC}/fd/{descriptor}"))
    except FileNotFoundError:
        return None


def left_behind(before, seconds_max):
    """What was not there before and stays so long."""
    deadline = time.monotonic() + seconds_max
    while (left := belongings().others(before)) and time.monotonic() < deadline:
        if not gc.collect():  # each time: a thread that ends leaves cycles of what it knew
            time.sleep(0.02)
    return left


def command_of(process):
    try:
        return Path(f"/proc/{process}/cmdline").read_text().replace("\0", " ") or "has ended, but nobody waited for it"
    except (FileNotFoundError, ProcessLookupError):
        return "has ended"
