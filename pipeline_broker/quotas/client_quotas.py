"""The quotas that were set, as records of the metadata partition.

    key   = int16 type, then                                value = int16 version 0, then
    6 client quota  JSON [[entity type, name or null], ...]  JSON {quota: number}

Rules of this file: see `state/metadata_records.py`, whose key types this continues; entity types stand in their order,
a name of null is the default, and a value of null means that the entity has no quotas any more.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping

from pipeline_broker.quotas.entities import Entity, entity_of
from pipeline_broker.state.metadata_records import CorruptMetadataRecordError
from pipeline_broker.state.outcome import StateRecord, Write

__all__ = ["ClientQuotas"]

_TYPE = struct.Struct(">h")
_CLIENT_QUOTA_TYPE = 6
_VERSION = _TYPE.pack(0)


class ClientQuotas:
    """All quotas by entity."""

    def __init__(self) -> None:
        self._quotas: dict[Entity, dict[str, float]] = {}
        self._coming: dict[Entity, tuple[Write, Mapping[str, float]]] = {}  # the last decision, while not durable

    def all(self) -> Mapping[Entity, Mapping[str, float]]:
        """What is set."""
        return self._quotas

    def latest(self, entity: Entity) -> Mapping[str, float]:
        """What is set for an entity when all that is on its way is durable."""
        coming = self._coming.get(entity)
        return self._quotas.get(entity, {}) if coming is None else coming[1]

    def alter(self, changes: Mapping[Entity, Mapping[str, float]]) -> Write:
        """Decide the quotas of entities, all of them of each."""
        records = []
        for entity, quotas in changes.items():
            key = _TYPE.pack(_CLIENT_QUOTA_TYPE) + json.dumps(entity).encode()
            value = _VERSION + json.dumps(dict(quotas), sort_keys=True).encode() if quotas else None
            records.append(StateRecord(key, value))
        write = Write("", tuple(records))
        for entity, quotas in changes.items():
            self._coming[entity] = write, dict(quotas)
        return write

    def durable(self, write: Write) -> None:
        """The records of a change are durable."""
        for record in write.records:
            self.replay(record.key, record.value)
        for entity in [entity for entity, (coming, _) in self._coming.items() if coming is write]:
            del self._coming[entity]

    def replay(self, key: bytes, value: bytes | None) -> bool:
        """Take over one durable record; those of other subjects are read past. Whether it was about quotas.

        Raises:
            CorruptMetadataRecordError: it cannot be read.
        """
        try:
            if _TYPE.unpack_from(key)[0] != _CLIENT_QUOTA_TYPE:
                return False
            entity = entity_of(json.loads(key[_TYPE.size :]))
            quotas = {} if value is None else _body(value)
        except (AttributeError, TypeError, ValueError, struct.error) as error:
            raise CorruptMetadataRecordError(f"client quota {key!r}: {error!r}") from error
        if quotas:
            self._quotas[entity] = quotas
        else:
            self._quotas.pop(entity, None)
        return True


def _body(value: bytes) -> dict[str, float]:
    if value[: _TYPE.size] != _VERSION:
        raise ValueError("a value of a version that is not known")
    return {str(name): float(limit) for name, limit in json.loads(value[_TYPE.size :]).items()}
