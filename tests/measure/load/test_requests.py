"""The bytes of requests: the fields that are patched during a run, and those that never change."""

import itertools
import random
import struct
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.client.control import Node, Target
from pipeline_broker.client.errors import ClientError
from pipeline_broker.measure.load.options import LoadOptions
from pipeline_broker.measure.load.requests import (
    PRODUCE,
    READ,
    IdempotentProduce,
    Mixed,
    ProduceInOrder,
    ProduceInTurn,
    ProduceTemplate,
    Reads,
    pattern,
)
from pipeline_broker.measure.load.template import in_turn, keyed_template, produce_template, read_template
from pipeline_broker.records.batch import NewRecord, build_batch, read_header
from pipeline_broker.records.checksum import crc32c
from pipeline_broker.records.murmur2 import partition_of
from pipeline_broker.records.record import iterate_records
from pipeline_broker.wire.codec import decode, encode
from pipeline_broker.wire.header import read_request_header, response_header
from pipeline_broker.wire.messages.data.fetch import FetchRequest, FetchResponse
from pipeline_broker.wire.messages.data.produce import ProduceRequest

PARTITIONS = (0, 1, 2)
TARGET = Target("t", 3, 12, (Node("h", 1, PARTITIONS),), 12)


def options(**given):
    return LoadOptions("h", 1, topic="t", partitions=3, **given)


def requests_in(data):
    found = []
    while data:
        (size,) = struct.unpack_from(">i", data)
        header, position = read_request_header(data[4 : 4 + size])
        message = {0: ProduceRequest, 1: FetchRequest}[header.api_key]
        body, _ = decode(message, header.api_version, data[4 : 4 + size], position)
        found.append((header, body))
        data = data[4 + size :]
    return found


def batch_of(body):
    ((topic,), data) = body.topic_data, body.topic_data[0].partition_data[0]
    assert topic.name == "t"
    return data.index, bytes(data.records)


def test_requests_in_turn_are_the_template_with_their_ids():
    template = produce_template(TARGET, options(record_size=50), PARTITIONS)
    source = ProduceInTurn(template, window=4, first=2)
    sent = requests_in(source.frames(0, 4)) + requests_in(source.frames(4, 1))
    assert [header.correlation_id for header, _ in sent] == [0, 1, 2, 3, 4]
    assert [batch_of(body)[0] for _, body in sent] == [2, 0, 1, 2, 0]
    for _, body in sent:
        (record,) = iterate_records(batch_of(body)[1])
        assert len(record.value) == 50


@given(st.integers(1, 5), st.integers(0, 2), st.integers(0, 9), st.integers(1, 23))
def test_more_requests_than_a_window_are_built_in_pieces(window, first, first_id, count):
    template = produce_template(TARGET, options(), PARTITIONS)
    whole = ProduceInTurn(template, window=count, first=first)
    assert ProduceInTurn(template, window, first).frames(first_id, count) == whole.frames(first_id, count)


def test_requests_follow_a_given_order():
    template = produce_template(TARGET, options(), PARTITIONS)
    source = ProduceInOrder(template, iter([2, 2, 0, 1]))
    sent = requests_in(source.frames(0, 3)) + requests_in(source.frames(3, 1))
    assert [(header.correlation_id, batch_of(body)[0]) for header, body in sent] == [(0, 2), (1, 2), (2, 0), (3, 1)]


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_batches_of_an_idempotent_producer_have_following_sequences_and_valid_checksums(compression):
    template = produce_template(TARGET, options(batch_records=4, compression=compression), PARTITIONS)
    source = IdempotentProduce(template, in_turn(3, 0), records=4)
    source.become(77, 5)
    expected = dict.fromkeys(PARTITIONS, 0)
    for _, body in requests_in(source.frames(0, 7)) + requests_in(source.frames(7, 5)):
        partition, batch = batch_of(body)
        header = read_header(batch)
        assert (header.producer_id, header.producer_epoch) == (77, 5)
        assert header.base_sequence == expected[partition]
        assert header.crc == crc32c(batch[21:])
        assert len(list(iterate_records(batch))) == 4
        expected[partition] += 4
    source.become(78, 0)
    ((_, body),) = requests_in(source.frames(12, 1))
    assert read_header(batch_of(body)[1]).base_sequence == 0, "sequences of a new producer restart at 0"


def test_sequences_wrap_around_to_zero():
    template = produce_template(TARGET, options(), [0])
    source = IdempotentProduce(template, in_turn(1, 0), records=1)
    source._sequences[0] = 2**31 - 1
    sequences = [read_header(batch_of(body)[1]).base_sequence for _, body in requests_in(source.frames(0, 2))]
    assert sequences == [2**31 - 1, 0]


def test_keys_choose_partitions_as_kafkas_producers_do():
    template = keyed_template(TARGET, options(keys=50, batch_records=3), PARTITIONS, random.Random(1))
    assert len(template.requests) > 100
    for request, partition in zip(template.requests, template.partitions, strict=True):
        ((_, body),) = requests_in(request)
        index, batch = batch_of(body)
        keys = [bytes(record.key) for record in iterate_records(batch)]
        assert {partition_of(key, 3) for key in keys} == {partition} == {index}


def test_a_skew_makes_the_first_keys_frequent():
    def frequency(skew):
        template = keyed_template(TARGET, options(keys=100, key_skew=skew), PARTITIONS, random.Random(1))
        keys = Counter()
        for request in template.requests:
            ((_, body),) = requests_in(request)
            keys.update(bytes(record.key) for record in iterate_records(batch_of(body)[1]))
        return keys[b"key-00000001"] / keys.total()

    assert frequency(0) < 0.04
    assert 0.1 < frequency(1) < 0.35, "1 / H(100) is 0.19"


def test_keys_of_other_brokers_partitions_give_an_error():
    (only,) = {partition_of(b"key-00000001", 3)}
    others = [it for it in PARTITIONS if it != only]
    with pytest.raises(ClientError, match="give more keys"):
        keyed_template(TARGET, options(keys=1), others, random.Random(1))


# Reads


def fetched(correlation_id, partition, records, error=0, top_error=0):
    data = FetchResponse.PartitionData(partition, error_code=error, high_watermark=9, records=records)
    topic = FetchResponse.FetchableTopicResponse(topic="t", partitions=[data])
    response = FetchResponse(error_code=top_error, responses=[] if top_error else [topic])
    body = b"".join((response_header(1, 12, correlation_id), *encode(response, 12)))
    return memoryview(struct.pack(">i", len(body)) + body)


def records(base, count):
    return build_batch([NewRecord(b"v", timestamp=1)] * count, base)


def read_offset(source, correlation_id):
    ((header, body),) = requests_in(source.frame(correlation_id))
    assert header.correlation_id == correlation_id
    (partition,) = body.topics[0].partitions
    return partition.partition, partition.fetch_offset


def reads(starts=(3,)):
    return Reads(read_template(TARGET, range(len(starts)), starts, 4096))


def test_a_partition_is_read_from_start_to_end_repeatedly():
    source = reads()
    assert read_offset(source, 0) == (0, 3)
    whole = records(3, 4) + records(7, 2)
    assert source.read(0, fetched(0, 0, whole + records(9, 1)[:-1])) == 0
    assert (source.bytes_read, source.batches_read) == (len(whole), 2), "an incomplete batch is not counted"
    assert read_offset(source, 1) == (0, 9)
    assert source.read(1, fetched(1, 0, b"")) == 0
    assert read_offset(source, 2) == (0, 3), "from the start again"


def test_partitions_are_read_in_turn():
    source = reads((0, 5, 9))
    assert [read_offset(source, number) for number in range(4)] == [(0, 0), (1, 5), (2, 9), (0, 0)]


@pytest.mark.parametrize(("answer", "code"), [({"error": 1}, 1), ({"top_error": 70}, 70)])
def test_errors_of_a_read_are_found_at_every_level(answer, code):
    source = reads()
    source.frame(0)
    assert source.read(0, fetched(0, 0, b"", **answer)) == code


def test_an_invalid_answer_gives_one_error():
    source = reads()
    source.frame(0)
    with pytest.raises(ClientError, match="cannot be decoded"):
        source.read(0, memoryview(bytes(4) + b"\0\0\0\0\xff\xff"))


@given(st.integers(0, 100))
def test_reads_are_spread_evenly_among_a_hundred_requests(percent):
    kinds = pattern(percent / 100)
    assert len(kinds) == 100
    assert kinds.count(READ) == percent
    if 0 < percent < 100:
        rare, count = (READ, percent) if percent <= 50 else (PRODUCE, 100 - percent)
        places = [index for index, kind in enumerate(kinds * 2) if kind == rare]
        gaps = [after - before for before, after in itertools.pairwise(places)]
        assert max(gaps) - min(gaps) <= 1, f"{count} in 100"


def test_reads_and_writes_share_one_connection():
    template = ProduceTemplate(produce_template(TARGET, options(), PARTITIONS).requests, error_position=20)
    source = Mixed(ProduceInTurn(template, 1), reads(), 0.5)
    sent = requests_in(source.frames(0, 6))
    assert [header.api_key for header, _ in sent] == list(source.kinds[:6])
    assert [header.correlation_id for header, _ in sent] == list(range(6))
    first_write = source.kinds.index(PRODUCE)
    assert source.read(first_write, memoryview(bytes(20) + struct.pack(">h", 7))) == 7
    assert source.read(source.kinds.index(READ), fetched(0, 0, b"", error=3)) == 3
    with pytest.raises(ClientError, match="not a produce response"):
        source.read(first_write, memoryview(bytes(8)))
