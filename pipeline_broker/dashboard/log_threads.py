"""Reads of logs for the pages, in at most READERS_MAX threads."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

import trio

from pipeline_broker.base.steps import Steps
from pipeline_broker.dashboard.newest_first import NewestFirstReader
from pipeline_broker.dashboard.record_reader import Chunk, Page, PageReader

__all__ = ["find_offsets", "log_threads", "read_page"]

READERS_MAX = 2
# The time that a page keeps a thread, unless a single disk read or decompression takes longer. Then the thread goes to
# the page that has waited longest, so a short page does not wait for a long one.
TURN_SECONDS = 0.02


def log_threads() -> trio.CapacityLimiter:
    return trio.CapacityLimiter(READERS_MAX)


async def find_offsets(found: Mapping[int, int | Callable[[], int]], threads: trio.CapacityLimiter) -> dict[int, int]:
    """Return offsets by partition, after running searches in threads.

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
        OSError, LogError: a log cannot be read.
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
