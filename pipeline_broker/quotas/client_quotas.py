"""The quotas that were set, as records of the metadata partition.

    key   = int16 type, then                                value = int16 version 0, then
    6 client quota  JSON [[entity type, name or null], ...]  JSON {quota: number}

Rules of this file: see `state/metadata_records.py`, whose key types this continues; entity types stand in their order,
a name of null is the default, and a value of null means that the entity has no quotas any more.
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
    """All quotas by entity."""

    def __init__(self) -> None:
        self._quotas: dict[Entity, dict[str, float]] = {}
        self._pending: Decisions[Entity, Mapping[str, float]] = Decisions()

    def all(self) -> Mapping[Entity, Mapping[str, float]]:
        """What is set."""
        return self._quotas

    def latest(self, entity: Entity) -> Mapping[str, float]:
        """What is set for an entity when all that is on its way is durable."""
        return self._pending.latest(entity, self._quotas.get(entity, {}))

    def alter(self, changes: Mapping[Entity, Mapping[str, float]]) -> Write:
        """Decide the quotas of entities, all of them of each."""
        records = []
        for entity, quotas in changes.items():
            key = record_key(RecordType.CLIENT_QUOTA, json.dumps(entity))
            value = record_value(json.dumps(dict(quotas), sort_keys=True)) if quotas else None
            records.append(StateRecord(key, value))
            self._pending.add(entity, dict(quotas))
        return Write("", tuple(records))

    def durable(self, write: Write) -> None:
        """The records of a change are durable."""
        for record in write.records:
            self.replay(record.key, record.value)

    def replay(self, key: bytes, value: bytes | None) -> bool:
        """Take over one durable record; those of other subjects are read past. Whether it was about quotas.

        Raises:
            CorruptStateRecordError: it cannot be read.
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
    """Read which entity a record is about, and its quotas; raises CorruptStateRecordError."""
    with reading("client quota"):
        entity = entity_of(json_of(subject_of(key)))
        if not all(name is None or isinstance(name, str) for _, name in entity):
            raise TypeError("an entity whose name is no text")
        try:
            check_entity(entity)
        except QuotaError as error:
            raise ValueError(str(error)) from None
        quotas = {} if value is None else {name: float(limit) for name, limit in object_of(value).items()}
        if not all(0 < limit < math.inf for limit in quotas.values()):
            raise ValueError("a quota that is not positive and finite")
        return entity, quotas
