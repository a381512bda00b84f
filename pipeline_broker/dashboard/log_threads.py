"""Reading of logs for the pages, in one of few threads.

Rules of this file: on Trio; what costs no time is done on the event loop, and what may need the disk is given to a
thread, of which there are READERS_MAX for all viewers together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import trio

from pipeline_broker.dashboard.newest_first import NewestFirstReader
from pipeline_broker.dashboard.record_reader import Page, PageReader

__all__ = ["find_offsets", "log_threads", "read_page"]

READERS_MAX = 2


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
        reader.take(partition, await trio.to_thread.run_sync(work, limiter=threads))
    return reader.page
