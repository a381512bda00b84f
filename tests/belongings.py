"""What a test process holds open: descriptors, threads, child processes. A test gives back all that it took.

Rules: what librdkafka, Trio and the like end on threads of their own ends a moment later, and what is in a cycle of
objects with the next search for garbage: only what is still there after both was left behind. Trio's idle threads are
kept for the next that needs one, and end by themselves. Threads count by their names: a broker that several tests share
has others after it was put back. Pipes do not count, because librdkafka's threads make some at any time.
"""

import gc
import os
import threading
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import attrs

WAIT_SECONDS_MAX = 5.0
IDLE_THREAD = "Trio thread "
PROC = "/proc/self"


@attrs.frozen
class Belongings:
    """Numbers of descriptors, names of threads, and ids of child processes, with words for each."""

    descriptors: frozenset[int]
    threads: Counter[str]
    children: frozenset[int]

    def others(self, before):
        """What was not there before."""
        descriptors = {number for number in self.descriptors - before.descriptors if not is_pipe(number)}
        return Belongings(frozenset(descriptors), self.threads - before.threads, self.children - before.children)

    def __bool__(self):
        return bool(self.descriptors or self.threads or self.children)

    def __str__(self):
        words = [f"descriptor {number} of {link_of(number)}" for number in sorted(self.descriptors)]
        words += [f"thread {name}" for name in self.threads.elements()]
        words += [f"process {child}: {command_of(child)}" for child in sorted(self.children)]
        return ", ".join(words)


def belongings():
    """What this process holds now; asked around every test, so in as few steps as there can be."""
    children = []
    for task in os.listdir(f"{PROC}/task"):
        with suppress(OSError), open(f"{PROC}/task/{task}/children", encoding="ascii") as file:  # else it has ended
            children += map(int, file.read().split())
    threads = Counter(thread.name for thread in threading.enumerate() if not thread.name.startswith(IDLE_THREAD))
    listed = map(int, os.listdir(f"{PROC}/fd"))
    return Belongings(frozenset(filter(is_open, listed)), threads, frozenset(children))


def is_open(descriptor):
    """Whether it is, which that is not by which they were listed."""
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


def left_behind(before, seconds_max=WAIT_SECONDS_MAX):
    """What was not there before and stays."""
    if belongings().others(before):
        gc.collect()
    deadline = time.monotonic() + seconds_max
    while (left := belongings().others(before)) and time.monotonic() < deadline:
        time.sleep(0.02)
    return left


def link_of(descriptor):
    try:
        return os.readlink(f"{PROC}/fd/{descriptor}")
    except FileNotFoundError:
        return "what is closed now"


def is_pipe(descriptor):
    return link_of(descriptor).startswith("pipe:")


def command_of(process):
    try:
        return Path(f"/proc/{process}/cmdline").read_text().replace("\0", " ") or "has ended, but nobody waited for it"
    except (FileNotFoundError, ProcessLookupError):
        return "has ended"
