"""Framed produce and fetch requests, built before a run with the broker's own codec."""

import itertools
import random
import struct
import time
from collections.abc import Iterator, Sequence

from pipeline_broker.client.control import Target
from pipeline_broker.client.dialogue import CLIENT_ID
from pipeline_broker.client.errors import ClientError
from pipeline_broker.measure.load.options import ACKS_ALL, LoadOptions
from pipeline_broker.measure.load.requests import FETCH_KEY, ProduceTemplate, ReadTemplate
from pipeline_broker.records.batch import NewRecord, build_batch
from pipeline_broker.records.compression import Compression
from pipeline_broker.records.murmur2 import partition_of
from pipeline_broker.wire.codec import encode
from pipeline_broker.wire.header import RequestHeader, encode_request_header
from pipeline_broker.wire.messages.data.fetch import FetchRequest
from pipeline_broker.wire.messages.data.produce import ProduceRequest, ProduceResponse

VARIANTS_MAX = 1024
VARIANTS_BYTES_MAX = 64 << 20
"""Limits of the keyed requests that are built before a run: their number, and their bytes together."""
_PRODUCE_KEY = 0
_TIMEOUT_MS = 30_000
_TAIL_BYTES = 3  # after the batch: the empty tag sections of partition, topic and request
_LENGTH = struct.Struct(">i")
_OFFSET_MARK = 0x0123456789ABCDEF  # a fetch offset that is easy to find in an encoded request


def produce_frame(
    target: Target, partition: int, batch: bytes, acks: int = ACKS_ALL, transactional_id: str | None = None
) -> bytes:
    data = ProduceRequest.PartitionProduceData(index=partition, records=batch)
    topic = ProduceRequest.TopicProduceData(name=target.topic, partition_data=[data])
    request = ProduceRequest(transactional_id, acks=acks, timeout_ms=_TIMEOUT_MS, topic_data=[topic])
    return _framed(_PRODUCE_KEY, target.produce_version, request)


def _framed(api_key: int, version: int, request: object) -> bytes:
    header = encode_request_header(RequestHeader(api_key, version, 0, CLIENT_ID))
    body = b"".join((header, *encode(request, version)))
    return _LENGTH.pack(len(body)) + body


def error_position(target: Target) -> int:
    """Return the position of the error code in the framed response to a produce request of one partition."""
    # Found by encoding two responses that differ in nothing else, because it depends on version and topic name.
    first, second = (_response(target, error_code) for error_code in (0, -1))
    return next(index for index, (a, b) in enumerate(zip(first, second, strict=True)) if a != b)


def _response(target: Target, error_code: int) -> bytes:
    partition = ProduceResponse.PartitionProduceResponse(error_code=error_code)
    topic = ProduceResponse.TopicProduceResponse(name=target.topic, partition_responses=[partition])
    parts = encode(ProduceResponse(responses=[topic]), target.produce_version)
    return bytes(4 + 4 + 1) + b"".join(parts)  # length, correlation id and the empty tag section of the header


def produce_template(
    target: Target, options: LoadOptions, partitions: Sequence[int], transactional_id: str | None = None
) -> ProduceTemplate:
    values = _values(options)
    keys = [None] * options.batch_records
    batches = [(partition, _batch(options, values, keys)) for partition in partitions]
    return _template(target, options, batches, transactional_id)


def _template(
    target: Target, options: LoadOptions, batches: Sequence[tuple[int, bytes]], transactional_id: str | None
) -> ProduceTemplate:
    requests = tuple(
        produce_frame(target, partition, batch, options.acks, transactional_id) for partition, batch in batches
    )
    return ProduceTemplate(
        requests,
        error_position(target),
        tuple(partition for partition, _ in batches),
        tuple(len(request) - _TAIL_BYTES - len(batch) for request, (_, batch) in zip(requests, batches, strict=True)),
    )


def keyed_template(
    target: Target,
    options: LoadOptions,
    partitions: Sequence[int],
    randomness: random.Random,
    transactional_id: str | None = None,
) -> ProduceTemplate:
    """Return produce requests with random keys, placed on partitions by Kafka's default partitioner.

    All keys of a batch belong to its partition. Keys of partitions that this connection does not serve are left out.

    Raises:
        ClientError: no key belongs to any of `partitions`.
    """
    by_partition: dict[int, tuple[list[bytes], list[float]]] = {it: ([], []) for it in partitions}
    for rank in range(1, options.keys + 1):
        key = b"key-%08d" % rank
        found = by_partition.get(partition_of(key, target.partitions))
        if found is not None:
            found[0].append(key)
            found[1].append(rank**-options.key_skew)
    with_keys = [it for it in partitions if by_partition[it][0]]
    if not with_keys:
        raise ClientError(f"none of {options.keys} keys belongs to partitions {partitions}: give more keys")
    weights = [sum(by_partition[it][1]) for it in with_keys]
    values = _values(options)
    size = max(1, options.batch_records * options.record_size)
    chosen = randomness.choices(with_keys, weights, k=max(1, min(VARIANTS_MAX, VARIANTS_BYTES_MAX // size)))
    batches = [
        (partition, _batch(options, values, randomness.choices(*by_partition[partition], k=options.batch_records)))
        for partition in chosen
    ]
    return _template(target, options, batches, transactional_id)


def in_turn(variants: int, first: int) -> Iterator[int]:
    return itertools.islice(itertools.cycle(range(variants)), first % variants, None)


def at_random(variants: int, randomness: random.Random) -> Iterator[int]:
    while True:
        yield randomness.randrange(variants)


def read_template(target: Target, partitions: Sequence[int], starts: Sequence[int], read_bytes: int) -> ReadTemplate:
    """Return one fetch request for each partition. The broker answers at once, even without data."""
    assert target.fetch_version is not None
    version = target.fetch_version
    frames = [fetch_frame(target.topic, partition, read_bytes, version, _OFFSET_MARK) for partition in partitions]
    return ReadTemplate(tuple(frames), frames[0].index(_OFFSET_MARK.to_bytes(8, "big")), version, tuple(starts))


def fetch_frame(topic: str, partition: int, read_bytes: int, version: int, offset: int = 0) -> bytes:
    """Return a framed fetch request for one partition. The broker answers at once, even without data.

    Args:
        read_bytes: maximum size of the records.
        version: version of the Fetch API.
        offset: first offset to read.
    """
    wanted = FetchRequest.FetchPartition(partition, fetch_offset=offset, partition_max_bytes=read_bytes)
    topics = [FetchRequest.FetchTopic(topic=topic, partitions=[wanted])]
    return _framed(FETCH_KEY, version, FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=read_bytes, topics=topics))


def _values(options: LoadOptions) -> list[bytes]:
    randomness = random.Random(options.seed)  # noqa: S311 - records of a load
    # Hexadecimal digits, because codecs compress them to about half, like typical records.
    digits = randomness.randbytes((options.record_size * options.batch_records + 1) // 2).hex().encode()
    size = options.record_size
    return [digits[number * size : (number + 1) * size] for number in range(options.batch_records)]


def _batch(options: LoadOptions, values: Sequence[bytes], keys: Sequence[bytes | None]) -> bytes:
    timestamp = time.time_ns() // 1_000_000
    records = [NewRecord(value, key, timestamp) for value, key in zip(values, keys, strict=True)]
    return build_batch(
        records,
        compression=Compression[options.compression.upper()],
        transactional=bool(options.transaction_requests),
    )
