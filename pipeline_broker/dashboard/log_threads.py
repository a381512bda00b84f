"""Reading of logs for the pages, in one of few threads.

Rules of this file: on Trio; what costs no time is done on the event loop, and what may need the disk is given to a
thread, of which there are READERS_MAX for all viewers together. A viewer has a thread for TURN_SECONDS, then it is the
turn of the one that waits for longest: a short task waits for no long one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

import trio

from pipeline_broker.base.steps import Steps
from pipeline_broker.dashboard.newest_first import NewestFirstReader
from pipeline_broker.dashboard.record_reader import Chunk, Page, PageReader

__all__ = ["find_offsets", "log_threads", "read_page"]

READERS_MAX = 2
TURN_SECONDS = 0.02
"""Unless a single read of the disk, or a single decompression, takes longer."""


def log_threads() -> trio.CapacityLimiter:
    """The threads of one dashboard."""
    return trio.CapacityLimiter(READERS_MAX)


async def find_offsets(found: Mapping[int, int | Callable[[], int]], threads: trio.CapacityLimiter) -> dict[int, int]:
    """The offset of each partition, where some are work that finds them.

    Raises:
        OSError, LogError: a log cannot be read.
    """
    offsets = {}
    for partition, offset in found.items():
        if isinstance(offset, int):
            offsets[partition] = offset
        else:
            offsets[partition] = await trio.to_thread.run_sync(offset, limiter=threads)
    return offsets


async def read_page(reader: PageReader | NewestFirstReader, threads: trio.CapacityLimiter) -> Page:
    """Read a page of records.

    Raises:
        OSError, LogError: the log cannot be read.
    """
    while (step := reader.next_work()) is not None:
        partition, work = step
        reader.take(partition, await _in_threads(work, threads))
    return reader.page


async def _in_threads(work: Steps[Chunk], threads: trio.CapacityLimiter) -> Chunk:
    def turn() -> Chunk | None:
        end = time.perf_counter() + TURN_SECONDS
        try:
            while time.perf_counter() < end:
                next(work)
        except StopIteration as ended:
            chunk: Chunk = ended.value
            return chunk
        return None

    while (found := await trio.to_thread.run_sync(turn, limiter=threads)) is None:
        pass
    return found
