"""Short garbage collections, so that no request waits for a full one.

A full collection visits every object while all clients wait, and a broker may hold millions. But requests and
connections leave no cycles (tests/hostile/test_garbage.py), so that it would find next to nothing. Therefore objects
that survive one collection are frozen, and the next visits only newer ones.
"""

from __future__ import annotations

import gc

__all__ = ["collect_only_new_objects", "shorten_collections"]

# Objects become garbage soon during startup: attrs makes a second class for each class and drops the first, which is a
# cycle. So few new objects are still in the processor's cache when a collection visits them.
NEW_OBJECTS_OF_A_START_MAX = 700
NEVER = 2**31 - 1
# New objects before a collection, which visits them in 1 to 3 ms. With 1,024 requests in flight most of them survive:
# three generations, which visit each object three times, took twice as long.
#
# Python subtracts freed objects, also older ones. A broker under load that frees as many as it allocates visits more in
# one collection: up to 30,000, in 10 to 29 ms, every few seconds. Fewer new objects do not help. Measured twice in 10 s
# of full load: with 2,500, 83 and 113 collections took 0.23 s, 9 and 6 of them above 5 ms. With 10,000, 10 and 11
# collections took 0.09 s, 4 and 5 of them above 5 ms.
NEW_OBJECTS_MAX = 10_000


def collect_only_new_objects() -> None:
    """Set up short collections for the startup, which visit no imported object."""
    gc.freeze()
    gc.set_threshold(NEW_OBJECTS_OF_A_START_MAX, NEVER, NEVER)


def shorten_collections() -> None:
    """Set up short collections for the rest of the process, which freeze the surviving objects."""
    gc.freeze()
    gc.set_threshold(NEW_OBJECTS_MAX, NEVER, NEVER)
    gc.callbacks.append(_keep_survivors)


def _keep_survivors(phase: str, info: dict[str, int]) -> None:
    del info
    if phase == "stop":
        gc.freeze()
