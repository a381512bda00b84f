"""Python's garbage collector, in steps so short that no request waits for it.

Rules of this room: a full collection walks every object, while all clients wait, and a broker may hold millions. But
requests and connections leave no cycles (tests/hostile/test_garbage.py), so there is next to nothing to find. What
survives one full collection is therefore not walked again: the next one walks only what came after it.
"""

from __future__ import annotations

import gc

__all__ = ["collect_only_new_objects", "shorten_collections"]

NEW_OBJECTS_OF_A_START_MAX = 700
"""The garbage of a start is young: for each class, attrs makes a second one and drops the first, which is a cycle. So
few new objects are walked while they are in the processor's cache."""
NEVER = 2**31 - 1
NEW_OBJECTS_MAX = 10_000
"""New objects before the youngest are looked at: with 1,024 requests in flight, 5,000 took 8 % of the rate."""
YOUNG_COLLECTIONS_MAX = 0
MIDDLE_COLLECTIONS_MAX = 0
"""With those above: about 30,000 new objects that stay before a full collection, which walks them in 2 to 5 ms."""
FULL_GENERATION = 2


def collect_only_new_objects() -> None:
    """Have collections find the garbage of a start and walk nothing twice: what is imported stays."""
    gc.freeze()
    gc.set_threshold(NEW_OBJECTS_OF_A_START_MAX, NEVER, NEVER)


def shorten_collections() -> None:
    """Have each full collection of this process walk only what comes from now on, or after the one before."""
    gc.freeze()
    gc.set_threshold(NEW_OBJECTS_MAX, YOUNG_COLLECTIONS_MAX, MIDDLE_COLLECTIONS_MAX)
    gc.callbacks.append(_keep_survivors)


def _keep_survivors(phase: str, info: dict[str, int]) -> None:
    if phase == "stop" and info["generation"] == FULL_GENERATION:
        gc.freeze()
