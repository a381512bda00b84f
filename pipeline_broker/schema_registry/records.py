"""Records of the topic `_schemas`, compatible with Confluent's registry in both directions.

Keys and values are JSON with Confluent's names in Confluent's order, because compaction compares the bytes of keys. In
Confluent's source they are `SchemaKey`, `ConfigKey`, `ModeKey`, `DeleteSubjectKey` and their values.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import attrs

from pipeline_broker.base.strict_json import RawJson, dump, dump_object, load
from pipeline_broker.records.batch import read_header
from pipeline_broker.records.record import iterate_records
from pipeline_broker.schema_registry.errors import RegistryError
from pipeline_broker.schema_registry.values import Level, Mode, Schema, Version

__all__ = [
    "SCHEMAS_TOPIC",
    "SCHEMAS_TOPIC_CONFIGS",
    "Change",
    "Config",
    "ConfigChange",
    "ModeChange",
    "Record",
    "SubjectDeleted",
    "UnreadableRecordError",
    "VersionChange",
    "kept_setting",
    "read_change",
    "read_changes",
]

SCHEMAS_TOPIC = "_schemas"
SCHEMAS_TOPIC_CONFIGS = {"cleanup.policy": "compact"}
# Size of a batch after decompression. A larger batch is skipped.
BATCH_BYTES_MAX = 16 << 20
# Bytes of records that one call of `read_changes` returns. The last record can exceed it.
CHANGES_BYTES_MAX = 2 << 20
# Unreadable records of a batch that are reported.
REASONS_MAX = 20
REASON_CHARACTERS_MAX = 200
# Key and value: the largest schema with every character escaped, with metadata and rules.
RECORD_BYTES_MAX = 4 << 20

Config: TypeAlias = Mapping[str, str | bool | RawJson | None]
"""Settings by their names in the API, and `compatibilityLevel`. Values that only serializers interpret are RawJson."""
Record = tuple[bytes, bytes | None]
"""Key and value."""


class UnreadableRecordError(Exception):
    pass


@attrs.frozen
class VersionChange:
    """A change of a version of a subject; `version` is None if it is deleted permanently."""

    subject: str
    number: int
    version: Version | None

    def record(self) -> Record:
        key = _json({"keytype": "SCHEMA", "subject": self.subject, "version": self.number, "magic": 1})
        if self.version is None:
            return key, None
        return key, _json({**self.version.as_json(), "deleted": self.version.is_deleted})


@attrs.frozen
class SubjectDeleted:
    """The soft deletion of all versions of a subject up to `number`."""

    subject: str
    number: int

    def record(self) -> Record:
        key = _json({"keytype": "DELETE_SUBJECT", "subject": self.subject, "magic": 0})
        return key, _json({"subject": self.subject, "version": self.number})


@attrs.frozen
class ConfigChange:
    """A change of a configuration, the global one if `subject` is None. A `config` of None deletes it."""

    subject: str | None
    config: Config | None

    def record(self) -> Record:
        key = _json({"keytype": "CONFIG", "subject": self.subject, "magic": 0})
        return key, None if self.config is None else _json(self.config)


@attrs.frozen
class ModeChange:
    """A change of a mode, the global one if `subject` is None. A `mode` of None deletes it."""

    subject: str | None
    mode: Mode | None

    def record(self) -> Record:
        key = _json({"keytype": "MODE", "subject": self.subject, "magic": 0})
        return key, None if self.mode is None else _json({"mode": self.mode.value})


Change = VersionChange | SubjectDeleted | ConfigChange | ModeChange


def _json(fields: Mapping[str, Any]) -> bytes:
    return dump_object(fields).encode()


def read_changes(batch: bytes, first_offset: int) -> tuple[list[tuple[int, Change | str]], int]:
    """Return changes of a record batch with their offsets, and the offset at which to continue.

    An unreadable record has a reason in place of its change. Only the first REASONS_MAX of them are reported.

    Args:
        batch: one record batch, compressed or not.
        first_offset: earlier records are skipped.

    Raises:
        RecordError: the batch is damaged or too large.
    """
    found: list[tuple[int, Change | str]] = []
    header = read_header(batch)
    size = reasons = 0
    for record in iterate_records(batch, header, size_max=BATCH_BYTES_MAX):
        if record.offset < first_offset:
            continue
        # A batch may decompress to far more than the worker process should return at once.
        if size > CHANGES_BYTES_MAX:
            return found, record.offset
        try:
            change: Change | str | None = read_change(record.key, record.value)
            size += len(record.key or b"") + len(record.value or b"") if change else 0
        except UnreadableRecordError as error:
            reasons += 1
            change = str(error)[:REASON_CHARACTERS_MAX] if reasons <= REASONS_MAX else None
        if change is not None:
            found.append((record.offset, change))
    return found, header.last_offset + 1


def read_change(key: bytes | None, value: bytes | None) -> Change | None:
    """Return the change in a record; None for a NOOP, an unknown type, or a tombstone of DELETE_SUBJECT.

    Raises:
        UnreadableRecordError: the record is too large or malformed.
    """
    if len(key or b"") + len(value or b"") > RECORD_BYTES_MAX:
        raise UnreadableRecordError(f"it is larger than {RECORD_BYTES_MAX >> 20} MiB")
    try:
        fields = load(key or b"")
        content = None if value is None else load(value)
        return _change(fields, content)
    except (ArithmeticError, AttributeError, KeyError, RecursionError, RegistryError, TypeError, ValueError) as error:
        raise UnreadableRecordError(f"{type(error).__name__}: {error}") from None


def _change(key: Mapping[str, Any], value: Any) -> Change | None:
    kind, subject = key["keytype"], key.get("subject")
    if not isinstance(subject, str | None):
        raise TypeError("the subject is not a string")
    if kind == "SCHEMA":
        return VersionChange(str(subject), _number(key["version"]), None if value is None else _version(value))
    if kind == "DELETE_SUBJECT":
        return None if value is None else SubjectDeleted(str(value["subject"]), _number(value["version"]))
    if kind == "CONFIG":
        return ConfigChange(subject, None if value is None else _config(value))
    if kind == "MODE":
        return ModeChange(subject, None if value is None else Mode(value["mode"]))
    return None  # NOOP, or a key type of a later version of Confluent's registry


def _version(value: Mapping[str, Any]) -> Version:
    subject, number, schema_id = value["subject"], value["version"], value["id"]
    return Version(str(subject), _number(number), _number(schema_id), Schema.read(value), bool(value.get("deleted")))


def _number(value: Any) -> int:
    # Confluent's registry stores ids and versions as int32.
    number = int(value)
    if not 0 <= number < 2**31:
        raise ValueError(f"{number} is not an id or a version")
    return number


def _config(value: Mapping[str, Any]) -> Config:
    # Raises ValueError for an unknown level, so that the record is reported and not applied.
    if "compatibilityLevel" in value:
        Level(value["compatibilityLevel"])
    return {name: kept_setting(content) for name, content in value.items() if name != "subject"}


def kept_setting(content: Any) -> str | bool | RawJson | None:
    """Return the stored form of a setting: strings, booleans and None unchanged, everything else as JSON."""
    return content if isinstance(content, str | bool | None) else RawJson(dump(content))
