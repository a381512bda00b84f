"""End markers are written and read like Apache Kafka's."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.records.batch import HEADER_SIZE, NewRecord, build_batch, iterate_batches, read_header
from pipeline_broker.records.control_batch import (
    ABORT,
    COMMIT,
    EndMarker,
    control_type,
    marker_batch,
    parse_marker,
    read_marker,
)
from pipeline_broker.records.errors import InvalidRecord, RecordError

markers = st.builds(EndMarker, st.booleans(), st.integers(-(2**31), 2**31 - 1))


@given(markers, st.integers(0, 2**63 - 1), st.integers(0, 2**15 - 1), st.integers(0, 2**62), st.integers(0, 2**62))
def test_written_markers_are_read_back(marker, producer_id, epoch, timestamp, base_offset):
    batch = marker_batch(producer_id, epoch, marker, timestamp, base_offset=base_offset, leader_epoch=0)
    header = read_header(batch)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (producer_id, epoch, -1)
    assert (header.base_offset, header.max_timestamp, header.record_count) == (base_offset, timestamp, 1)
    assert (header.is_control, header.is_transactional, header.partition_leader_epoch) == (True, True, 0)
    assert read_marker(header, batch) == marker
    assert control_type(header, batch) == (COMMIT if marker.is_commit else ABORT)


@given(markers, st.binary(max_size=20))
def test_bytes_after_a_marker_are_ignored(marker, behind):
    batch = marker_batch(7, 0, marker, 5)
    assert read_marker(read_header(batch), batch + behind) == marker


@given(markers)
def test_a_marker_that_is_cut_off_is_refused(marker):
    batch = marker_batch(7, 0, marker, 5)
    for end in range(len(batch)):
        assert not list(iterate_batches(batch[:end]))
        if end >= HEADER_SIZE:
            with pytest.raises(RecordError):
                read_marker(read_header(batch), batch[:end])


def test_a_marker_has_kafkas_size():
    """66 bytes after the length, as Apache Kafka writes it."""
    batch = marker_batch(7, 0, EndMarker(is_commit=True, coordinator_epoch=0), 1_795_352_187_206)
    assert read_header(batch).batch_length == 66
    assert batch[HEADER_SIZE:].hex() == "2000000008000000010c00000000000000"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b""),
        (b"\0\0\0", bytes(6)),
        (b"\0\0\0\0", None),
        (b"\0\0\0\1", bytes(5)),
        (b"\0\0\0\1", b"\xff\xff" + bytes(4)),
    ],
)
def test_malformed_control_records_are_refused(key, value):
    with pytest.raises(InvalidRecord):
        parse_marker(key, value)


def test_later_versions_of_a_marker_are_read_as_the_first():
    assert parse_marker(b"\0\1\0\1\0", b"\0\1\0\0\0\2more") == EndMarker(is_commit=True, coordinator_epoch=2)


def test_a_control_record_about_something_else_ends_nothing():
    assert parse_marker(b"\0\0\0\2", b"") is None


def test_a_marker_that_compaction_has_emptied_says_nothing():
    header = read_header(build_batch([NewRecord(b"")], control=True))._replace(record_count=0)
    assert (control_type(header, b""), read_marker(header, b"")) == (None, None)
