"""Record batches that no broker should store, with the error that Apache Kafka gives each of them."""

import gzip
import struct

import pytest

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.records.batch import NewRecord, build_batch
from pipeline_broker.records.checksum import crc32c
from tests.bad_input.raw_client import batch_of, fetch_request, produce_answers, produce_request
from tests.tables import each_row

VERSION = 9
ZSTD_FROM = 7
FETCH_VERSION = 11
LENGTH, MAGIC, CRC, ATTRIBUTES, LAST_DELTA, PRODUCER_ID, SEQUENCE, COUNT = 8, 16, 17, 21, 23, 43, 53, 57
BATCH_HEADER = 61
NULL, EMPTY = None, b""


def changed(position, form, value, batch=None, *, sealed=True):
    """A batch with one field replaced, and with the checksum that belongs to it unless told otherwise."""
    data = bytearray(batch_of(b"value", b"value") if batch is None else batch)
    struct.pack_into(form, data, position, value)
    return seal(data) if sealed else bytes(data)


def seal(data):
    struct.pack_into(">I", data, CRC, crc32c(bytes(data[ATTRIBUTES:])))
    return bytes(data)


def with_records(body, count=1, attributes=0):
    """A batch around any bytes."""
    data = bytearray(batch_of(b""))[:BATCH_HEADER] + body
    struct.pack_into(">i", data, LENGTH, len(data) - 12)
    struct.pack_into(">h", data, ATTRIBUTES, attributes)
    struct.pack_into(">i", data, LAST_DELTA, count - 1)
    struct.pack_into(">i", data, COUNT, count)
    return seal(data)


UNREADABLE = {
    "negative length": changed(LENGTH, ">i", -1, sealed=False),
    "length 0": changed(LENGTH, ">i", 0, sealed=False),
    "length below a legacy record": changed(LENGTH, ">i", 13, sealed=False),
    "magic 3": changed(MAGIC, ">b", 3),
    "magic 127": changed(MAGIC, ">b", 127),
}
"""What cannot be read as a batch at all: Kafka then refuses every partition of the request."""

REFUSED = {
    "null records": (NULL, ErrorCode.INVALID_RECORD),
    "no records": (EMPTY, ErrorCode.INVALID_RECORD),
    "half a batch": (batch_of(b"value")[:-1], ErrorCode.INVALID_RECORD),
    "half a header": (batch_of(b"value")[:30], ErrorCode.INVALID_RECORD),
    "a length beyond the rest": (changed(LENGTH, ">i", 2**31 - 1, sealed=False), ErrorCode.INVALID_RECORD),
    "magic 0": (changed(MAGIC, ">b", 0), ErrorCode.INVALID_RECORD),
    "magic 1": (changed(MAGIC, ">b", 1), ErrorCode.INVALID_RECORD),
    "two batches": (batch_of(b"one") + batch_of(b"two"), ErrorCode.INVALID_RECORD),
    "a wrong checksum": (changed(CRC, ">I", 1, sealed=False), ErrorCode.CORRUPT_MESSAGE),
    "a changed value": (changed(-2, ">b", 1, sealed=False), ErrorCode.CORRUPT_MESSAGE),
    "compression 5": (changed(ATTRIBUTES, ">h", 5), ErrorCode.UNKNOWN_SERVER_ERROR),
    "compression 7": (changed(ATTRIBUTES, ">h", 7), ErrorCode.UNKNOWN_SERVER_ERROR),
    "a base offset": (changed(0, ">q", 5), ErrorCode.INVALID_RECORD),
    "a negative base offset": (changed(0, ">q", -1), ErrorCode.INVALID_RECORD),
    "more records than it has": (changed(COUNT, ">i", 3), ErrorCode.INVALID_RECORD),
    "fewer records than it has": (changed(COUNT, ">i", 1), ErrorCode.INVALID_RECORD),
    "no record": (with_records(b"", count=0), ErrorCode.INVALID_RECORD),
    "a negative count": (changed(COUNT, ">i", -1), ErrorCode.INVALID_RECORD),
    "a count of 2^31-1": (with_records(b"\0", count=2**31 - 1), ErrorCode.INVALID_RECORD),
    "a last offset of -1": (changed(LAST_DELTA, ">i", -1), ErrorCode.INVALID_RECORD),
    "the control bit": (batch_of(b"value", control=True), ErrorCode.INVALID_RECORD),
    "a producer id without sequence": (changed(PRODUCER_ID, ">q", 5), ErrorCode.INVALID_RECORD),
    "a record longer than the batch": (with_records(b"\x7e\0\0\0\1\1\0"), ErrorCode.INVALID_RECORD),
    "a record shorter than its content": (with_records(b"\x06\0\0\0\1\1\0"), ErrorCode.INVALID_RECORD),
    "a negative record length": (with_records(b"\1\0\0\0\1\1\0"), ErrorCode.INVALID_RECORD),
    "a varint without end": (with_records(b"\xff" * 12), ErrorCode.INVALID_RECORD),
    "bytes behind the last record": (with_records(b"\x0c\0\0\0\1\1\0" + b"\0"), ErrorCode.INVALID_RECORD),
    "2^31-1 headers": (with_records(b"\x14\0\0\0\1\1\xfe\xff\xff\xff\x0f"), ErrorCode.INVALID_RECORD),
    "a header without a key": (with_records(b"\x10\0\0\0\1\1\2\1\1"), ErrorCode.INVALID_RECORD),
    "more than max.message.bytes": (batch_of(bytes(1_048_588)), ErrorCode.MESSAGE_TOO_LARGE),
    "a timestamp in the future": (
        build_batch([NewRecord(b"value", timestamp=2**62)]),
        ErrorCode.INVALID_TIMESTAMP,
    ),
    "gzip that is none": (with_records(b"no gzip", attributes=1), ErrorCode.UNKNOWN_SERVER_ERROR),
    "snappy that is none": (with_records(b"\xff" * 9, attributes=2), ErrorCode.UNKNOWN_SERVER_ERROR),
    "lz4 that is none": (with_records(b"no lz4 frame", attributes=3), ErrorCode.UNKNOWN_SERVER_ERROR),
    "zstd that is none": (with_records(b"no zstd frame", attributes=4), ErrorCode.UNKNOWN_SERVER_ERROR),
    "compressed zeros that are no records": (
        with_records(gzip.compress(bytes(100)), attributes=1),
        ErrorCode.INVALID_RECORD,
    ),
}

BATCHES = [(name, version) for name in REFUSED for version in (3, 8, 12)]


def appended(broker, partition):
    """The end of a partition's log, as a fetch tells it."""
    with broker.connect() as client:
        response = client.ask(fetch_request("bad-input", partition), FETCH_VERSION)
    return response.responses[0].partitions[0].high_watermark


@each_row("name, version", BATCHES, [f"{name}-{version}" for name, version in BATCHES])
def test_a_bad_batch_is_refused_for_its_partition_only(broker, name, version):
    """The neighbour in the same request is appended, and nothing of the bad one."""
    records, code = REFUSED[name]
    if name == "zstd that is none" and version < ZSTD_FROM:
        code = ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    before = appended(broker, 1)
    with broker.connect() as client:
        response = client.ask(produce_request((1, records), (2, batch_of(b"good"))), version)
        assert response is not None
    assert produce_answers(response) == [(1, code), (2, 0)]
    assert appended(broker, 1) == before
    broker.check_healthy()


@each_row("name", REFUSED, REFUSED)
def test_a_bad_batch_alone_is_refused_the_same_way(broker, name):
    """Also when the like of this request was answered before: the short way knows no other errors."""
    records, code = REFUSED[name]
    with broker.connect() as client:
        for sent, expected in ((batch_of(b"first"), 0), (records, code), (batch_of(b"last"), 0)):
            assert produce_answers(client.ask(produce_request((2, sent)), VERSION)) == [(2, expected)]
    broker.check_healthy()


@pytest.mark.parametrize("name", UNREADABLE)
def test_an_unreadable_first_header_is_2_for_the_whole_request(broker, name):
    before = appended(broker, 1)
    with broker.connect() as client:
        request = produce_request((1, batch_of(b"good")), (2, UNREADABLE[name]))
        assert produce_answers(client.ask(request, VERSION)) == [
            (1, ErrorCode.CORRUPT_MESSAGE),
            (2, ErrorCode.CORRUPT_MESSAGE),
        ]
    assert appended(broker, 1) == before


def test_zstd_needs_version_7(broker):
    batch = batch_of(b"value", compression=4)
    with broker.connect() as client:
        for version, code in ((6, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE), (7, 0)):
            assert produce_answers(client.ask(produce_request((2, batch)), version)) == [(2, code)]


@pytest.mark.parametrize("neighbours", [0, 1, 2])
@pytest.mark.parametrize(
    ("transactional_id", "code"),
    [(None, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED), ("nobody's", ErrorCode.NOT_ENOUGH_REPLICAS)],
)
def test_transactional_records_outside_a_transaction_are_refused(broker, transactional_id, code, neighbours):
    """Without an id for all of the request; with one that the coordinator does not know only where they are."""
    producer = {"producer_id": 5, "producer_epoch": 0, "base_sequence": 0}
    transactional = batch_of(b"value", transactional=True, **producer)
    good = [(index, batch_of(b"good")) for index in range(neighbours)]
    with broker.connect() as client:
        assert produce_answers(client.ask(produce_request((2, batch_of(b"good"))), VERSION)) == [(2, 0)]
        before = appended(broker, 2)
        request = produce_request(*good, (2, transactional))
        request.transactional_id = transactional_id
        codes = [code for _, code in produce_answers(client.ask(request, VERSION))]
    assert codes == [code if transactional_id is None else 0] * neighbours + [code]
    assert appended(broker, 2) == before


def test_plain_records_with_a_transactional_id_are_plain(broker):
    with broker.connect() as client:
        request = produce_request((2, batch_of(b"plain")))
        request.transactional_id = "transaction"
        assert produce_answers(client.ask(request, VERSION)) == [(2, 0)]


def test_offending_records_are_named(broker):
    """From version 8 the response says which records of the batch are at fault."""
    records = [NewRecord(b"a", timestamp=1), NewRecord(b"b", timestamp=2**62), NewRecord(b"c", timestamp=2**62)]
    with broker.connect() as client:
        (answer,) = client.ask(produce_request((1, build_batch(records))), 8).responses[0].partition_responses
    assert answer.error_code == ErrorCode.INVALID_TIMESTAMP
    assert [error.batch_index for error in answer.record_errors] == [1, 2]
