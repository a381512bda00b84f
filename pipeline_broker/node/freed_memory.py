"""Returning freed memory to the operating system.

The C library keeps freed small blocks for later allocations. After many clients have left, these may be as large as the
memory budget of the edges.
"""

from __future__ import annotations

import contextlib
import ctypes

import trio

from pipeline_broker.base.byte_budget import ByteBudget

__all__ = ["return_regularly"]

CHECK_SECONDS = 1.0
# `malloc_trim` searches all free blocks, about a millisecond for ten megabytes. Less freed memory is not worth it.
FREED_BYTES_MIN = 16 << 20


async def return_regularly(edges: ByteBudget) -> None:
    returned = 0
    while True:
        await trio.sleep(CHECK_SECONDS)
        if edges.freed_bytes - returned >= FREED_BYTES_MIN:
            returned = edges.freed_bytes
            await trio.to_thread.run_sync(_trim)


def _trim() -> None:
    with contextlib.suppress(AttributeError):  # only glibc has it
        ctypes.CDLL(None).malloc_trim(0)
