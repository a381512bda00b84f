"""Keys and values of `__consumer_offsets`, byte for byte as Kafka lays them out."""

from __future__ import annotations

import pytest

from pipeline_broker.wire.codec import DecodeError, EncodeError, versions_of
from pipeline_broker.wire.coordinator_record import encode_key, encode_value, read_key, read_value
from pipeline_broker.wire.messages.group_metadata_record import GroupMetadataKey, GroupMetadataValue
from pipeline_broker.wire.messages.offset_commit_record import (
    LegacyOffsetCommitKey,
    LegacyOffsetCommitValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from tests.wire.generated import sample

KEYS = [
    (LegacyOffsetCommitKey("g", "t", 3), b"\x00\x00\x00\x01g\x00\x01t\x00\x00\x00\x03"),
    (OffsetCommitKey("g", "t", 3), b"\x00\x01\x00\x01g\x00\x01t\x00\x00\x00\x03"),
    (GroupMetadataKey("group"), b"\x00\x02\x00\x05group"),
]

VALUES = [
    (LegacyOffsetCommitValue(1, "m", 2), 0, b"\0\0" + b"\0" * 7 + b"\x01\x00\x01m" + b"\0" * 7 + b"\x02"),
    (
        OffsetCommitValue(offset=1, leader_epoch=5, metadata="m", commit_timestamp=2),
        3,
        b"\x00\x03" + b"\0" * 7 + b"\x01\x00\x00\x00\x05\x00\x01m" + b"\0" * 7 + b"\x02",
    ),
    (
        OffsetCommitValue(offset=1, leader_epoch=5, metadata="m", commit_timestamp=2, topic_id=b"t" * 16),
        4,
        b"\x00\x04" + b"\0" * 7 + b"\x01\x00\x00\x00\x05\x02m" + b"\0" * 7 + b"\x02\x01\x00\x10" + b"t" * 16,
    ),
    (
        GroupMetadataValue(protocol_type="consumer", generation=2, protocol=None, leader=None),
        3,
        b"\x00\x03\x00\x08consumer\x00\x00\x00\x02\xff\xff\xff\xff" + b"\xff" * 8 + b"\x00\x00\x00\x00",
    ),
]


@pytest.mark.parametrize(("key", "data"), KEYS, ids=lambda value: type(value).__name__)
def test_keys_byte_for_byte(key, data):
    """The type of two bytes, then the fields, never flexible."""
    assert encode_key(key) == data
    assert read_key(memoryview(data)) == key


@pytest.mark.parametrize(("value", "version", "data"), VALUES)
def test_values_byte_for_byte(value, version, data):
    """The version of two bytes, then the fields."""
    assert encode_value(value, version) == data
    assert read_value(type(value), memoryview(data)) == value


@pytest.mark.parametrize("message", [LegacyOffsetCommitValue, OffsetCommitValue, GroupMetadataValue])
def test_values_of_every_version_are_read_and_cut_ones_refused(message):
    for version in versions_of(message):
        value = sample(message, version)
        data = encode_value(value, version)
        assert read_value(message, data) == value
        for size in range(len(data)):
            with pytest.raises(DecodeError):
                read_value(message, data[:size])


def test_a_key_of_an_unknown_type_is_none():
    """A replay steps over what a newer broker wrote."""
    assert read_key(b"\x00\x63anything") is None


@pytest.mark.parametrize("data", [b"", b"\x00", b"\x00\x01", b"\x00\x01\x00\x09g"])
def test_broken_keys_are_decode_errors(data):
    with pytest.raises(DecodeError):
        read_key(data)


def test_a_value_of_an_unknown_version_is_a_decode_error():
    with pytest.raises(DecodeError, match="version 9"):
        read_value(OffsetCommitValue, b"\x00\x09" + bytes(40))


def test_a_value_that_the_version_cannot_carry_is_dropped_where_the_schema_allows_it():
    """The leader epoch may be lost in version 0; a null metadata may not be written at all."""
    assert read_value(OffsetCommitValue, encode_value(OffsetCommitValue(1, 5, "m", 2), 0)).leader_epoch == -1
    with pytest.raises(EncodeError):
        encode_value(OffsetCommitValue(1, 5, None, 2), 3)
