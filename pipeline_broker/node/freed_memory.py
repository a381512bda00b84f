"""Return freed memory to the system.

The C library keeps what a process frees in small blocks, for the next that needs some. After a crowd of clients has
left, that may be all that the edges were allowed to keep.
"""

from __future__ import annotations

import contextlib
import ctypes

import trio

from pipeline_broker.base.byte_budget import ByteBudget

__all__ = ["return_regularly"]

LOOK_SECONDS = 1.0
FREED_BYTES_MIN = 16 << 20
"""Less than that is worth no look through the free blocks, which takes a millisecond for some ten megabytes."""


async def return_regularly(edges: ByteBudget) -> None:
    """Return memory to the system when the edges have let go of much, until cancelled."""
    returned = 0
    while True:
        await trio.sleep(LOOK_SECONDS)
        if edges.freed_bytes - returned >= FREED_BYTES_MIN:
            returned = edges.freed_bytes
            await trio.to_thread.run_sync(_trim)


def _trim() -> None:
    with contextlib.suppress(AttributeError):  # a C library of another kind
        ctypes.CDLL(None).malloc_trim(0)
