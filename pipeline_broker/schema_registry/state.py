"""The state of the registry: subjects and versions, schemas by id, configurations and modes.

Only records of the topic change it, in their order. Ids count up over all subjects, and equal schemas share an id.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Generator, Iterator
from typing import Any

import attrs

from pipeline_broker.base.numbers import whole_number
from pipeline_broker.base.strict_json import RawJson
from pipeline_broker.schema_registry.errors import RegistryError, subject_not_found, version_not_found
from pipeline_broker.schema_registry.records import (
    Change,
    Config,
    ConfigChange,
    ModeChange,
    SubjectDeleted,
    VersionChange,
)
from pipeline_broker.schema_registry.schema_index import SchemaIndex
from pipeline_broker.schema_registry.values import Level, Mode, Reference, Schema, Version

__all__ = [
    "LATEST",
    "REFERENCES_OF_ALL_MAX",
    "SUBJECTS_WITH_SETTINGS_MAX",
    "TEXT_BYTES_MAX",
    "VERSIONS_MAX",
    "VERSION_MAX",
    "RegistryState",
    "read_version",
]

LATEST = -1
VERSION_MAX = 2**31 - 1
VERSIONS_MAX = 10_000
"""Versions of all subjects, including soft-deleted ones."""
TEXT_BYTES_MAX = 64 << 20
"""Memory of the texts of all versions and configurations."""
SUBJECTS_WITH_SETTINGS_MAX = 10_000
"""Subjects with settings."""
REFERENCES_OF_ALL_MAX = 100_000
"""References of all versions."""


class RegistryState:
    """The state of a registry, a replay of the records of its topic.

    A record that would exceed the bounds is skipped, because any client with access to the topic may have written it.

    Attributes:
        revision: grows with each applied record.
        text_bytes: memory of the texts of all versions and configurations.
        versions_count: versions of all subjects.
        references_count: references of all versions.
    """

    def __init__(self) -> None:
        self._subjects: dict[str, dict[int, Version]] = {}
        self._live: Counter[str] = Counter()  # number of live versions, by subject
        self._schemas = SchemaIndex()
        self._uses: Counter[int] = Counter()  # number of versions, by schema id
        self._configs: dict[str | None, Config] = {}
        self._modes: dict[str | None, Mode] = {}
        self._referrers: dict[tuple[str, int], Counter[int]] = {}  # ids of referring schemas, by (subject, version)
        self._id_max = 0
        self.revision = 0
        self.text_bytes = 0
        self.versions_count = 0
        self.references_count = 0

    # Replay

    def apply(self, change: Change) -> bool:
        """Apply a record and return True. Return False and change nothing if the record would exceed the bounds."""
        steps = self.apply_in_steps(change)
        while True:
            try:
                next(steps)
            except StopIteration as end:
                return bool(end.value)

    def apply_in_steps(self, change: Change) -> Generator[None, None, bool]:
        """Like `apply`, but in steps, because a subject may have thousands of versions to delete."""
        if not self.has_room(change):
            return False
        self.revision += 1
        match change:
            case VersionChange():
                self._set_version(change)
            case SubjectDeleted():
                yield from self._delete_softly(change)
            case ConfigChange():
                self.text_bytes += _config_bytes(change.config) - _config_bytes(self._configs.get(change.subject))
                _set(self._configs, change.subject, change.config)
            case ModeChange():
                _set(self._modes, change.subject, change.mode)
        return True

    def _delete_softly(self, change: SubjectDeleted) -> Generator[None, None, None]:
        for version in self.versions(change.subject):
            if version.number <= change.number:
                # `_count` treats live and deleted versions differently, so the version is subtracted as live and added
                # as deleted.
                self._count(version, -1)
                deleted = Version(version.subject, version.number, version.schema_id, version.schema, is_deleted=True)
                self._subjects[change.subject][version.number] = deleted
                self._count(deleted, 1)
                yield
        self.revision += 1  # a decision between two steps saw only a part of the change

    def has_room(self, change: Change) -> bool:
        match change:
            case VersionChange(version=Version() as version):
                before = self._subjects.get(change.subject, {}).get(change.number)
                # Its text is counted already.
                if before is not None and before.schema == version.schema:
                    return True
                return (
                    self.versions_count < VERSIONS_MAX
                    and self.text_bytes + _version_bytes(version) <= TEXT_BYTES_MAX
                    and self.references_count + len(version.schema.references) <= REFERENCES_OF_ALL_MAX
                )
            case ConfigChange(config=config) if config is not None:
                fits = self.text_bytes + _config_bytes(config) <= TEXT_BYTES_MAX
                return fits and self._has_room_for_settings(change.subject)
            case ModeChange(mode=Mode()):
                return self._has_room_for_settings(change.subject)
            case _:
                return True

    def _has_room_for_settings(self, subject: str | None) -> bool:
        is_known = subject in self._configs or subject in self._modes
        return is_known or len(self._configs) + len(self._modes) < SUBJECTS_WITH_SETTINGS_MAX

    def _set_version(self, change: VersionChange) -> None:
        versions = self._subjects.setdefault(change.subject, {})
        before, after = versions.pop(change.number, None), change.version
        if before is not None:
            self._count(before, -1)
        if after is not None:
            shared = self._schemas.get(after.schema_id)
            if shared == after.schema:
                after = attrs.evolve(after, schema=shared)  # versions of one schema share its text in memory
            versions[change.number] = after
            self._count(after, 1)
            self._id_max = max(self._id_max, after.schema_id)
            if shared != after.schema:
                self._schemas.set(after.schema_id, after.schema)
        if not versions:
            del self._subjects[change.subject]
        # The new version is counted first: it may use the same schema.
        if before is not None and not self._uses[before.schema_id]:
            self._forget(before.schema_id)

    def _count(self, version: Version, sign: int) -> None:
        self.versions_count += sign
        self.text_bytes += sign * _version_bytes(version)
        self.references_count += sign * len(version.schema.references)
        self._uses[version.schema_id] += sign
        if version.is_deleted:
            return
        self._live[version.subject] += sign
        if not self._live[version.subject]:
            del self._live[version.subject]
        # Only live versions protect the schemas that they refer to.
        for reference in set(version.schema.references):
            referrers = self._referrers.setdefault((reference.subject, reference.version), Counter())
            referrers[version.schema_id] += sign
            if not referrers[version.schema_id]:
                del referrers[version.schema_id]
            if not referrers:
                del self._referrers[reference.subject, reference.version]

    def _forget(self, schema_id: int) -> None:
        del self._uses[schema_id]
        self._schemas.remove(schema_id)

    # Queries

    def all_versions(self) -> Iterator[Version]:
        for versions in self._subjects.values():
            yield from versions.values()

    def subjects(self, *, with_deleted: bool = False) -> list[str]:
        """Return the sorted names of subjects with live versions, or with any versions if `with_deleted` is True."""
        return sorted(self._subjects if with_deleted else self._live)

    def versions(self, subject: str, *, with_deleted: bool = False) -> list[Version]:
        versions = self._subjects.get(subject, {})
        return [versions[number] for number in sorted(versions) if with_deleted or not versions[number].is_deleted]

    def existing_versions(self, subject: str, *, with_deleted: bool = False) -> list[Version]:
        """Like `versions`, but raises RegistryError if the result would be empty."""
        versions = self.versions(subject, with_deleted=with_deleted)
        if not versions:
            raise subject_not_found(subject)
        return versions

    def version(self, subject: str, number: int, *, with_deleted: bool = False) -> Version:
        """Return a version of a subject, or with LATEST its latest.

        Raises:
            RegistryError: the subject or the version does not exist.
        """
        versions = self.existing_versions(subject, with_deleted=with_deleted)
        if number == LATEST:
            return versions[-1]
        for version in versions:
            if version.number == number:
                return version
        raise version_not_found(number)

    def next_number(self, subject: str) -> int:
        return max(self._subjects.get(subject, {}), default=0) + 1

    @property
    def schemas(self) -> SchemaIndex:
        return self._schemas

    def schema(self, schema_id: int) -> Schema | None:
        return self._schemas.get(schema_id)

    @property
    def next_id(self) -> int:
        return self._id_max + 1

    def resolved(self, reference: Reference) -> Version:
        """Return the version that a reference names, even if it is deleted.

        Raises:
            RegistryError: the version does not exist.
        """
        # A deleted version stays usable for the schemas that already refer to it.
        return self.version(reference.subject, reference.version, with_deleted=True)

    def is_referenced(self, version: Version) -> bool:
        return (version.subject, version.number) in self._referrers

    def referenced_by(self, version: Version) -> list[int]:
        return sorted(self._referrers.get((version.subject, version.number), ()))

    # Configurations and modes

    def config(self, subject: str | None) -> Config | None:
        return self._configs.get(subject)

    def config_in_scope(self, subject: str | None) -> Config:
        """Return the effective configuration of a subject: its own settings, else global ones, else the defaults.

        Args:
            subject: the subject; None for the global configuration.
        """
        return {
            "compatibilityLevel": Level.BACKWARD.value,
            **self._configs.get(None, {}),
            **self._configs.get(subject, {}),
        }

    def level(self, subject: str) -> Level:
        return Level(str(self.config_in_scope(subject)["compatibilityLevel"]))

    def alias_target(self, subject: str) -> str:
        alias = self._configs.get(subject, {}).get("alias")
        return alias if isinstance(alias, str) and alias and not isinstance(alias, RawJson) else subject

    def mode(self, subject: str | None) -> Mode | None:
        return self._modes.get(subject)

    def mode_in_scope(self, subject: str | None) -> Mode:
        """Return the effective mode of a subject. A global READONLY_OVERRIDE wins over the subject's own mode."""
        of_all = self._modes.get(None, Mode.READWRITE)
        return of_all if of_all is Mode.READONLY_OVERRIDE else self._modes.get(subject, of_all)


def _version_bytes(version: Version) -> int:
    schema = version.schema
    texts = (version.subject, schema.text, schema.metadata, schema.rule_set)
    names = sum(len(reference.name) + len(reference.subject) for reference in schema.references)
    return names + sum(sys.getsizeof(text) for text in texts if text is not None)


def _config_bytes(config: Config | None) -> int:
    return 0 if config is None else sum(sys.getsizeof(name) + sys.getsizeof(value) for name, value in config.items())


def _set(settings: dict[str | None, Any], subject: str | None, value: Any) -> None:
    if value is None:
        settings.pop(subject, None)
    else:
        settings[subject] = value


def read_version(text: str) -> int:
    """Return the version number in a path; LATEST for "latest" and "-1".

    Raises:
        RegistryError: the text is neither, nor a number from 1 to VERSION_MAX.
    """
    if text in ("latest", "-1"):
        return LATEST
    number = whole_number(text, 1, VERSION_MAX)
    if number is not None:
        return number
    raise RegistryError(
        42202,
        f"The specified version '{text[:100]}' is not a valid version id. Allowed values are between [1, 2^31-1] and"
        ' the string "latest"',
    )
