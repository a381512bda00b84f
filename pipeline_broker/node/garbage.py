"""Python's garbage collector, in steps so short that no request waits for it.

Rules of this room: a full collection walks every object, while all clients wait, and a broker may hold millions. But
requests and connections leave no cycles (tests/hostile/test_garbage.py), so there is next to nothing to find. What
survives one collection is therefore not walked again: the next one walks only what came after it.
"""

from __future__ import annotations

import gc

__all__ = ["collect_only_new_objects", "shorten_collections"]

NEW_OBJECTS_OF_A_START_MAX = 700
"""The garbage of a start is young: for each class, attrs makes a second one and drops the first, which is a cycle. So
few new objects are walked while they are in the processor's cache."""
NEVER = 2**31 - 1
NEW_OBJECTS_MAX = 10_000
"""New objects before a collection, which walks them in 1 to 3 ms. With 1,024 requests in flight most of them live on:
to look at each of them three times took twice the time.

Python counts those that end against those that begin, also older ones. Where a broker under load keeps as many as it
lets go of, a collection walks more than these: up to 30,000, in 10 to 29 ms, once in some seconds. To begin sooner
does not help: after 2,500 there were 83 and 113 collections in 10 s of full load, for 0.23 s, and 9 and 6 above 5 ms;
after 10,000 there are 10 and 11, for 0.09 s, and 4 and 5 above.
"""


def collect_only_new_objects() -> None:
    """Have collections find the garbage of a start and walk nothing twice: what is imported stays."""
    gc.freeze()
    gc.set_threshold(NEW_OBJECTS_OF_A_START_MAX, NEVER, NEVER)


def shorten_collections() -> None:
    """Have each collection of this process walk only what comes from now on, or after the one before."""
    gc.freeze()
    gc.set_threshold(NEW_OBJECTS_MAX, NEVER, NEVER)
    gc.callbacks.append(_keep_survivors)


def _keep_survivors(phase: str, info: dict[str, int]) -> None:
    del info
    if phase == "stop":
        gc.freeze()
