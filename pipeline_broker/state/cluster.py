"""The cluster's id and the settings that were altered while it ran, as records of the metadata partition.

    key   = int16 type, then                                value = int16 version 0, then
    3 cluster       nothing                                 JSON {"id": text}
    4 settings      JSON [resource type, resource name]     JSON {name: text}

Rules of this file: see `state/metadata_records.py`, whose key types these continue; a value of null means that nothing
is altered any more.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping

from pipeline_broker.state.metadata_records import CorruptMetadataRecordError
from pipeline_broker.state.outcome import StateRecord, Write

__all__ = ["ClusterState"]

_TYPE = struct.Struct(">h")
_CLUSTER_KEY = _TYPE.pack(3)
_SETTINGS_TYPE = 4
_VERSION = _TYPE.pack(0)

Resource = tuple[str, str]


class ClusterState:
    """What concerns the cluster and its brokers rather than one topic."""

    def __init__(self) -> None:
        self.cluster_id: str | None = None
        self._settings: dict[Resource, dict[str, str]] = {}
        self._coming: dict[Resource, dict[str, str]] = {}  # as decided, while not durable: the base of the next change

    def settings(self, resource: Resource) -> Mapping[str, str]:
        """What is altered for a resource, such as ("broker", "1") or, for all brokers, ("broker", "")."""
        return self._settings.get(resource, {})

    def latest_settings(self, resource: Resource) -> Mapping[str, str]:
        """The same when all that is on its way is durable."""
        return self._coming.get(resource, self.settings(resource))

    def create(self, cluster_id: str) -> Write:
        """Decide the id of a new cluster."""
        return Write("", (StateRecord(_CLUSTER_KEY, _VERSION + json.dumps({"id": cluster_id}).encode()),))

    def alter(self, resource: Resource, settings: Mapping[str, str]) -> Write:
        """Decide the settings of a resource, all of them."""
        self._coming[resource] = dict(settings)
        key = _TYPE.pack(_SETTINGS_TYPE) + json.dumps(list(resource)).encode()
        value = _VERSION + json.dumps(dict(settings), sort_keys=True).encode() if settings else None
        return Write("", (StateRecord(key, value),))

    def durable(self, write: Write) -> None:
        """The records of a change are durable."""
        for record in write.records:
            self.replay(record.key, record.value)

    def replay(self, key: bytes, value: bytes | None) -> None:
        """Take over one durable record; those of other subjects are read past.

        Raises:
            CorruptMetadataRecordError: it cannot be read.
        """
        try:
            if key == _CLUSTER_KEY:
                self.cluster_id = _body(value)["id"]
            elif _TYPE.unpack_from(key)[0] == _SETTINGS_TYPE:
                resource_type, name = json.loads(key[_TYPE.size :])
                self._show((resource_type, name), {} if value is None else _body(value))
        except (KeyError, TypeError, ValueError, struct.error) as error:
            raise CorruptMetadataRecordError(f"cluster record {key!r}: {error!r}") from error

    def _show(self, resource: Resource, settings: dict[str, str]) -> None:
        if settings:
            self._settings[resource] = settings
        else:
            self._settings.pop(resource, None)
        if self._coming.get(resource) == settings:
            del self._coming[resource]


def _body(value: bytes | None) -> dict[str, str]:
    if value is None or value[: _TYPE.size] != _VERSION:
        raise ValueError("a value of a version that is not known")
    body = json.loads(value[_TYPE.size :])
    if not isinstance(body, dict):
        raise TypeError("a value that is not an object")
    return body
