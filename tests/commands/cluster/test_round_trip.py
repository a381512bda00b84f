"""`consume --json | produce --json` copies records exactly."""

import os

import pytest

from pipeline_broker.records.batch import NewRecord, build_batch, iterate_batches
from pipeline_broker.records.compression import Compression
from pipeline_broker.records.record import iterate_records
from pipeline_broker.wire.messages.topics.create_topics import CreateTopicsRequest
from tests.bad_input.raw_client import RawClient, fetch_request, produce_answers, produce_request

FETCH_VERSION, PRODUCE_VERSION = 12, 9
RECORDS = [
    NewRecord(b"v", b"k", -5000),
    NewRecord(b"v", b"k", -1, (("b\udcfcro", b"1"), ("b\udcfcro", None), ("", b""), ("n\N{SNOWMAN}", b"\xff"))),
    NewRecord(None, b"tombstone", -2),
    NewRecord(b"", None, 0),
    NewRecord(b"\xff\x00", b"\xfe", 1_700_000_000_000),
    NewRecord(b'{"value": null}', b"null", -(2**40)),
    NewRecord(b"123456789012345678901234567890", b"1e400", 2**40),
    NewRecord("\ud7ff\u2028 \x00\n".encode(), b"\r\n\t", 5),
]


@pytest.fixture
def client(one_broker):
    with RawClient(int(one_broker.bootstrap_servers.rpartition(":")[2])) as client:
        yield client


def create(client, name):
    configs = [CreateTopicsRequest.CreatableTopicConfig("retention.ms", "-1")]
    topic = CreateTopicsRequest.CreatableTopic(name, 1, 1, configs=configs)
    assert client.ask(CreateTopicsRequest([topic], 10_000), 5).topics[0].error_code == 0


def held(client, name):
    records = client.ask(fetch_request(name, 0), FETCH_VERSION).responses[0].partitions[0].records
    return [
        record._replace(offset=0, sequence=0)
        for header, batch in iterate_batches(bytes(records))
        for record in iterate_records(batch, header, name_errors="surrogateescape")
    ]


@pytest.mark.parametrize("codec", Compression)
def test_every_record_is_copied_exactly(call, client, name, codec):
    copy = f"{name}-copy"
    create(client, name)
    create(client, copy)
    for records in (RECORDS[:2], RECORDS[2:]):
        answer = client.ask(produce_request((0, build_batch(records, compression=codec)), topic=name), PRODUCE_VERSION)
        assert produce_answers(answer) == [(0, 0)]
    call("produce", copy, "--json", "-z", codec.name.lower(), data=call("consume", name, "--json").raw)
    assert held(client, copy) == held(client, name)
    assert len(held(client, copy)) == len(RECORDS)


def test_arguments_that_are_not_utf8_are_written_unchanged(call, client, name):
    create(client, name)
    call("produce", name, "-H", os.fsdecode(b"b\xfcro=\xff"), "-k", os.fsdecode(b"\xfe"), data=b"v\n")
    assert [(it.key, it.headers) for it in held(client, name)] == [(b"\xfe", (("b\udcfcro", b"\xff"),))]
    assert call("consume", name, "-f", "%k %h").raw.rstrip(b"\n") == b"\xfe b\xfcro=\xff"
