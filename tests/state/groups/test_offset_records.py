"""Records of `__consumer_offsets`: Kafka's bytes, and one error for corrupt ones."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.state.errors import CorruptStateRecordError
from pipeline_broker.state.groups.offset_records import (
    CommittedOffset,
    OffsetKey,
    offset_from_value,
    offset_key,
    offset_record,
    record_key,
    record_value,
)
from pipeline_broker.state.groups.records import read_group_record
from pipeline_broker.wire.messages.groups.offset_commit_record import OffsetCommitKey, OffsetCommitValue
from tests.state.group_driver import Driver

NAMES = st.text(st.characters(codec="utf-8"), max_size=20)
INT64 = st.integers(0, 2**63 - 1)


def test_bytes_are_kafkas() -> None:
    """Key type 1 and value version 3, as the schemas of the protocol specify."""
    record = offset_record(OffsetKey("g", "t", 2), CommittedOffset(5, 1, "m", 7))
    assert record.key == b"\0\1" + b"\0\1g" + b"\0\1t" + b"\0\0\0\2"
    assert record.value == b"\0\3" + (5).to_bytes(8) + (1).to_bytes(4) + b"\0\1m" + (7).to_bytes(8)


@given(
    NAMES,
    NAMES,
    st.integers(0, 2**31 - 1),
    INT64,
    NAMES,
    INT64,
    st.integers(-1, 10**12),
    st.binary(min_size=16, max_size=16),
)
def test_offsets_round_trip(group_id, topic, partition, offset, metadata, timestamp, expires, topic_id) -> None:
    """An expiration time excludes leader epoch and topic id, as in Kafka."""
    committed = CommittedOffset(offset, 4, metadata, timestamp, expires, topic_id)
    key = OffsetKey(group_id, topic, partition)
    record = offset_record(key, committed)
    assert offset_key(record.key) == key
    if expires >= 0:
        committed = CommittedOffset(offset, -1, metadata, timestamp, expires)
    assert offset_from_value(record.value) == committed


@pytest.mark.parametrize("metadata", ["", "m" * 126, "m" * 127, "é" * 64, "m" * 20_000])
@pytest.mark.parametrize(("version", "topic_id"), [(3, bytes(16)), (4, bytes(range(16)))])
def test_packed_values_equal_those_of_the_codec(version, topic_id, metadata) -> None:
    committed = CommittedOffset(2**40, -1, metadata, 2**41, topic_id=topic_id)
    value = OffsetCommitValue(
        offset=2**40, leader_epoch=-1, metadata=metadata, commit_timestamp=2**41, topic_id=topic_id
    )
    for group_id, topic, partition in [("g", "t", 0), ("g" * 300, "é", 2**31 - 1)]:
        record = offset_record(OffsetKey(group_id, topic, partition), committed)
        assert record.key == record_key(1, OffsetCommitKey(group=group_id, topic=topic, partition=partition))
        assert record.value == record_value(version, value)


def test_record_types_of_group_protocols_are_ignored() -> None:
    for kind in (9, 18, 24, 99):
        for rest in (b"", b"\0\1g"):
            assert read_group_record(kind.to_bytes(2) + rest, b"whatever") is None


def test_records_cut_short() -> None:
    driver = Driver()
    driver.stable(2)
    records = [record for record in driver.journal if record.value is not None]
    records.append(offset_record(OffsetKey("g", "t", 0), CommittedOffset(1, 1, "metadata", 1, -1, bytes(range(16)))))
    for record in records:
        for end in range(len(record.key)):
            with pytest.raises(CorruptStateRecordError):
                read_group_record(record.key[:end], None)
        for end in range(len(record.value)):
            with pytest.raises(CorruptStateRecordError):
                read_group_record(record.key, record.value[:end])


def test_value_of_an_unknown_version() -> None:
    """A value of a later broker is rejected, not guessed."""
    with pytest.raises(CorruptStateRecordError):
        offset_from_value(b"\0\x09" + bytes(40))
