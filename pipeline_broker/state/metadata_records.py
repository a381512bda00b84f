"""Records of the internal metadata partition: what the broker knows, other than data, groups and offsets.

    key   = int16 type, then                                value = int16 version 0, then
    1 topic         name in UTF-8                           JSON {"id": hex, "partitions": n, "configs": {name: text}}
    2 producer ids  nothing                                 JSON {"next": the first id of no block given out so far}

A value of null means that the topic is gone. A record holds the whole of its subject, so the last one of a key is all
that counts. A type that is not known here was written by a later version and is left alone.

The records of all other types are written and read where their subjects are; their numbers and what every record has in
common are here.
"""

from __future__ import annotations

import enum
import json
import struct
from typing import Any

import attrs

from pipeline_broker.state.outcome import StateRecord

__all__ = [
    "METADATA_TOPIC_ID",
    "CorruptMetadataRecordError",
    "RecordType",
    "Topic",
    "body_of",
    "object_of",
    "producer_ids_record",
    "read_producer_ids",
    "read_topic",
    "record_key",
    "record_type",
    "record_value",
    "subject_of",
    "topic_name",
    "topic_record",
    "topic_tombstone",
]

METADATA_TOPIC_ID = bytes(15) + b"\x01"
"""The internal partition that holds these records; it is in no catalogue, so no client sees it."""
_TYPE = struct.Struct(">h")
_VERSION = _TYPE.pack(0)
TOPIC_ID_SIZE = 16


class RecordType(enum.IntEnum):
    """What records are about; the number at the start of their keys."""

    TOPIC = 1
    PRODUCER_IDS = 2
    CLUSTER = 3
    SETTINGS = 4
    SCRAM_USER = 5
    CLIENT_QUOTA = 6
    ACL = 7
    LOG_START = 8
    FEATURE = 9
    DELEGATION_TOKEN = 10


class CorruptMetadataRecordError(Exception):
    """A record of the metadata partition that cannot be read."""


@attrs.frozen
class Topic:
    """A topic; `configs` holds only what was set for it."""

    name: str
    topic_id: bytes
    partitions: int
    configs: dict[str, str] = attrs.Factory(dict)


def topic_record(topic: Topic) -> StateRecord:
    """The record of a topic as it is."""
    body = {"id": topic.topic_id.hex(), "partitions": topic.partitions, "configs": topic.configs}
    return StateRecord(_topic_key(topic.name), _write(body))


def topic_tombstone(name: str) -> StateRecord:
    """The record that says that a topic is gone."""
    return StateRecord(_topic_key(name), None)


def topic_name(key: bytes) -> str | None:
    """Which topic a record is about; None when it is about something else."""
    return str(subject_of(key), "utf-8") if record_type(key) == RecordType.TOPIC else None


def read_topic(name: str, value: bytes) -> Topic:
    """Read the value of a topic record."""
    body = _read(value)
    try:
        topic = Topic(name, bytes.fromhex(body["id"]), int(body["partitions"]), dict(body["configs"]))
    except (KeyError, TypeError, ValueError) as error:
        raise CorruptMetadataRecordError(f"topic {name!r}: {error!r}") from error
    if len(topic.topic_id) != TOPIC_ID_SIZE or topic.partitions < 1:
        raise CorruptMetadataRecordError(f"topic {name!r}: {body!r}")
    return topic


def producer_ids_record(next_id: int) -> StateRecord:
    """The record that says that all ids below `next_id` belong to blocks given out."""
    return StateRecord(_PRODUCER_IDS_KEY, _write({"next": next_id}))


def read_producer_ids(key: bytes, value: bytes | None) -> int | None:
    """Read the first free id; None when the record is about something else."""
    if key != _PRODUCER_IDS_KEY:
        return None
    body = _read(value or b"")
    next_id = body.get("next")
    if not isinstance(next_id, int):
        raise CorruptMetadataRecordError(f"producer ids: {body!r}")
    return next_id


# What every record has in common


def record_key(kind: RecordType, subject: str = "") -> bytes:
    """The key of a record."""
    return _TYPE.pack(kind) + subject.encode()


def record_type(key: bytes) -> int:
    """What a record is about: a RecordType, or what only a later version knows.

    Raises:
        CorruptMetadataRecordError: the key is too short to say.
    """
    if len(key) < _TYPE.size:
        raise CorruptMetadataRecordError("the key is too short for its type")
    return int(_TYPE.unpack_from(key)[0])


def subject_of(key: bytes) -> bytes:
    """The rest of the key."""
    return key[_TYPE.size :]


def record_value(body: str = "") -> bytes:
    """The value of a record."""
    return _VERSION + body.encode()


def body_of(value: bytes | None) -> bytes:
    """What stands behind the version of a value.

    Raises:
        ValueError: there is none, or one of a version that is not known; the caller says of what.
    """
    if value is None or value[: len(_VERSION)] != _VERSION:
        raise ValueError("a value of a version that is not known")
    return value[len(_VERSION) :]


def object_of(value: bytes | None) -> dict[str, Any]:
    """The same, read as one JSON object.

    Raises:
        TypeError, ValueError: it is none; the caller says of what.
    """
    body = json.loads(body_of(value))
    if not isinstance(body, dict):
        raise TypeError("a value that is not an object")
    return body


_PRODUCER_IDS_KEY = record_key(RecordType.PRODUCER_IDS)


def _topic_key(name: str) -> bytes:
    return record_key(RecordType.TOPIC, name)


def _write(body: dict[str, Any]) -> bytes:
    return record_value(json.dumps(body, sort_keys=True, separators=(",", ":")))


def _read(value: bytes) -> dict[str, Any]:
    try:
        text = body_of(value)
    except ValueError as error:
        raise CorruptMetadataRecordError(str(error)) from None
    try:
        body = json.loads(text)
    except ValueError as error:
        raise CorruptMetadataRecordError(f"a value that is not JSON: {error}") from error
    if not isinstance(body, dict):
        raise CorruptMetadataRecordError(f"a value that is not an object: {body!r}")
    return body
