"""ListOffsets: offsets by timestamp, and by the special timestamps such as earliest, latest and largest timestamp.

Without tiered storage, the earliest local offset is the earliest one, and the tiered timestamps have no offset. A
read_committed client sees no offset after the last stable offset. A search in a batch that is only on disk parks the
request, so that it does not occupy a handler. A disk error concerns only its own partition.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import TypeAlias

from pipeline_broker.apis.authorization import topics_allowed
from pipeline_broker.apis.call import Call
from pipeline_broker.apis.steps import ELEMENT_COST, Stepwise, in_steps, wait_for_place
from pipeline_broker.apis.storage_error import storage_error
from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.broker.leadership import epoch_error
from pipeline_broker.log.errors import LogError
from pipeline_broker.log.partition.partition_log import PartitionLog
from pipeline_broker.log.read_result import ColdRead, TimestampedOffset
from pipeline_broker.security.acl import AclOperation
from pipeline_broker.wire.messages.data.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from stages.request import Parked, Result

PartitionResponse = ListOffsetsResponse.ListOffsetsPartitionResponse

Search: TypeAlias = Callable[[], TimestampedOffset | ColdRead[TimestampedOffset | None] | None]

Partition: TypeAlias = tuple[str, int]

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
EARLIEST_PENDING_UPLOAD = -6
# The first version that may request each special timestamp.
SPECIAL_FROM = {
    LATEST: 1,
    EARLIEST: 1,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}
NEVER = 2**15
LEADER_EPOCH_FROM = 4
UNKNOWN = -1
READ_COMMITTED = 1
# Partitions of one topic: about 1 ms of work.
COUNTED_AT_ONCE = 1_000
# Cost of one partition, about microseconds; a search by timestamp takes longest.
LOOK_UP_COST = 20
ISOLATION_LEVELS = frozenset({0, READ_COMMITTED})


def handle(call: Call, request: ListOffsetsRequest) -> Stepwise[Result]:
    if request.isolation_level not in ISOLATION_LEVELS:
        return call.send(error_response(request, call, ErrorCode.UNKNOWN_SERVER_ERROR))
    counts = yield from _count(call, request)
    cold: list[Callable[[], None]] = []
    topics = []
    is_allowed = topics_allowed(call, AclOperation.DESCRIBE)
    forbidden = partial(_refusal, code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    for topic in request.topics:
        if is_allowed(topic.name):
            partitions = yield from _look_up_topic(
                call, topic, counts, cold, is_committed=request.isolation_level == READ_COMMITTED
            )
        else:
            partitions = yield from in_steps(call, topic.partitions, forbidden)
        if call.spend(ELEMENT_COST):
            yield None
        if partitions or not topic.partitions:
            topics.append(ListOffsetsResponse.ListOffsetsTopicResponse(name=topic.name, partitions=partitions))
    response = ListOffsetsResponse(topics=topics)
    if cold:
        line = call.broker.long_batches
        try:
            yield from wait_for_place(call, line)
            yield Parked(partial(_read_all, cold))
        finally:
            line.leave(call)
    if call.version < LEADER_EPOCH_FROM:
        _hide_leader_epochs(response)
    return (yield from call.send_in_steps(response))


def _count(call: Call, request: ListOffsetsRequest) -> Stepwise[Counter[Partition]]:
    counts: Counter[Partition] = Counter()
    for topic in request.topics:
        for start in range(0, len(topic.partitions), COUNTED_AT_ONCE):
            some = topic.partitions[start : start + COUNTED_AT_ONCE]
            counts.update((topic.name, data.partition_index) for data in some)
            if call.spend(len(some)):
                yield None
    return counts


def _read_all(cold: list[Callable[[], None]]) -> None:
    for read in cold:
        read()


def _hide_leader_epochs(response: ListOffsetsResponse) -> None:
    for topic in response.topics:
        for partition in topic.partitions:
            partition.leader_epoch = UNKNOWN


def _look_up_topic(
    call: Call,
    topic: ListOffsetsRequest.ListOffsetsTopic,
    counts: Counter[Partition],
    cold: list[Callable[[], None]],
    *,
    is_committed: bool,
) -> Stepwise[list[PartitionResponse]]:
    """Look up the partitions of one topic.

    Args:
        counts: how often the request names each partition; answered partitions are removed.
        cold: receives the searches that need the disk.
    """
    partitions = []
    for data in topic.partitions:
        count = counts.pop((topic.name, data.partition_index), 0)
        if count == 1:
            partitions.append(_look_up(call, topic.name, data, cold, is_committed=is_committed))
        elif count:  # Kafka refuses a duplicate partition, with one answer
            partitions.append(_refusal(data, ErrorCode.INVALID_REQUEST))
        if call.spend(LOOK_UP_COST):
            yield None
    return partitions


def _look_up(
    call: Call,
    name: str,
    data: ListOffsetsRequest.ListOffsetsPartition,
    cold: list[Callable[[], None]],
    *,
    is_committed: bool,
) -> PartitionResponse:
    if data.timestamp < 0 and SPECIAL_FROM.get(data.timestamp, NEVER) > call.version:
        return _refusal(data, ErrorCode.UNSUPPORTED_VERSION)
    log = call.broker.find_log(name, b"", data.partition_index, by_id=False)
    if isinstance(log, ErrorCode):
        return _refusal(data, log)
    refused = epoch_error(data.current_leader_epoch, log.leader_epoch)
    if refused is not None:
        return _refusal(data, refused)
    end_offset = log.last_stable_offset if is_committed else log.high_watermark
    if data.timestamp < 0:
        return _special(log, data, cold, end_offset)
    return _by_time(log, lambda: log.offset_for_timestamp(data.timestamp), cold, end_offset)


def _special(
    log: PartitionLog,
    data: ListOffsetsRequest.ListOffsetsPartition,
    cold: list[Callable[[], None]],
    end_offset: int,
) -> PartitionResponse:
    index = data.partition_index
    if data.timestamp == LATEST:
        return PartitionResponse(partition_index=index, offset=end_offset, leader_epoch=log.leader_epoch)
    if data.timestamp in (EARLIEST, EARLIEST_LOCAL):
        start = log.log_start_offset
        return PartitionResponse(partition_index=index, offset=start, leader_epoch=log.epochs.epoch_at(start))
    if data.timestamp == MAX_TIMESTAMP:
        return _by_time(log, log.max_timestamp, cold, end_offset)
    return PartitionResponse(partition_index=index)


def _by_time(log: PartitionLog, search: Search, cold: list[Callable[[], None]], end_offset: int) -> PartitionResponse:
    response = PartitionResponse(partition_index=log.partition, timestamp=UNKNOWN, offset=UNKNOWN)
    _fill(response, log, search, cold, end_offset)
    return response


def _fill(
    response: PartitionResponse, log: PartitionLog, search: Search, cold: list[Callable[[], None]], end_offset: int
) -> None:
    """Write the result of a search into the response; a search that needs the disk is added to `cold` instead."""
    try:
        found = search()
    except (OSError, LogError) as error:
        response.error_code = storage_error(log, error)
        return
    if isinstance(found, ColdRead):
        cold.append(partial(_fill, response, log, found, cold, end_offset))
    elif found is not None and found.offset < end_offset:
        response.timestamp, response.offset, response.leader_epoch = found


def _refusal(data: ListOffsetsRequest.ListOffsetsPartition, code: ErrorCode) -> PartitionResponse:
    return PartitionResponse(partition_index=data.partition_index, error_code=code)


def _refuse_topic(
    topic: ListOffsetsRequest.ListOffsetsTopic, code: ErrorCode
) -> ListOffsetsResponse.ListOffsetsTopicResponse:
    partitions = [_refusal(data, code) for data in topic.partitions]
    return ListOffsetsResponse.ListOffsetsTopicResponse(name=topic.name, partitions=partitions)


def error_response(request: ListOffsetsRequest, call: Call, code: ErrorCode) -> ListOffsetsResponse:
    return ListOffsetsResponse(topics=[_refuse_topic(topic, code) for topic in request.topics])
