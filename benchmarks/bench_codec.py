"""Measure the cost of the wire codec per call: `python benchmarks/bench_codec.py [repeats]`.

Prints the median and the fastest of the repeats in microseconds. Encoding includes the construction of the message.
"""

from __future__ import annotations

import statistics
import sys
import timeit
from collections.abc import Callable

from pipeline_broker.wire.codec import decoder, encode, encoder
from pipeline_broker.wire.header import RequestHeader, encode_request_header, read_request_header, response_header
from pipeline_broker.wire.messages.cluster.api_versions import ApiVersionsResponse
from pipeline_broker.wire.messages.data.fetch import FetchRequest, FetchResponse
from pipeline_broker.wire.messages.data.produce import ProduceRequest, ProduceResponse
from pipeline_broker.wire.messages.topics.metadata import MetadataResponse

CALLS = 5_000


def produce_request(topics: int, partitions: int, size: int) -> ProduceRequest:
    topic, partition = ProduceRequest.TopicProduceData, ProduceRequest.PartitionProduceData
    return ProduceRequest(
        acks=-1,
        timeout_ms=30_000,
        topic_data=[
            topic(
                name=f"topic-{t}", partition_data=[partition(index=p, records=bytes(size)) for p in range(partitions)]
            )
            for t in range(topics)
        ],
    )


def produce_response_single() -> ProduceResponse:
    partition = ProduceResponse.PartitionProduceResponse(index=0, base_offset=77, log_start_offset=0)
    topic = ProduceResponse.TopicProduceResponse(name="topic-0", partition_responses=[partition])
    return ProduceResponse(responses=[topic])


def produce_response(topics: int, partitions: int) -> ProduceResponse:
    topic, partition = ProduceResponse.TopicProduceResponse, ProduceResponse.PartitionProduceResponse
    return ProduceResponse(
        responses=[
            topic(
                name="topic-0",
                partition_responses=[partition(index=p, base_offset=77, log_start_offset=0) for p in range(partitions)],
            )
            for _ in range(topics)
        ]
    )


def fetch_request(topics: int, partitions: int) -> FetchRequest:
    topic, partition = FetchRequest.FetchTopic, FetchRequest.FetchPartition
    return FetchRequest(
        max_wait_ms=500,
        min_bytes=1,
        topics=[
            topic(
                topic=f"topic-{t}",
                partitions=[
                    partition(partition=p, fetch_offset=9, partition_max_bytes=1 << 20) for p in range(partitions)
                ],
            )
            for t in range(topics)
        ],
    )


def fetch_response_single(records: bytes) -> FetchResponse:
    partition = FetchResponse.PartitionData(high_watermark=9, aborted_transactions=None, records=records)
    topic = FetchResponse.FetchableTopicResponse(topic="topic-0", partitions=[partition])
    return FetchResponse(responses=[topic])


def fetch_response(topics: int, partitions: int, records: bytes) -> FetchResponse:
    topic, partition = FetchResponse.FetchableTopicResponse, FetchResponse.PartitionData
    return FetchResponse(
        responses=[
            topic(
                topic="topic-0",
                partitions=[
                    partition(partition_index=p, high_watermark=9, aborted_transactions=None, records=records)
                    for p in range(partitions)
                ],
            )
            for _ in range(topics)
        ]
    )


def metadata_response(topics: int, partitions: int) -> MetadataResponse:
    topic, partition = MetadataResponse.MetadataResponseTopic, MetadataResponse.MetadataResponsePartition
    return MetadataResponse(
        brokers=[MetadataResponse.MetadataResponseBroker(node_id=1, host="127.0.0.1", port=9092)],
        topics=[
            topic(
                name=f"topic-{t}",
                partitions=[
                    partition(partition_index=p, leader_id=1, replica_nodes=[1], isr_nodes=[1])
                    for p in range(partitions)
                ],
            )
            for t in range(topics)
        ],
    )


def api_versions_response() -> ApiVersionsResponse:
    api = ApiVersionsResponse.ApiVersion
    return ApiVersionsResponse(api_keys=[api(api_key=key, min_version=0, max_version=9) for key in range(62)])


def reading(message: object, version: int) -> Callable[[], object]:
    """Decode the message from a view, as a server receives it."""
    view = memoryview(b"".join(encode(message, version)))
    decode = decoder(type(message), version)
    return lambda: decode(view, 0)


def writing(make: Callable[[], object], version: int) -> Callable[[], object]:
    """Construct the message and encode it."""
    encode_one = encoder(type(make()), version)
    return lambda: encode_one(make())


def cases() -> dict[str, Callable[[], object]]:
    frame = memoryview(encode_request_header(RequestHeader(0, 9, 77, "producer-1")))
    records = bytes(4096)
    return {
        "read request header v2": lambda: read_request_header(frame),
        "write response header v1": lambda: response_header(0, 9, 77),
        "decode ProduceRequest v9 1x1 1 KB": reading(produce_request(1, 1, 1024), 9),
        "decode ProduceRequest v9 1x1 64 KB": reading(produce_request(1, 1, 65536), 9),
        "decode ProduceRequest v9 5x10 1 KB": reading(produce_request(5, 10, 1024), 9),
        "encode ProduceResponse v9 1x1": writing(produce_response_single, 9),
        "encode ProduceResponse v9 5x10": writing(lambda: produce_response(5, 10), 9),
        "decode FetchRequest v12 1x1": reading(fetch_request(1, 1), 12),
        "decode FetchRequest v12 5x10": reading(fetch_request(5, 10), 12),
        "encode FetchResponse v12 1x1 4 KB": writing(lambda: fetch_response_single(records), 12),
        "encode FetchResponse v12 5x10 4 KB": writing(lambda: fetch_response(5, 10, records), 12),
        "encode MetadataResponse v12 1x12": writing(lambda: metadata_response(1, 12), 12),
        "encode MetadataResponse v12 100x12": writing(lambda: metadata_response(100, 12), 12),
        "encode ApiVersionsResponse v3 62 keys": writing(api_versions_response, 3),
    }


def main() -> None:
    repeats = int(sys.argv[1]) if len(sys.argv) > 1 else 7
    print(f"{'case':40} {'median us':>10} {'best us':>10}")
    for name, call in cases().items():
        number = CALLS if timeit.timeit(call, number=10) < 0.001 else CALLS // 50
        times = [timeit.timeit(call, number=number) / number * 1e6 for _ in range(repeats)]
        print(f"{name:40} {statistics.median(times):10.2f} {min(times):10.2f}")


if __name__ == "__main__":
    main()
