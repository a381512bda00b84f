"""Choosing records by their keys returns the same records as reading all, whatever the bytes are."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.records.batch import HEADER_SIZE, NewRecord, build_batch, read_header
from pipeline_broker.records.errors import InvalidRecord, RecordError
from pipeline_broker.records.record import chosen_records, iterate_records
from tests.drawn import drawn, measured
from tests.records.strategies import new_records

batches = st.builds(build_batch, new_records(st.integers(0, 2**42), count_max=10, bytes_max=6), st.just(5))


def found_in(records):
    """Return the records up to the first unreadable one, and whether that exists."""
    found = []
    try:
        found.extend(records)
    except RecordError:
        return found, True
    return found, False


@given(batches, st.sampled_from([lambda key: key is None, bool, lambda _: False]))
def test_only_chosen_records_are_returned(batch, is_chosen):
    header = read_header(batch)
    expected = [(it.offset, it if is_chosen(it.key) else None) for it in iterate_records(batch, header)]
    assert list(chosen_records(batch, header, is_chosen)) == expected


@measured(broken=0.2, whole=0.05)
@given(st.data())
def test_the_same_records_of_damaged_bytes_are_read(data):
    batch = bytearray(data.draw(batches))
    batch[data.draw(st.integers(HEADER_SIZE, len(batch) - 1))] ^= data.draw(st.integers(1, 255))
    header = read_header(batch)._replace(
        record_count=read_header(batch).record_count + data.draw(st.just(0) | st.integers(-1, 1))
    )
    expected = found_in(iterate_records(batch, header))
    drawn("broken" if expected[1] else "whole")
    assert found_in(chosen_records(batch, header, lambda _: True)) == (
        [(it.offset, it) for it in expected[0]],
        expected[1],
    )


def test_nothing_after_the_key_of_a_skipped_record_is_read():
    # length, attributes, timestamp, offset, key "a", value "v", and five headers that are not there
    unwanted, wanted = b"\x10\0\0\0\2a\2v\x0a", b"\x10\0\0\2\2b\2v\0"
    batch = build_batch([NewRecord(b"v", b"a", 1), NewRecord(b"v", b"b", 1)])[:HEADER_SIZE] + unwanted + wanted
    header = read_header(batch)
    (_, left_out), (_, found) = chosen_records(batch, header, lambda key: key == b"b")
    assert left_out is None
    assert found.key == b"b"
    with pytest.raises(InvalidRecord):
        list(iterate_records(batch, header))
