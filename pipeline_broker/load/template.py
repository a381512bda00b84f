"""Builds produce requests ahead of a run.

Rules of this file: requests come from the codec, byte for byte what any client would send; that only the correlation
id is patched later is `exchange`'s business.
"""

import struct
import time

from pipeline_broker.load.control import CLIENT_ID, Target
from pipeline_broker.load.exchange import ProduceTemplate
from pipeline_broker.records.batch import NewRecord, build_batch
from pipeline_broker.wire.codec import encode
from pipeline_broker.wire.header import RequestHeader, encode_request_header
from pipeline_broker.wire.messages.produce import ProduceRequest, ProduceResponse

ACKS_ALL = -1
_PRODUCE_KEY = 0
_TIMEOUT_MS = 30_000
_LENGTH = struct.Struct(">i")


def produce_frame(target: Target, partition: int, batch: bytes) -> bytes:
    """One framed request with one batch, acks=all and correlation id 0."""
    data = ProduceRequest.PartitionProduceData(index=partition, records=batch)
    topic = ProduceRequest.TopicProduceData(name=target.topic, partition_data=[data])
    request = ProduceRequest(acks=ACKS_ALL, timeout_ms=_TIMEOUT_MS, topic_data=[topic])
    version = target.produce_version
    header = encode_request_header(RequestHeader(_PRODUCE_KEY, version, 0, CLIENT_ID))
    body = b"".join((header, *encode(request, version)))
    return _LENGTH.pack(len(body)) + body


def error_position(target: Target) -> int:
    """Where the error code lies in the framed response to a request of one partition."""
    first, second = (_response(target, error_code) for error_code in (0, -1))
    return next(index for index, (a, b) in enumerate(zip(first, second, strict=True)) if a != b)


def _response(target: Target, error_code: int) -> bytes:
    partition = ProduceResponse.PartitionProduceResponse(error_code=error_code)
    topic = ProduceResponse.TopicProduceResponse(name=target.topic, partition_responses=[partition])
    parts = encode(ProduceResponse(responses=[topic]), target.produce_version)
    return bytes(4 + 4 + 1) + b"".join(parts)  # length, correlation id and the empty tag section of the header


def produce_template(target: Target, record_size: int) -> ProduceTemplate:
    """One request per partition, each with one record of so many bytes."""
    batch = build_batch([NewRecord(bytes(record_size), timestamp=time.time_ns() // 1_000_000)])
    requests = tuple(produce_frame(target, partition, batch) for partition in range(target.partitions))
    return ProduceTemplate(requests, error_position(target))
