"""Records of the topic `_schemas`, as Confluent's registry writes and reads them.

Rules of this file: no I/O. What is written here that registry reads, and the other way round: keys and values are
JSON with its names, in its order, because compaction compares the bytes of keys (`SchemaKey`, `ConfigKey`, `ModeKey`,
`DeleteSubjectKey` and their values in its source). What cannot be read is told as StrangeRecordError.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import attrs

from pipeline_broker.schema_registry.errors import RegistryError
from pipeline_broker.schema_registry.values import Level, Mode, Schema, Version

__all__ = [
    "SCHEMAS_TOPIC",
    "SCHEMAS_TOPIC_CONFIGS",
    "Change",
    "ConfigChange",
    "ModeChange",
    "Record",
    "StrangeRecordError",
    "SubjectDeleted",
    "VersionChange",
    "read_change",
]

SCHEMAS_TOPIC = "_schemas"
SCHEMAS_TOPIC_CONFIGS = {"cleanup.policy": "compact"}

Record = tuple[bytes, bytes | None]
"""Key and value."""


class StrangeRecordError(Exception):
    """A record is none of the registry's."""


@attrs.frozen
class VersionChange:
    """A version of a subject as it is from now on; `version` is None where it is gone for good."""

    subject: str
    number: int
    version: Version | None

    def record(self) -> Record:
        """For the topic."""
        key = _json({"keytype": "SCHEMA", "subject": self.subject, "version": self.number, "magic": 1})
        if self.version is None:
            return key, None
        return key, _json({**self.version.as_json(), "deleted": self.version.is_deleted})


@attrs.frozen
class SubjectDeleted:
    """All versions of a subject up to a number are deleted softly."""

    subject: str
    number: int

    def record(self) -> Record:
        """For the topic."""
        key = _json({"keytype": "DELETE_SUBJECT", "subject": self.subject, "magic": 0})
        return key, _json({"subject": self.subject, "version": self.number})


@attrs.frozen
class ConfigChange:
    """The configuration of a subject, or of all where it is None, from now on.

    Attributes:
        config: as the API has it, with `compatibilityLevel`; None for none.
    """

    subject: str | None
    config: Mapping[str, Any] | None

    def record(self) -> Record:
        """For the topic."""
        key = _json({"keytype": "CONFIG", "subject": self.subject, "magic": 0})
        return key, None if self.config is None else _json(dict(self.config))


@attrs.frozen
class ModeChange:
    """The mode of a subject, or of all where it is None, from now on; None for none."""

    subject: str | None
    mode: Mode | None

    def record(self) -> Record:
        """For the topic."""
        key = _json({"keytype": "MODE", "subject": self.subject, "magic": 0})
        return key, None if self.mode is None else _json({"mode": self.mode.value})


Change = VersionChange | SubjectDeleted | ConfigChange | ModeChange


def _json(content: object) -> bytes:
    return json.dumps(content, separators=(",", ":"), ensure_ascii=False).encode()


def read_change(key: bytes | None, value: bytes | None) -> Change | None:
    """What a record says; None where it says nothing that this registry keeps.

    Raises:
        StrangeRecordError: it cannot be read.
    """
    try:
        fields = json.loads(key or b"")
        content = None if value is None else json.loads(value)
        return _change(fields, content)
    except (ArithmeticError, AttributeError, KeyError, RecursionError, RegistryError, TypeError, ValueError) as error:
        raise StrangeRecordError(f"{type(error).__name__}: {error}") from None


def _change(key: Mapping[str, Any], value: Any) -> Change | None:
    kind, subject = key["keytype"], key.get("subject")
    if not isinstance(subject, str | None):
        raise TypeError("a subject is a text")
    if kind == "SCHEMA":
        return VersionChange(str(subject), _number(key["version"]), None if value is None else _version(value))
    if kind == "DELETE_SUBJECT":
        return None if value is None else SubjectDeleted(str(value["subject"]), _number(value["version"]))
    if kind == "CONFIG":
        return ConfigChange(subject, None if value is None else _config(value))
    if kind == "MODE":
        return ModeChange(subject, None if value is None else Mode(value["mode"]))
    return None  # NOOP, and what later versions of Confluent's registry keep beside


def _version(value: Mapping[str, Any]) -> Version:
    subject, number, schema_id = value["subject"], value["version"], value["id"]
    return Version(str(subject), _number(number), _number(schema_id), Schema.read(value), bool(value.get("deleted")))


def _number(value: Any) -> int:
    number = int(value)
    if not 0 <= number < 2**31:
        raise ValueError(f"{number} is no id and no version")
    return number


def _config(value: Mapping[str, Any]) -> Mapping[str, Any]:
    if "compatibilityLevel" in value:
        Level(value["compatibilityLevel"])
    return {name: content for name, content in value.items() if name != "subject"}
