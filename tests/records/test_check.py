"""A produced batch is refused with Kafka's error, or passes with the header the broker stores."""

import contextlib
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.records.batch import HEADER, NewRecord, build_batch, read_header
from pipeline_broker.records.check import DEFAULT_RULES, Rules, check_batch
from pipeline_broker.records.checksum import crc32c
from pipeline_broker.records.errors import CorruptFirstHeader, InvalidRecord, RecordError
from pipeline_broker.records.record import iterate_records
from tests.records.strategies import new_records

NOW_MS = 1_000_000_000
records_of_clients = new_records(st.integers(0, NOW_MS), count_max=200)


def changed(batch: bytes, body: bytes | None = None, **fields: int) -> bytes:
    """Return the batch with other header fields (or records) and the matching checksum."""
    header = read_header(batch)._replace(**fields)
    body = batch[61:] if body is None else body
    header = header._replace(batch_length=49 + len(body))
    raw = HEADER.pack(*header) + body
    return raw[:17] + struct.pack(">I", crc32c(raw[21:])) + raw[21:]


def refused(batch: bytes, name: str, rules: Rules = DEFAULT_RULES, **options: bool) -> RecordError:
    with pytest.raises(RecordError) as caught:
        check_batch(batch, NOW_MS, rules, **options)
    assert caught.value.error_name == name
    return caught.value


ONE = build_batch([NewRecord(b"value", b"key", NOW_MS)])
TWO = build_batch([NewRecord(b"value", b"key", NOW_MS), NewRecord(b"value", b"key", NOW_MS)])


@given(records_of_clients, st.integers(0, 4))
def test_batches_of_clients_pass_unchanged(records, codec):
    batch = build_batch(records, compression=codec)
    assert check_batch(memoryview(batch), NOW_MS) == read_header(batch)


@given(records_of_clients, st.data())
def test_damaged_records_under_a_good_checksum_pass_or_give_the_one_error(records, draw):
    body = bytearray(build_batch(records)[61:])
    for _ in range(draw.draw(st.integers(1, 4))):
        body[draw.draw(st.integers(0, len(body) - 1))] = draw.draw(st.integers(0, 255))
    batch = changed(build_batch(records), bytes(body))
    with contextlib.suppress(InvalidRecord):
        check_batch(batch, NOW_MS, Rules(timestamp_after_max_ms=1 << 70))
        assert len(list(iterate_records(batch))) == len(records), "consumers can read every batch that passes"


@given(records_of_clients, st.integers(0, 4), st.data())
def test_damaged_bytes_pass_or_give_a_record_error(records, codec, draw):
    damaged = bytearray(build_batch(records, compression=codec))
    for _ in range(draw.draw(st.integers(1, 3))):
        damaged[draw.draw(st.integers(0, len(damaged) - 1))] = draw.draw(st.integers(0, 255))
    with contextlib.suppress(RecordError):
        check_batch(bytes(damaged), NOW_MS)


@pytest.mark.parametrize("raw", [None, b"", ONE[:16], ONE[:60], ONE[:-1]])
def test_an_incomplete_batch_is_an_invalid_record(raw):
    refused(raw, "INVALID_RECORD")


@pytest.mark.parametrize("length", [-1, 0, 13])
def test_an_impossible_first_header_has_an_error_of_its_own(length):
    raw = ONE[:8] + struct.pack(">i", length) + ONE[12:]
    assert isinstance(refused(raw, "CORRUPT_MESSAGE"), CorruptFirstHeader)
    assert isinstance(refused(ONE[:16] + b"\x03" + ONE[17:], "CORRUPT_MESSAGE"), CorruptFirstHeader)


def test_two_batches_are_refused_and_a_cut_off_second_one_is_ignored():
    refused(ONE + TWO, "INVALID_RECORD")
    assert check_batch(ONE + TWO[:-1], NOW_MS) == read_header(ONE)
    assert check_batch(ONE + b"short", NOW_MS) == read_header(ONE)
    refused(ONE + bytes(30), "CORRUPT_MESSAGE")


@pytest.mark.parametrize(
    ("batch", "name"),
    [
        (ONE[:16] + b"\x00" + ONE[17:], "INVALID_RECORD"),
        (ONE[:16] + b"\x01" + ONE[17:], "INVALID_RECORD"),
        (ONE[:-1] + b"?", "CORRUPT_MESSAGE"),
        (changed(ONE, attributes=5), "UNKNOWN_SERVER_ERROR"),
        (changed(ONE, base_offset=1), "INVALID_RECORD"),
        (changed(ONE, record_count=2), "INVALID_RECORD"),
        (changed(ONE, record_count=0, last_offset_delta=-1), "INVALID_RECORD"),
        (changed(ONE, record_count=2, last_offset_delta=1), "INVALID_RECORD"),
        (changed(TWO, record_count=1, last_offset_delta=0), "INVALID_RECORD"),
        (changed(ONE, attributes=0x20), "INVALID_RECORD"),
        (changed(ONE, producer_id=1), "INVALID_RECORD"),
        (changed(ONE, attributes=1), "UNKNOWN_SERVER_ERROR"),
        (changed(ONE, attributes=2), "UNKNOWN_SERVER_ERROR"),
        (changed(ONE, attributes=3), "UNKNOWN_SERVER_ERROR"),
        (changed(ONE, attributes=4), "UNKNOWN_SERVER_ERROR"),
        (changed(ONE, b"", attributes=4), "INVALID_RECORD"),
    ],
)
def test_kafkas_error_for(batch, name):
    refused(batch, name)


def test_sizes_are_compared_with_the_topics_rules():
    assert check_batch(ONE, NOW_MS, Rules(size_max=len(ONE)))
    refused(ONE, "MESSAGE_TOO_LARGE", Rules(size_max=len(ONE) - 1))
    refused(ONE, "RECORD_LIST_TOO_LARGE", Rules(segment_size_max=len(ONE) - 1))
    bomb = build_batch([NewRecord(bytes(1 << 20), timestamp=NOW_MS)], compression=4)
    refused(bomb, "MESSAGE_TOO_LARGE", Rules(decompressed_size_max=1 << 19))


def test_zstd_needs_a_recent_request():
    batch = build_batch([NewRecord(b"value", timestamp=NOW_MS)], compression=4)
    assert check_batch(batch, NOW_MS)
    refused(batch, "UNSUPPORTED_COMPRESSION_TYPE", zstd_allowed=False)


def test_compacted_topics_need_keys():
    batch = build_batch([NewRecord(b"value", b"key"), NewRecord(b"value")])
    assert check_batch(batch, NOW_MS)
    assert [index for index, _ in refused(batch, "INVALID_RECORD", Rules(keys_required=True)).record_errors] == [1]


def test_create_times_outside_the_window_are_named():
    stamps = [NOW_MS, NOW_MS + 11, NOW_MS - 21, -1]
    batch = build_batch([NewRecord(b"value", timestamp=stamp) for stamp in stamps])
    rules = Rules(timestamp_before_max_ms=20, timestamp_after_max_ms=10)
    assert [index for index, _ in refused(batch, "INVALID_TIMESTAMP", rules).record_errors] == [1, 2]
    assert check_batch(build_batch([NewRecord(b"value")]), NOW_MS, rules), "a record without timestamp is not judged"


@pytest.mark.parametrize("stamps", [[-2], [-5, -2, -3], [-(10**12)]])
def test_a_largest_timestamp_before_minus_one_is_stored_as_minus_one(stamps):
    """Like Kafka, which starts its search for the largest one there."""
    batch = build_batch([NewRecord(b"value", timestamp=stamp) for stamp in stamps])
    header = check_batch(batch, NOW_MS)
    assert header.max_timestamp == -1
    assert header.base_timestamp == stamps[0]


def test_an_append_time_set_by_a_client_is_not_believed():
    batch = changed(ONE, attributes=0x08)
    header = check_batch(batch, NOW_MS)
    assert header == read_header(ONE), "the bit is cleared, with the checksum that belongs to it"


@given(records_of_clients, st.integers(0, 2**42))
def test_a_wrong_max_timestamp_is_corrected_and_append_time_is_set(records, wrong):
    batch = changed(build_batch(records), max_timestamp=wrong)
    header = check_batch(batch, NOW_MS)
    assert header.max_timestamp == max(-1, *(record.timestamp for record in records))
    header = check_batch(batch, NOW_MS, Rules(append_time=True))
    assert (header.max_timestamp, header.timestamp_type) == (NOW_MS, 1)
