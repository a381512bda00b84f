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

from pipeline_broker.state.metadata_records import (
    CorruptMetadataRecordError,
    RecordType,
    object_of,
    record_key,
    record_type,
    record_value,
    subject_of,
)
from pipeline_broker.state.outcome import ReplayedWrites, StateRecord, Write

__all__ = ["ClusterState"]

_CLUSTER_KEY = record_key(RecordType.CLUSTER)

Resource = tuple[str, str]


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
        self._coming: dict[Resource, dict[str, str]] = {}  # as decided, while not durable: the base of the next change

    def settings(self, resource: Resource) -> Mapping[str, str]:
        """What is altered for a resource, such as ("broker", "1") or, for all brokers, ("broker", "")."""
        return self._settings.get(resource, {})

    def names(self, kind: str) -> list[str]:
        """The resources of a kind of which anything is altered."""
        return sorted(name for each, name in self._settings if each == kind)

    def latest_settings(self, resource: Resource) -> Mapping[str, str]:
        """The same when all that is on its way is durable."""
        return self._coming.get(resource, self.settings(resource))

    def create(self, cluster_id: str) -> Write:
        """Decide the id of a new cluster."""
        return Write("", (StateRecord(_CLUSTER_KEY, record_value(json.dumps({"id": cluster_id}))),))

    def alter(self, resource: Resource, settings: Mapping[str, str]) -> Write:
        """Decide the settings of a resource, all of them."""
        self._coming[resource] = dict(settings)
        key = record_key(RecordType.SETTINGS, json.dumps(list(resource)))
        value = record_value(json.dumps(dict(settings), sort_keys=True)) if settings else None
        return Write("", (StateRecord(key, value),))

    def replay(self, key: bytes, value: bytes | None) -> None:
        """Take over one durable record; those of other subjects are read past.

        Raises:
            CorruptMetadataRecordError: it cannot be read.
        """
        try:
            if key == _CLUSTER_KEY:
                self.cluster_id = object_of(value)["id"]
            elif record_type(key) == RecordType.SETTINGS:
                resource_type, name = json.loads(subject_of(key))
                self._show((resource_type, name), {} if value is None else object_of(value))
        except (KeyError, TypeError, ValueError) as error:
            raise CorruptMetadataRecordError(f"cluster record {key!r}: {error!r}") from error

    def _show(self, resource: Resource, settings: dict[str, str]) -> None:
        self.generations[resource[0]] += 1
        if settings:
            self._settings[resource] = settings
        else:
            self._settings.pop(resource, None)
        if self._coming.get(resource) == settings:
            del self._coming[resource]
