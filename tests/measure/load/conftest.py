"""A broker in memory that answers produce requests, in order or rearranged."""

import struct
from collections.abc import Callable
from contextlib import asynccontextmanager
from functools import partial

import attrs
import pytest
import trio

from pipeline_broker.records.batch import NewRecord, build_batch
from pipeline_broker.wire.codec import decode, encode
from pipeline_broker.wire.header import read_request_header, response_header
from pipeline_broker.wire.messages.cluster.api_versions import ApiVersionsRequest, ApiVersionsResponse
from pipeline_broker.wire.messages.data.fetch import FetchRequest, FetchResponse
from pipeline_broker.wire.messages.data.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from pipeline_broker.wire.messages.data.produce import ProduceRequest, ProduceResponse
from pipeline_broker.wire.messages.topics.create_topics import CreateTopicsRequest, CreateTopicsResponse
from pipeline_broker.wire.messages.topics.metadata import MetadataRequest, MetadataResponse
from pipeline_broker.wire.messages.transactions.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

PARTITIONS = 4


@attrs.define
class FakeBroker:
    """A broker that delays and rearranges answers.

    `rearrange` receives the answers to one read and returns those to send after `delay_s`; None closes the connection.
    """

    rearrange: Callable[[list[bytes]], list[bytes] | None] = lambda answers: answers
    delay_s: Callable[[], float] = lambda: 0.0
    error_code: int = 0
    port: int = 0
    produced: list[tuple[str, int, bytes]] = attrs.field(factory=list)
    fetched: list[tuple[int, int]] = attrs.field(factory=list)
    producers: int = 0

    async def handle(self, stream: trio.SocketStream) -> None:
        data = b""
        async for chunk in stream:
            data += chunk
            answers, produce = [], False
            while len(data) >= 4 and len(data) >= 4 + (size := struct.unpack(">i", data[:4])[0]):
                frame, data = data[4 : 4 + size], data[4 + size :]
                produce = produce or frame[:2] == b"\0\0"
                answers.append(self.answer(frame))
            sent = self.rearrange([it for it in answers if it]) if produce else answers
            if sent is None:
                return
            if sent:
                await trio.sleep(self.delay_s())
                await stream.send_all(b"".join(sent))

    def answer(self, frame: bytes) -> bytes:
        header, position = read_request_header(frame)
        key, version = header.api_key, header.api_version
        respond = {
            0: self.produce,
            1: self.fetch,
            2: self.list_offsets,
            3: self.metadata,
            18: self.api_versions,
            19: self.create_topics,
            22: self.init_producer_id,
        }[key]
        parts = respond(frame, version, position)
        if parts is None:
            return b""
        body = b"".join((response_header(key, version, header.correlation_id), *parts))
        return struct.pack(">i", len(body)) + body

    def api_versions(self, frame, version, position):
        decode(ApiVersionsRequest, version, frame, position)
        ranges = {0: (3, 12), 1: (4, 18), 2: (1, 11), 3: (0, 13), 18: (0, 4), 19: (2, 7), 22: (0, 5)}
        keys = [ApiVersionsResponse.ApiVersion(key, low, high) for key, (low, high) in ranges.items()]
        return encode(ApiVersionsResponse(api_keys=keys), version)

    def create_topics(self, frame, version, position):
        request, _ = decode(CreateTopicsRequest, version, frame, position)
        topics = [CreateTopicsResponse.CreatableTopicResult(name=topic.name) for topic in request.topics]
        return encode(CreateTopicsResponse(topics=topics), version)

    def metadata(self, frame, version, position):
        request, _ = decode(MetadataRequest, version, frame, position)
        partitions = [
            MetadataResponse.MetadataResponsePartition(partition_index=index, leader_id=1)
            for index in range(PARTITIONS)
        ]
        topics = [
            MetadataResponse.MetadataResponseTopic(name=topic.name, partitions=partitions) for topic in request.topics
        ]
        brokers = [MetadataResponse.MetadataResponseBroker(node_id=1, host="somewhere.invalid", port=1)]
        return encode(MetadataResponse(brokers=brokers, topics=topics), version)

    def init_producer_id(self, frame, version, position):
        decode(InitProducerIdRequest, version, frame, position)
        self.producers += 1
        return encode(InitProducerIdResponse(producer_id=self.producers, producer_epoch=0), version)

    def list_offsets(self, frame, version, position):
        request, _ = decode(ListOffsetsRequest, version, frame, position)
        partitions = [
            ListOffsetsResponse.ListOffsetsPartitionResponse(it.partition_index, offset=it.partition_index)
            for it in request.topics[0].partitions
        ]
        topics = [ListOffsetsResponse.ListOffsetsTopicResponse(request.topics[0].name, partitions)]
        return encode(ListOffsetsResponse(topics=topics), version)

    def fetch(self, frame, version, position):
        request, _ = decode(FetchRequest, version, frame, position)
        (wanted,) = request.topics[0].partitions
        offset = wanted.fetch_offset
        self.fetched.append((wanted.partition, offset))
        records = build_batch([NewRecord(b"value")], offset) if offset < 10 else b""
        found = FetchResponse.PartitionData(wanted.partition, high_watermark=10, records=records)
        topic = FetchResponse.FetchableTopicResponse(topic=request.topics[0].topic, partitions=[found])
        return encode(FetchResponse(responses=[topic]), version)

    def produce(self, frame, version, position):
        request, _ = decode(ProduceRequest, version, frame, position)
        (topic,) = request.topic_data
        (data,) = topic.partition_data
        self.produced.append((topic.name, data.index, bytes(data.records)))
        if not request.acks:
            return None
        partition = ProduceResponse.PartitionProduceResponse(index=data.index, error_code=self.error_code)
        found = ProduceResponse.TopicProduceResponse(name=topic.name, partition_responses=[partition])
        return encode(ProduceResponse(responses=[found]), version)


@pytest.fixture
def serve_fake():
    """`async with serve_fake(**options) as broker`: a fake broker on a free port of 127.0.0.1."""

    @asynccontextmanager
    async def serve(**options):
        broker = FakeBroker(**options)
        async with trio.open_nursery() as nursery:
            serve_on = partial(trio.serve_tcp, broker.handle, 0, host="127.0.0.1", handler_nursery=nursery)
            listeners = await nursery.start(serve_on)
            broker.port = listeners[0].socket.getsockname()[1]
            yield broker
            nursery.cancel_scope.cancel()

    return serve
