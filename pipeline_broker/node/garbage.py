"""Python's garbage collector, in steps so short that no request waits for it.

Rules of this room: a full collection walks every object, while all clients wait, and a broker may hold millions. But
requests and connections leave no cycles (tests/hostile/test_garbage.py), so there is next to nothing to find. What
survives one full collection is therefore not walked again: the next one walks only what came after it.
"""

from __future__ import annotations

import gc

__all__ = ["shorten_collections"]

NEW_OBJECTS_MAX = 20_000
"""New objects before the youngest are looked at: some thousands of requests are in flight. The objects of a start are
no garbage either, which is why a start calls this before its imports."""
YOUNG_COLLECTIONS_MAX = 10
MIDDLE_COLLECTIONS_MAX = 1
"""With those above: about 440,000 new objects that stay before a full collection, which walks them in about 40 ms."""
FULL_GENERATION = 2


def shorten_collections() -> None:
    """Have each full collection of this process walk only the objects that came after the one before."""
    gc.set_threshold(NEW_OBJECTS_MAX, YOUNG_COLLECTIONS_MAX, MIDDLE_COLLECTIONS_MAX)
    gc.callbacks.append(_keep_survivors)


def _keep_survivors(phase: str, info: dict[str, int]) -> None:
    if phase == "stop" and info["generation"] == FULL_GENERATION:
        gc.freeze()
