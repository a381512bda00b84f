"""The live tail of a topic for one viewer."""

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

POLL_SECONDS = 0.5
# A viewer that lags more skips to the latest records: 1,000 per second are more than a person can read.
BEHIND_MAX = 500
# After this many polls without records, an empty event keeps the stream alive.
QUIET_POLLS_MAX = 20


async def tail(
    find_logs: Callable[[], Mapping[int, PartitionLog]],
    wanted: RecordFilter,
    threads: trio.CapacityLimiter,
    send: Callable[[bytes], Awaitable[None]],
    decoder: Decoder | None = None,
) -> None:
    """Send new records as they become durable, until cancelled or the topic is deleted.

    A viewer that lags more than BEHIND_MAX records skips to the latest ones; `missed` is the number of skipped records.

    Args:
        find_logs: returns the current logs, since a topic may gain partitions or be deleted.
        threads: limits the threads that read logs.
        send: sends an event.
        decoder: decodes serialized keys and values, if the broker has a schema registry.

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
        if page.records or passed_over or quiet >= QUIET_POLLS_MAX:
            await send(event({**page.as_json(), "missed": passed_over}, "records"))
            quiet = 0
        quiet += 1
        await trio.sleep(POLL_SECONDS)
    await send(event({"reason": "the topic was deleted"}, "end"))


def _catch_up(logs: Mapping[int, PartitionLog], positions: dict[int, int]) -> int:
    """Move lagging positions near the ends, and return the number of skipped records."""
    passed_over, share = 0, max(1, BEHIND_MAX // len(logs))
    for partition, log in logs.items():
        position = positions.setdefault(partition, 0)
        if log.high_watermark - position > share:
            positions[partition] = log.high_watermark - share
            passed_over += positions[partition] - position
    return passed_over
