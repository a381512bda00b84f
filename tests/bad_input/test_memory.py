"""What a client declares costs nothing; what it sends costs about its size; and nobody else waits long for it."""

import contextlib
import struct
import time

import pytest

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.records.batch import NewRecord, build_batch
from pipeline_broker.records.compression import Compression, compress
from pipeline_broker.records.decompression import DECOMPRESSED_SIZE_MAX
from pipeline_broker.records.record_walk import RECORD_HEADERS_MAX
from pipeline_broker.records.varint import write_varint
from pipeline_broker.wire.header import RequestHeader, encode_request_header
from pipeline_broker.wire.primitives import ELEMENTS_MAX, LARGE_BYTES, write_uvarint
from pipeline_broker.wire.registry import ApiKey
from tests.bad_input.conftest import TOPIC
from tests.bad_input.raw_client import batch_of, fetch_request, frame_of, produce_answers, produce_request
from tests.bad_input.test_records import with_records

MEGABYTE = 1 << 20
PRODUCE_VERSION = 9
LARGE_FRAME_BYTES = 5 * MEGABYTE
EMPTY_TOPIC = b"\1\1\0"
CONNECTION_BYTES_MAX = 25_000
TAGGED_FIELDS = 20_000_000
FORBIDDEN_SECONDS = 10.0
"""Nobody waits for so long because of somebody else's request; a machine that is idle needs a tenth of it."""


def header_of(key, version):
    return encode_request_header(RequestHeader(key, version, 1, None))


def test_500_connections_that_each_declare_100_megabytes(broker):
    """Case 57: 50 GB are declared, and a few bytes are sent (CVE-2022-34917)."""
    before, sockets = broker.memory_bytes(), broker.open_sockets()
    broker.reset_memory_peak()
    clients = []
    for _ in range(10):
        clients += [broker.connect() for _ in range(50)]
        for client in clients[-50:]:
            client.send(struct.pack(">i", 100 * MEGABYTE) + header_of(ApiKey.PRODUCE, PRODUCE_VERSION))
        broker.check_healthy()
    assert broker.memory_bytes("VmHWM") - before < 500 * CONNECTION_BYTES_MAX + 10 * MEGABYTE
    for client in clients:
        client.socket.close()
    broker.wait_for_sockets(sockets)  # the next test would count them


def growth_of(broker, crowd):
    """Return the growth of the broker over twenty crowds, in bytes."""
    before = broker.memory_at_rest()
    for _ in range(20):
        crowd()
    return broker.memory_at_rest() - before


def test_frames_that_never_end_cost_what_was_sent_and_nothing_once_they_are_gone(broker):
    """The memory of one crowd is free for the next. Case 57."""

    def crowd():
        clients = [broker.connect() for _ in range(10)]
        for client in clients:
            client.send(struct.pack(">i", 100 * MEGABYTE) + bytes(3 * MEGABYTE))
        broker.check_healthy()
        for client in clients:
            client.socket.close()
        broker.wait_for_sockets(sockets)

    broker.check_healthy()  # its connection is accepted by now, and counts
    sockets, before = broker.open_sockets(), broker.memory_bytes()
    broker.reset_memory_peak()
    crowd()
    assert broker.memory_bytes("VmHWM") - before < 90 * MEGABYTE
    # One of two hundred frames is 3 MB. A frame that is never freed would show in each round.
    assert any(growth_of(broker, crowd) < 3 * MEGABYTE for _ in range(3))


def test_large_requests_that_stop_halfway_hold_no_more_than_their_bound_and_other_large_ones_get_through(broker):
    """Ten clients send 60 MB each of a declared 100 MB and wait: 600 MB, were there no bound."""
    broker.check_healthy()
    sockets, before = broker.open_sockets(), broker.memory_bytes()
    broker.reset_memory_peak()
    clients = [broker.connect() for _ in range(10)]
    for client in clients:
        client.send(struct.pack(">i", 100 * MEGABYTE))
        client.socket.settimeout(0.5)
        with contextlib.suppress(TimeoutError):  # it is not read any more
            for _ in range(60):
                client.socket.sendall(bytes(MEGABYTE))
    began = time.monotonic()
    broker.check_healthy()
    assert time.monotonic() - began < FORBIDDEN_SECONDS
    assert broker.memory_bytes("VmHWM") - before < 400 * MEGABYTE
    with broker.connect() as other:
        other.socket.settimeout(30)
        response = other.ask(produce_request((0, batch_of(b"x" * 900_000))), PRODUCE_VERSION)
        assert produce_answers(response) == [(0, 0)]
    assert "large requests arrived too slowly" in broker.process.stderr[broker.stderr_seen :]
    broker.stderr_seen = len(broker.process.stderr)
    for client in clients:
        client.socket.close()
    broker.wait_for_sockets(sockets)


@pytest.mark.parametrize("false", [2**31 - 1, 100 * MEGABYTE])
def test_a_count_or_length_beyond_the_frame_allocates_nothing(broker, false):
    """Case 60."""
    before = broker.memory_bytes()
    broker.reset_memory_peak()
    compact, fixed = write_uvarint(false + 1), struct.pack(">i", false)
    for body in (
        header_of(ApiKey.METADATA, 9) + compact,
        header_of(ApiKey.METADATA, 1) + fixed,
        header_of(ApiKey.PRODUCE, 9) + b"\0" + bytes(6) + compact + b"\1" + compact,
        header_of(ApiKey.PRODUCE, 7) + b"\xff\xff" + bytes(6) + b"\0\0\0\1\0\1x" + b"\0\0\0\1" + bytes(4) + fixed,
        header_of(ApiKey.FETCH, 11) + bytes(25) + fixed,
        header_of(ApiKey.METADATA, 9)[:-1] + write_uvarint(false),
    ):
        with broker.connect() as client:
            assert client.ask_raw(body + bytes(64)) is None
    assert broker.memory_bytes("VmHWM") - before < 32 * MEGABYTE


SMALL_ELEMENTS = {
    "topics of a produce request": header_of(ApiKey.PRODUCE, 9)
    + bytes(7)
    + write_uvarint(LARGE_FRAME_BYTES // 3)
    + EMPTY_TOPIC * (LARGE_FRAME_BYTES // 3),
    "topics of a metadata request": header_of(ApiKey.METADATA, 9)
    + write_uvarint(LARGE_FRAME_BYTES // 2)
    + b"\1\0" * (LARGE_FRAME_BYTES // 2),
    "topics of an offsets request": header_of(ApiKey.LIST_OFFSETS, 6)
    + bytes(5)
    + write_uvarint(LARGE_FRAME_BYTES // 3)
    + EMPTY_TOPIC * (LARGE_FRAME_BYTES // 3),
    "forgotten partitions of a fetch": header_of(ApiKey.FETCH, 11)
    + bytes(29)
    + struct.pack(">ihi", 1, 0, LARGE_FRAME_BYTES // 4)
    + bytes(LARGE_FRAME_BYTES),
    "tagged fields of a request": header_of(ApiKey.METADATA, 9)
    + b"\1\0\0\0"
    + write_uvarint(LARGE_FRAME_BYTES // 2)
    + b"\1\0" * (LARGE_FRAME_BYTES // 2),
    "tagged fields of a header": header_of(ApiKey.METADATA, 9)[:-1]
    + write_uvarint(LARGE_FRAME_BYTES // 2)
    + b"\1\0" * (LARGE_FRAME_BYTES // 2),
}


@pytest.mark.parametrize("name", SMALL_ELEMENTS)
def test_millions_of_tiny_elements_are_refused_before_they_are_made(broker, name):
    """Two bytes on the wire are fifty or more as an object: a frame of 100 MB would come to gigabytes.

    Cases 62 and 66.
    """
    before = broker.memory_bytes()
    broker.reset_memory_peak()
    with broker.connect() as client:
        started = time.monotonic()
        assert client.ask_raw(SMALL_ELEMENTS[name] + bytes(16)) is None
        broker.check_healthy()
        assert time.monotonic() - started < FORBIDDEN_SECONDS
    assert broker.memory_bytes("VmHWM") - before < 48 * MEGABYTE


def test_20_million_tagged_fields_in_a_header_cost_what_was_sent(broker):
    """Case 62: 40 MB of them are received and refused without one of them being made (CVE-2026-111115)."""
    header = header_of(ApiKey.METADATA, 9)[:-1] + write_uvarint(TAGGED_FIELDS) + b"\1\0" * TAGGED_FIELDS
    before = broker.memory_bytes()
    broker.reset_memory_peak()
    with broker.connect() as client:
        assert client.ask_raw(header + bytes(16)) is None
        broker.check_healthy()
    assert broker.memory_bytes("VmHWM") - before < 2 * len(header) + 10 * MEGABYTE
    broker.wait_for_memory(before + 10 * MEGABYTE)


def test_as_many_elements_as_an_uncounted_frame_holds_are_answered(broker):
    """The largest frame whose elements nobody counts, and a larger one with as many as there may be."""
    for count in (LARGE_BYTES // len(EMPTY_TOPIC) - 20, ELEMENTS_MAX):
        with broker.connect() as client:
            body = header_of(ApiKey.PRODUCE, 9) + b"\0" + struct.pack(">hi", -1, 1000)
            started = time.monotonic()
            assert client.ask_raw(body + write_uvarint(count + 1) + EMPTY_TOPIC * count + b"\0") is not None
            broker.check_healthy()
            assert time.monotonic() - started < FORBIDDEN_SECONDS


def headers_bomb(count):
    """One record with so many empty headers, two bytes each, all alike."""
    body = bytearray(b"\0\0\0\1\1")
    write_varint(body, count)
    body += b"\0\1" * count
    record = bytearray()
    write_varint(record, len(body))
    return bytes(record + body)


def value_bomb(codec):
    """One record of zeros that is larger than what is decompressed; snappy's blocks say so, the others grow."""
    if codec is Compression.SNAPPY:
        return with_records(b"\xff\xff\xff\xff\x07" + bytes(9), attributes=codec)
    return build_batch([NewRecord(bytes(DECOMPRESSED_SIZE_MAX), timestamp=1_700_000_000_000)], compression=codec)


@pytest.mark.parametrize("codec", [codec for codec in Compression if codec], ids=lambda codec: codec.name)
def test_a_decompression_bomb_is_10_and_takes_bounded_memory(broker, codec):
    batch = value_bomb(codec)
    assert len(batch) < MEGABYTE
    before = broker.memory_bytes()
    broker.reset_memory_peak()
    with broker.connect() as client:
        for version in (8, 9):
            started = time.monotonic()
            response = client.ask(produce_request((1, batch)), version)
            assert produce_answers(response) == [(1, ErrorCode.MESSAGE_TOO_LARGE)]
            assert time.monotonic() - started < FORBIDDEN_SECONDS
    assert broker.memory_bytes("VmHWM") - before < 2.5 * DECOMPRESSED_SIZE_MAX


def test_a_bomb_of_record_headers_is_10_at_once(broker):
    """They compress to nothing, and every one of them would have to be looked at."""
    for count, code in ((RECORD_HEADERS_MAX, 0), (RECORD_HEADERS_MAX + 1, 10), (10_000_000, 10)):
        batch = with_records(compress(Compression.ZSTD, headers_bomb(count)), attributes=Compression.ZSTD)
        with broker.connect() as client:
            started = time.monotonic()
            assert produce_answers(client.ask(produce_request((1, batch)), PRODUCE_VERSION)) == [(1, code)]
            assert time.monotonic() - started < FORBIDDEN_SECONDS


def test_a_duplicate_among_many_partitions_is_found_quickly(broker):
    """Comparing every partition with every other one would take minutes. Case 66."""
    count = 20_000
    partitions = b"".join(struct.pack(">iiq", index, -1, -1) for index in range(count)) + struct.pack(">iiq", 0, -1, -1)
    body = struct.pack(">ib", -1, 0) + struct.pack(">ih1si", 1, 1, b"x", count + 1) + partitions
    with broker.connect() as client:
        started = time.monotonic()
        assert client.ask_raw(header_of(ApiKey.LIST_OFFSETS, 5) + body) is not None
        assert time.monotonic() - started < FORBIDDEN_SECONDS


def test_clients_that_read_nothing_are_not_buffered_for(broker):
    """Unsent responses are bounded: 20 clients ask for 500 MB that they never read. Case 48."""
    with broker.connect() as client:
        records = build_batch([NewRecord(bytes(900_000), timestamp=1_700_000_000_000)])
        assert produce_answers(client.ask(produce_request((2, records)), PRODUCE_VERSION)) == [(2, 0)]
    request = frame_of(fetch_request(TOPIC, 2, bytes_max=2**31 - 1), 11)
    before = broker.memory_bytes()
    broker.reset_memory_peak()
    clients = [broker.connect() for _ in range(20)]
    for client in clients:
        client.send((struct.pack(">i", len(request)) + request) * 30)
    broker.check_healthy()
    assert broker.memory_bytes("VmHWM") - before < 64 * MEGABYTE
    for client in clients:
        client.socket.close()
