"""In-memory brokers that lead the partitions of one topic; a test moves leaders and breaks links."""

import functools
import struct
from collections import Counter
from contextlib import asynccontextmanager

import attrs
import trio

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.records.batch import iterate_batches, read_header, restamped
from pipeline_broker.wire.codec import decode, encode
from pipeline_broker.wire.header import read_request_header, response_header
from pipeline_broker.wire.messages.cluster.api_versions import ApiVersionsResponse
from pipeline_broker.wire.messages.data.fetch import FetchResponse
from pipeline_broker.wire.messages.data.list_offsets import ListOffsetsResponse
from pipeline_broker.wire.messages.data.produce import ProduceResponse
from pipeline_broker.wire.messages.groups.find_coordinator import FindCoordinatorResponse
from pipeline_broker.wire.messages.groups.list_groups import ListGroupsResponse
from pipeline_broker.wire.messages.groups.offset_fetch import OffsetFetchResponse
from pipeline_broker.wire.messages.topics.metadata import MetadataResponse
from pipeline_broker.wire.messages.transactions.init_producer_id import InitProducerIdResponse
from pipeline_broker.wire.registry import API_KEYS, ApiKey, message_classes

TOPIC = "t"
KNOWN_BATCHES = 5
"""Of a producer, which a broker recognizes when they are sent again."""
SERVED = (0, 1, 2, 3, 9, 10, 16, 18, 22)


class HangUp(Exception):
    """Raised by a hook to close the connection instead of answering."""


@attrs.define
class FakeCluster:
    """Brokers for a client under test.

    Attributes:
        leaders: the leader of each partition.
        hooks: called with (node, request) before an API is answered.
        answers: called with a request in place of the API, also for APIs without an implementation here.
        around_append: called with (append, node, partition, batch); returns the response to a produced batch.
    """

    leaders: dict[int, int | None]
    nodes: int = 2
    coordinator: int = 2
    ports: dict[int, int] = attrs.field(factory=dict)
    logs: dict[int, list[bytes]] = attrs.field(factory=dict)
    ends: Counter = attrs.field(factory=Counter)
    hooks: dict[ApiKey, object] = attrs.field(factory=dict)
    answers: dict[ApiKey, object] = attrs.field(factory=dict)
    asked: Counter = attrs.field(factory=Counter)
    sequences: dict[int, int] = attrs.field(factory=dict)
    around_append: object = None
    answer_turns: int = 0  # of the scheduler, before an answer is sent
    start: int = 0

    async def serve(self, node, stream):
        data = b""
        try:
            async for chunk in stream:
                data += chunk
                while len(data) >= 4 and len(data) >= 4 + struct.unpack_from(">i", data)[0]:
                    end = 4 + struct.unpack_from(">i", data)[0]
                    answer = self.answer(node, data[4:end])
                    data = data[end:]
                    for _ in range(self.answer_turns):
                        await trio.lowlevel.checkpoint()
                    await stream.send_all(struct.pack(">i", len(answer)) + answer)
        except (HangUp, trio.BrokenResourceError):
            pass
        await stream.aclose()

    def answer(self, node, frame):
        header, position = read_request_header(frame)
        key, version = ApiKey(header.api_key), header.api_version
        request, _ = decode(message_classes(key)[0], version, frame, position)
        self.asked[node, key] += 1
        if key in self.hooks:
            self.hooks[key](node, request)
        if key in self.answers:
            response = self.answers[key](request)
        else:
            response = getattr(self, API_KEYS[key].name)(node, request)
        return b"".join((response_header(key, version, header.correlation_id), *encode(response, version)))

    def ApiVersions(self, _node, _request):  # noqa: N802 - the API's name
        versions = [API_KEYS[ApiKey(key)] for key in (*SERVED, *self.answers)]
        return ApiVersionsResponse(
            api_keys=[ApiVersionsResponse.ApiVersion(api.key, api.versions[0], api.versions[-1]) for api in versions]
        )

    def Metadata(self, _node, request):  # noqa: N802 - the API's name
        brokers = [
            MetadataResponse.MetadataResponseBroker(node, "127.0.0.1", port) for node, port in self.ports.items()
        ]
        partitions = [
            MetadataResponse.MetadataResponsePartition(0, partition, -1 if leader is None else leader)
            for partition, leader in self.leaders.items()
        ]
        topics = []
        for name in [TOPIC] if request.topics is None else [it.name for it in request.topics]:
            is_there = name == TOPIC
            code = 0 if is_there else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            topics.append(MetadataResponse.MetadataResponseTopic(code, name, partitions=partitions if is_there else []))
        return MetadataResponse(brokers=brokers, controller_id=1, topics=topics)

    def InitProducerId(self, _node, _request):  # noqa: N802 - the API's name
        return InitProducerIdResponse(producer_id=7, producer_epoch=0)

    def Produce(self, node, request):  # noqa: N802 - the API's name
        (topic,) = request.topic_data
        answers = [
            ProduceResponse.PartitionProduceResponse(it.index, *self.appended(node, it.index, bytes(it.records)))
            for it in topic.partition_data
        ]
        return ProduceResponse([ProduceResponse.TopicProduceResponse(TOPIC, partition_responses=answers)])

    def appended(self, *batch):
        return self.append(*batch) if self.around_append is None else self.around_append(self.append, *batch)

    def append(self, node, partition, batch):
        if self.leaders[partition] != node:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER, -1
        header, offset = read_header(batch), self.ends[partition]
        if header.base_sequence >= 0:
            expected = self.sequences.get(partition, 0)
            known = self.stored(partition)[-KNOWN_BATCHES:]
            if any((it.base_sequence, it.record_count) == (header.base_sequence, header.record_count) for it in known):
                return ErrorCode.DUPLICATE_SEQUENCE_NUMBER, -1
            if header.base_sequence != expected:
                return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1
            self.sequences[partition] = expected + header.record_count
        self.logs.setdefault(partition, []).append(restamped(header, batch, offset))
        self.ends[partition] += header.record_count
        return 0, offset

    def Fetch(self, node, request):  # noqa: N802 - the API's name
        (topic,) = request.topics
        found = []
        for it in topic.partitions:
            if self.leaders[it.partition] != node:
                found.append(FetchResponse.PartitionData(it.partition, ErrorCode.NOT_LEADER_OR_FOLLOWER))
                continue
            if it.fetch_offset < self.start:
                found.append(FetchResponse.PartitionData(it.partition, ErrorCode.OFFSET_OUT_OF_RANGE))
                continue
            batches = [
                batch for batch in self.logs.get(it.partition, []) if read_header(batch).last_offset >= it.fetch_offset
            ]
            end = self.ends[it.partition]
            found.append(FetchResponse.PartitionData(it.partition, 0, end, end, 0, records=b"".join(batches[:1])))
        return FetchResponse(responses=[FetchResponse.FetchableTopicResponse(TOPIC, partitions=found)])

    def ListOffsets(self, node, request):  # noqa: N802 - the API's name
        (topic,) = request.topics
        found = []
        for it in topic.partitions:
            code = 0 if self.leaders[it.partition_index] == node else ErrorCode.NOT_LEADER_OR_FOLLOWER
            offset = self.start if it.timestamp == -2 else self.ends[it.partition_index]
            found.append(ListOffsetsResponse.ListOffsetsPartitionResponse(it.partition_index, code, -1, offset))
        return ListOffsetsResponse(topics=[ListOffsetsResponse.ListOffsetsTopicResponse(TOPIC, found)])

    def FindCoordinator(self, _node, _request):  # noqa: N802 - the API's name
        return FindCoordinatorResponse(
            node_id=self.coordinator, host="127.0.0.1", port=self.ports.get(self.coordinator, 0)
        )

    def OffsetFetch(self, node, request):  # noqa: N802 - the API's name
        if node != self.coordinator:
            return OffsetFetchResponse(
                groups=[OffsetFetchResponse.OffsetFetchResponseGroup("g", error_code=ErrorCode.NOT_COORDINATOR)]
            )
        partition = OffsetFetchResponse.OffsetFetchResponsePartitions(0, 5)
        topic = OffsetFetchResponse.OffsetFetchResponseTopics(TOPIC, partitions=[partition])
        return OffsetFetchResponse(
            groups=[OffsetFetchResponse.OffsetFetchResponseGroup(request.groups[0].group_id, [topic])]
        )

    def ListGroups(self, node, _request):  # noqa: N802 - the API's name
        group = ListGroupsResponse.ListedGroup(f"of-{node}", "consumer", "Empty", "Classic")
        return ListGroupsResponse(groups=[group])

    def stored(self, partition):
        """Return the headers of the batches of a partition."""
        return [header for batch in self.logs.get(partition, []) for header, _ in iterate_batches(batch)]


@asynccontextmanager
async def serving(cluster):
    """Make every node listen; yields the address of the first."""
    async with trio.open_nursery() as nursery:
        for node in range(1, cluster.nodes + 1):
            serve = functools.partial(cluster.serve, node)
            listeners = await nursery.start(functools.partial(trio.serve_tcp, serve, 0, host="127.0.0.1"))
            cluster.ports[node] = listeners[0].socket.getsockname()[1]
        yield ("127.0.0.1", cluster.ports[1])
        nursery.cancel_scope.cancel()
