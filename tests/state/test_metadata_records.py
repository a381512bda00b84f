"""Metadata records: ranges of numbers, and corrupt values."""

from __future__ import annotations

import json
import struct

import pytest

from pipeline_broker.state.errors import CorruptStateRecordError
from pipeline_broker.state.features import read_feature
from pipeline_broker.state.log_starts import read_log_start
from pipeline_broker.state.metadata_records import (
    INT64_MAX,
    RecordType,
    read_producer_ids,
    read_topic_record,
    record_key,
    record_type,
    record_value,
    texts_of,
    topic_tombstone,
)
from pipeline_broker.state.outcome import StateRecord
from pipeline_broker.state.topic_rules import PARTITIONS_MAX

LOG_START_KEY = record_key(RecordType.LOG_START) + struct.pack(">16si", bytes(16), 7)
TOPIC = {"id": bytes(16).hex(), "partitions": 1, "configs": {}}


def body(**fields):
    return record_value(json.dumps(fields))


NUMBERS = {
    "log start": (lambda n: read_log_start(LOG_START_KEY, body(offset=n))[2], 0, INT64_MAX),
    "producer ids": (lambda n: read_producer_ids(record_key(RecordType.PRODUCER_IDS), body(next=n)), 0, INT64_MAX),
    "level": (lambda n: read_feature(record_key(RecordType.FEATURE, "f"), body(level=n, epoch=1))[1], 0, 2**15 - 1),
    "epoch": (lambda n: read_feature(record_key(RecordType.FEATURE, "f"), body(level=1, epoch=n))[2], 0, INT64_MAX),
    "partitions": (
        lambda n: read_topic_record(record_key(RecordType.TOPIC, "t"), body(**TOPIC | {"partitions": n}))[1].partitions,
        1,
        PARTITIONS_MAX,
    ),
}


@pytest.mark.parametrize(("read", "least", "most"), NUMBERS.values(), ids=NUMBERS)
def test_numbers_outside_their_range_are_corrupt(read, least, most):
    assert [read(least), read(most)] == [least, most]
    for beyond in (least - 1, most + 1, True, str(least), float(least), None):
        with pytest.raises(CorruptStateRecordError):
            read(beyond)


def test_a_tombstone_of_a_topic_is_its_key_without_a_value():
    assert topic_tombstone("t") == StateRecord(record_key(RecordType.TOPIC, "t"), None)
    assert read_topic_record(*topic_tombstone("t")) == ("t", None)


def test_a_key_has_at_least_its_type():
    assert record_type(record_key(RecordType.PRODUCER_IDS)) == RecordType.PRODUCER_IDS
    for short in (b"", b"\0"):
        with pytest.raises(CorruptStateRecordError, match="too short"):
            record_type(short)


@pytest.mark.parametrize("value", [None, b"", b"\0", b"\0\1{}", record_value("[]"), record_value("{"), b"\0\0\xff"])
def test_a_value_is_a_json_object_of_a_known_version(value):
    with pytest.raises(CorruptStateRecordError):
        read_producer_ids(record_key(RecordType.PRODUCER_IDS), value)


@pytest.mark.parametrize(
    "change", [{"id": "00"}, {"id": bytes(17).hex()}, {"id": "x"}, {"configs": {"a": 1}}, {"configs": []}]
)
def test_a_topic_has_an_id_of_16_bytes_and_string_settings(change):
    with pytest.raises(CorruptStateRecordError):
        read_topic_record(record_key(RecordType.TOPIC, "t"), body(**TOPIC | change))


@pytest.mark.parametrize("value", [None, "text", [], ["text"], {"a": 1}, {"a": None}])
def test_a_value_that_is_not_an_object_of_strings_is_named_so(value):
    with pytest.raises(TypeError, match="not a JSON object of strings"):
        texts_of(value)


@pytest.mark.parametrize("name", ["", ".", "a/b", "x" * 250])
def test_a_record_needs_a_valid_topic_name(name):
    with pytest.raises(CorruptStateRecordError):
        read_topic_record(record_key(RecordType.TOPIC, name), body(**TOPIC))
    with pytest.raises(CorruptStateRecordError):
        read_topic_record(record_key(RecordType.TOPIC, name), None)
