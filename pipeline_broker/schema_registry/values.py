"""Schemas and where they are registered, as values.

Rules of this file: values only. Two schemas are the same, and share an id, if their content is the same in whatever
words (`formats.Recognized`), and all else of a `Schema` is equal (`Schema.has_same_contract`).
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
"""Of one schema."""
NAME_CHARACTERS_MAX = 1024


class SchemaType(enum.StrEnum):
    """What language a schema is in."""

    AVRO = "AVRO"
    JSON = "JSON"
    PROTOBUF = "PROTOBUF"


class Level(enum.StrEnum):
    """What a new schema of a subject must go together with."""

    NONE = "NONE"
    BACKWARD = "BACKWARD"
    BACKWARD_TRANSITIVE = "BACKWARD_TRANSITIVE"
    FORWARD = "FORWARD"
    FORWARD_TRANSITIVE = "FORWARD_TRANSITIVE"
    FULL = "FULL"
    FULL_TRANSITIVE = "FULL_TRANSITIVE"

    @property
    def is_transitive(self) -> bool:
        """Whether all earlier versions count, and not only the latest."""
        return self.value.endswith("_TRANSITIVE")

    @property
    def is_backward(self) -> bool:
        """Whether readers with the new schema read what was written with earlier ones."""
        return self.value.startswith(("BACKWARD", "FULL"))

    @property
    def is_forward(self) -> bool:
        """Whether readers with earlier ones read what is written with the new schema."""
        return self.value.startswith(("FORWARD", "FULL"))


class Mode(enum.StrEnum):
    """What may be done to a subject; in IMPORT a registration names id and version itself."""

    READWRITE = "READWRITE"
    READONLY = "READONLY"
    READONLY_OVERRIDE = "READONLY_OVERRIDE"
    IMPORT = "IMPORT"

    @property
    def is_read_only(self) -> bool:
        """Whether nothing can be registered or deleted."""
        return self in (Mode.READONLY, Mode.READONLY_OVERRIDE)


@attrs.frozen(order=True)
class Reference:
    """Another schema that one needs.

    Attributes:
        name: how the schema names it: a type of Avro, a URL of a `$ref`, a file that is imported.
    """

    name: str
    subject: str
    version: int

    @classmethod
    def read(cls, given: object) -> Reference:
        """A reference as JSON has it; raises RegistryError."""
        if isinstance(given, Mapping):
            name, subject, version = given.get("name"), given.get("subject"), given.get("version")
            is_text = isinstance(name, str) and isinstance(subject, str) and len(name + subject) <= NAME_CHARACTERS_MAX
            if is_text and isinstance(version, int) and not isinstance(version, bool):
                return cls(str(name), str(subject), version)
        raise invalid_schema(f"A reference needs name, subject and version, unlike {str(given)[:200]}")

    def as_json(self) -> dict[str, Any]:
        return {"name": self.name, "subject": self.subject, "version": self.version}


@attrs.frozen(cache_hash=True)
class Schema:
    """A schema with all that makes it another one.

    Attributes:
        text: in the form that is kept.
        metadata, rule_set: kept for serializers, which act on them.
    """

    type: SchemaType
    text: str
    references: tuple[Reference, ...] = ()
    metadata: RawJson | None = None
    rule_set: RawJson | None = None

    @classmethod
    def read(cls, given: object, *, may_be_empty: bool = False) -> Schema:
        """Read the schema of a request's body, or of a stored value; raises RegistryError.

        Args:
            given: the body or value.
            may_be_empty: accept a missing text, which becomes an empty one.
        """
        if not isinstance(given, Mapping):
            raise RegistryError(422, "The body is not an object of JSON")
        text, references = given.get("schema"), given.get("references")
        if may_be_empty and text is None:
            text = ""
        if not isinstance(text, str) or not (text.strip() or may_be_empty):
            raise invalid_schema("Empty schema")
        try:
            schema_type = SchemaType(given.get("schemaType") or SchemaType.AVRO)
        except ValueError:
            raise invalid_schema(f"Invalid schema type {given['schemaType']!s:.100}") from None
        if not isinstance(references, list | None) or len(references or ()) > REFERENCES_MAX:
            raise invalid_schema(f"references are a list of at most {REFERENCES_MAX}")
        return cls(
            schema_type,
            text,
            tuple(map(Reference.read, references or ())),
            _kept(given.get("metadata")),
            _kept(given.get("ruleSet")),
        )

    def has_same_contract(self, other: Schema) -> bool:
        """Return whether type, metadata and rules are those of another schema."""
        return (self.type, self.metadata, self.rule_set) == (other.type, other.metadata, other.rule_set)

    def has_same_references(self, other: Schema) -> bool:
        """Return whether the references are those of another schema, in whatever order."""
        return set(self.references) == set(other.references)

    def as_json(self) -> dict[str, Any]:
        """Return the fields of answers and stored values, without those that have their defaults; some are RawJson."""
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
    return RawJson(dump(content, is_sorted=True)) if content else None  # equal content is an equal text


@attrs.frozen
class Version:
    """A schema as a subject has it.

    Attributes:
        is_deleted: softly: it is not listed, and its id can still be asked for.
    """

    subject: str
    number: int
    schema_id: int
    schema: Schema
    is_deleted: bool = False

    def as_json(self) -> dict[str, Any]:
        """Return the fields of answers, of which some are RawJson."""
        return {"subject": self.subject, "version": self.number, "id": self.schema_id, **self.schema.as_json()}
