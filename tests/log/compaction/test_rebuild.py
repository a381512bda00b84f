"""Rebuilt batches have the same records at the same offsets, for our reader and for other clients."""

import warnings

from aiokafka.record.default_records import DefaultRecordBatch
from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.log.compaction.rebuild import KeptRecords, empty_batch, rebuilt_batch
from pipeline_broker.records.batch import NewRecord, build_batch, read_header
from pipeline_broker.records.checksum import crc32c
from pipeline_broker.records.record import iterate_records, record_bytes
from pipeline_broker.records.record_places import record_places
from tests.log.compaction.logs import stamped
from tests.records.strategies import new_records

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # kafka-python reads its schemas through a deprecated function
    from kafka.record import MemoryRecords

records_of_clients = new_records(st.integers(-1, 2**42), count_max=12, bytes_max=30)
KEPT = {
    "base_offset",
    "last_offset",
    "partition_leader_epoch",
    "compression",
    "timestamp_type",
    "is_transactional",
    "is_control",
    "producer_id",
    "producer_epoch",
    "base_sequence",
    "last_sequence",
}
horizons = st.none() | st.integers(0, 2**63 - 1)


def filtered(batch, numbers, horizon_ms=None):
    header = read_header(batch)
    data = record_bytes(batch, header)
    places = list(record_places(data, 0, len(data)))
    return rebuilt_batch(header, data, KeptRecords.of(places[number] for number in numbers), horizon_ms)


@st.composite
def batches_and_choices(draw):
    records = draw(records_of_clients)
    batch = build_batch(
        records,
        draw(st.integers(0, 2**60)),
        draw(st.integers(0, 4)),
        producer_id=draw(st.integers(-1, 9)),
        producer_epoch=3,
        base_sequence=draw(st.integers(-1, 2**31 - 1)),
        leader_epoch=draw(st.integers(-1, 9)),
        transactional=draw(st.booleans()),
    )
    if draw(st.booleans()):
        batch = stamped(batch, draw(st.integers(0, 2**42)))
    numbers = draw(st.sets(st.integers(0, len(records) - 1), min_size=1).map(sorted))
    return batch, numbers


@given(batches_and_choices(), horizons)
def test_the_records_that_stay_are_the_same_in_every_respect(choice, horizon_ms):
    batch, numbers = choice
    before = list(iterate_records(batch))
    header, result = filtered(batch, numbers, horizon_ms)
    assert list(iterate_records(result)) == [before[number] for number in numbers]
    assert read_header(result) == header
    assert crc32c(result[21:]) == header.crc
    assert header.delete_horizon_ms == horizon_ms


@given(batches_and_choices(), horizons)
def test_offsets_producer_and_format_fields_are_kept(choice, horizon_ms):
    batch, numbers = choice
    old, (new, _) = read_header(batch), filtered(batch, numbers, horizon_ms)
    for field in KEPT:
        assert getattr(new, field) == getattr(old, field), field
    assert new.record_count == len(numbers)
    read = [it.timestamp for it in iterate_records(batch)]
    assert new.max_timestamp == max(read[number] for number in numbers)


@given(batches_and_choices(), st.integers(0, 2**42), st.data())
def test_a_horizon_once_set_stays_when_more_records_are_removed(choice, horizon_ms, data):
    batch, numbers = choice
    _, first = filtered(batch, numbers, horizon_ms)
    fewer = data.draw(st.sets(st.integers(0, len(numbers) - 1), min_size=1).map(sorted))
    header, second = filtered(first, fewer)
    assert header.delete_horizon_ms == horizon_ms
    before = list(iterate_records(batch))
    assert list(iterate_records(second)) == [before[numbers[number]] for number in fewer]


@given(batches_and_choices())
def test_keeping_all_without_a_horizon_is_no_change_where_the_first_record_is_the_base(choice):
    batch, _ = choice
    header = read_header(batch)
    if header.compression == 0 and header.timestamp_type == 0:
        _, result = filtered(batch, range(header.record_count))
        assert result == batch


@given(batches_and_choices())
def test_an_empty_header_keeps_offsets_sequence_and_max_timestamp(choice):
    batch, _ = choice
    old = read_header(batch)
    header, result = empty_batch(old)
    assert len(result) == 61
    assert read_header(result) == header
    assert crc32c(result[21:]) == header.crc
    assert list(iterate_records(result)) == []
    for field in {*KEPT, "max_timestamp"} - {"compression"}:
        assert getattr(header, field) == getattr(old, field), field
    assert (header.compression, header.record_count, header.base_timestamp) == (0, 0, -1)
    assert empty_batch(header) == (header, result)


def test_timestamps_count_from_the_first_record_that_stays():
    batch = build_batch([NewRecord(b"v", b"k", timestamp=number) for number in (4, 9, 5)])
    header, _ = filtered(batch, [1, 2])
    assert (header.base_timestamp, header.max_timestamp) == (9, 9)
    header, _ = filtered(stamped(batch, 7), [1, 2])
    assert (header.base_timestamp, header.max_timestamp) == (7, 7)


def test_neighbours_that_stay_are_one_run():
    batch = build_batch([NewRecord(b"v", b"k", timestamp=number) for number in (4, 9, 5, 1)])
    data = batch[61:]
    places = list(record_places(data, 0, len(data)))
    kept = KeptRecords.of(places[number] for number in (0, 1, 3))
    assert list(kept.runs) == [0, places[1][2], places[3][0], len(data)]
    assert (kept.count, kept.first_delta, kept.highest_delta, kept.has_tombstone) == (3, 0, 5, False)
    assert KeptRecords.of([]).count == len(KeptRecords.of([]).runs) == 0


def decoded(record):
    return record.offset, record.timestamp, record.key, record.value, list(record.headers)


@given(batches_and_choices(), st.none() | st.integers(0, 2**42))
def test_other_clients_read_rebuilt_batches(choice, horizon_ms):
    batch, numbers = choice
    before = [decoded(record) for record in iterate_records(batch)]
    _, result = filtered(batch, numbers, horizon_ms)
    expected = [before[number] for number in numbers]
    theirs = DefaultRecordBatch(bytearray(result))
    assert theirs.validate_crc()
    assert [decoded(record) for record in theirs] == expected
    if read_header(result).compression in {0, 1}:  # kafka-python reads the others only with libraries of their own
        theirs = MemoryRecords(result).next_batch()
        assert theirs.validate_crc()
        assert [decoded(record) for record in theirs] == expected
