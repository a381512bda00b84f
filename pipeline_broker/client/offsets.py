"""Offsets of partitions: log start, end, and by timestamp. Also the PLACE syntax of the command line (`read_place`)."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping
from datetime import datetime

import attrs

from pipeline_broker.client.answers import answers_to
from pipeline_broker.client.cluster_client import ClusterClient
from pipeline_broker.client.errors import ClientError, check
from pipeline_broker.client.topology import TopicPartition, partition_words
from pipeline_broker.wire.messages.data.list_offsets import ListOffsetsRequest, ListOffsetsResponse

__all__ = ["BEGINNING", "END", "Bounds", "Place", "bounds_of", "list_offsets", "offsets_at", "read_place"]

EARLIEST, LATEST = -2, -1
"""Kafka's special timestamps of ListOffsets."""
READ_UNCOMMITTED, READ_COMMITTED = 0, 1
"""Kafka's isolation levels."""
OFFSET_MAX = 2**63 - 1
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_AGO = re.compile(r"-(\d{1,9}(?:\.\d{1,3})?)([smhd])")


@attrs.frozen(slots=True)
class Place:
    """A position that applies to every partition. Exactly one attribute is set.

    Attributes:
        time: a timestamp in milliseconds since 1970, or EARLIEST or LATEST.
        before_end: a number of offsets before the end.
    """

    time: int | None = None
    offset: int | None = None
    before_end: int | None = None


BEGINNING, END = Place(time=EARLIEST), Place(time=LATEST)
_WORDS = {"beginning": BEGINNING, "earliest": BEGINNING, "end": END, "latest": END}


def read_place(text: str, now_ms: int | None = None) -> Place:
    """Parse `beginning`, `end`, `42`, `-10`, `@2026-08-01T12:00`, `@1785000000000` or `@-5m`.

    Args:
        text: the text; a time without a zone is local.
        now_ms: the current time in milliseconds since 1970; None: read the clock.

    Raises:
        ValueError: the text is invalid; the message lists the valid forms.
    """
    if text in _WORDS:
        return _WORDS[text]
    if text.startswith("@"):
        return Place(time=_time_ms(text[1:], time.time_ns() // 1_000_000 if now_ms is None else now_ms))
    if re.fullmatch(r"-?\d{1,19}", text) and abs(int(text)) <= OFFSET_MAX:
        number = int(text)
        return Place(before_end=-number) if text.startswith("-") else Place(offset=number)
    raise ValueError(f"{text!r} is not a position: give beginning, end, an offset, -10 for the last ten, or @TIME")


def _time_ms(text: str, now_ms: int) -> int:
    # Up to eight digits are an ISO date such as 20260801; more are milliseconds.
    if re.fullmatch(r"\d{1,15}", text) and len(text) > len("20260801"):
        return int(text)
    ago = _AGO.fullmatch(text)
    if ago is not None:
        return max(0, now_ms - round(float(ago[1]) * 1000 * _SECONDS[ago[2]]))
    try:
        return round(datetime.fromisoformat(text).timestamp() * 1000)
    except (ValueError, OverflowError):
        raise ValueError(
            f"{text!r} is not a time: give 2026-08-01T12:00, milliseconds since 1970, or -5m for five minutes ago"
        ) from None


@attrs.frozen(slots=True)
class Bounds:
    """The offsets of a partition: from `start` up to, but not including, `end`."""

    start: int
    end: int


async def list_offsets(
    cluster: ClusterClient, wanted: Mapping[TopicPartition, int], isolation: int = READ_UNCOMMITTED
) -> dict[TopicPartition, int]:
    """Return the first offset at or after a timestamp in each partition, or -1 if no record is that late.

    Args:
        wanted: a timestamp for each partition: milliseconds since 1970, EARLIEST or LATEST.
        isolation: with READ_COMMITTED the end is the last stable offset.

    Raises:
        ClientError: a partition is unknown, or its leader does not answer in time.
    """

    async def attempt(node: int, led: list[TopicPartition]) -> dict[TopicPartition, int]:
        request = _request({partition: wanted[partition] for partition in led}, isolation)
        answer = await cluster.ask(request, ListOffsetsResponse, node=node)
        named = (((topic.name, it.partition_index), it) for topic in answer.topics for it in topic.partitions)
        found = answers_to(led, named, partition_words)
        for partition, it in found.items():
            check(it.error_code, f"offsets of {partition_words(partition)}")
        return {partition: it.offset for partition, it in found.items()}

    return await cluster.at_leaders(wanted, attempt)


def _request(wanted: Mapping[TopicPartition, int], isolation: int) -> ListOffsetsRequest:
    topics: dict[str, ListOffsetsRequest.ListOffsetsTopic] = {}
    for (topic, partition), at in wanted.items():
        asked = topics.setdefault(topic, ListOffsetsRequest.ListOffsetsTopic(topic, []))
        asked.partitions.append(ListOffsetsRequest.ListOffsetsPartition(partition_index=partition, timestamp=at))
    return ListOffsetsRequest(replica_id=-1, isolation_level=isolation, topics=list(topics.values()))


async def bounds_of(
    cluster: ClusterClient, partitions: Iterable[TopicPartition], isolation: int = READ_UNCOMMITTED
) -> dict[TopicPartition, Bounds]:
    """Return the start and end offset of each partition.

    Args:
        isolation: with READ_COMMITTED the end is the last stable offset.

    Raises:
        ClientError: an error of `list_offsets`, or a negative offset.
    """
    partitions = list(partitions)
    starts = await list_offsets(cluster, dict.fromkeys(partitions, EARLIEST))
    ends = await list_offsets(cluster, dict.fromkeys(partitions, LATEST), isolation)
    for partition in partitions:
        start, end = starts[partition], ends[partition]
        # A negative offset has a meaning in other requests: -1 tells DeleteRecords to delete everything.
        if min(start, end) < 0:
            name = partition_words(partition)
            raise ClientError(f"the broker sent invalid offsets: {name} begins at offset {start} and ends before {end}")
    return {partition: Bounds(starts[partition], ends[partition]) for partition in partitions}


async def offsets_at(
    cluster: ClusterClient, place: Place, bounds: Mapping[TopicPartition, Bounds], *, is_exact: bool = True
) -> dict[TopicPartition, int]:
    """Return the offset of a place in every partition. A time after the last record means the end.

    Args:
        bounds: the partitions, with their start and end offsets.
        is_exact: raise for an offset outside of a partition; otherwise use the nearest offset.

    Raises:
        ClientError: an error of `list_offsets`, or an offset is out of range.
    """
    if place == BEGINNING:
        return {partition: it.start for partition, it in bounds.items()}
    if place == END:
        return {partition: it.end for partition, it in bounds.items()}
    if place.before_end is not None:
        return {partition: max(it.start, it.end - place.before_end) for partition, it in bounds.items()}
    if place.time is not None:
        found = await list_offsets(cluster, dict.fromkeys(bounds, place.time))
        return {partition: it.end if found[partition] < 0 else found[partition] for partition, it in bounds.items()}
    assert place.offset is not None
    for (topic, partition), it in bounds.items():
        if is_exact and not it.start <= place.offset <= it.end:
            raise ClientError(
                f"partition {partition} of {topic} has no offset {place.offset}: it begins at {it.start} and ends "
                f"before {it.end}. Give beginning, end or --partition"
            )
    return {partition: min(max(place.offset, it.start), it.end) for partition, it in bounds.items()}
