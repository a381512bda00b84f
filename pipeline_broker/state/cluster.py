"""The cluster's id and the settings that were altered while it ran, as records of the metadata partition.

    key   = int16 type, then                                value = int16 version 0, then
    3 cluster       nothing                                 JSON {"id": text}
    4 settings      JSON [resource type, resource name]     JSON {name: text}

Rules of this file: see `state/metadata_records.py`, whose key types these continue; a value of null means that nothing
is altered any more.
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

__all__ = ["ClusterState", "read_cluster_id", "read_settings"]

_CLUSTER_KEY = record_key(RecordType.CLUSTER)

Resource = tuple[str, str]


def read_cluster_id(key: bytes, value: bytes | None) -> str:
    """Read the record of the cluster's id; raises CorruptStateRecordError."""
    with reading("cluster id"):
        if key != _CLUSTER_KEY:
            raise ValueError("a key that goes on")
        return texts_of(object_of(value))["id"]


def read_settings(key: bytes, value: bytes | None) -> tuple[Resource, dict[str, str]]:
    """Read which resource a record of settings is about, and what is set; raises CorruptStateRecordError."""
    with reading("settings"):
        resource_type, name = json_of(subject_of(key))
        if not isinstance(resource_type, str) or not isinstance(name, str):
            raise TypeError("a resource that is no text")
        settings = {} if value is None else texts_of(object_of(value))
        check_stored(resource_type, settings)
    return (resource_type, name), settings


class ClusterState(ReplayedWrites):
    """What concerns the cluster and its brokers rather than one topic.

    Attributes:
        cluster_id: see `create`; None before.
        generations: by the kind of resource, what changes with every change of settings, for those who remember them.
    """

    def __init__(self) -> None:
        self.generations: Counter[str] = Counter()
        self.cluster_id: str | None = None
        self._settings: dict[Resource, dict[str, str]] = {}
        self._pending: Decisions[Resource, Mapping[str, str]] = Decisions()

    def settings(self, resource: Resource) -> Mapping[str, str]:
        """What is altered for a resource, such as ("broker", "1") or, for all brokers, ("broker", "")."""
        return self._settings.get(resource, {})

    def names(self, kind: str) -> list[str]:
        """The resources of a kind of which anything is altered."""
        return sorted(name for each, name in self._settings if each == kind)

    def latest_settings(self, resource: Resource) -> Mapping[str, str]:
        """The same when all that is on its way is durable."""
        return self._pending.latest(resource, self.settings(resource))

    def create(self, cluster_id: str) -> Write:
        """Decide the id of a new cluster."""
        return Write("", (StateRecord(_CLUSTER_KEY, record_value(json.dumps({"id": cluster_id}))),))

    def alter(self, resource: Resource, settings: Mapping[str, str]) -> Write:
        """Decide the settings of a resource, all of them."""
        self._pending.add(resource, dict(settings))
        key = record_key(RecordType.SETTINGS, json.dumps(list(resource)))
        value = record_value(json.dumps(dict(settings), sort_keys=True)) if settings else None
        return Write("", (StateRecord(key, value),))

    def replay(self, key: bytes, value: bytes | None) -> None:
        """Take over one durable record; those of other subjects are read past.

        Raises:
            CorruptStateRecordError: it cannot be read.
        """
        kind = record_type(key)
        if kind == RecordType.CLUSTER:
            self.cluster_id = read_cluster_id(key, value)
        elif kind == RecordType.SETTINGS:
            self._show(*read_settings(key, value))

    def _show(self, resource: Resource, settings: dict[str, str]) -> None:
        self.generations[resource[0]] += 1
        if settings:
            self._settings[resource] = settings
        else:
            self._settings.pop(resource, None)
        self._pending.settle(resource)
