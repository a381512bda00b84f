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

import contextlib
import enum
import json
import struct
from collections.abc import Iterator, Mapping
from typing import Any

import attrs

from pipeline_broker.state.errors import CorruptStateRecordError
from pipeline_broker.state.outcome import StateRecord
from pipeline_broker.state.topic_rules import PARTITIONS_MAX, TopicError, check_name

__all__ = [
    "INT64_MAX",
    "METADATA_TOPIC_ID",
    "RecordType",
    "Topic",
    "body_of",
    "check_stored",
    "integer_of",
    "json_of",
    "object_of",
    "producer_ids_record",
    "read_producer_ids",
    "read_topic",
    "read_topic_record",
    "reading",
    "record_key",
    "record_type",
    "record_value",
    "subject_of",
    "text_subject_of",
    "texts_of",
    "topic_name",
    "topic_record",
    "topic_tombstone",
]

METADATA_TOPIC_ID = bytes(15) + b"\x01"
"""The internal partition that holds these records; it is in no catalogue, so no client sees it."""
_TYPE = struct.Struct(">h")
_VERSION = _TYPE.pack(0)
TOPIC_ID_SIZE = 16
INT64_MAX = 2**63 - 1
_FAULTS = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError, struct.error)
"""What reading bytes of any content may raise: JSON nests too deep, a number is infinite, a field has another type."""


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
    return text_subject_of(key) if record_type(key) == RecordType.TOPIC else None


def read_topic(name: str, value: bytes) -> Topic:
    """Read the value of a topic record; raises CorruptStateRecordError."""
    with reading(f"topic {name!r}"):
        body = object_of(value)
        topic = Topic(
            name,
            bytes.fromhex(body["id"]),
            integer_of(body["partitions"], 1, PARTITIONS_MAX),
            texts_of(body["configs"]),
        )
        if len(topic.topic_id) != TOPIC_ID_SIZE:
            raise ValueError("an id that has not 16 bytes")
        check_stored("topic", topic.configs)
    return topic


def read_topic_record(key: bytes, value: bytes | None) -> tuple[str, Topic | None]:
    """Read which topic a record is about, and what it says; raises CorruptStateRecordError."""
    name = text_subject_of(key)
    try:
        check_name(name)
    except TopicError as error:
        raise CorruptStateRecordError(error.message) from None
    return name, None if value is None else read_topic(name, value)


def producer_ids_record(next_id: int) -> StateRecord:
    """The record that says that all ids below `next_id` belong to blocks given out."""
    return StateRecord(_PRODUCER_IDS_KEY, _write({"next": next_id}))


def read_producer_ids(key: bytes, value: bytes | None) -> int | None:
    """Read the first free id; None when the record is about something else. Raises CorruptStateRecordError."""
    if key != _PRODUCER_IDS_KEY:
        return None
    with reading("producer ids"):
        return integer_of(object_of(value)["next"], 0, INT64_MAX)


# What every record has in common


def record_key(kind: RecordType, subject: str = "") -> bytes:
    """The key of a record."""
    return _TYPE.pack(kind) + subject.encode()


def record_type(key: bytes) -> int:
    """What a record is about: a RecordType, or what only a later version knows.

    Raises:
        CorruptStateRecordError: the key is too short to say.
    """
    if len(key) < _TYPE.size:
        raise CorruptStateRecordError("the key is too short for its type")
    return int(_TYPE.unpack_from(key)[0])


def subject_of(key: bytes) -> bytes:
    """The rest of the key."""
    return key[_TYPE.size :]


def text_subject_of(key: bytes) -> str:
    """The rest of the key as text; raises CorruptStateRecordError."""
    try:
        return str(subject_of(key), "utf-8")
    except UnicodeDecodeError as error:
        raise CorruptStateRecordError(f"a key that is not UTF-8: {error}") from None


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
    body = json_of(body_of(value))
    if not isinstance(body, dict):
        raise TypeError("a value that is not an object")
    return body


def json_of(data: bytes) -> Any:
    """Read JSON; raises ValueError, without the data in its text, or RecursionError."""
    return json.loads(str(data, "utf-8"))


def integer_of(value: Any, least: int, most: int) -> int:
    """A number of JSON that lies in a range; raises TypeError or ValueError."""
    if type(value) is not int:
        raise TypeError("a number that is none")
    if not least <= value <= most:
        raise ValueError("a number out of range")
    return value


def check_stored(resource_type: str, settings: Mapping[str, str]) -> None:
    """Refuse settings that this release cannot read; raises ValueError. See `check_stored_settings`."""
    if not settings:
        return
    from pipeline_broker.config.properties import ConfigError  # noqa: PLC0415 - most brokers have no such settings
    from pipeline_broker.config.stored_settings import check_stored_settings  # noqa: PLC0415 - see above

    try:
        check_stored_settings(resource_type, settings)
    except ConfigError as error:
        raise ValueError(str(error)) from None


def texts_of(value: Any) -> dict[str, str]:
    """An object of JSON that holds texts only; raises TypeError."""
    if not isinstance(value, dict) or not all(isinstance(text, str) for text in value.values()):
        raise TypeError("not an object of texts")
    return value


@contextlib.contextmanager
def reading(what: str) -> Iterator[None]:
    """Turn whatever reading bytes raises into CorruptStateRecordError.

    Args:
        what: the record is about. The text of the error has nothing else of it: values may be secret.
    """
    try:
        yield
    except _FAULTS as error:
        raise CorruptStateRecordError(f"{what}: {type(error).__name__}: {error}") from None


_PRODUCER_IDS_KEY = record_key(RecordType.PRODUCER_IDS)


def _topic_key(name: str) -> bytes:
    return record_key(RecordType.TOPIC, name)


def _write(body: dict[str, Any]) -> bytes:
    return record_value(json.dumps(body, sort_keys=True, separators=(",", ":")))
