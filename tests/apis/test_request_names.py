"""The names in a request are read on demand, unless that would block the event loop."""

import pytest

from pipeline_broker.apis.request_names import READ_BYTES_MAX, names_of
from pipeline_broker.telemetry.recent_requests import NO_NAMES
from pipeline_broker.wire.codec import encode
from pipeline_broker.wire.header import RequestHeader, encode_request_header
from pipeline_broker.wire.messages.data.produce import ProduceRequest, ProduceResponse
from pipeline_broker.wire.messages.topics.metadata import MetadataRequest
from pipeline_broker.wire.registry import ApiKey
from stages.request import Request, Send
from tests.apis.desk import Desk


def request_of(desk, key, version, message, answer=None):
    header = encode_request_header(RequestHeader(key, version, 1, "desk"))
    request = Request(desk.connection, 0, header + b"".join(map(bytes, encode(message, version))), 0)
    request.api, request.version, request.result, request.answer = key, version, Send(b""), answer
    return request


def produce_of(topics, size_bytes):
    data = [ProduceRequest.PartitionProduceData(0, bytes(size_bytes))]
    return ProduceRequest(
        topic_data=[ProduceRequest.TopicProduceData(f"t{n}", partition_data=data) for n in range(topics)]
    )


@pytest.mark.parametrize("count", [1, 100])
def test_topics_of_a_request_are_named(count):
    desk = Desk()
    topics = [MetadataRequest.MetadataRequestTopic(name=f"t{number:03}") for number in range(count)]
    names = names_of(desk.broker, request_of(desk, ApiKey.METADATA, 4, MetadataRequest(topics)))()
    assert [topic for topic, _ in names.partitions] == [f"t{number:03}" for number in range(count)]


def test_a_request_of_very_many_topics_names_none():
    desk = Desk()
    topics = [MetadataRequest.MetadataRequestTopic(name=f"t{number}") for number in range(READ_BYTES_MAX)]
    assert names_of(desk.broker, request_of(desk, ApiKey.METADATA, 4, MetadataRequest(topics)))() is NO_NAMES


@pytest.mark.parametrize(("topics", "is_read"), [(1, True), (2, False)])
def test_a_produce_request_that_is_large_for_its_records_names_its_topic(topics, is_read):
    desk = Desk()
    answer = ProduceResponse([ProduceResponse.TopicProduceResponse(f"t{number}") for number in range(topics)])
    request = request_of(desk, ApiKey.PRODUCE, 9, produce_of(topics, READ_BYTES_MAX), answer)
    assert bool(names_of(desk.broker, request)().partitions) == is_read
