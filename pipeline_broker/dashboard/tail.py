"""The live tail of a topic: what is appended, as it becomes durable.

Rules of this file: on Trio; one viewer, one position in each partition, and nothing is kept between two looks. A viewer
that takes longer than records come is told how many were passed over, and goes on at the end.
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Mapping

import trio

from pipeline_broker.dashboard.log_threads import read_page
from pipeline_broker.dashboard.record_filter import RecordFilter
from pipeline_broker.dashboard.record_reader import RECORDS_PER_PAGE_MAX, PageReader
from pipeline_broker.dashboard.record_view import Coded, Decoder, record_view
from pipeline_broker.log.partition.partition_log import PartitionLog
from pipeline_broker.web.messages import event

__all__ = ["tail"]

LOOK_SECONDS = 0.5
BEHIND_MAX = 500
"""Records that a topic may be ahead of its viewer: a thousand in a second are more than anybody reads."""
QUIET_LOOKS_MAX = 20
"""After so many looks without a record an event without any says that the stream lives."""


async def tail(
    find_logs: Callable[[], Mapping[int, PartitionLog]],
    wanted: RecordFilter,
    threads: trio.CapacityLimiter,
    send: Callable[[bytes], Awaitable[None]],
    decoder: Decoder | None = None,
) -> None:
    """Send the records that come from now on, until cancelled or the topic is gone.

    Args:
        find_logs: the logs to look at; asked at each look, since a topic may grow or go.
        wanted: which records.
        threads: see `read_page`.
        send: sends an event.
        decoder: reads what a serializer wrote, where the broker has schemas.

    Raises:
        OSError, LogError: a log cannot be read.
    """
    positions = {partition: log.high_watermark for partition, log in find_logs().items()}
    await send(event({"positions": {str(partition): at for partition, at in positions.items()}}, "begin"))
    quiet = 0
    while logs := find_logs():
        passed_over = _catch_up(logs, positions)
        coded = Coded()
        show = functools.partial(record_view, coded=coded)
        page = await read_page(PageReader(logs, positions, wanted, RECORDS_PER_PAGE_MAX, show), threads)
        if decoder is not None:
            await coded.decode(page.records, decoder)
        positions = page.positions
        if page.records or passed_over or quiet >= QUIET_LOOKS_MAX:
            await send(event({**page.as_json(), "missed": passed_over}, "records"))
            quiet = 0
        quiet += 1
        await trio.sleep(LOOK_SECONDS)
    await send(event({"reason": "the topic is gone"}, "end"))


def _catch_up(logs: Mapping[int, PartitionLog], positions: dict[int, int]) -> int:
    """Go on near the end where the viewer is too far behind; how many records are passed over."""
    passed_over, share = 0, max(1, BEHIND_MAX // len(logs))
    for partition, log in logs.items():
        position = positions.setdefault(partition, 0)
        if log.high_watermark - position > share:
            positions[partition] = log.high_watermark - share
            passed_over += positions[partition] - position
    return passed_over
