"""Dynamic settings of brokers, groups and client metrics, as records of the metadata partition.

    key   = int16 type, then                                value = int16 version 0, then
    4 settings      JSON [resource type, resource name]     JSON {name: text}

A null value resets all settings of the resource. The key types continue those of `metadata_records.py`.

Counterpart in Kafka: `MetadataImage`, `QuorumController` of KRaft.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping

from pipeline_broker.state.decisions import Decisions
from pipeline_broker.state.metadata_records import (
    RecordType,
    check_stored,
    json_of,
    object_of,
    reading,
    record_key,
    record_type,
    record_value,
    subject_of,
    texts_of,
)
from pipeline_broker.state.outcome import ReplayedWrites, StateRecord, Write

__all__ = ["DynamicSettings", "read_settings"]

Resource = tuple[str, str]


def read_settings(key: bytes, value: bytes | None) -> tuple[Resource, dict[str, str]]:
    """Decode a record of settings to resource and settings, which are empty for a tombstone.

    Raises:
        CorruptStateRecordError: the record cannot be decoded.
    """
    with reading("settings"):
        resource_type, name = json_of(subject_of(key))
        if not isinstance(resource_type, str) or not isinstance(name, str):
            raise TypeError("the resource type or name is not a string")
        settings = {} if value is None else texts_of(object_of(value))
        check_stored(resource_type, settings)
    return (resource_type, name), settings


class DynamicSettings(ReplayedWrites):
    """The dynamic settings of brokers and other resources that are not topics.

    Attributes:
        generations: change counter of each resource type; consumers that cache settings compare it.
    """

    def __init__(self) -> None:
        self.generations: Counter[str] = Counter()
        self._settings: dict[Resource, dict[str, str]] = {}
        self._pending: Decisions[Resource, Mapping[str, str]] = Decisions()

    def settings(self, resource: Resource) -> Mapping[str, str]:
        return self._settings.get(resource, {})

    def names(self, kind: str) -> list[str]:
        return sorted(name for each, name in self._settings if each == kind)

    def latest_settings(self, resource: Resource) -> Mapping[str, str]:
        return self._pending.latest(resource, self.settings(resource))

    def alter(self, resource: Resource, settings: Mapping[str, str]) -> Write:
        """Return the write that replaces all settings of a resource.

        The change is pending until the write is durable.
        """
        self._pending.add(resource, dict(settings))
        key = record_key(RecordType.SETTINGS, json.dumps(list(resource)))
        value = record_value(json.dumps(dict(settings), sort_keys=True)) if settings else None
        return Write("", (StateRecord(key, value),))

    def replay(self, key: bytes, value: bytes | None) -> None:
        if record_type(key) == RecordType.SETTINGS:
            self._show(*read_settings(key, value))

    def _show(self, resource: Resource, settings: dict[str, str]) -> None:
        self.generations[resource[0]] += 1
        if settings:
            self._settings[resource] = settings
        else:
            self._settings.pop(resource, None)
        self._pending.settle(resource)
