"""Schemas, references and versions, as values.

Two schemas are equal, and share an id, if their contents are equal (`formats.Recognized`) and so is everything else of
`Schema` (`Schema.has_same_contract`).
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Any

import attrs

from pipeline_broker.base.strict_json import RawJson, dump
from pipeline_broker.schema_registry.errors import RegistryError, invalid_schema

__all__ = ["REFERENCES_MAX", "Level", "Mode", "Reference", "Schema", "SchemaType", "Version"]

REFERENCES_MAX = 100
"""References of one schema."""
NAME_CHARACTERS_MAX = 1024


class SchemaType(enum.StrEnum):
    AVRO = "AVRO"
    JSON = "JSON"
    PROTOBUF = "PROTOBUF"


class Level(enum.StrEnum):
    """The compatibility that a new schema of a subject needs."""

    NONE = "NONE"
    BACKWARD = "BACKWARD"
    BACKWARD_TRANSITIVE = "BACKWARD_TRANSITIVE"
    FORWARD = "FORWARD"
    FORWARD_TRANSITIVE = "FORWARD_TRANSITIVE"
    FULL = "FULL"
    FULL_TRANSITIVE = "FULL_TRANSITIVE"

    @property
    def is_transitive(self) -> bool:
        return self.value.endswith("_TRANSITIVE")

    @property
    def is_backward(self) -> bool:
        """True if readers with the new schema must read data of earlier ones."""
        return self.value.startswith(("BACKWARD", "FULL"))

    @property
    def is_forward(self) -> bool:
        """True if readers with earlier schemas must read data of the new one."""
        return self.value.startswith(("FORWARD", "FULL"))


class Mode(enum.StrEnum):
    """The allowed operations on a subject. In IMPORT, a registration names the id, and optionally the version."""

    READWRITE = "READWRITE"
    READONLY = "READONLY"
    READONLY_OVERRIDE = "READONLY_OVERRIDE"
    IMPORT = "IMPORT"

    @property
    def is_read_only(self) -> bool:
        return self in (Mode.READONLY, Mode.READONLY_OVERRIDE)


@attrs.frozen(order=True)
class Reference:
    """A schema that another one needs.

    Attributes:
        name: the name in the referring schema: an Avro type, the URL of a `$ref`, or an imported file.
    """

    name: str
    subject: str
    version: int

    @classmethod
    def read(cls, given: object) -> Reference:
        if isinstance(given, Mapping):
            name, subject, version = given.get("name"), given.get("subject"), given.get("version")
            is_text = isinstance(name, str) and isinstance(subject, str) and len(name + subject) <= NAME_CHARACTERS_MAX
            if is_text and isinstance(version, int) and not isinstance(version, bool):
                return cls(str(name), str(subject), version)
        raise invalid_schema(f"The reference {str(given)[:200]} is invalid: it needs a name, a subject and a version")

    def as_json(self) -> dict[str, Any]:
        return {"name": self.name, "subject": self.subject, "version": self.version}


@attrs.frozen(cache_hash=True)
class Schema:
    """A schema with everything that distinguishes it from others.

    Attributes:
        text: the stored form.
        metadata, rule_set: kept for serializers, which interpret them.
    """

    type: SchemaType
    text: str
    references: tuple[Reference, ...] = ()
    metadata: RawJson | None = None
    rule_set: RawJson | None = None

    @classmethod
    def read(cls, given: object, *, may_be_empty: bool = False) -> Schema:
        """Read a schema from the body of a request or a record's value.

        Args:
            given: the parsed JSON.
            may_be_empty: accept a missing text as an empty one.

        Raises:
            RegistryError: `given` is not an object, its text is empty, or its type or references are invalid.
        """
        if not isinstance(given, Mapping):
            raise RegistryError(422, "The body is not a JSON object")
        text, references = given.get("schema"), given.get("references")
        if may_be_empty and text is None:
            text = ""
        if not isinstance(text, str) or not (text.strip() or may_be_empty):
            raise invalid_schema("Empty schema")
        try:
            schema_type = SchemaType(given.get("schemaType") or SchemaType.AVRO)
        except ValueError:
            raise invalid_schema(
                f"Invalid schema type {given['schemaType']!s:.100}. Use one of {', '.join(SchemaType)}."
            ) from None
        if not isinstance(references, list | None) or len(references or ()) > REFERENCES_MAX:
            raise invalid_schema(f"Invalid references: they must be a list of at most {REFERENCES_MAX}")
        return cls(
            schema_type,
            text,
            tuple(map(Reference.read, references or ())),
            _kept(given.get("metadata")),
            _kept(given.get("ruleSet")),
        )

    def has_same_contract(self, other: Schema) -> bool:
        return (self.type, self.metadata, self.rule_set) == (other.type, other.metadata, other.rule_set)

    def has_same_references(self, other: Schema) -> bool:
        return set(self.references) == set(other.references)

    def as_json(self) -> dict[str, Any]:
        """Return the fields of answers and records, without defaults. Values may be RawJson."""
        fields: dict[str, Any] = {}
        if self.type is not SchemaType.AVRO:
            fields["schemaType"] = self.type.value
        if self.references:
            fields["references"] = [reference.as_json() for reference in self.references]
        if self.metadata is not None:
            fields["metadata"] = self.metadata
        if self.rule_set is not None:
            fields["ruleSet"] = self.rule_set
        return {**fields, "schema": self.text}


def _kept(content: object) -> RawJson | None:
    return RawJson(dump(content, is_sorted=True)) if content else None  # sorted, so that equal contents compare equal


@attrs.frozen
class Version:
    """A schema as a version of a subject.

    Attributes:
        is_deleted: whether it is soft-deleted: not listed, but its id still resolves.
    """

    subject: str
    number: int
    schema_id: int
    schema: Schema
    is_deleted: bool = False

    def as_json(self) -> dict[str, Any]:
        """Return the fields of answers and records. Values may be RawJson."""
        return {"subject": self.subject, "version": self.number, "id": self.schema_id, **self.schema.as_json()}
