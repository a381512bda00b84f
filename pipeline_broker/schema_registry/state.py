"""What is registered: subjects with their versions, schemas by their ids, configurations and modes.

Rules of this file: it is what the records of the topic say, in their order, and nothing else changes it. Ids count up
over all subjects; a schema that has one already has the same in every subject.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from pipeline_broker.schema_registry.errors import RegistryError, subject_not_found, version_not_found
from pipeline_broker.schema_registry.records import (
    Change,
    ConfigChange,
    ModeChange,
    SubjectDeleted,
    VersionChange,
)
from pipeline_broker.schema_registry.values import Level, Mode, Reference, Schema, Version

__all__ = ["LATEST", "RegistryState", "read_version"]

LATEST = -1
VERSION_MAX = 2**31 - 1


class RegistryState:
    """See the rules of the file.

    Attributes:
        text_bytes: of all versions together, in characters.
    """

    def __init__(self) -> None:
        self._subjects: dict[str, dict[int, Version]] = {}
        self._schemas: dict[int, Schema] = {}
        self._ids: dict[Schema, int] = {}
        self._uses: Counter[int] = Counter()  # versions of each schema, by its id
        self._configs: dict[str | None, Mapping[str, Any]] = {}
        self._modes: dict[str | None, Mode] = {}
        self._id_max = 0
        self.text_bytes = 0
        self.versions_count = 0

    # What the records say

    def apply(self, change: Change) -> None:
        """Take over a record."""
        match change:
            case VersionChange():
                self._set_version(change)
            case SubjectDeleted():
                versions = self._subjects.get(change.subject, {})
                for number, version in versions.items():
                    if number <= change.number and not version.is_deleted:
                        versions[number] = Version(
                            version.subject, number, version.schema_id, version.schema, is_deleted=True
                        )
            case ConfigChange():
                _set(self._configs, change.subject, change.config)
            case ModeChange():
                _set(self._modes, change.subject, change.mode)

    def _set_version(self, change: VersionChange) -> None:
        versions = self._subjects.setdefault(change.subject, {})
        before = versions.pop(change.number, None)
        if before is not None:
            self.versions_count -= 1
            self.text_bytes -= len(before.schema.text)
            self._uses[before.schema_id] -= 1
        if change.version is not None:
            after = change.version
            versions[change.number] = after
            self.versions_count += 1
            self.text_bytes += len(after.schema.text)
            self._uses[after.schema_id] += 1
            self._id_max = max(self._id_max, after.schema_id)
            self._schemas[after.schema_id] = after.schema
            self._ids[after.schema] = after.schema_id
        if not versions:
            del self._subjects[change.subject]
        if before is not None and not self._uses[before.schema_id]:
            self._forget(before.schema_id)

    def _forget(self, schema_id: int) -> None:
        """Drop a schema that no version has any more."""
        del self._uses[schema_id]
        schema = self._schemas.pop(schema_id)
        if self._ids.get(schema) == schema_id:
            del self._ids[schema]

    # What there is

    def all_versions(self) -> Iterator[Version]:
        """Of all subjects, those that are deleted softly too."""
        for versions in self._subjects.values():
            yield from versions.values()

    def subjects(self, *, with_deleted: bool = False) -> list[str]:
        """Their names in order."""
        return sorted(
            subject
            for subject, versions in self._subjects.items()
            if with_deleted or any(not version.is_deleted for version in versions.values())
        )

    def versions(self, subject: str, *, with_deleted: bool = False) -> list[Version]:
        """Of a subject, in order; empty where there is no such subject."""
        versions = self._subjects.get(subject, {})
        return [versions[number] for number in sorted(versions) if with_deleted or not versions[number].is_deleted]

    def existing_versions(self, subject: str, *, with_deleted: bool = False) -> list[Version]:
        """As `versions`, at least one; raises RegistryError."""
        versions = self.versions(subject, with_deleted=with_deleted)
        if not versions:
            raise subject_not_found(subject)
        return versions

    def version(self, subject: str, number: int, *, with_deleted: bool = False) -> Version:
        """One of a subject, or with LATEST the latest; raises RegistryError."""
        versions = self.existing_versions(subject, with_deleted=with_deleted)
        if number == LATEST:
            return versions[-1]
        for version in versions:
            if version.number == number:
                return version
        raise version_not_found(number)

    def next_number(self, subject: str) -> int:
        """That a new version of a subject gets."""
        return max(self._subjects.get(subject, {}), default=0) + 1

    def schema(self, schema_id: int) -> Schema | None:
        return self._schemas.get(schema_id)

    def id_of(self, schema: Schema) -> int | None:
        return self._ids.get(schema)

    @property
    def next_id(self) -> int:
        """That a new schema gets."""
        return self._id_max + 1

    def resolved(self, reference: Reference) -> Version:
        """What a reference names; raises RegistryError."""
        return self.version(reference.subject, reference.version, with_deleted=True)

    def referenced_by(self, version: Version) -> list[int]:
        """The ids of the schemas that need a version."""
        return sorted(
            {
                other.schema_id
                for other in self.all_versions()
                if not other.is_deleted
                and any((it.subject, it.version) == (version.subject, version.number) for it in other.schema.references)
            }
        )

    def referenced_numbers(self, subject: str) -> frozenset[int]:
        """The versions of a subject that schemas need, all of them found in one look."""
        return frozenset(
            reference.version
            for other in self.all_versions()
            if not other.is_deleted
            for reference in other.schema.references
            if reference.subject == subject
        )

    # Configurations and modes

    def config(self, subject: str | None) -> Mapping[str, Any] | None:
        return self._configs.get(subject)

    def config_in_scope(self, subject: str | None) -> Mapping[str, Any]:
        """What counts for a subject: its own, what it leaves out that of all."""
        return {
            "compatibilityLevel": Level.BACKWARD.value,
            **self._configs.get(None, {}),
            **self._configs.get(subject, {}),
        }

    def level(self, subject: str) -> Level:
        """That counts for a subject."""
        return Level(self.config_in_scope(subject)["compatibilityLevel"])

    def mode(self, subject: str | None) -> Mode | None:
        return self._modes.get(subject)

    def mode_in_scope(self, subject: str | None) -> Mode:
        """That counts for a subject; READONLY_OVERRIDE of all goes over that of a subject."""
        of_all = self._modes.get(None, Mode.READWRITE)
        return of_all if of_all is Mode.READONLY_OVERRIDE else self._modes.get(subject, of_all)

    @property
    def subjects_with_settings(self) -> int:
        """How many subjects have a configuration or a mode of their own."""
        return len(self._configs) + len(self._modes)


def _set(settings: dict[str | None, Any], subject: str | None, value: Any) -> None:
    if value is None:
        settings.pop(subject, None)
    else:
        settings[subject] = value


def read_version(text: str) -> int:
    """The number of a version in an address, or LATEST; raises RegistryError."""
    if text in ("latest", "-1"):
        return LATEST
    if text.isascii() and text.isdigit() and 0 < int(text) <= VERSION_MAX:
        return int(text)
    raise RegistryError(
        42202,
        f"The specified version '{text[:100]}' is not a valid version id. Allowed values are between [1, 2^31-1] and"
        ' the string "latest"',
    )
