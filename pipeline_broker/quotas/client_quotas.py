"""Quotas as they were set, as records of the metadata partition.

    key   = int16 type, then                                value = int16 version 0, then
    6 client quota  JSON [[entity type, name or null], ...]  JSON {quota: number}

Entity types are sorted. The name null is the default. A null value deletes all quotas of the entity. The key types
continue those of `state/metadata_records.py`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping

from pipeline_broker.quotas.entities import Entity, QuotaError, check_entity, entity_of
from pipeline_broker.state.decisions import Decisions
from pipeline_broker.state.metadata_records import (
    RecordType,
    json_of,
    object_of,
    reading,
    record_key,
    record_type,
    record_value,
    subject_of,
)
from pipeline_broker.state.outcome import StateRecord, Write

__all__ = ["ClientQuotas", "read_quotas"]


class ClientQuotas:
    def __init__(self) -> None:
        self._quotas: dict[Entity, dict[str, float]] = {}
        self._pending: Decisions[Entity, Mapping[str, float]] = Decisions()

    def all(self) -> Mapping[Entity, Mapping[str, float]]:
        return self._quotas

    def latest(self, entity: Entity) -> Mapping[str, float]:
        return self._pending.latest(entity, self._quotas.get(entity, {}))

    def alter(self, changes: Mapping[Entity, Mapping[str, float]]) -> Write:
        """Return the write that replaces all quotas of each entity.

        The change is pending until the write is durable.
        """
        records = []
        for entity, quotas in changes.items():
            key = record_key(RecordType.CLIENT_QUOTA, json.dumps(entity))
            value = record_value(json.dumps(dict(quotas), sort_keys=True)) if quotas else None
            records.append(StateRecord(key, value))
            self._pending.add(entity, dict(quotas))
        return Write("", tuple(records))

    def durable(self, write: Write) -> None:
        for record in write.records:
            self.replay(record.key, record.value)

    def replay(self, key: bytes, value: bytes | None) -> bool:
        """Apply one durable record; return whether it was a quota. Ignore records of other types.

        Raises:
            CorruptStateRecordError: the record cannot be decoded.
        """
        if record_type(key) != RecordType.CLIENT_QUOTA:
            return False
        entity, quotas = read_quotas(key, value)
        if quotas:
            self._quotas[entity] = quotas
        else:
            self._quotas.pop(entity, None)
        self._pending.settle(entity)
        return True


def read_quotas(key: bytes, value: bytes | None) -> tuple[Entity, dict[str, float]]:
    """Decode a record to entity and quotas, which are empty for a tombstone.

    Raises:
        CorruptStateRecordError: the record cannot be decoded, or the entity or a quota is invalid.
    """
    with reading("client quota"):
        entity = entity_of(json_of(subject_of(key)))
        if not all(name is None or isinstance(name, str) for _, name in entity):
            raise TypeError("the name of an entity is not a string")
        try:
            check_entity(entity)
        except QuotaError as error:
            raise ValueError(str(error)) from None
        quotas = {} if value is None else {name: float(limit) for name, limit in object_of(value).items()}
        if not all(0 < limit < math.inf for limit in quotas.values()):
            raise ValueError("a quota is not positive and finite")
        return entity, quotas
