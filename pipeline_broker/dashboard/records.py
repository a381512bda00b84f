"""Pages of a topic's records, and the live tail of a topic."""

from __future__ import annotations

import functools
import http
from collections.abc import Mapping

import trio

from pipeline_broker.broker.broker import Broker
from pipeline_broker.dashboard.log_threads import find_offsets, read_page
from pipeline_broker.dashboard.newest_first import NewestFirstReader
from pipeline_broker.dashboard.record_filter import BadFilterError, RecordFilter
from pipeline_broker.dashboard.record_reader import RECORDS_PER_PAGE_MAX, PageReader
from pipeline_broker.dashboard.record_view import Coded, Decoder, record_view
from pipeline_broker.dashboard.seeking import ends_of, positions_of
from pipeline_broker.dashboard.tail import tail
from pipeline_broker.dashboard.viewers import limited_stream
from pipeline_broker.log.errors import LogError
from pipeline_broker.log.partition.partition_log import PartitionLog
from pipeline_broker.web.messages import (
    Answer,
    BadRequestError,
    EventStream,
    HttpRequest,
    SendEvent,
    event,
    json_or_not_found,
    refusal,
)
from pipeline_broker.web.turns import in_turns

__all__ = ["Records"]

# A page without a partition reads this many: each costs a check on the event loop.
PARTITIONS_READ_MAX = 256
"""Partitions that a page of records reads."""
DIGITS_MAX = 10
TAILS_MAX = 8
WHAT = "topic or partition"
ABSENT = refusal(http.HTTPStatus.NOT_FOUND, f"the {WHAT} does not exist")


class Records:
    """The message browser of a broker.

    Args:
        threads: limits the threads that read logs.
        decoder: decodes serialized keys and values, if the broker has a schema registry.
    """

    def __init__(self, broker: Broker, threads: trio.CapacityLimiter, decoder: Decoder | None = None) -> None:
        self._broker, self._threads, self._decoder = broker, threads, decoder
        self._limited = limited_stream(TAILS_MAX, f"{TAILS_MAX} viewers already follow topics; close one of them")

    async def page(self, request: HttpRequest, topic: str) -> Answer:
        """Return a page of records; the query selects partition, start, filter and limit.

        Raises:
            BadRequestError: the query is invalid.
            OSError, LogError: a log cannot be read.
        """
        logs = self._logs_of(topic, request.query.get("partition", ""))
        if not logs:
            return ABSENT
        wanted = _filter(request)
        limit = request.integer("limit", RECORDS_PER_PAGE_MAX // 2)
        ends = ends_of(request)
        coded = Coded()
        show = functools.partial(record_view, coded=coded)
        reader: PageReader | NewestFirstReader
        if ends is None:
            positions = await find_offsets(positions_of(logs, request), self._threads)
            reader = PageReader(logs, positions, wanted, limit, show)
        else:
            reader = NewestFirstReader(logs, ends, wanted, limit, show)
        found = await read_page(reader, self._threads)
        if self._decoder is not None:
            await coded.decode(found.records, self._decoder)
        return await in_turns(json_or_not_found(found.as_json(), WHAT))

    async def follow(self, request: HttpRequest, topic: str) -> Answer | EventStream:
        """Return a stream of the records that are appended from now, for up to TAILS_MAX viewers.

        Raises:
            BadRequestError: the filter is invalid.
        """
        find_logs = functools.partial(self._logs_of, topic, request.query.get("partition", ""))
        if not find_logs():
            return ABSENT
        wanted = _filter(request)

        async def run(send: SendEvent) -> None:
            try:
                await tail(find_logs, wanted, self._threads, send, self._decoder)
            except (OSError, LogError) as error:
                await send(event({"reason": f"the log cannot be read: {error}"}, "end"))

        return self._limited(run)

    def _logs_of(self, name: str, partition: str) -> Mapping[int, PartitionLog]:
        """Return the first logs of a topic, or that of one partition; empty if the topic or partition is unknown."""
        if self._broker.topics.get(name) is None:
            return {}
        if not partition:
            return {log.partition: log for log in self._broker.logs.partitions(name)[:PARTITIONS_READ_MAX]}
        number = int(partition) if partition.isascii() and partition.isdigit() and len(partition) < DIGITS_MAX else -1
        log = self._broker.logs.find(name, number)
        return {} if log is None else {number: log}


def _filter(request: HttpRequest) -> RecordFilter:
    try:
        return RecordFilter.from_query(request.query)
    except BadFilterError as error:
        raise BadRequestError(str(error)) from None
