"""The start of a page of the message browser.

A query names one start: `positions` (`partition:offset,...`, from the previous page), `offset`, `time` (milliseconds
since 1970) or `from=earliest`. Without one, the page reads backwards from the end, or from `before`, which has the form
of `positions`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pipeline_broker.log.partition.partition_log import PartitionLog
from pipeline_broker.log.read_result import ColdRead, TimestampedOffset
from pipeline_broker.web.messages import BadRequestError, HttpRequest

__all__ = ["ends_of", "positions_of"]

POSITIONS_CHARACTERS_MAX = 8192
DIGITS_MAX = 20


def ends_of(request: HttpRequest) -> dict[int, int] | None:
    """Return the exclusive end offset of each partition for a page that reads backwards.

    Partitions that are missing from the result are read from their ends. Returns None if the query reads forwards.

    Raises:
        BadRequestError: the query is invalid.
    """
    query = request.query
    if query.get("before"):
        return _given(query["before"])
    if query.get("from") == "earliest" or any(query.get(name) for name in ("positions", "offset", "time")):
        return None
    return {}


def positions_of(logs: Mapping[int, PartitionLog], request: HttpRequest) -> dict[int, int | Callable[[], int]]:
    """Return the start offset of each partition, or a function that finds it in a thread because it reads the disk.

    Raises:
        BadRequestError: the query is invalid.
        OSError, LogError: a log cannot be read.
    """
    query = request.query
    if query.get("positions"):
        given = _given(query["positions"])
        return {partition: given.get(partition, log.log_start_offset) for partition, log in logs.items()}
    if query.get("offset"):
        offset = request.integer("offset", 0)
        return {partition: min(offset, log.high_watermark) for partition, log in logs.items()}
    if query.get("time"):
        time_ms = request.integer("time", 0)
        return {partition: _at_time(log, time_ms) for partition, log in logs.items()}
    return {partition: log.log_start_offset for partition, log in logs.items()}


def _given(text: str) -> dict[int, int]:
    positions = {}
    if len(text) <= POSITIONS_CHARACTERS_MAX:
        for position in text.split(","):
            partition, _, offset = position.partition(":")
            if not all(part.isascii() and part.isdigit() and len(part) < DIGITS_MAX for part in (partition, offset)):
                break
            positions[int(partition)] = int(offset)
        else:
            return positions
    raise BadRequestError("positions must be a comma-separated list of partition:offset")


def _at_time(log: PartitionLog, time_ms: int) -> int | Callable[[], int]:
    end_offset = log.high_watermark

    def offset_of(found: TimestampedOffset | None) -> int:
        return end_offset if found is None else found.offset

    found = log.offset_for_timestamp(time_ms)
    if isinstance(found, ColdRead):
        cold = found
        return lambda: offset_of(cold())
    return offset_of(found)
