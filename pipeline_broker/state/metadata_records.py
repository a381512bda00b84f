"""Records of the metadata partition: their common layout, topics and producer ids.

    key   = int16 type, then                                value = int16 version 0, then
    1 topic         name in UTF-8                           JSON {"id": hex, "partitions": n, "configs": {name: text}}
    2 producer ids  nothing                                 JSON {"next": the first id after all allocated blocks}

A null value deletes the subject. Each record holds the whole state of its subject, so only the last record of a key
counts. Unknown types are skipped: a later version of the broker wrote them.

Records of the other types are encoded and decoded next to their subjects. Their numbers are listed here.
"""

from __future__ import annotations

import contextlib
import enum
import json
import struct
from collections.abc import Iterator, Mapping
from typing import Any

import attrs

from pipeline_broker.config.properties import ConfigError
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
"""Topic id of the partition that holds these records. The topic is in no catalogue, so clients cannot see it."""
_TYPE = struct.Struct(">h")
_VERSION = _TYPE.pack(0)
TOPIC_ID_SIZE = 16
INT64_MAX = 2**63 - 1
# Decoding arbitrary bytes may raise any of these: JSON that nests too deep, infinite numbers, fields of a wrong type.
_FAULTS = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError, struct.error)


class RecordType(enum.IntEnum):
    """Types of metadata records. The first two bytes of a key hold the type."""

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
    NODE = 11
    PARTITION = 12
    OPEN = 15


@attrs.frozen
class Topic:
    """A topic.

    Attributes:
        configs: values set for this topic; without defaults.
    """

    name: str
    topic_id: bytes
    partitions: int
    configs: dict[str, str] = attrs.Factory(dict)


def topic_record(topic: Topic) -> StateRecord:
    body = {"id": topic.topic_id.hex(), "partitions": topic.partitions, "configs": topic.configs}
    return StateRecord(_topic_key(topic.name), _write(body))


def topic_tombstone(name: str) -> StateRecord:
    return StateRecord(_topic_key(name), None)


def topic_name(key: bytes) -> str | None:
    """Return the topic that a record is about; None for records of other types.

    Raises:
        CorruptStateRecordError: the key is too short or the name is not UTF-8.
    """
    return text_subject_of(key) if record_type(key) == RecordType.TOPIC else None


def read_topic(name: str, value: bytes) -> Topic:
    with reading(f"topic {name!r}"):
        body = object_of(value)
        topic = Topic(
            name,
            bytes.fromhex(body["id"]),
            integer_of(body["partitions"], 1, PARTITIONS_MAX),
            texts_of(body["configs"]),
        )
        if len(topic.topic_id) != TOPIC_ID_SIZE:
            raise ValueError("the topic id does not have 16 bytes")
        check_stored("topic", topic.configs)
    return topic


def read_topic_record(key: bytes, value: bytes | None) -> tuple[str, Topic | None]:
    """Decode a topic record to name and topic, which is None for a tombstone.

    Raises:
        CorruptStateRecordError: the record cannot be decoded, or no topic may have that name.
    """
    name = text_subject_of(key)
    try:
        check_name(name)
    except TopicError as error:
        raise CorruptStateRecordError(error.message) from None
    return name, None if value is None else read_topic(name, value)


def producer_ids_record(next_id: int) -> StateRecord:
    """Return the record by which all ids below `next_id` belong to allocated blocks."""
    return StateRecord(_PRODUCER_IDS_KEY, _write({"next": next_id}))


def read_producer_ids(key: bytes, value: bytes | None) -> int | None:
    """Return the first id after all allocated blocks; None for records of other types.

    Raises:
        CorruptStateRecordError: the record cannot be decoded.
    """
    if key != _PRODUCER_IDS_KEY:
        return None
    with reading("producer ids"):
        return integer_of(object_of(value)["next"], 0, INT64_MAX)


# The common layout


def record_key(kind: int, subject: str = "") -> bytes:
    return _TYPE.pack(kind) + subject.encode()


def record_type(key: bytes) -> int:
    """Return the type of a record: a RecordType, or a number that only a later version knows.

    Raises:
        CorruptStateRecordError: the key is too short.
    """
    if len(key) < _TYPE.size:
        raise CorruptStateRecordError("the key is too short to contain its type")
    return int(_TYPE.unpack_from(key)[0])


def subject_of(key: bytes) -> bytes:
    return key[_TYPE.size :]


def text_subject_of(key: bytes) -> str:
    try:
        return str(subject_of(key), "utf-8")
    except UnicodeDecodeError as error:
        raise CorruptStateRecordError(f"the key is not UTF-8: {error}") from None


def record_value(body: str = "") -> bytes:
    return _VERSION + body.encode()


def body_of(value: bytes | None) -> bytes:
    """Return a value without its version.

    Raises:
        ValueError: the value is null or has an unknown version.
    """
    if value is None or value[: len(_VERSION)] != _VERSION:
        raise ValueError("the value is null or has an unknown version")
    return value[len(_VERSION) :]


def object_of(value: bytes | None) -> dict[str, Any]:
    """Decode a value that is a JSON object.

    Raises:
        TypeError, ValueError, RecursionError: the value is null or not a JSON object, or its version is unknown.
    """
    body = json_of(body_of(value))
    if not isinstance(body, dict):
        raise TypeError("the value is not a JSON object")
    return body


def json_of(data: bytes) -> Any:
    """Decode JSON.

    Raises:
        ValueError: the data is not JSON in UTF-8; the message does not contain the data.
        RecursionError: the JSON is nested too deeply.
    """
    return json.loads(str(data, "utf-8"))


def integer_of(value: Any, least: int, most: int) -> int:
    """Return a JSON value as an integer from `least` to `most`; raise TypeError or ValueError if it is not one."""
    # `type`, because True is an instance of int.
    if type(value) is not int:
        raise TypeError("the value is not an integer")
    if not least <= value <= most:
        raise ValueError("the number is out of range")
    return value


def check_stored(resource_type: str, settings: Mapping[str, str]) -> None:
    """Raise ValueError if this release cannot read the settings. See `check_stored_settings`."""
    if not settings:
        return
    from pipeline_broker.config.stored_settings import check_stored_settings  # noqa: PLC0415 - most brokers have no such settings

    try:
        check_stored_settings(resource_type, settings)
    except ConfigError as error:
        raise ValueError(str(error)) from None


def texts_of(value: Any) -> dict[str, str]:
    """Return a JSON value as a mapping of strings; raise TypeError if it is not one."""
    if not isinstance(value, dict) or not all(isinstance(text, str) for text in value.values()):
        raise TypeError("the value is not a JSON object of strings")
    return value


@contextlib.contextmanager
def reading(what: str) -> Iterator[None]:
    """Convert errors of decoding to CorruptStateRecordError.

    Args:
        what: subject of the record, for the message. Nothing else of the record may be in it: values may be secret.
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
