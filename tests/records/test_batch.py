"""Batches round trip, are restamped without touching the checksum, and are understood by other clients."""

import contextlib
import warnings

import pytest
from aiokafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.records.batch import (
    DELETE_HORIZON_BIT,
    NewRecord,
    assembled,
    build_batch,
    iterate_batches,
    read_header,
    restamp,
    with_times,
)
from pipeline_broker.records.checksum import crc32c
from pipeline_broker.records.errors import CorruptRecord, InvalidRecord, RecordError
from pipeline_broker.records.record import Record, iterate_records
from tests.records.strategies import new_records

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # kafka-python reads its schemas through a deprecated function
    from kafka.record import MemoryRecords

records_of_clients = new_records(st.integers(0, 2**42), count_max=20)
codecs = st.integers(0, 4)


@given(records_of_clients, codecs, st.integers(0, 2**62), st.integers(-1, 2**31 - 1))
def test_records_round_trip_with_offsets_and_sequences(records, codec, base_offset, base_sequence):
    batch = build_batch(records, base_offset, codec, producer_id=7, producer_epoch=1, base_sequence=base_sequence)
    header = read_header(b"xx" + batch, 2)
    assert (header.size_bytes, header.compression, header.record_count) == (len(batch), codec, len(records))
    assert header.last_offset == base_offset + len(records) - 1
    assert crc32c(batch[21:]) == header.crc
    read = list(iterate_records(memoryview(batch)))
    assert read == [
        Record(
            base_offset + index,
            record.timestamp,
            record.key,
            record.value,
            record.headers,
            -1 if base_sequence < 0 else (base_sequence + index) % 2**31,
        )
        for index, record in enumerate(records)
    ]
    assert header.last_sequence == read[-1].sequence


@given(records_of_clients, codecs, st.integers(0, 2**62), st.integers(0, 2**31 - 1))
def test_restamping_changes_place_and_epoch_only(records, codec, base_offset, epoch):
    batch = build_batch(records, compression=codec)
    head, rest = restamp(read_header(batch), batch, base_offset, epoch)
    stamped = head + rest
    header = read_header(stamped)
    assert (header.base_offset, header.partition_leader_epoch) == (base_offset, epoch)
    assert stamped[16:] == batch[16:]
    assert crc32c(stamped[21:]) == header.crc
    assert rest.obj is batch, "the payload is not copied"


@given(records_of_clients, st.integers(0, 2**42), st.booleans())
def test_corrected_times_come_with_their_checksum(records, timestamp, append_time):
    batch = b"??" + build_batch(records)
    header = with_times(read_header(batch, 2), batch, timestamp, append_time=append_time, position=2)
    head, rest = restamp(header, batch, 5, 0, position=2)
    stamped = head + rest
    assert crc32c(stamped[21:]) == read_header(stamped).crc
    if append_time:
        assert {record.timestamp for record in iterate_records(stamped)} == {timestamp}


@given(records_of_clients, codecs)
def test_a_batch_put_together_from_its_header_and_payload_is_the_same(records, codec):
    batch = build_batch(records, 3, codec, leader_epoch=5)
    header = read_header(batch)
    assert assembled(header._replace(batch_length=0, crc=0), batch[61:]) == (header, batch)


@given(records_of_clients, codecs, st.integers(2**43, 2**62))
def test_timestamps_count_from_the_delete_horizon_if_set(records, codec, horizon_ms):
    first = records[0].timestamp
    header = read_header(build_batch(records, compression=codec))
    assert header.delete_horizon_ms is None
    moved = [record._replace(timestamp=record.timestamp - first + horizon_ms) for record in records]
    batch = build_batch(moved, compression=codec)  # the horizon is the base of the same deltas
    attributes = codec | DELETE_HORIZON_BIT
    header, batch = assembled(read_header(batch)._replace(attributes=attributes), batch[61:])
    assert header.delete_horizon_ms == horizon_ms
    assert [it.timestamp for it in iterate_records(batch)] == [record.timestamp for record in moved]


@given(st.lists(records_of_clients, max_size=4), st.data())
def test_batches_are_cut_apart_and_a_partial_last_one_is_left_out(groups, draw):
    batches = [build_batch(records, base_offset=index) for index, records in enumerate(groups)]
    joined = b"".join(batches)
    assert [bytes(view) for _, view in iterate_batches(joined)] == batches
    if batches:
        cut = draw.draw(st.integers(1, len(batches[-1])))
        assert [bytes(view) for _, view in iterate_batches(joined[:-cut])] == batches[:-1]


@given(records_of_clients, codecs, st.data())
def test_damaged_bytes_are_read_or_give_the_one_error(records, codec, draw):
    damaged = bytearray(build_batch(records, compression=codec))
    for _ in range(draw.draw(st.integers(1, 4))):
        damaged[draw.draw(st.integers(0, len(damaged) - 1))] = draw.draw(st.integers(0, 255))
    with contextlib.suppress(RecordError):
        for header, batch in iterate_batches(damaged):
            list(iterate_records(batch, header, size_max=1 << 20))


@pytest.mark.parametrize(
    ("damage", "error"),
    [
        (lambda b: b[:16], InvalidRecord),
        (lambda b: b[:-1], InvalidRecord),
        (lambda b: b[:8] + (13).to_bytes(4, "big") + b[12:], CorruptRecord),
        (lambda b: b[:8] + (48).to_bytes(4, "big") + b[12:], CorruptRecord),
        (lambda b: b[:8] + b"\xff\xff\xff\xff" + b[12:], CorruptRecord),
        (lambda b: b[:16] + b"\x03" + b[17:], CorruptRecord),
        (lambda b: b[:16] + b"\xff" + b[17:], CorruptRecord),
        (lambda b: b[:16] + b"\x01" + b[17:], InvalidRecord),
    ],
)
def test_an_unreadable_header_has_kafkas_error(damage, error):
    with pytest.raises(error):
        read_header(damage(build_batch([NewRecord(b"value")])))


@given(records_of_clients, st.sampled_from([0, 1, 2, 3, 4]))
def test_kafka_python_and_aiokafka_read_our_batches(records, codec):
    batch = build_batch(records, 9, codec, producer_id=3, producer_epoch=0, base_sequence=0)
    expected = [(9 + i, r.timestamp, r.key, r.value, list(r.headers)) for i, r in enumerate(records)]
    if codec in (0, 1):  # kafka-python reads the others only with libraries of their own
        theirs = MemoryRecords(batch).next_batch()
        assert theirs.validate_crc()
        assert [(r.offset, r.timestamp, r.key, r.value, list(r.headers)) for r in theirs] == expected
    theirs = DefaultRecordBatch(bytearray(batch))
    assert theirs.validate_crc()
    assert [(r.offset, r.timestamp, r.key, r.value, list(r.headers)) for r in theirs] == expected


@given(records_of_clients, st.sampled_from([0, 1, 2, 3, 4]))
def test_we_read_batches_of_aiokafka(records, codec):
    builder = DefaultRecordBatchBuilder(2, codec, 0, 5, 0, 11, 1 << 20)
    for index, record in enumerate(records):
        builder.append(index, record.timestamp, record.key, record.value, list(record.headers))
    read = list(iterate_records(bytes(builder.build())))
    assert [(r.timestamp, r.key, r.value, r.headers) for r in read] == [
        (r.timestamp, r.key, r.value, r.headers) for r in records
    ]
    assert [r.sequence for r in read] == [11 + i for i in range(len(records))]
