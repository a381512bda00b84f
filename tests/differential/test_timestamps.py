"""Timestamps of -1 and below mean the same as in Kafka, wherever something depends on time."""

from __future__ import annotations

import pytest

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.records.batch import NewRecord, build_batch
from pipeline_broker.wire.messages.data.list_offsets import ListOffsetsRequest
from pipeline_broker.wire.registry import ApiKey
from tests.differential.data_requests import NOW_MS, ask
from tests.differential.test_compression import Topic

pytestmark = pytest.mark.xdist_group("kafka")
ASKED = (-1, -2, -3, -4, 0, 1, NOW_MS)
LIMITS = (
    {},
    {"message_timestamp_before_max_ms": 3_600_000},
    {"message_timestamp_after_max_ms": 1000},
    {"message_timestamp_type": "LogAppendTime"},
)


def compare_offsets(topic):
    for time in ASKED:
        partition = ListOffsetsRequest.ListOffsetsPartition(0, -1, time)
        request = ListOffsetsRequest(topics=[ListOffsetsRequest.ListOffsetsTopic(topic.name, [partition])])
        topic.tell(ApiKey.LIST_OFFSETS, ask(8, request))


@pytest.mark.parametrize(
    "batches",
    [
        [[-1]],
        [[-2]],
        [[-1], [-2]],
        [[-2], [-1]],
        [[-1], [5], [-7]],
        [[5], [-1], [5]],
        [[-1, -2, -3]],
        [[-5, -2, -3]],
        [[-3, 7, -1], [7, 8]],
        [[-(2**40)], [0]],
    ],
)
def test_records_are_found_by_time_as_in_kafka(sides, batches):
    with Topic(sides) as topic:
        for times in batches:
            assert topic.produce(build_batch([NewRecord(b"v", b"k", time) for time in times])) is ErrorCode.NONE
        compare_offsets(topic)
        (kafka_headers, kafka_records), *ours = topic.held()
        assert all((headers, records) == (kafka_headers, kafka_records) for headers, records in ours)


@pytest.mark.parametrize("limits", LIMITS)
def test_the_limits_of_a_topic_judge_timestamps_as_in_kafka(sides, limits):
    with Topic(sides, **limits) as topic:
        for time in (-1, -2, -5000, 0, NOW_MS, -(2**63)):
            topic.produce(build_batch([NewRecord(b"v", b"k", time)]))
        if "message_timestamp_type" not in limits:
            compare_offsets(topic)
